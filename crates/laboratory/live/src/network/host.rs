//! Host of a live network: a namespace with addresses, routes and a TUN device for each interface.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Output;
use std::thread::JoinHandle;

use carrick_netsim::{InterfaceId, Packet, Time};
use tun_rs::{DeviceBuilder, GROTable, Layer, SyncDevice, VIRTIO_NET_HDR_LEN};

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

/// Packets that a device with offload exchanges in one call, at most.
const BATCH: usize = 128;
/// Packets into which a packet of the kernel is segmented, at most: 64 KiB in segments of 64 bytes.
const SEGMENTS: usize = 1024;
/// Maximum length of an IP packet, in bytes.
const MAX_PACKET: usize = 65_535;

/// TUN device of one interface of a host.
pub(crate) struct Tun {
    pub(crate) interface: InterfaceId,
    device: SyncDevice,
    /// Packets that are written together, at most: 1 without offload.
    batch: usize,
    /// Packets for the kernel, with the times at which they arrived in the network.
    queued: Vec<(Time, Packet)>,
    /// Bytes of the queued packets, each behind the header of the device.
    bytes: Vec<Vec<u8>>,
}

/// Memory for a call of a device, which the devices share.
pub(crate) struct TunBuffers {
    /// A packet as the kernel passes it, with offload several segments.
    whole: Vec<u8>,
    packets: Vec<Vec<u8>>,
    lengths: Vec<usize>,
    merging: GROTable,
}

impl TunBuffers {
    pub(crate) fn new() -> Self {
        // Not `vec![vec![0; MAX_PACKET]; SEGMENTS]`, which would write all of it.
        let packets = (0..SEGMENTS).map(|_| vec![0; MAX_PACKET]);
        Self {
            whole: vec![0; VIRTIO_NET_HDR_LEN + MAX_PACKET],
            packets: packets.collect(),
            lengths: vec![0; SEGMENTS],
            merging: GROTable::default(),
        }
    }

    /// Packets of the last [`Tun::receive`], which returned their number.
    pub(crate) fn packets(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        let lengths = self.lengths.iter().take(count);
        let packets = self.packets.iter().zip(lengths);
        packets.map(|(packet, length)| &packet[..*length])
    }
}

impl Tun {
    fn new(interface: InterfaceId, device: SyncDevice, offload: bool) -> Self {
        let batch = if offload { BATCH } else { 1 };
        Self {
            interface,
            device,
            batch,
            queued: Vec::new(),
            bytes: vec![Vec::new(); batch],
        }
    }

    /// Reads a packet of the kernel, or the segments of one, and returns their number; 0 if none is queued.
    pub(crate) fn receive(&self, buffers: &mut TunBuffers) -> io::Result<usize> {
        let TunBuffers {
            whole,
            packets,
            lengths,
            ..
        } = buffers;
        match self.device.recv_multiple(whole, packets, lengths, 0) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            read => read,
        }
    }

    /// Queues a packet for the kernel, which arrived in the network at `due`. Returns whether the queue is full, so
    /// that [`Self::flush`] must be called.
    pub(crate) fn queue(&mut self, due: Time, packet: Packet) -> bool {
        let bytes = &mut self.bytes[self.queued.len()];
        bytes.clear();
        bytes.resize(VIRTIO_NET_HDR_LEN, 0);
        packet.write_ip(bytes);
        self.queued.push((due, packet));
        self.queued.len() == self.batch
    }

    /// Writes the queued packets to the kernel, merged where they belong together and the device has offload. Returns the
    /// packets, and the number of those that the kernel did not accept: none or all.
    pub(crate) fn flush(
        &mut self,
        buffers: &mut TunBuffers,
    ) -> (impl Iterator<Item = (Time, Packet)>, usize) {
        let bytes = &mut self.bytes[..self.queued.len()];
        let written = self
            .device
            .send_multiple(&mut buffers.merging, bytes, VIRTIO_NET_HDR_LEN);
        let count = self.queued.len();
        let accepted = if written.is_ok() { count } else { 0 };
        (self.queued.drain(..).take(accepted), count - accepted)
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
            let offload = blueprint.offload();
            let device = namespace
                .run(move || {
                    let device = DeviceBuilder::new()
                        .name(built)
                        .layer(Layer::L3)
                        .offload(offload)
                        .build_sync()?;
                    device.set_nonblocking(true)?;
                    Ok(device)
                })?
                .map_err(Error::system(format!("creating the TUN device {name}")))?;
            namespace.ip(&["link", "set", &name, "mtu", &mtu.to_string(), "up"])?;
            tuns.push(Tun::new(interface, device, offload));
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
