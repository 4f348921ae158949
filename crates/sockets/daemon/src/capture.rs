//! Captures: copies of the packets of all associations, or of some, for `carrick capture`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use carrick_ipc::{CapturedPacket, MAX_CAPTURED, Request};
use carrick_proto::{Route, Transmit};
use carrick_sockets::{AssociationAddresses, Errno, Sockets};
use rustix::io::Errno as SystemErrno;
use rustix::net::send;
use tokio::net::UnixDatagram;

use crate::connection::{ask, connection};
use crate::pair::{AT_ONCE, enlarge_send_buffer, is_hung_up, open_pair};

/// Limit of captures at a time.
const MAX_CAPTURES: usize = 8;
/// Size of the pair's buffer in bytes that is requested of the system, for a reader that is suspended for a while.
const BUFFER: usize = 4 << 20;

/// Packets that a capture selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaptureFilter {
    /// Association by its identifier (`association` in the rows of [`list`](crate::list)), with all addresses that it has
    /// meanwhile. Default: all.
    pub association: Option<i32>,
    /// SCTP port on either side. Default: all.
    pub port: Option<u16>,
}

/// Packet as the daemon has it.
pub(crate) struct DaemonPacket<'a> {
    pub(crate) is_sent: bool,
    pub(crate) route: Route,
    /// DSCP and ECN field.
    pub(crate) traffic_class: u8,
    pub(crate) bytes: &'a [u8],
}

/// All captures.
#[derive(Debug, Default)]
pub(crate) struct Captures(Vec<RunningCapture>);

#[derive(Debug)]
struct RunningCapture {
    /// End of the daemon. The reader has closed the other one when sending fails.
    ours: OwnedFd,
    filter: CaptureFilter,
    /// Last addresses of the association: it may have ended.
    known: Option<AssociationAddresses>,
    missed: u64,
}

impl Captures {
    /// Returns whether no packet is to be copied.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Passes a copy of a packet to the captures that select it.
    pub(crate) fn record(
        &mut self,
        sockets: &Sockets,
        udp_port: Option<u16>,
        packet: &DaemonPacket<'_>,
    ) {
        self.0
            .retain_mut(|capture| capture.record(sockets, udp_port, packet));
    }

    /// Passes copies of packets that were sent to the captures that select them.
    pub(crate) fn record_sent(
        &mut self,
        sockets: &Sockets,
        udp_port: Option<u16>,
        (transmit, bytes): (&Transmit, &[u8]),
    ) {
        if self.0.is_empty() {
            return;
        }
        for packet in bytes.chunks(transmit.segment_size.unwrap_or(bytes.len()).max(1)) {
            let sent = DaemonPacket {
                is_sent: true,
                route: transmit.route,
                traffic_class: transmit.traffic_class(),
                bytes: packet,
            };
            self.record(sockets, udp_port, &sent);
        }
    }

    /// Starts a capture; returns the end of the reader.
    pub(crate) fn start(&mut self, filter: CaptureFilter) -> Result<OwnedFd, Errno> {
        self.0.retain(|capture| !is_hung_up(&capture.ours));
        if self.0.len() >= MAX_CAPTURES {
            return Err(Errno::EMFILE);
        }
        let (ours, theirs) = open_pair().map_err(|_| Errno::ENOMEM)?;
        enlarge_send_buffer(&ours, BUFFER);
        self.0.push(RunningCapture {
            ours,
            filter,
            known: None,
            missed: 0,
        });
        Ok(theirs)
    }
}

impl RunningCapture {
    /// Returns false if the reader has ended.
    fn record(
        &mut self,
        sockets: &Sockets,
        udp_port: Option<u16>,
        packet: &DaemonPacket<'_>,
    ) -> bool {
        if !self.selects(sockets, packet) {
            return true;
        }
        let route = &packet.route;
        let own = route.local.map(|ip| {
            let port = route.encapsulation.and(udp_port);
            SocketAddr::new(ip, port.unwrap_or(0))
        });
        let peer = SocketAddr::new(route.remote, route.encapsulation.unwrap_or(0));
        let (source, destination) = if packet.is_sent {
            (own, Some(peer))
        } else {
            (Some(peer), own)
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let copy = CapturedPacket {
            is_sent: packet.is_sent,
            is_udp: route.encapsulation.is_some(),
            traffic_class: packet.traffic_class,
            time: since.map_or(0, |time| time.as_nanos() as u64),
            missed: self.missed,
            source,
            destination,
            packet: packet.bytes,
        };
        match send(&self.ours, &copy.encode(), AT_ONCE) {
            Ok(_) => true,
            Err(SystemErrno::AGAIN | SystemErrno::NOBUFS) => {
                self.missed += 1;
                true
            }
            Err(_) => false,
        }
    }

    fn selects(&mut self, sockets: &Sockets, packet: &DaemonPacket<'_>) -> bool {
        let port = |at: usize| {
            let part = packet.bytes.get(at..at + 2);
            part.map_or(0, |part| u16::from_be_bytes([part[0], part[1]]))
        };
        let (source, destination) = (port(0), port(2));
        let is_port = |port| source == port || destination == port;
        if !self.filter.port.is_none_or(is_port) {
            return false;
        }
        let Some(association) = self.filter.association else {
            return true;
        };
        let (local, peer) = if packet.is_sent {
            (source, destination)
        } else {
            (destination, source)
        };
        let is_of = |known: &AssociationAddresses| {
            (known.local_port, known.peer_port) == (local, peer)
                && known.peers.contains(&packet.route.remote)
        };
        if self.known.as_ref().is_some_and(is_of) {
            return true;
        }
        // The peer's addresses may have changed.
        if let Some(current) = sockets.association_addresses(association) {
            self.known = Some(current);
        }
        self.known.as_ref().is_some_and(is_of)
    }
}

/// Reader of a capture of a running daemon.
#[derive(Debug)]
pub struct Capture {
    /// Its type is that of a datagram socket, for which the runtime can wait; both keep the limits of packets.
    packets: UnixDatagram,
    buffer: Vec<u8>,
}

impl Capture {
    /// Starts a capture of packets that a daemon receives and sends from now on. Must be called in a runtime.
    ///
    /// # Errors
    /// No daemon answers; it belongs to another user (`PermissionDenied`); it has too many captures.
    pub fn start(path: &Path, filter: CaptureFilter) -> io::Result<Self> {
        let connection = connection(path)?;
        let request = Request::Capture {
            association: filter.association.unwrap_or(0),
            port: filter.port.unwrap_or(0),
        };
        let mut reply = ask(&connection, &request)?;
        let error = reply.error;
        let Some(packets) = reply.attached.pop().filter(|_| error == 0) else {
            return Err(match Errno::EMFILE.number() {
                limit if error == limit => io::Error::other("the daemon has 8 captures already"),
                _ if error == Errno::EPERM.number() => io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "only the user of the daemon and the superuser can capture",
                ),
                _ => io::Error::from_raw_os_error(error),
            });
        };
        rustix::io::ioctl_fionbio(&packets, true)?;
        Ok(Self {
            packets: UnixDatagram::from_std(packets.into())?,
            buffer: vec![0; MAX_CAPTURED],
        })
    }

    /// Waits for the next packet; `None` when the daemon has ended or was replaced. A dropped call loses none.
    ///
    /// # Errors
    /// The daemon sends something else.
    pub async fn next(&mut self) -> io::Result<Option<CapturedPacket<'_>>> {
        match self.packets.recv(&mut self.buffer).await? {
            0 => Ok(None),
            len => Ok(Some(
                CapturedPacket::decode(&self.buffer[..len]).map_err(io::Error::other)?,
            )),
        }
    }
}
