//! Host of a live network: a namespace with addresses, routes and a TUN device for each interface.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Output;
use std::thread::JoinHandle;

use carrick_netsim::InterfaceId;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::blueprint::{Blueprint, device};
use super::namespace::Namespace;
use crate::error::Error;

/// Host of a live network. Programs in its namespace use the network.
#[derive(Debug)]
pub struct Host {
    name: String,
    namespace: Namespace,
    addresses: Vec<IpAddr>,
}

/// TUN device of one interface of a host.
pub(crate) struct Tun {
    pub(crate) interface: InterfaceId,
    device: SyncDevice,
}

impl Tun {
    /// Reads a packet of the kernel into `buffer` and returns its length; `None` if no packet is queued.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a packet to the kernel.
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
    /// Builds a host and returns it with its devices, whose packets the emulator forwards.
    pub(crate) fn build(blueprint: &Blueprint, mtu: u16) -> Result<(Self, Vec<Tun>), Error> {
        let namespace = Namespace::new()?;
        // Without a link-local address the kernel sends no router solicitations, which no experiment includes.
        namespace
            .run(|| std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1"))?
            .or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()), // No IPv6 on this host.
                _ => Err(error),
            })
            .map_err(Error::system("switching off IPv6 address generation"))?;
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
                .map_err(Error::system(format!("creating the TUN device {name}")))?;
            namespace.ip(&["link", "set", &name, "mtu", &mtu.to_string(), "up"])?;
            tuns.push(Tun { interface, device });
        }
        namespace.ip_batch(&blueprint.commands_from(&blueprint.without_addresses()))?;
        let host = Self {
            name: blueprint.name().to_owned(),
            addresses: blueprint.addresses().collect(),
            namespace,
        };
        Ok((host, tuns))
    }

    /// Name of the host in the network.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Addresses at the start of the network, in the order of the interfaces.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Namespace of the host.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Runs `work` on a new thread in the host's namespace: sockets that it opens use the network.
    ///
    /// # Errors
    /// If the thread cannot be started; the handle returns the error of entering the namespace.
    pub fn spawn<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<io::Result<R>>, Error> {
        self.namespace.spawn(&self.name, work)
    }

    /// Runs a program on this host and waits for its end.
    ///
    /// # Errors
    /// If the program can't be started. Its exit status is part of the output, not an error.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Result<Output, Error> {
        self.namespace.command(program, arguments)
    }
}
