//! The paper's test network (its Fig. 2), and a second visited network of the same type.
//!
//! ```text
//! correspondent ─┬─ router 1 ─── home agent ═╦═ visited 1 ─┬─ mobile node
//!                │     ├──────────────────────╫─────┘ │     │
//!                │     └──────────────────────╫─────┐ │     │
//!                └─ router 2 ─────────────────╨─ visited 2 ─┘
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick_netsim::mobile::{
    ForeignAgent, ForeignAgentConfig, HomeAgent, HomeAgentConfig, MobileNode, MobileNodeConfig,
    SecurityAssociation,
};
use carrick_netsim::{
    ConfigError, InterfaceId, LinkConfig, LinkId, Loss, Network, NetworkBuilder, Node, NodeId,
    Queue,
};

use super::setup::{CORRESPONDENT, HOME, HOME_AGENT, LOCAL, QUEUE, RATE, VISITED};
use crate::seed::derive_bytes;

/// One-way delay in the correspondent's network and on the radio link.
pub(super) const NEAR: Duration = Duration::from_millis(1);
pub(super) const RADIO: Duration = Duration::from_millis(2);
/// SPI of the security association of mobile node and home agent.
const SPI: u32 = 1000;

/// Differences between the runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Random loss in the tunnel to the first visited network, in each direction.
    pub(super) loss: f64,
    /// Adds mobility agents and a home address.
    pub(super) mobile_ip: bool,
    /// Visited networks in which the mobile node has a local address from the start.
    pub(super) local: [bool; 2],
    /// Connects the second visited network from the start.
    pub(super) second: bool,
    /// One-way delay from the correspondent to the mobile node over the home agent.
    pub(super) over_home: Duration,
    /// One-way delay between the correspondent's routers and the visited networks, not over the
    /// home agent.
    pub(super) direct: Duration,
    /// Packets of the mobile node go to the correspondent without the home agent (triangle routing),
    /// instead of by the reverse tunnel.
    pub(super) triangle: bool,
}

/// The network with the parts that change.
pub(super) struct Built {
    pub(super) net: Network,
    pub(super) correspondent: NodeId,
    pub(super) mobile: NodeId,
    /// Tunnel to the first visited network.
    pub(super) tunnel: LinkId,
    /// Radio links of the mobile node.
    pub(super) radio: [LinkId; 2],
    /// Interfaces of the mobile node on the radio links.
    pub(super) interfaces: [InterfaceId; 2],
}

/// Builds the network with the two programs.
pub(super) fn build<P: Node>(
    layout: Layout,
    seed: u64,
    correspondent_program: Box<dyn Node>,
    mobile_program: P,
) -> Result<Built, ConfigError> {
    let mut b = NetworkBuilder::new(seed);
    let correspondent = b.add_host("correspondent");
    let mobile = b.add_host("mobile-node");
    let [near, far] = ["router-1", "router-2"].map(|name| b.add_router(name));
    let home_agent = b.add_router("home-agent");
    let visited = ["visited-1", "visited-2"].map(|name| b.add_router(name));
    b.set_source_routing(correspondent, true);
    b.set_source_routing(mobile, true);

    // Half of the way between the networks is the tunnel.
    let between = layout.over_home.saturating_sub(NEAR + RADIO);
    let to_home = between / 2;
    let tunnel_delay = between.saturating_sub(to_home);
    let wide = |delay| LinkConfig::new(RATE, delay).with_queue(Queue::packets(QUEUE));
    let lossy = match layout.loss {
        0.0 => wide(tunnel_delay),
        loss => wide(tunnel_delay).with_loss(Loss::Random(loss)),
    };
    let mut link = |ends: [(NodeId, Option<Ipv4Addr>); 2], config: LinkConfig| {
        let ends = ends.map(|(node, address)| b.add_interface(node, address.map(IpAddr::V4)));
        (b.connect_both(ends[0], ends[1], config), ends)
    };
    for (router, address) in [near, far].into_iter().zip(CORRESPONDENT) {
        let ends = [(correspondent, Some(address)), (router, None)];
        link(ends, LinkConfig::delay(NEAR));
    }
    link(
        [(near, None), (home_agent, Some(HOME_AGENT))],
        LinkConfig::delay(to_home),
    );
    let (tunnel, _) = link([(home_agent, None), (visited[0], Some(VISITED[0]))], lossy);
    link(
        [(home_agent, None), (visited[1], Some(VISITED[1]))],
        wide(tunnel_delay),
    );
    for ends in [(near, visited[0]), (near, visited[1]), (far, visited[1])] {
        link([(ends.0, None), (ends.1, None)], wide(layout.direct));
    }
    let home = (mobile, layout.mobile_ip.then_some(HOME));
    let (home_link, home_ends) = link([home, (home_agent, None)], LinkConfig::delay(RADIO));
    let mut radio = Vec::new();
    for number in 0..2 {
        let own = (mobile, layout.local[number].then_some(LOCAL[number]));
        let ends = [own, (visited[number], None)];
        radio.push(link(ends, LinkConfig::delay(RADIO)));
    }

    b.set_node_program(correspondent, correspondent_program);
    if layout.mobile_ip {
        let places = [
            (home_agent, home_ends),
            (visited[0], radio[0].1),
            (visited[1], radio[1].1),
        ];
        let program = (mobile, mobile_program);
        add_mobile_ip(&mut b, places, program, !layout.triangle, seed)?;
    } else {
        b.set_node_program(mobile, Box::new(mobile_program));
    }
    let mut net = b.build()?;
    net.apply(carrick_netsim::Change::LinkDown(home_link))?;
    if !layout.second {
        net.apply(carrick_netsim::Change::LinkDown(radio[1].0))?;
    }
    Ok(Built {
        net,
        correspondent,
        mobile,
        tunnel,
        radio: [radio[0].0, radio[1].0],
        interfaces: [radio[0].1[0], radio[1].1[0]],
    })
}

/// Sets the programs of home agent, foreign agents and mobile node. Each network is given by its
/// router and the ends of the link between it and the mobile node.
fn add_mobile_ip<P: Node>(
    b: &mut NetworkBuilder,
    places: [(NodeId, [InterfaceId; 2]); 3],
    (mobile, program): (NodeId, P),
    reverse_tunnel: bool,
    seed: u64,
) -> Result<(), ConfigError> {
    let association = SecurityAssociation::new(SPI, &derive_bytes(seed, &[7]))?;
    let [(home_agent, home_ends), visited @ ..] = places;
    let config = HomeAgentConfig::new(HOME_AGENT, home_ends[1]);
    let clients = [(HOME, association.clone())];
    let agent = HomeAgent::new(config, clients, b.node_random(home_agent))?;
    b.set_node_program(home_agent, Box::new(agent));
    for ((router, ends), address) in visited.into_iter().zip(VISITED) {
        let config = ForeignAgentConfig::new(address, [ends[1]]);
        let agent = ForeignAgent::new(config, b.node_random(router));
        b.set_node_program(router, Box::new(agent));
    }
    let interfaces = places.map(|(_, ends)| ends[0]);
    let mut config = MobileNodeConfig::new(HOME, HOME_AGENT, association, interfaces);
    config.reverse_tunnel = reverse_tunnel;
    let node = MobileNode::new(config, [], program, b.node_random(mobile));
    b.set_node_program(mobile, Box::new(node));
    Ok(())
}
