//! Addresses and routes of a host, and the `ip` commands that configure them.

use std::net::IpAddr;

use carrick_netsim::{Direction, InterfaceId, Network, NodeId};

/// Rate of a link, in bits per second, from which on the hosts' devices have segmentation and receive offload. Below it
/// packets are passed one by one, as in a network whose packets are that far apart.
const OFFLOAD_RATE: u64 = 200_000_000;

/// Addresses and routes of a host, copied from the network so that another thread can use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blueprint {
    name: String,
    interfaces: Vec<(InterfaceId, Vec<IpAddr>)>,
    /// Addresses of the other hosts, each with the number of the interface of its route.
    remotes: Vec<(IpAddr, usize)>,
    offload: bool,
}

impl Blueprint {
    /// Reads the blueprint of `node` from the network, with routes to the addresses of `others`.
    pub(crate) fn of(network: &Network, node: NodeId, others: &[NodeId]) -> Self {
        let interfaces: Vec<_> = network
            .interfaces(node)
            .iter()
            .map(|id| (*id, network.addresses(*id).to_vec()))
            .collect();
        let mut remotes = Vec::new();
        for other in others.iter().filter(|other| **other != node) {
            for interface in network.interfaces(*other) {
                for address in network.addresses(*interface) {
                    // The same source address as the stack selects, so that the kernel uses the same route.
                    let own = interfaces.iter().flat_map(|(_, own)| own).rev();
                    let same = own.filter(|own| own.is_ipv4() == address.is_ipv4());
                    let source = same.max_by_key(|own| common_prefix(**own, *address));
                    let via = source.and_then(|own| network.route(node, *own, *address));
                    let place = interfaces.iter().position(|(id, _)| Some(*id) == via);
                    remotes.extend(place.map(|place| (*address, place)));
                }
            }
        }
        let directions = [Direction::Forward, Direction::Backward];
        let rates = network
            .links()
            .flat_map(|link| directions.map(|direction| network.link_config(link, direction).rate));
        Self {
            name: network.node_name(node).to_owned(),
            interfaces,
            remotes,
            offload: rates.flatten().any(|rate| rate >= OFFLOAD_RATE),
        }
    }

    /// Name of the host in the network.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the network is so fast that its devices need segmentation and receive offload.
    pub(crate) fn offload(&self) -> bool {
        self.offload
    }

    /// Interfaces in their order.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = InterfaceId> {
        self.interfaces.iter().map(|(id, _)| *id)
    }

    /// Addresses, in the order of the interfaces.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.numbered_addresses().map(|(_, address)| address)
    }

    /// Returns the host with its interfaces, but without addresses and routes.
    pub(crate) fn without_addresses(&self) -> Self {
        Self {
            name: self.name.clone(),
            interfaces: self.interfaces().map(|id| (id, Vec::new())).collect(),
            remotes: Vec::new(),
            offload: self.offload,
        }
    }

    /// Addresses, each with the number of its interface.
    fn numbered_addresses(&self) -> impl Iterator<Item = (usize, IpAddr)> {
        let interfaces = self.interfaces.iter().enumerate();
        interfaces.flat_map(|(number, (_, own))| own.iter().map(move |own| (number, *own)))
    }

    /// Commands for `ip -batch` that turn the configuration `before` into this one.
    ///
    /// The routes of a new address come before the address, because a program that is notified of an address
    /// may use it at once. New addresses come before the removal of old ones, because the kernel removes all
    /// routes of an interface with its last address.
    pub(crate) fn commands_from(&self, before: &Self) -> Vec<String> {
        let old: Vec<_> = before.numbered_addresses().collect();
        let new: Vec<_> = self.numbered_addresses().collect();
        let added = || new.iter().filter(|address| !old.contains(address));
        let removed = || old.iter().filter(|address| !new.contains(address));
        let mut lines = Vec::new();
        for (address, number) in &before.remotes {
            if !self.remotes.iter().any(|(known, _)| known == address) {
                let (prefix, device) = (host_prefix(*address), device(*number));
                lines.push(format!("route del {prefix} dev {device}"));
            }
        }
        for (number, address) in added() {
            // Packets from an address leave by its interface, on multi-homed hosts, too.
            let (prefix, device, table) = (host_prefix(*address), device(*number), table(*number));
            let default = if address.is_ipv4() {
                "0.0.0.0/0"
            } else {
                "::/0"
            };
            lines.push(format!("rule add from {prefix} table {table}"));
            lines.push(format!(
                "route replace {default} dev {device} table {table}"
            ));
        }
        for remote in self.remotes.iter().filter(|r| !before.remotes.contains(r)) {
            let (prefix, device) = (host_prefix(remote.0), device(remote.1));
            lines.push(format!("route replace {prefix} dev {device}"));
        }
        for (number, address) in added() {
            let (prefix, device) = (host_prefix(*address), device(*number));
            lines.push(format!("address add {prefix} dev {device}"));
        }
        for (number, address) in removed() {
            let (prefix, device, table) = (host_prefix(*address), device(*number), table(*number));
            lines.push(format!("address del {prefix} dev {device}"));
            lines.push(format!("rule del from {prefix} table {table}"));
        }
        lines
    }
}

/// Name of the device of an interface.
pub(crate) fn device(number: usize) -> String {
    format!("link{number}")
}

/// Number of the routing table for packets from the addresses of an interface.
fn table(number: usize) -> usize {
    100 + number
}

/// Prefix that holds only this address, /32 or /128.
fn host_prefix(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

/// Number of leading bits that two addresses of the same version have in common.
fn common_prefix(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use carrick_netsim::{Change, HostRouting, LinkConfig, NetworkBuilder};

    use super::*;

    #[test]
    fn a_route_starts_at_the_longest_matching_source() {
        let mut builder = NetworkBuilder::new(1);
        let near = builder.add_host("near");
        let far = builder.add_host("far");
        let router = builder.add_router("router");
        builder.set_routing(near, HostRouting::PreferSource);
        for (own, address) in [[10, 0, 1, 1], [172, 16, 1, 1]].into_iter().enumerate() {
            let end = builder.add_interface(near, [address.into()]);
            let port = builder.add_interface(router, []);
            builder.connect_both(end, port, LinkConfig::default());
            assert_eq!(own, usize::from(address[0] == 172));
        }
        for address in [[172, 16, 2, 7], [10, 0, 0, 7]] {
            let port = builder.add_interface(router, []);
            let end = builder.add_interface(far, [address.into()]);
            builder.connect_both(port, end, LinkConfig::default());
        }
        let network = builder.build().unwrap();
        let remotes = Blueprint::of(&network, near, &[near, far]).remotes;
        let expected = [([172, 16, 2, 7], 1), ([10, 0, 0, 7], 0)];
        assert_eq!(remotes, expected.map(|(address, at)| (address.into(), at)));
    }

    #[test]
    fn offload_is_for_fast_networks() {
        let offload = |rate| {
            let mut builder = NetworkBuilder::new(1);
            let hosts = ["near", "far"].map(|name| builder.add_host(name));
            let ends =
                [0, 1].map(|n| builder.add_interface(hosts[n], [[10, 0, 0, n as u8 + 1].into()]));
            let link = LinkConfig {
                rate,
                ..LinkConfig::default()
            };
            builder.connect_both(ends[0], ends[1], link);
            let network = builder.build().unwrap();
            Blueprint::of(&network, hosts[0], &hosts).offload()
        };
        assert!(!offload(None));
        assert!(!offload(Some(100_000_000)));
        assert!(offload(Some(1_000_000_000)));
    }

    #[test]
    fn new_routes_precede_the_address_of_a_moving_host() {
        let mut builder = NetworkBuilder::new(1);
        let near = builder.add_host("near");
        let far = builder.add_host("far");
        let ends: Vec<InterfaceId> = [Some([10, 1, 0, 1]), None]
            .map(|own| {
                let end = builder.add_interface(near, own.map(IpAddr::from));
                let port = builder.add_interface(far, []);
                builder.connect_both(end, port, LinkConfig::default());
                end
            })
            .into();
        let other = builder.add_interface(far, [[10, 9, 0, 1].into()]);
        let third = builder.add_interface(near, []);
        builder.connect_both(third, other, LinkConfig::default());
        let mut network = builder.build().unwrap();
        let of =
            |network: &Network| [near, far].map(|node| Blueprint::of(network, node, &[near, far]));
        let before = of(&network);
        let mut initial = before[1].commands_from(&before[1].without_addresses());
        initial.retain(|line| !line.contains("10.1.0.1"));
        assert_eq!(
            initial,
            [
                "rule add from 10.9.0.1/32 table 102",
                "route replace 0.0.0.0/0 dev link2 table 102",
                "address add 10.9.0.1/32 dev link2",
            ]
        );
        let [old, new] = [[10, 1, 0, 1], [172, 16, 0, 1]].map(IpAddr::from);
        let changes = [
            Change::AddAddress {
                interface: ends[1],
                address: new,
            },
            Change::RemoveAddress {
                interface: ends[0],
                address: old,
            },
        ];
        for change in changes {
            network.apply(change).unwrap();
        }
        let after = of(&network);
        let moved = after[0].commands_from(&before[0]);
        let index = |line: &str| {
            let found = moved.iter().position(|known| known == line);
            found.unwrap_or_else(|| panic!("no {line}: {moved:?}"))
        };
        let added = index("address add 172.16.0.1/32 dev link1");
        assert!(index("rule add from 172.16.0.1/32 table 101") < added);
        assert!(index("route replace 0.0.0.0/0 dev link1 table 101") < added);
        assert!(added < index("address del 10.1.0.1/32 dev link0"));
        assert_eq!(moved.last().unwrap(), "rule del from 10.1.0.1/32 table 100");
        let remote = after[1].commands_from(&before[1]);
        assert!(
            remote[0].starts_with("route del 10.1.0.1/32 dev"),
            "{remote:?}"
        );
        assert!(remote[1].starts_with("route replace 172.16.0.1/32 dev"));
        assert_eq!(remote.len(), 2);
        assert_eq!(after[1].commands_from(&after[1]), [""; 0]);
    }
}
