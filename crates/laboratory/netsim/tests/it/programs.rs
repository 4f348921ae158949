//! Programs: timers, loopback, inspection of forwarded packets.

use crate::common;

use std::net::IpAddr;

use carrick_netsim::{
    Change, InterfaceId, LinkConfig, NetworkBuilder, Node, Outbox, Packet, Prefix, Protocol, Time,
};
use common::{Pair, Recorder, ip, numbered, packet, send};

#[test]
fn packets_to_oneself_loop_back() {
    let mut pair = Pair::new(1, LinkConfig::default(), Recorder::default());
    let a = pair.a;
    send(&mut pair.net, a, packet("10.0.0.1", "10.0.0.1"));
    assert!(
        pair.net.node::<Recorder>(a).received.is_empty(),
        "not delivered within the call"
    );
    pair.run();
    assert_eq!(pair.net.node::<Recorder>(a).received.len(), 1);
    assert_eq!(pair.stats().packets_in, 0);

    let own = Change::RemoveAddress {
        interface: pair.net.interfaces(a)[0],
        address: ip("10.0.0.1"),
    };
    send(&mut pair.net, a, packet("10.0.0.1", "10.0.0.1"));
    pair.net.apply(own).expect("its address");
    pair.run();
    assert_eq!(pair.net.node::<Recorder>(a).received.len(), 1);
    assert_eq!(pair.net.node_stats(a).dropped_not_mine, 1);
}

/// Tunnels packets for one address to another: a part of a home agent.
struct Agent {
    home: IpAddr,
    own: IpAddr,
    care_of: IpAddr,
}

impl Node for Agent {
    fn handle_packet(&mut self, _: Time, _: InterfaceId, _: Packet, _: &mut Outbox) {}
    fn handle_timeout(&mut self, _: Time, _: &mut Outbox) {}
    fn next_timeout(&self) -> Option<Time> {
        None
    }
    fn handle_transit(
        &mut self,
        _: Time,
        _: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    ) -> Option<Packet> {
        if packet.destination != self.home {
            return Some(packet);
        }
        out.send(packet.encapsulate(self.own, self.care_of));
        None
    }
}

#[test]
fn a_router_program_tunnels_transit_packets() {
    let mut builder = NetworkBuilder::new(1);
    let a = builder.add_host("a");
    let b = builder.add_host("b");
    let agent = builder.add_router("agent");
    let a1 = builder.add_interface(a, [ip("10.0.0.1")]);
    let left = builder.add_interface(agent, [ip("10.0.0.254")]);
    let right = builder.add_interface(agent, []);
    let b1 = builder.add_interface(b, [ip("10.0.1.1")]);
    builder.connect_both(a1, left, LinkConfig::default());
    builder.connect_both(right, b1, LinkConfig::default());
    // No node has the home address; its network is the agent's.
    let home = ip("192.0.2.7");
    builder.add_route(a, Prefix::new(home, 24), a1);
    builder.set_node_program(a, Box::new(Recorder::default()));
    builder.set_node_program(b, Box::new(Recorder::default()));
    let program = Agent {
        home,
        own: ip("10.0.0.254"),
        care_of: ip("10.0.1.1"),
    };
    builder.set_node_program(agent, Box::new(program));
    let mut net = builder.build().expect("a valid network");
    let inner = packet("10.0.0.1", "192.0.2.7").with_flow(3);
    send(&mut net, a, inner.clone());
    send(&mut net, a, packet("10.0.0.1", "10.0.1.1"));
    net.run_while(|_| true);
    let received = &net.node::<Recorder>(b).received;
    assert_eq!(received.len(), 2);
    let tunnel = &received[0].2;
    assert_eq!(tunnel.protocol, Protocol::IpInIp);
    assert_eq!(tunnel.decapsulate(), Ok(inner));
    assert_eq!(received[1].2.protocol, Protocol::Sctp);
    let stats = net.node_stats(agent);
    assert_eq!((stats.taken, stats.forwarded), (1, 1));
}

#[test]
fn waking_a_node_reads_its_timeout() {
    let mut pair = Pair::new(1, LinkConfig::default(), Recorder::default());
    let a = pair.a;
    pair.net.run_until(Time::from_secs(1));
    let script = [(Time::from_secs(2), numbered(1, 100))];
    *pair.net.node_mut::<Recorder>(a) = Recorder::sending(script);
    pair.net.run_until(Time::from_secs(3));
    assert!(
        pair.receiver().received.is_empty(),
        "the network was not notified"
    );
    pair.net.wake(a);
    pair.net.run_until(Time::from_secs(4));
    assert_eq!(
        pair.receiver().times(),
        [3_000_000_000],
        "overdue timers run at once"
    );
}

#[test]
fn a_moved_timer_fires_once_at_its_last_time() {
    for moves in [[5, 3, 9, 4, 7], [9, 8, 5, 6, 3]] {
        let mut pair = Pair::new(1, LinkConfig::default(), Recorder::default());
        let a = pair.a;
        for secs in moves {
            let script = [(Time::from_secs(secs), numbered(1, 100))];
            pair.net.with_node(a, |node: &mut Recorder, _, _| {
                *node = Recorder::sending(script);
            });
        }
        pair.run();
        assert_eq!(pair.receiver().times(), [moves[4] * 1_000_000_000]);
    }
}

struct Stuck;

impl Node for Stuck {
    fn handle_packet(&mut self, _: Time, _: InterfaceId, _: Packet, _: &mut Outbox) {}
    fn handle_timeout(&mut self, _: Time, _: &mut Outbox) {}
    fn next_timeout(&self) -> Option<Time> {
        Some(Time::from_secs(1))
    }
}

#[test]
#[should_panic(expected = "the program of b requests a timeout at 1.000000000 s without end")]
fn a_program_in_an_endless_loop_is_named() {
    let mut pair = Pair::new(1, LinkConfig::default(), Recorder::default());
    pair.net.set_node_program(pair.b, Box::new(Stuck));
    pair.net.run_until(Time::from_secs(2));
}
