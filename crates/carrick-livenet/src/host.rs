//! A host of the network: a namespace with a TUN device for each interface, addresses and routes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Output;
use std::thread::JoinHandle;

use carrick_netsim::{InterfaceId, Network, NodeId};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::error::Error;
use crate::namespace::Namespace;

/// A host: what runs in its namespace is on the network.
#[derive(Debug)]
pub struct Host {
    name: String,
    namespace: Namespace,
    addresses: Vec<IpAddr>,
}

/// What a host of the simulator is to look like; plain data, so that it can change threads.
#[derive(Clone, Debug)]
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
}

/// Leading bits that two addresses of one version share.
fn common_prefix(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// A TUN device: packets of the kernel of one host, on one interface.
pub(crate) struct Tun {
    pub(crate) interface: InterfaceId,
    device: SyncDevice,
}

impl Tun {
    /// One packet of the kernel, if there is one.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the kernel a packet.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.device.send(packet).map(drop)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fd = self.device.as_raw_fd();
        write!(f, "Tun {{ interface: {:?}, fd: {fd} }}", self.interface)
    }
}

impl Host {
    /// Builds a host, and the devices that the emulator carries packets between.
    pub(crate) fn build(blueprint: &Blueprint, mtu: u16) -> Result<(Self, Vec<Tun>), Error> {
        let namespace = Namespace::new()?;
        // Neighbour and router discovery would be packets that no experiment has.
        namespace
            .run(|| std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1"))?
            .or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()), // No IPv6 on this host.
                _ => Err(error),
            })
            .map_err(Error::system("IPv6 address generation"))?;
        let mut tuns = Vec::new();
        let mut addresses = Vec::new();
        for (number, (interface, own)) in blueprint.interfaces.iter().enumerate() {
            let name = device(number);
            let built = name.clone();
            let device = namespace
                .run(move || {
                    let device = DeviceBuilder::new()
                        .name(built)
                        .layer(Layer::L3)
                        .build_sync()?;
                    device.set_nonblocking(true)?;
                    Ok(device)
                })?
                .map_err(Error::system(format!("TUN device {name}")))?;
            namespace.ip(&["link", "set", &name, "mtu", &mtu.to_string(), "up"])?;
            let table = (100 + number).to_string();
            for address in own {
                let whole = format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 });
                namespace.ip(&["address", "add", &whole, "dev", &name])?;
                // What is sent from an address leaves by its interface, on multi-homed hosts too.
                let family = if address.is_ipv4() { "-4" } else { "-6" };
                namespace.ip(&[family, "rule", "add", "from", &whole, "table", &table])?;
                namespace.ip(&[
                    family, "route", "replace", "default", "dev", &name, "table", &table,
                ])?;
            }
            addresses.extend(own);
            tuns.push(Tun {
                interface: *interface,
                device,
            });
        }
        for (address, number) in &blueprint.remotes {
            let whole = format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 });
            namespace.ip(&["route", "replace", &whole, "dev", &device(*number)])?;
        }
        let host = Self {
            name: blueprint.name.clone(),
            namespace,
            addresses,
        };
        Ok((host, tuns))
    }

    /// Its name in the network.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its addresses, in the order of its interfaces.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Its namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Runs `work` on a thread of this host: sockets that it opens are on the network.
    ///
    /// # Errors
    /// If the system has no thread or refuses to let it in.
    pub fn spawn<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<io::Result<R>>, Error> {
        self.namespace.spawn(&self.name, work)
    }

    /// Runs a program on this host and waits for its end.
    ///
    /// # Errors
    /// If it can't be started; a program that fails is no error here.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Result<Output, Error> {
        self.namespace.command(program, arguments)
    }
}

/// The name of the device of an interface.
fn device(number: usize) -> String {
    format!("link{number}")
}

#[cfg(test)]
mod tests {
    use carrick_netsim::{LinkConfig, NetworkBuilder};

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
}
