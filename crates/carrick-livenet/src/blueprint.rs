//! What a host of the simulator looks like to a kernel, and the commands that lead there.

use std::net::IpAddr;

use carrick_netsim::{InterfaceId, Network, NodeId};

/// What a host of the simulator is to look like; plain data, so that it can change threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blueprint {
    name: String,
    interfaces: Vec<(InterfaceId, Vec<IpAddr>)>,
    /// Addresses of others, each with the number of the interface that leads there.
    remotes: Vec<(IpAddr, usize)>,
}

impl Blueprint {
    /// Of a node of the network, `others` being the nodes that it may want to reach.
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
                    // As the stack chooses, so that the kernel's choice is the same.
                    let own = interfaces.iter().flat_map(|(_, own)| own).rev();
                    let same = own.filter(|own| own.is_ipv4() == address.is_ipv4());
                    let source = same.max_by_key(|own| common_prefix(**own, *address));
                    let via = source.and_then(|own| network.route(node, *own, *address));
                    let place = interfaces.iter().position(|(id, _)| Some(*id) == via);
                    remotes.extend(place.map(|place| (*address, place)));
                }
            }
        }
        Self {
            name: network.node_name(node).to_owned(),
            interfaces,
            remotes,
        }
    }

    /// Its name in the network.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its interfaces in their order.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = InterfaceId> {
        self.interfaces.iter().map(|(id, _)| *id)
    }

    /// Its addresses, in the order of its interfaces.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.places().map(|(_, address)| address)
    }

    /// The same without addresses and routes.
    pub(crate) fn bare(&self) -> Self {
        Self {
            name: self.name.clone(),
            interfaces: self.interfaces().map(|id| (id, Vec::new())).collect(),
            remotes: Vec::new(),
        }
    }

    /// Its addresses, each with the number of its interface.
    fn places(&self) -> impl Iterator<Item = (usize, IpAddr)> {
        let interfaces = self.interfaces.iter().enumerate();
        interfaces.flat_map(|(number, (_, own))| own.iter().map(move |own| (number, *own)))
    }

    /// Lines for `ip -batch` that make this of the host as it was before.
    ///
    /// A program that hears of an address may use it at once, so that its routes come first. An interface that
    /// loses its last address loses all its routes with it, so that new addresses come before old ones go.
    pub(crate) fn lines_from(&self, before: &Self) -> Vec<String> {
        let (old, new): (Vec<_>, Vec<_>) = (before.places().collect(), self.places().collect());
        let came = || new.iter().filter(|place| !old.contains(place));
        let went = || old.iter().filter(|place| !new.contains(place));
        let mut lines = Vec::new();
        for (address, number) in &before.remotes {
            if !self.remotes.iter().any(|(known, _)| known == address) {
                let (whole, device) = (whole(*address), device(*number));
                lines.push(format!("route del {whole} dev {device}"));
            }
        }
        for (number, address) in came() {
            // What is sent from an address leaves by its interface, on multi-homed hosts too.
            let (whole, device, table) = (whole(*address), device(*number), table(*number));
            let all = if address.is_ipv4() {
                "0.0.0.0/0"
            } else {
                "::/0"
            };
            lines.push(format!("rule add from {whole} table {table}"));
            lines.push(format!("route replace {all} dev {device} table {table}"));
        }
        for remote in self.remotes.iter().filter(|r| !before.remotes.contains(r)) {
            let (whole, device) = (whole(remote.0), device(remote.1));
            lines.push(format!("route replace {whole} dev {device}"));
        }
        for (number, address) in came() {
            let (whole, device) = (whole(*address), device(*number));
            lines.push(format!("address add {whole} dev {device}"));
        }
        for (number, address) in went() {
            let (whole, device, table) = (whole(*address), device(*number), table(*number));
            lines.push(format!("address del {whole} dev {device}"));
            lines.push(format!("rule del from {whole} table {table}"));
        }
        lines
    }
}

/// The name of the device of an interface.
pub(crate) fn device(number: usize) -> String {
    format!("link{number}")
}

/// The routing table of what is sent from the addresses of an interface.
fn table(number: usize) -> usize {
    100 + number
}

/// An address alone, as a prefix.
fn whole(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

/// Leading bits that two addresses of one version share.
fn common_prefix(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use carrick_netsim::{Change, LinkConfig, NetworkBuilder};

    use super::*;

    #[test]
    fn an_address_is_reached_from_the_own_one_that_is_most_like_it() {
        let mut builder = NetworkBuilder::new(1);
        let near = builder.add_host("near");
        let far = builder.add_host("far");
        let router = builder.add_router("router");
        builder.set_source_routing(near, true);
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
    fn a_host_that_moves_has_its_new_routes_before_the_address_and_keeps_none_of_the_old() {
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
        let mut bare = before[1].lines_from(&before[1].bare());
        bare.retain(|line| !line.contains("10.1.0.1"));
        assert_eq!(
            bare,
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
        let moved = after[0].lines_from(&before[0]);
        let place = |line: &str| {
            let found = moved.iter().position(|known| known == line);
            found.unwrap_or_else(|| panic!("no {line}: {moved:?}"))
        };
        let came = place("address add 172.16.0.1/32 dev link1");
        assert!(place("rule add from 172.16.0.1/32 table 101") < came);
        assert!(place("route replace 0.0.0.0/0 dev link1 table 101") < came);
        assert!(came < place("address del 10.1.0.1/32 dev link0"));
        assert_eq!(moved.last().unwrap(), "rule del from 10.1.0.1/32 table 100");
        let told = after[1].lines_from(&before[1]);
        assert!(told[0].starts_with("route del 10.1.0.1/32 dev"), "{told:?}");
        assert!(told[1].starts_with("route replace 172.16.0.1/32 dev"));
        assert_eq!(told.len(), 2);
        assert_eq!(after[1].lines_from(&after[1]), [""; 0]);
    }
}
