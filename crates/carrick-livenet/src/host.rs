//! A host of the network: a namespace with a TUN device for each interface, addresses and routes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Output;
use std::thread::JoinHandle;

use carrick_netsim::InterfaceId;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::blueprint::{Blueprint, device};
use crate::error::Error;
use crate::namespace::Namespace;

/// A host: what runs in its namespace is on the network.
#[derive(Debug)]
pub struct Host {
    name: String,
    namespace: Namespace,
    addresses: Vec<IpAddr>,
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
        for (number, interface) in blueprint.interfaces().enumerate() {
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
            tuns.push(Tun { interface, device });
        }
        namespace.ip_batch(&blueprint.lines_from(&blueprint.bare()))?;
        let host = Self {
            name: blueprint.name().to_owned(),
            addresses: blueprint.addresses().collect(),
            namespace,
        };
        Ok((host, tuns))
    }

    /// Its name in the network.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The addresses that it began with, in the order of its interfaces.
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
