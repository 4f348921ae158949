//! SCTP port that a daemon leases to this process, with a share of its UDP port ([`carrick_ipc::LeaseFrame`]).
//!
//! The daemon ends all leases when it ends or hands over. The lease is then renewed: protocol state is in this
//! process, so that associations continue, and packets that were lost meanwhile are retransmitted.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram as StdDatagram;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use carrick_ipc::{LEASE_FIELDS, LeaseFrame, LeaseFrameKind, LeaseGrant, MAX_LEASED, MAX_REPLY};
use carrick_ipc::{Reply, Request};
use carrick_proto::{Ecn, IcmpInput, IcmpKind, Route, Transmit};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, recvmsg, send, sendmsg,
    socket_with, sockopt,
};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::time::Instant;

use super::{BATCHES, NetworkInput};
use crate::config::Transport;
use crate::error::BindError;
use crate::socket::{Segments, TransmitOutcome};

/// Limit of the time in which a daemon answers, and in which a lease is renewed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between attempts to renew a lease.
const RETRY: Duration = Duration::from_millis(100);
/// Maximum number of bytes queued while the pair has no room; further packets are dropped.
const MAX_QUEUED: usize = 1 << 20;

/// A lease that was granted: the pair, and what was leased.
type Granted = (OwnedFd, LeaseGrant);

/// Leased port.
pub(crate) struct LeasedPort {
    daemon: PathBuf,
    /// Addresses of the request, with the port.
    wanted: Vec<SocketAddr>,
    grant: LeaseGrant,
    /// Its type is that of datagram sockets, for which the runtime can wait; both keep the limits of packets.
    pair: UnixDatagram,
    buffer: Vec<u8>,
    /// Frames that wait for room.
    queue: VecDeque<Vec<u8>>,
    queued: usize,
    renewal: Option<Renewal>,
    failure: Option<String>,
    pub(crate) unsendable: u64,
}

type Renewal = Pin<Box<dyn Future<Output = Result<(UnixDatagram, LeaseGrant), String>> + Send>>;

impl LeasedPort {
    /// Requests a lease of an SCTP port at these addresses, none for all. Blocks until the daemon answers.
    pub(crate) fn request(
        daemon: &Path,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<Self, BindError> {
        let refused = |reason: String| BindError::NotLeased {
            daemon: daemon.display().to_string(),
            port,
            reason,
        };
        let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), [0; 4].into()];
        let addresses = if addresses.is_empty() {
            &any
        } else {
            addresses
        };
        let mut wanted: Vec<_> = addresses
            .iter()
            .map(|ip| SocketAddr::new(*ip, port))
            .collect();
        let granted = connection(daemon, SocketFlags::CLOEXEC).and_then(|connection| {
            let limit = Some(PATIENCE);
            sockopt::set_socket_timeout(&connection, sockopt::Timeout::Recv, limit)?;
            ask(&connection, &wanted)?;
            answer(&connection)
        });
        let (pair, grant) = granted.map_err(|error| refused(described(&error)))?;
        for address in &mut wanted {
            address.set_port(grant.port);
        }
        if grant.udp_port.is_none() && !grant.has_plain_ip {
            let reason = "it carries SCTP on plain IP alone, for root and its own user";
            return Err(refused(reason.into()));
        }
        Ok(Self {
            daemon: daemon.into(),
            wanted,
            grant,
            pair: registered(pair).map_err(|error| refused(error.to_string()))?,
            buffer: vec![0; LEASE_FIELDS + MAX_LEASED],
            queue: VecDeque::new(),
            queued: 0,
            renewal: None,
            failure: None,
            unsendable: 0,
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.grant.port
    }

    pub(crate) fn addresses(&self) -> &[IpAddr] {
        &self.grant.addresses
    }

    pub(crate) fn transport(&self) -> Transport {
        match (self.grant.udp_port, self.grant.has_plain_ip) {
            (Some(port), false) => Transport::Udp { port },
            (Some(port), true) => Transport::Both { port },
            (None, _) => Transport::Raw,
        }
    }

    /// Returns why the lease has ended for good.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Adds an address of the host, which the lease has already if it is one of all addresses.
    pub(crate) fn add(&mut self, address: IpAddr) -> Result<(), BindError> {
        let covers = |wanted: &SocketAddr| {
            let any = wanted.ip().is_unspecified();
            wanted.ip() == address || any && wanted.is_ipv4() == address.is_ipv4()
        };
        if !self.wanted.iter().any(covers) {
            let error = io::Error::other("the daemon has leased the port for other addresses");
            return Err(BindError::Socket { address, error });
        }
        if !self.grant.addresses.contains(&address) {
            self.grant.addresses.push(address);
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, address: IpAddr) {
        self.grant.addresses.retain(|other| *other != address);
    }

    /// Reads packets and ICMP messages, a bounded number. Returns true if more may wait.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(NetworkInput<'_>),
    ) -> bool {
        if self.failure.is_some() || self.poll_renewal(cx).is_pending() {
            return false;
        }
        let mut batches = 0;
        while batches < BATCHES {
            match self.pair.poll_recv_ready(cx) {
                Poll::Ready(Ok(())) => {}
                // An error: the runtime shuts down.
                Poll::Pending | Poll::Ready(Err(_)) => return false,
            }
            let read = self.pair.try_io(Interest::READABLE, || {
                let read = recv(&self.pair, &mut self.buffer[..], RecvFlags::DONTWAIT);
                read.map(|(len, _)| len).map_err(io::Error::from)
            });
            batches += 1;
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => batches -= 1,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => {
                    self.renew();
                    return true;
                }
                Ok(len) => pass_on(&self.buffer[..len], &mut take),
            }
        }
        true
    }

    /// Sends packets to the daemon, or queues them until the pair has room.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        transmit: &Transmit,
        bytes: &[u8],
    ) -> TransmitOutcome {
        let mut sent = TransmitOutcome::Done;
        for (fields, part) in frames(transmit, bytes) {
            let mut outcome = Poll::Pending;
            if self.queue.is_empty() {
                outcome = self.poll_send(cx, &fields, part);
            }
            match outcome {
                Poll::Ready(true) => {}
                Poll::Pending if self.queued + part.len() <= MAX_QUEUED => {
                    self.queued += part.len();
                    self.queue.push_back([&fields, part].concat());
                }
                Poll::Ready(false) | Poll::Pending => {
                    self.unsendable += 1;
                    sent = TransmitOutcome::Lost;
                }
            }
        }
        sent
    }

    /// Sends as much as the pair accepts at once, without the runtime.
    pub(crate) fn send_at_once(&mut self, transmit: &Transmit, bytes: &[u8]) {
        self.queued = 0;
        for frame in std::mem::take(&mut self.queue) {
            // Lost, as on the network.
            let _ = send_parts(&self.pair, &frame, &[]);
        }
        for (fields, part) in frames(transmit, bytes) {
            let _ = send_parts(&self.pair, &fields, part);
        }
    }

    /// Sends queued packets. Returns true if none is left.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(frame) = self.queue.pop_front() {
            if self.poll_send(cx, &frame, &[]).is_pending() {
                self.queue.push_front(frame);
                return false;
            }
            self.queued -= frame.len() - LEASE_FIELDS;
        }
        true
    }

    /// Sends a frame; false if the daemon has ended the lease.
    fn poll_send(&mut self, cx: &mut Context<'_>, fields: &[u8], part: &[u8]) -> Poll<bool> {
        if self.renewal.is_some() || self.failure.is_some() {
            return Poll::Ready(false);
        }
        loop {
            if ready!(self.pair.poll_send_ready(cx)).is_err() {
                return Poll::Ready(false);
            }
            let send = || send_parts(&self.pair, fields, part).map_err(io::Error::from);
            match self.pair.try_io(Interest::WRITABLE, send) {
                Ok(()) => return Poll::Ready(true),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The next read detects the end of the lease.
                Err(_) => return Poll::Ready(false),
            }
        }
    }

    fn renew(&mut self) {
        self.queue.clear();
        self.queued = 0;
        let renewal = renewed(self.daemon.clone(), self.wanted.clone());
        self.renewal = Some(Box::pin(renewal));
    }

    /// Ready if the lease is in force.
    fn poll_renewal(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(renewal) = &mut self.renewal else {
            return Poll::Ready(());
        };
        let result = ready!(renewal.as_mut().poll(cx));
        self.renewal = None;
        let reason = match result {
            Ok((pair, grant)) if grant.udp_port == self.grant.udp_port => {
                self.pair = pair;
                self.grant.has_plain_ip = grant.has_plain_ip;
                return Poll::Ready(());
            }
            Ok(_) => "its successor has another UDP port".into(),
            Err(reason) => reason,
        };
        self.failure = Some(format!(
            "the daemon on {} has ended, and with it the lease of SCTP port {}: {reason}",
            self.daemon.display(),
            self.grant.port
        ));
        Poll::Pending
    }
}

/// Splits packets into frames: their fields and their bytes.
fn frames<'p>(
    transmit: &Transmit,
    bytes: &'p [u8],
) -> impl Iterator<Item = ([u8; LEASE_FIELDS], &'p [u8])> + use<'p> {
    let route = transmit.route;
    let size = transmit.segment_size.unwrap_or(bytes.len()).max(1);
    let frame = LeaseFrame {
        kind: LeaseFrameKind::Packets {
            traffic_class: transmit.traffic_class(),
            segment_size: transmit.segment_size.map_or(0, |size| size as u32),
            may_fragment: transmit.may_fragment,
            is_probe: transmit.probe,
        },
        local: route.local,
        remote: SocketAddr::new(route.remote, route.encapsulation.unwrap_or(0)),
        bytes: &[],
    };
    let fields = frame.fields();
    let at_once = (MAX_LEASED / size).max(1) * size;
    bytes.chunks(at_once).map(move |part| (fields, part))
}

/// Passes the packets or the ICMP message of a frame on. The daemon sends nothing else.
fn pass_on(frame: &[u8], take: &mut impl FnMut(NetworkInput<'_>)) {
    let Ok(frame) = LeaseFrame::decode(frame) else {
        return;
    };
    let remote = frame.remote.ip();
    let encapsulation = Some(frame.remote.port()).filter(|port| *port != 0);
    let kind = match frame.kind {
        LeaseFrameKind::Packets {
            traffic_class,
            segment_size,
            ..
        } => {
            let route = Route {
                local: frame.local,
                remote,
                encapsulation,
                ecn: Ecn::from_bits(traffic_class),
            };
            let size = match segment_size as usize {
                0 => frame.bytes.len(),
                size => size,
            };
            let mut packets = Segments::new(frame.bytes, size);
            return take(NetworkInput::Packets(&route, &mut packets));
        }
        LeaseFrameKind::TooBig { mtu } => IcmpKind::PacketTooBig { mtu: mtu as usize },
        LeaseFrameKind::ProtocolUnreachable => IcmpKind::ProtocolUnreachable,
        LeaseFrameKind::PortUnreachable => IcmpKind::PortUnreachable,
        LeaseFrameKind::DestinationUnreachable => IcmpKind::DestinationUnreachable,
    };
    take(NetworkInput::Icmp(IcmpInput {
        kind,
        remote,
        encapsulation,
        quoted: frame.bytes,
    }));
}

fn send_parts(pair: impl AsFd, fields: &[u8], part: &[u8]) -> rustix::io::Result<()> {
    let parts = [IoSlice::new(fields), IoSlice::new(part)];
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(pair, &parts, &mut SendAncillaryBuffer::default(), flags).map(drop)
}

/// Requests the lease until it is granted, or until the limit of the time.
async fn renewed(
    daemon: PathBuf,
    wanted: Vec<SocketAddr>,
) -> Result<(UnixDatagram, LeaseGrant), String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let attempt = tokio::time::timeout_at(end, attempt(&daemon, &wanted)).await;
        let silent = || Err(io::ErrorKind::TimedOut.into());
        match attempt.unwrap_or_else(|_| silent()) {
            Ok((pair, grant)) => {
                let pair = registered(pair).map_err(|error| error.to_string())?;
                return Ok((pair, grant));
            }
            Err(error) if Instant::now() + RETRY >= end => {
                let reason = described(&error);
                return Err(format!("not renewed in {} s: {reason}", PATIENCE.as_secs()));
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Requests the lease once, without blocking the task.
async fn attempt(daemon: &Path, wanted: &[SocketAddr]) -> io::Result<Granted> {
    let connection = registered(connection(
        daemon,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
    )?)?;
    ask(&connection, wanted)?;
    let answered = || answer(&connection);
    connection.async_io(Interest::READABLE, answered).await
}

/// Adds a socket to the runtime.
fn registered(socket: OwnedFd) -> io::Result<UnixDatagram> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    UnixDatagram::from_std(StdDatagram::from(socket))
}

fn connection(daemon: &Path, flags: SocketFlags) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(daemon)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}

fn ask(connection: impl AsFd, wanted: &[SocketAddr]) -> io::Result<()> {
    let addresses: Vec<u8> = wanted.iter().flat_map(|a| packed(*a)).collect();
    let request = Request::Lease {
        addresses: &addresses,
    };
    send(connection, &request.encode().0, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Returns an address as `sockaddr_in` or `sockaddr_in6`.
fn packed(address: SocketAddr) -> Vec<u8> {
    let mut bytes = carrick_ipc::address_bytes(Some(address)).to_vec();
    if address.is_ipv4() {
        bytes.truncate(16);
    }
    bytes
}

/// Reads the answer of the daemon.
fn answer(connection: impl AsFd) -> io::Result<Granted> {
    let mut buffer = vec![0; MAX_REPLY];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let received = loop {
        match recvmsg(
            &connection,
            &mut parts,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    let reply = Reply::decode(&buffer[..received.bytes]);
    let reply = reply.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))?;
    if reply.error != 0 {
        return Err(io::Error::from_raw_os_error(reply.error));
    }
    let pair = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let grant = LeaseGrant::decode(reply.value).ok().zip(pair);
    let (grant, pair) = grant.ok_or(io::ErrorKind::ConnectionAborted)?;
    Ok((pair, grant))
}

/// Returns the reason of a refusal, and the remedy.
fn described(error: &io::Error) -> String {
    let known = match error.kind() {
        io::ErrorKind::AddrInUse => "another program has the port: stop it, or use another port",
        io::ErrorKind::PermissionDenied => {
            "the port needs root, or the control socket is another user's"
        }
        io::ErrorKind::AddrNotAvailable => "an address is not the daemon's, or no port is free",
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "no daemon answers",
        io::ErrorKind::ConnectionAborted => {
            "it does not answer this request: is it older than this program?"
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer",
        _ => return error.to_string(),
    };
    known.into()
}
