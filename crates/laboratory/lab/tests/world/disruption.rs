//! Disruptions of a running world: a NAT binding expires, a host moves to another address. They
//! occur only after the association is established, so that it can survive them; the removed
//! resources are restored after it has ended, so that the last packets are answered.

use std::net::IpAddr;

use carrick_hosts::core_time;
use carrick_netsim::{Change, Network, NodeId};

use super::extras::{Disruption, DisruptionKind};
use super::ledger::Ledger;
use super::run::{Host, World};
use super::topology::Topology;

/// Returns all addresses that a side may ever have.
pub(crate) fn addresses_ever(topology: &Topology, side: usize) -> Vec<IpAddr> {
    let new = topology.new_address(side);
    let all = topology.addresses[side].iter().copied();
    all.chain([new]).collect()
}

/// Returns whether the association has been established on both sides for long enough. The second
/// half of a move follows in any case.
pub(crate) fn is_due(
    net: &Network,
    hosts: [NodeId; 2],
    ledger: &Ledger,
    disruption: Disruption,
) -> bool {
    let [Some(one), Some(other)] = ledger.up else {
        return false;
    };
    let up = |host: &NodeId| {
        let program = net.node::<Host>(*host);
        program.application().is_up(program.endpoint())
    };
    let without_address = disruption.kind != DisruptionKind::OldAddresses && {
        let endpoint = net.node::<Host>(hosts[disruption.side]).endpoint();
        endpoint.local_addresses().is_empty()
    };
    let due = one.max(other) + disruption.after <= core_time(net.now());
    due && (without_address || hosts.iter().all(up))
}

impl World {
    pub(super) fn next_disruption(&self) -> Option<Disruption> {
        self.extras.disruptions.get(self.disruptions).copied()
    }

    /// Makes the next disruption if it is due. Returns whether it did.
    pub(super) fn disrupt_if_due(&mut self) -> bool {
        let hosts = self.built.hosts;
        let due = |u: &Disruption| is_due(&self.built.net, hosts, &self.ledger.borrow(), *u);
        let Some(disruption) = self.next_disruption().filter(due) else {
            return false;
        };
        self.disruptions += 1;
        let now = core_time(self.built.net.now());
        self.ledger.borrow_mut().advanced(now);
        let Disruption { side, kind, .. } = disruption;
        self.ledger.borrow().log(now, side, || format!("{kind:?}"));
        match kind {
            DisruptionKind::Rebinding(port) => {
                self.ledger.borrow_mut().seen.rebindings += 1;
                self.host(side, |host| host.rebind(port));
            }
            DisruptionKind::NewAddress => {
                let address = self.topology.new_address(side);
                self.give(side, 0, address);
            }
            DisruptionKind::OldAddresses => {
                self.ledger.borrow_mut().seen.moves += 1;
                for number in 0..self.topology.addresses[side].len() {
                    let address = self.topology.addresses[side][number];
                    let interface = self.built.owners[side][number];
                    let change = Change::RemoveAddress { interface, address };
                    self.built.net.apply(change).expect("an address it has");
                }
            }
        }
        true
    }

    /// Restores the removed resources, once, after the association has ended on one side.
    pub(super) fn restore_if_due(&mut self) -> bool {
        let ended = (0..2).any(|side| self.party(side).has_ended());
        if self.disruptions == 0 || self.restored || !ended {
            return false;
        }
        self.restored = true;
        for side in 0..2 {
            let first = self.plan.encapsulation.map(|ports| ports[side]);
            for disruption in self.extras.disruptions.clone() {
                match disruption.kind {
                    DisruptionKind::Rebinding(port) if disruption.side == side => {
                        let ports = first.into_iter().chain([port]);
                        ports.for_each(|port| self.host(side, |host| host.forward(port)));
                    }
                    _ => {}
                }
            }
            let lost = self.built.net.node::<Host>(self.built.hosts[side]);
            let has = lost.endpoint().local_addresses().to_vec();
            if self.extras.moves() == Some(side) && !has.contains(&self.topology.addresses[side][0])
            {
                for number in 0..self.topology.addresses[side].len() {
                    self.give(side, number, self.topology.addresses[side][number]);
                }
            }
        }
        true
    }

    fn give(&mut self, side: usize, number: usize, address: IpAddr) {
        let interface = self.built.owners[side][number];
        let change = Change::AddAddress { interface, address };
        self.built.net.apply(change).expect("a free address");
    }

    fn host(&mut self, side: usize, change: impl FnOnce(&mut Host)) {
        let host = self.built.hosts[side];
        self.built
            .net
            .with_node(host, |program: &mut Host, _, _| change(program));
    }
}
