//! One socket per local address, in UDP (RFC 6951) or on IP protocol 132.
//!
//! - `addresses`: addresses that a wildcard represents
//! - `set`: all sockets of an endpoint
//! - `buffers`: received datagrams
//! - `errors`: ICMP messages from the socket's error queue (RFC 6951 section 5.5)
//! - `options`: socket options
//! - `polled`: registration with the runtime
//! - `port_filter`: packets that a raw socket gets
//! - `send_calls`: system calls that send packets on Linux
//! - `steering`: sockets of several shards

pub(crate) mod addresses;
mod buffers;
mod errors;
pub(crate) mod options;
mod polled;
#[cfg(target_os = "linux")]
mod port_filter;
#[cfg(target_os = "linux")]
mod send_calls;
mod set;
#[cfg(target_os = "linux")]
mod steering;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use carrick_proto::{IcmpInput, IcmpKind, Transmit};
use quinn_udp::{EcnCodepoint, UdpSocketState};
use socket2::{Domain, Protocol, Type};

use crate::error::BindError;
pub(crate) use buffers::{Datagrams, ReceiveBuffers, Segments};
pub(crate) use errors::IcmpNote;
use polled::{PolledSocket, SystemSocket};
pub(crate) use set::SocketSet;

/// SCTP's IP protocol number.
const IP_PROTOCOL: i32 = 132;

/// The system reads as many datagrams with one call as there is room for. Others read one at a time.
const READS_BATCHES: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Packets that are sent with one call where there is no segmentation offload.
const PACKETS_WITHOUT_OFFLOAD: usize = if cfg!(target_os = "linux") { 64 } else { 1 };

/// Maximum number of bytes queued for a socket that accepts no more; further packets are dropped.
/// Congestion windows keep the queue far below, unless a neighbour does not answer and the system holds its
/// packets.
const MAX_QUEUED: usize = 1 << 20;

/// Transport of one socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SocketTransport {
    /// UDP, with this local port; 0 lets the system choose one.
    Udp { port: u16 },
    /// Socket of IP protocol 132.
    Raw,
}

/// Outcome of sending one transmit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransmitOutcome {
    /// The packet was sent, is queued, or was lost; the protocol handles losses.
    Done,
    /// The packet was lost, because the system cannot or will not send it.
    Lost,
    /// The packet was lost, because it is larger than the MTU of the route.
    TooBig,
    /// The packet was lost, because the host has no route to the peer's address, or reports its network or host as
    /// unreachable. For the protocol that is an ICMP "Destination Unreachable" about the packet.
    Unroutable,
}

impl TransmitOutcome {
    /// Returns the ICMP message that an unroutable packet stands for; `bytes` are those of the transmit.
    pub fn as_icmp<'a>(self, transmit: &Transmit, bytes: &'a [u8]) -> Option<IcmpInput<'a>> {
        (self == Self::Unroutable).then_some(IcmpInput {
            kind: IcmpKind::DestinationUnreachable,
            remote: transmit.route.remote,
            encapsulation: transmit.route.encapsulation,
            quoted: bytes,
        })
    }
}

/// Transmit that is queued until the socket accepts more.
#[derive(Debug)]
struct QueuedTransmit {
    transmit: Transmit,
    bytes: Bytes,
}

/// Socket of one local address.
pub(crate) struct Socket {
    io: PolledSocket,
    state: UdpSocketState,
    sender: Sender,
    address: IpAddr,
    encapsulated: bool,
    queue: VecDeque<QueuedTransmit>,
    queued: usize,
    /// Resolves when the error queue is not empty.
    errors: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Socket {
    /// Opens the socket of one address. Returns the UDP port as well, which the system may have chosen; 0
    /// on plain IP.
    pub(crate) fn bind(
        address: IpAddr,
        carrier: SocketTransport,
        buffer: usize,
    ) -> Result<(Self, u16), BindError> {
        let port = match carrier {
            SocketTransport::Udp { port } => port,
            SocketTransport::Raw => 0,
        };
        let io = open(address, carrier, port).map_err(|e| explain(address, carrier, e))?;
        let set_up = Self::set_up(io, address, carrier, buffer);
        set_up.map_err(|error| BindError::Socket { address, error })
    }

    /// Opens further sockets with the address and UDP port of this one, `count` in all, and lets the system
    /// choose among them by the verification tag of a packet. Where it cannot, it chooses by the packet's
    /// addresses and UDP ports.
    ///
    /// This one was bound alone, so that the port is that of no other endpoint.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_group(
        &self,
        port: u16,
        count: usize,
        buffer: usize,
    ) -> Result<Vec<Self>, BindError> {
        let (address, carrier) = (self.address, SocketTransport::Udp { port });
        let failed = |error| BindError::Socket { address, error };
        let this = socket2::SockRef::from(self.io.get());
        this.set_reuse_port(true).map_err(failed)?;
        let mut others = Vec::with_capacity(count.saturating_sub(1));
        for _ in 1..count {
            let io = open_with(address, carrier, port, |io| io.set_reuse_port(true));
            let io = io.map_err(|e| explain(address, carrier, e))?;
            let set_up = Self::set_up(io, address, carrier, buffer);
            others.push(set_up.map_err(failed)?.0);
        }
        // The number of shards is small.
        let _ = steering::steer(self.io.get(), count as u32);
        Ok(others)
    }

    /// Continues with a socket that another process has opened for an address. Returns its UDP port as well.
    #[cfg(target_os = "linux")]
    pub(crate) fn adopt(
        address: IpAddr,
        carrier: SocketTransport,
        buffer: usize,
        descriptor: std::os::fd::OwnedFd,
    ) -> io::Result<(Self, u16)> {
        let io = socket2::Socket::from(descriptor);
        let kind = if is_udp(carrier) {
            Type::DGRAM
        } else {
            Type::RAW
        };
        let local = io.local_addr()?.as_socket();
        if io.r#type()? != kind || local.is_none_or(|local| local.ip() != address) {
            return Err(io::Error::other("it is bound to another address"));
        }
        Self::set_up(io, address, carrier, buffer)
    }

    fn set_up(
        io: socket2::Socket,
        address: IpAddr,
        carrier: SocketTransport,
        buffer: usize,
    ) -> io::Result<(Self, u16)> {
        options::set_buffers(&io, buffer);
        let state = UdpSocketState::new((&io).into())?;
        #[cfg(target_os = "linux")]
        let sender = Sender::new(state.max_gso_segments());
        #[cfg(not(target_os = "linux"))]
        let sender = Sender::new((&io).into())?;
        options::leave_out_timestamps(&io)?;
        options::report_errors(&io, address.is_ipv4())?;
        let local = io.local_addr()?.as_socket();
        // The runtime only polls it, so that a raw socket works as well.
        let io = PolledSocket::new(io.into())?;
        let socket = Self {
            errors: wait_for_errors(&io),
            io,
            sender,
            state,
            address,
            encapsulated: matches!(carrier, SocketTransport::Udp { .. }),
            queue: VecDeque::new(),
            queued: 0,
        };
        let chosen = local.map_or(0, |l| l.port());
        Ok((socket, if is_udp(carrier) { chosen } else { 0 }))
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns another descriptor of the socket.
    #[cfg(target_os = "linux")]
    pub(crate) fn duplicate(&self) -> io::Result<std::os::fd::OwnedFd> {
        use std::os::fd::AsFd;

        self.io.get().as_fd().try_clone_to_owned()
    }

    /// Lets the system keep packets for other SCTP ports from a raw socket. Where it cannot, the endpoint drops them.
    pub(crate) fn filter_port(&self, port: u16) {
        #[cfg(target_os = "linux")]
        if !self.encapsulated {
            let program = port_filter::program(self.address.is_ipv4(), port);
            // A system without filters passes all packets.
            let _ = socket2::SockRef::from(self.io.get()).attach_filter(&program);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = port;
    }

    /// Returns true if the socket carries SCTP in UDP.
    pub(crate) fn is_encapsulated(&self) -> bool {
        self.encapsulated
    }

    /// Reads a batch of datagrams into the buffers.
    pub(crate) fn poll_receive<'b>(
        &self,
        cx: &mut Context<'_>,
        buffers: &'b mut ReceiveBuffers,
    ) -> Poll<io::Result<Datagrams<'b>>> {
        // An error is that of an earlier packet; its details are in the error queue.
        let count = ready!(self.io.poll_read(cx, |io| {
            let (count, is_full) =
                buffers.receive(|slices, meta| self.state.recv(io.into(), slices, meta))?;
            Ok((count, READS_BATCHES && !is_full))
        }))?;
        let datagrams = buffers.datagrams(count, self.address, self.encapsulated);
        Poll::Ready(Ok(datagrams))
    }

    /// Reads ICMP messages from the socket's error queue; ready until the queue is empty.
    pub(crate) fn poll_errors(&mut self, cx: &mut Context<'_>) -> Poll<Vec<IcmpNote>> {
        ready!(self.errors.as_mut().poll(cx));
        let notes = self.take_errors();
        self.errors = wait_for_errors(&self.io);
        Poll::Ready(notes)
    }

    pub(crate) fn take_errors(&self) -> Vec<IcmpNote> {
        let mut notes = Vec::new();
        self.io.take_errors(|io| {
            let (taken, emptied) = errors::take(io, self.encapsulated);
            notes = taken;
            emptied
        });
        notes
    }

    /// Sends a transmit, or queues it until the socket accepts more.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        transmit: &Transmit,
        bytes: &[u8],
    ) -> TransmitOutcome {
        let mut rest = bytes;
        if self.queue.is_empty() {
            match self.poll_send(cx, transmit, &mut rest) {
                Poll::Ready(sent) => return sent,
                Poll::Pending => {}
            }
        }
        if self.queued + rest.len() > MAX_QUEUED {
            return TransmitOutcome::Lost;
        }
        self.queued += rest.len();
        self.queue.push_back(QueuedTransmit {
            transmit: *transmit,
            bytes: Bytes::copy_from_slice(rest),
        });
        TransmitOutcome::Done
    }

    /// Sends queued transmits; ready when none is left.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(mut next) = self.queue.pop_front() {
            let mut rest = &next.bytes[..];
            let sent = self.poll_send(cx, &next.transmit, &mut rest);
            self.queued -= next.bytes.len();
            if sent.is_pending() {
                self.queued += rest.len();
                next.bytes = next.bytes.slice_ref(rest);
                self.queue.push_front(next);
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Sends queued transmits and then this one, without the runtime, which may have ended. Packets that
    /// the system does not accept at once are lost.
    pub(crate) fn send_at_once(&mut self, transmit: &Transmit, bytes: &[u8]) {
        self.queued = 0;
        for waiting in std::mem::take(&mut self.queue) {
            self.try_send(&waiting.transmit, &waiting.bytes);
        }
        self.try_send(transmit, bytes);
    }

    fn try_send(&self, transmit: &Transmit, bytes: &[u8]) {
        let size = transmit.segment_size.unwrap_or(bytes.len()).max(1);
        let mut rest = bytes;
        while !rest.is_empty() {
            let part = self.next_part(transmit, rest, size);
            let send = || send_part(self.io.get(), &self.sender, transmit, part, size);
            // The error of an earlier packet is returned here once.
            let sent = send().or_else(|_| send());
            rest = &rest[sent.unwrap_or_else(|_| self.lost(transmit, part, size))..];
        }
    }

    /// Sends a transmit; if it has to wait, `rest` is the part that was not sent.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        transmit: &Transmit,
        rest: &mut &[u8],
    ) -> Poll<TransmitOutcome> {
        let v4 = self.address.is_ipv4();
        if transmit.may_fragment && options::allow_fragments(self.io.get(), v4, true).is_err() {
            return Poll::Ready(TransmitOutcome::Lost);
        }
        let sent = self.poll_send_parts(cx, transmit, rest);
        if transmit.may_fragment {
            // The system accepted the option before; if it refuses now, packets may be fragmented, which
            // only delays the discovery of a smaller MTU.
            let _ = options::allow_fragments(self.io.get(), v4, false);
        }
        sent
    }

    /// Returns the packets that are sent with one call.
    fn next_part<'p>(&self, transmit: &Transmit, rest: &'p [u8], size: usize) -> &'p [u8] {
        let packets = if self.has_offload(transmit) {
            self.segments()
        } else {
            PACKETS_WITHOUT_OFFLOAD
        };
        &rest[..rest.len().min(packets * size)]
    }

    /// Returns the bytes of a part that are lost because the system does not send it: all that is one for it, or the first
    /// of several packets.
    fn lost(&self, transmit: &Transmit, part: &[u8], size: usize) -> usize {
        if self.has_offload(transmit) {
            part.len()
        } else {
            size.min(part.len())
        }
    }

    /// In as few parts as the system accepts.
    fn poll_send_parts(
        &mut self,
        cx: &mut Context<'_>,
        transmit: &Transmit,
        rest: &mut &[u8],
    ) -> Poll<TransmitOutcome> {
        let size = transmit.segment_size.unwrap_or(rest.len()).max(1);
        let mut sent = TransmitOutcome::Done;
        while !rest.is_empty() {
            let part = self.next_part(transmit, rest, size);
            let passed = match ready!(self.poll_send_part(cx, transmit, part, size)) {
                Ok(passed) => passed,
                Err(failed) => {
                    sent = failed;
                    self.lost(transmit, part, size)
                }
            };
            *rest = &rest[passed..];
        }
        Poll::Ready(sent)
    }

    /// Returns the number of bytes that were sent.
    fn poll_send_part(
        &mut self,
        cx: &mut Context<'_>,
        transmit: &Transmit,
        part: &[u8],
        size: usize,
    ) -> Poll<Result<usize, TransmitOutcome>> {
        let sender = &self.sender;
        // With transport errors on, the error of an earlier packet is returned here once; the
        // earlier one may have been too large, and this one not.
        let mut sent = Ok(0);
        for _ in 0..2 {
            sent = ready!(
                self.io
                    .poll_write(cx, |io| send_part(io, sender, transmit, part, size))
            );
            if sent.is_ok() {
                break;
            }
        }
        Poll::Ready(sent.map_err(|e| {
            if quinn_udp::is_msg_size_err(&e) {
                return TransmitOutcome::TooBig;
            }
            match e.kind() {
                io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
                    TransmitOutcome::Unroutable
                }
                _ => TransmitOutcome::Lost,
            }
        }))
    }

    /// Returns whether the system sends several packets as one.
    fn has_offload(&self, transmit: &Transmit) -> bool {
        transmit.route.encapsulation.is_some() && self.segments() > 1
    }

    /// Returns the limit of the packets that the system sends as one.
    fn segments(&self) -> usize {
        #[cfg(target_os = "linux")]
        let segments = self.sender.segments();
        #[cfg(not(target_os = "linux"))]
        let segments = self.sender.max_gso_segments();
        segments
    }
}

/// Sender of the packets of a socket.
#[cfg(target_os = "linux")]
type Sender = send_calls::Offload;
#[cfg(not(target_os = "linux"))]
type Sender = UdpSocketState;

/// Sends packets of `size` bytes with one call of the system. Returns the number of bytes that were sent.
fn send_part(
    io: &SystemSocket,
    sender: &Sender,
    transmit: &Transmit,
    part: &[u8],
    size: usize,
) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    let sent = send_calls::send(io, transmit, part, size, sender);
    #[cfg(not(target_os = "linux"))]
    let sent = sender
        .try_send(io.into(), &datagram(transmit, part, size))
        .map(|()| part.len());
    sent
}

/// Returns the packets of `size` bytes that the system sends with one call.
#[cfg(not(target_os = "linux"))]
fn datagram<'p>(transmit: &Transmit, part: &'p [u8], size: usize) -> quinn_udp::Transmit<'p> {
    quinn_udp::Transmit {
        destination: SocketAddr::new(
            transmit.route.remote,
            transmit.route.encapsulation.unwrap_or(0),
        ),
        ecn: to_ecn_codepoint(transmit.route.ecn),
        contents: part,
        segment_size: (part.len() > size).then_some(size),
        src_ip: None,
    }
}

fn is_udp(carrier: SocketTransport) -> bool {
    matches!(carrier, SocketTransport::Udp { .. })
}

fn open(address: IpAddr, carrier: SocketTransport, port: u16) -> io::Result<socket2::Socket> {
    open_with(address, carrier, port, |_| Ok(()))
}

/// Opens a socket, with options that are set before it is bound.
fn open_with(
    address: IpAddr,
    carrier: SocketTransport,
    port: u16,
    set_options: impl FnOnce(&socket2::Socket) -> io::Result<()>,
) -> io::Result<socket2::Socket> {
    let domain = match address {
        IpAddr::V4(_) => Domain::IPV4,
        IpAddr::V6(_) => Domain::IPV6,
    };
    let io = match carrier {
        SocketTransport::Udp { .. } => {
            socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?
        }
        SocketTransport::Raw => {
            socket2::Socket::new(domain, Type::RAW, Some(Protocol::from(IP_PROTOCOL)))?
        }
    };
    // A raw IPv6 socket is for IPv6 only anyway, and refuses the option.
    if address.is_ipv6() && is_udp(carrier) {
        io.set_only_v6(true)?;
    }
    set_options(&io)?;
    io.bind(&SocketAddr::new(address, port).into())?;
    Ok(io)
}

fn explain(address: IpAddr, carrier: SocketTransport, source: io::Error) -> BindError {
    match (source.kind(), carrier) {
        (io::ErrorKind::PermissionDenied, SocketTransport::Raw) => BindError::Privilege(address),
        (
            io::ErrorKind::PermissionDenied,
            SocketTransport::Udp {
                port: port @ 1..1024,
            },
        ) => BindError::PrivilegedPort(port),
        (io::ErrorKind::AddrInUse, SocketTransport::Udp { port }) => {
            BindError::PortTaken { address, port }
        }
        (io::ErrorKind::AddrNotAvailable, _) => BindError::NotLocal(address),
        _ => BindError::Socket {
            address,
            error: source,
        },
    }
}

fn wait_for_errors(io: &PolledSocket) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let errors = io.errors();
    Box::pin(async move {
        if errors.await.is_err() {
            // The runtime shuts down; the endpoint's task ends with it.
            std::future::pending().await
        }
    })
}

#[cfg(not(target_os = "linux"))]
fn to_ecn_codepoint(ecn: carrick_proto::Ecn) -> Option<EcnCodepoint> {
    EcnCodepoint::from_bits(ecn.bits())
}

fn from_ecn_codepoint(ecn: Option<EcnCodepoint>) -> carrick_proto::Ecn {
    use carrick_proto::Ecn;
    match ecn {
        None => Ecn::NotCapable,
        Some(EcnCodepoint::Ect0) => Ecn::Capable0,
        Some(EcnCodepoint::Ect1) => Ecn::Capable1,
        Some(EcnCodepoint::Ce) => Ecn::CongestionExperienced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_privilege_is_that_of_the_transport() {
        let explain = |carrier| {
            let denied = io::ErrorKind::PermissionDenied.into();
            explain([127, 0, 0, 1].into(), carrier, denied).to_string()
        };
        assert_eq!(
            explain(SocketTransport::Udp { port: 100 }),
            "UDP port 100 needs privileges: use 1024 or more"
        );
        assert!(explain(SocketTransport::Raw).contains("CAP_NET_RAW"));
        assert!(explain(SocketTransport::Udp { port: 2000 }).starts_with("cannot bind 127.0.0.1"));
    }

    /// More errors than are read at once, without a later one that would wake the task.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_long_error_queue_is_emptied() {
        let (socket, _) = Socket::bind(
            [127, 0, 0, 1].into(),
            SocketTransport::Udp { port: 0 },
            1 << 20,
        )
        .unwrap();
        let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = gone.local_addr().unwrap();
        drop(gone);
        // A send also reports an earlier error.
        for _ in 0..300 {
            let _ = socket.io.get().send_to(b"closed port", target);
        }
        // On loopback the ICMP messages arrive at once, or after a moment.
        std::thread::sleep(std::time::Duration::from_millis(300));
        socket.io.errors().await.unwrap();
        let mut taken = Vec::new();
        // The runtime does not poll the socket meanwhile.
        loop {
            match socket.take_errors().len() {
                0 => break,
                some => taken.push(some),
            }
        }
        assert!(taken.len() > 1, "{taken:?}");
        let (left, emptied) = errors::take(socket.io.get(), true);
        assert!(left.is_empty() && emptied, "{} left behind", left.len());
    }
}
