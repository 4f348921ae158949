//! Upheavals while the world goes on: a translator forgets a port, a host moves to another address.
//! They come only once the association is up, so that it can outlive them, and what they took comes back
//! when it has ended, so that the last packets find an answer.

use std::net::IpAddr;

use carrick_lab::sctp_host::core_time;
use carrick_netsim::{Change, Network, NodeId};

use super::extras::{Upheaval, UpheavalKind};
use super::ledger::Ledger;
use super::run::{Host, World};
use super::topology::Topology;

/// All addresses that a side may ever have.
pub(crate) fn addresses_ever(topology: &Topology, side: usize) -> Vec<IpAddr> {
    let new = topology.new_address(side);
    let all = topology.addresses[side].iter().copied();
    all.chain([new]).collect()
}

/// The association is up on both sides, and has been for long enough. Half a move is completed whatever
/// has happened since.
pub(crate) fn is_due(
    net: &Network,
    hosts: [NodeId; 2],
    ledger: &Ledger,
    upheaval: Upheaval,
) -> bool {
    let [Some(one), Some(other)] = ledger.up else {
        return false;
    };
    let up = |host: &NodeId| {
        let program = net.node::<Host>(*host);
        program.application().is_up(program.endpoint())
    };
    let homeless = upheaval.kind != UpheavalKind::OldAddresses && {
        let endpoint = net.node::<Host>(hosts[upheaval.side]).endpoint();
        endpoint.local_addresses().is_empty()
    };
    let due = one.max(other) + upheaval.after <= core_time(net.now());
    due && (homeless || hosts.iter().all(up))
}

impl World {
    pub(super) fn next_upheaval(&self) -> Option<Upheaval> {
        self.extras.upheavals.get(self.upheavals).copied()
    }

    /// Whether an upheaval happened.
    pub(super) fn upheave_if_due(&mut self) -> bool {
        let hosts = self.built.hosts;
        let due = |u: &Upheaval| is_due(&self.built.net, hosts, &self.ledger.borrow(), *u);
        let Some(upheaval) = self.next_upheaval().filter(due) else {
            return false;
        };
        self.upheavals += 1;
        let now = core_time(self.built.net.now());
        self.ledger.borrow_mut().advanced(now);
        let Upheaval { side, kind, .. } = upheaval;
        self.ledger.borrow().log(now, side, || format!("{kind:?}"));
        match kind {
            UpheavalKind::Rebinding(port) => {
                self.ledger.borrow_mut().seen.rebindings += 1;
                self.host(side, |host| host.rebind(port));
            }
            UpheavalKind::NewAddress => {
                let address = self.topology.new_address(side);
                self.give(side, 0, address);
            }
            UpheavalKind::OldAddresses => {
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

    /// Gives back what was taken, once, when the association has ended on one side.
    pub(super) fn relent_if_due(&mut self) -> bool {
        let ended = (0..2).any(|side| self.party(side).has_ended());
        if self.upheavals == 0 || self.merciful || !ended {
            return false;
        }
        self.merciful = true;
        for side in 0..2 {
            let first = self.plan.encapsulation.map(|ports| ports[side]);
            for upheaval in self.extras.upheavals.clone() {
                match upheaval.kind {
                    UpheavalKind::Rebinding(port) if upheaval.side == side => {
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
