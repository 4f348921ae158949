//! A home network, two visited networks and a correspondent, for the tests of Mobile IP.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use carrick_netsim::mobile::{
    ForeignAgent, ForeignAgentConfig, HomeAgent, HomeAgentConfig, MobileNode, MobileNodeConfig,
    MobilityEvent, ReplyCode, SecurityAssociation,
};
use carrick_netsim::{
    Change, HostRouting, InterfaceId, LinkConfig, LinkId, Network, NetworkBuilder, NodeId, Packet,
    Protocol, Time,
};

use crate::common::Recorder;

pub(crate) const CORRESPONDENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const HOME_AGENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const HOME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
/// Home address of the second mobile node, if there is one.
pub(crate) const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 8);
pub(crate) const AGENTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 1)];
pub(crate) const LOCAL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 1, 0, 7), Ipv4Addr::new(10, 2, 0, 7)];
/// Index of the link to the home network; 1 and 2 are those to the agents.
pub(crate) const AT_HOME: usize = 0;
pub(crate) const WIRED: Duration = Duration::from_millis(10);
pub(crate) const WIRELESS: Duration = Duration::from_millis(2);

pub(crate) type Mobile = MobileNode<Recorder>;

/// Deviations from the default world.
pub(crate) struct WorldConfig {
    pub(crate) seed: u64,
    pub(crate) home_agent: Box<dyn Fn(&mut HomeAgentConfig)>,
    pub(crate) foreign_agent: Box<dyn Fn(&mut ForeignAgentConfig)>,
    pub(crate) mobile: Box<dyn Fn(&mut MobileNodeConfig)>,
    /// Key of the mobile node, which may differ from the home agent's.
    pub(crate) key: [u8; 16],
    /// MTU between the home agent and the other nodes.
    pub(crate) mtu: Option<usize>,
    /// Initial network of the mobile node: 0 is the home network, 1 and 2 are those of the agents;
    /// `None` is detached.
    pub(crate) at: Option<usize>,
    /// Adds a second mobile node, at the second agent.
    pub(crate) second: bool,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            home_agent: Box::new(|_| {}),
            foreign_agent: Box::new(|_| {}),
            mobile: Box::new(|_| {}),
            key: [7; 16],
            mtu: None,
            at: Some(1),
            second: false,
        }
    }
}

pub(crate) struct World {
    pub(crate) net: Network,
    pub(crate) correspondent: NodeId,
    pub(crate) home_agent: NodeId,
    pub(crate) agents: [NodeId; 2],
    pub(crate) mobile: NodeId,
    pub(crate) second: Option<NodeId>,
    /// Links of the mobile node: to the home network, to the agents.
    pub(crate) links: [LinkId; 3],
    pub(crate) interfaces: [InterfaceId; 3],
    /// Link from the router to the home agent.
    pub(crate) home_link: LinkId,
}

/// Adds a second mobile node with links to the home network and to an agent.
fn second_node(
    b: &mut NetworkBuilder,
    routers: [NodeId; 2],
) -> (NodeId, [(LinkId, InterfaceId, InterfaceId); 2]) {
    let node = b.add_host("second");
    let ends = routers.map(|router| {
        let home = (router == routers[0]).then_some(IpAddr::V4(SECOND));
        let (near, far) = (b.add_interface(node, home), b.add_interface(router, []));
        let link = b.connect_both(near, far, LinkConfig::delay(WIRELESS));
        (link, near, far)
    });
    b.set_routing(node, HostRouting::PreferSource);
    (node, ends)
}

impl World {
    pub(crate) fn new(world_config: &WorldConfig) -> Self {
        let mut b = NetworkBuilder::new(world_config.seed);
        let correspondent = b.add_host("correspondent");
        let router = b.add_router("router");
        let home_agent = b.add_router("home-agent");
        let agents = ["agent-1", "agent-2"].map(|name| b.add_router(name));
        let mobile = b.add_host("mobile");
        let wired = LinkConfig {
            mtu: world_config.mtu,
            ..LinkConfig::delay(WIRED)
        };
        let wire = |b: &mut NetworkBuilder, node, address: Ipv4Addr, link: LinkConfig| {
            let end = b.add_interface(node, [IpAddr::V4(address)]);
            let far = b.add_interface(router, []);
            b.connect_both(end, far, link)
        };
        wire(
            &mut b,
            correspondent,
            CORRESPONDENT,
            LinkConfig::delay(WIRED),
        );
        let home_link = wire(&mut b, home_agent, HOME_AGENT, wired);
        for (agent, address) in agents.iter().zip(AGENTS) {
            wire(&mut b, *agent, address, LinkConfig::delay(WIRED));
        }
        let mut links = Vec::new();
        let mut near = Vec::new();
        let mut far = Vec::new();
        for (number, router) in [home_agent, agents[0], agents[1]].into_iter().enumerate() {
            let home = (number == AT_HOME).then_some(IpAddr::V4(HOME));
            near.push(b.add_interface(mobile, home));
            far.push(b.add_interface(router, []));
            let link = LinkConfig::delay(WIRELESS);
            links.push(b.connect_both(near[number], far[number], link));
        }
        b.set_routing(mobile, HostRouting::PreferSource);
        let second = world_config
            .second
            .then(|| second_node(&mut b, [home_agent, agents[1]]));
        let association = |key| SecurityAssociation::new(1000, key).expect("a valid key");
        let mut config = HomeAgentConfig::new(HOME_AGENT, far[0]);
        (world_config.home_agent)(&mut config);
        let homes = [HOME, SECOND]
            .into_iter()
            .take(1 + usize::from(world_config.second));
        let clients = homes.map(|home| (home, association(&[7; 16])));
        let program = HomeAgent::new(config, clients, b.node_random(home_agent));
        b.set_node_program(home_agent, Box::new(program.expect("one client")));
        for (number, agent) in agents.iter().enumerate() {
            let here = second.as_ref().filter(|_| number == 1);
            let visited = [far[number + 1]].into_iter();
            let visited = visited.chain(here.map(|(_, ends)| ends[1].2));
            let mut config = ForeignAgentConfig::new(AGENTS[number], visited);
            (world_config.foreign_agent)(&mut config);
            let random = b.node_random(*agent);
            b.set_node_program(*agent, Box::new(ForeignAgent::new(config, random)));
        }
        let key = association(&world_config.key);
        let mut config = MobileNodeConfig::new(HOME, HOME_AGENT, key, near.clone());
        (world_config.mobile)(&mut config);
        let random = b.node_random(mobile);
        let program = MobileNode::new(config, [], Recorder::default(), random);
        b.set_node_program(mobile, Box::new(program));
        if let Some((node, ends)) = &second {
            let near = ends.map(|(_, near, _)| near);
            let key = association(&[7; 16]);
            let config = MobileNodeConfig::new(SECOND, HOME_AGENT, key, near);
            let program = MobileNode::new(config, [], Recorder::default(), b.node_random(*node));
            b.set_node_program(*node, Box::new(program));
        }
        b.set_node_program(correspondent, Box::new(Recorder::default()));
        let mut world = Self {
            net: b.build().expect("a valid network"),
            correspondent,
            home_agent,
            agents,
            mobile,
            second: second.as_ref().map(|(node, _)| *node),
            links: links.try_into().expect("three"),
            interfaces: near.try_into().expect("three"),
            home_link,
        };
        for place in (0..3).filter(|place| Some(*place) != world_config.at) {
            world.apply(Change::LinkDown(world.links[place]));
        }
        if let Some((_, [(home, ..), _])) = second {
            world.apply(Change::LinkDown(home));
        }
        world
    }

    pub(crate) fn usual() -> Self {
        Self::new(&WorldConfig::default())
    }

    pub(crate) fn apply(&mut self, change: Change) {
        self.net.apply(change).expect("a possible change");
    }

    /// Moves the mobile node, detached for `gap`.
    pub(crate) fn handover(&mut self, from: usize, to: usize, gap: Duration) {
        let now = self.net.now();
        let changes = [
            (now, Change::LinkDown(self.links[from])),
            (now + gap, Change::LinkUp(self.links[to])),
        ];
        for (time, change) in changes {
            self.net.at(time, change).expect("a moment ahead");
        }
    }

    pub(crate) fn run(&mut self, time: Duration) -> &mut Self {
        let until = self.net.now() + time;
        self.net.run_until(until);
        self
    }

    pub(crate) fn run_secs(&mut self, seconds: u64) -> &mut Self {
        self.run(Duration::from_secs(seconds))
    }

    pub(crate) fn mobile(&self) -> &Mobile {
        self.net.node(self.mobile)
    }

    pub(crate) fn home_agent(&self) -> &HomeAgent {
        self.net.node(self.home_agent)
    }

    pub(crate) fn agent(&self, number: usize) -> &ForeignAgent {
        self.net.node(self.agents[number])
    }

    pub(crate) fn bound_to(&self) -> Vec<Ipv4Addr> {
        let bindings = self.home_agent().bindings(HOME).iter();
        bindings.map(|binding| binding.care_of).collect()
    }

    pub(crate) fn denied_at_home(&self, code: ReplyCode) -> u64 {
        let denied = self.home_agent().stats().denied;
        denied.get(&code).copied().unwrap_or(0)
    }

    pub(crate) fn denied_abroad(&self, code: ReplyCode) -> u64 {
        let denied = self.agent(0).stats().denied;
        denied.get(&code).copied().unwrap_or(0)
    }

    /// Returns the times of the events that satisfy the predicate.
    pub(crate) fn times(&self, is: impl Fn(&MobilityEvent) -> bool) -> Vec<Time> {
        let events = self.mobile().events().iter();
        events
            .filter(|(_, e)| is(e))
            .map(|(time, _)| *time)
            .collect()
    }

    /// Sends a packet from the correspondent to the home address; returns the number of packets
    /// received.
    pub(crate) fn ping(&mut self, len: usize) -> usize {
        let before = self.mobile().program().received.len();
        let packet = sctp(CORRESPONDENT, HOME, len);
        self.net
            .with_node(self.correspondent, |_: &mut Recorder, _, out| {
                out.send(packet)
            });
        self.run_secs(1);
        self.mobile().program().received.len() - before
    }

    /// Sends a packet from the home address; returns the packets that the correspondent receives.
    pub(crate) fn send_from_home(&mut self) -> Vec<Packet> {
        let before = self.received_by_correspondent().len();
        let packet = sctp(HOME, CORRESPONDENT, 100);
        self.net
            .with_node(self.mobile, |mobile: &mut Mobile, _, out| {
                mobile.with_program(out, |_, out| out.send(packet));
            });
        self.run_secs(1);
        let received_by_correspondent = self.received_by_correspondent();
        received_by_correspondent[before..]
            .iter()
            .map(|(.., p)| p.clone())
            .collect()
    }

    pub(crate) fn received_by_correspondent(&self) -> &[(Time, InterfaceId, Packet)] {
        &self.net.node::<Recorder>(self.correspondent).received
    }
}

pub(crate) fn sctp(source: Ipv4Addr, destination: Ipv4Addr, len: usize) -> Packet {
    Packet::new(
        source.into(),
        destination.into(),
        Protocol::Sctp,
        vec![9; len],
    )
}
