//! Another stack by its address: packets in UDP (RFC 6951), or on IP protocol 132.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick::BindError;
use carrick_script::{PeerAction, PeerRun, Script, ScriptOutcome};
use socket2::{Domain, Protocol, Socket, Type};

use super::Arguments;
use crate::failure::Failure;

/// IP protocol number of SCTP.
const IP_PROTOCOL: i32 = 132;
/// SCTP port of a script behind the highest port.
const LOWEST_PORT: u16 = 20_000;
/// Number of ports from which the first one is taken on plain IP.
const FIRST_PORTS: u32 = 20_000;
/// Limit of one wait for a packet.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// Limit of a datagram in bytes.
const MAX_DATAGRAM: usize = 65_535;

/// Another stack.
pub(super) struct Peer {
    socket: Socket,
    is_raw: bool,
    stack: SocketAddr,
    tolerance: Duration,
    /// Port of the next script, since no two scripts may share an association.
    port: u16,
}

impl Peer {
    pub(super) fn new(stack: SocketAddr, arguments: &Arguments) -> Result<Self, Failure> {
        let opened = if arguments.raw {
            open_raw(stack.ip()).map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => BindError::Privilege(stack.ip()).to_string(),
                _ => format!("cannot reach {} on IP protocol 132: {error}", stack.ip()),
            })
        } else {
            let remote = SocketAddr::new(stack.ip(), arguments.udp);
            open_udp(remote).map_err(|e| format!("cannot reach UDP port {remote}: {e}"))
        };
        let (socket, port) = opened.map_err(Failure::Run)?;
        Ok(Self {
            socket,
            is_raw: arguments.raw,
            stack,
            tolerance: arguments.tolerance,
            port,
        })
    }

    /// Runs a script, or returns the reason why it is skipped.
    pub(super) fn run(
        &mut self,
        script: &Script,
    ) -> Result<Result<ScriptOutcome, String>, Failure> {
        let stack = (self.stack.ip(), self.stack.port());
        let port = self.port;
        let mut run = match PeerRun::new(script, stack, port, self.tolerance) {
            Ok(run) => run,
            Err(reason) => return Ok(Err(reason)),
        };
        self.port = port.checked_add(1).unwrap_or(LOWEST_PORT);
        let failed = |e| Failure::Run(format!("cannot send or receive packets: {e}"));
        let started = Instant::now();
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            let now = started.elapsed();
            match run.next_action(now) {
                PeerAction::Send(packet) => {
                    self.socket.send(&packet).map_err(failed)?;
                }
                PeerAction::WaitUntil(time) => {
                    // Zero would be no limit, and the system extends long ones by an eighth.
                    let wait = time.saturating_sub(now);
                    let wait = wait.clamp(Duration::from_micros(1), LONGEST_WAIT);
                    self.socket.set_read_timeout(Some(wait)).map_err(failed)?;
                    if let Some(packet) = self.receive(&mut buffer, port).map_err(failed)? {
                        run.handle_packet(started.elapsed(), packet);
                    }
                }
                PeerAction::Finished(outcome) => {
                    if let Some(abort) = run.abort() {
                        self.socket.send(&abort).map_err(failed)?;
                    }
                    return Ok(Ok(*outcome));
                }
            }
        }
    }

    /// Waits for an SCTP packet to a port; returns none at the end of the wait, or if the datagram is another one.
    fn receive(&self, buffer: &mut [u8], port: u16) -> io::Result<Option<Bytes>> {
        let len = match (&self.socket).read(buffer) {
            Ok(len) => len,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let datagram = &buffer[..len];
        let packet = if self.is_raw && self.stack.is_ipv4() {
            behind_ip_header(datagram)
        } else {
            datagram
        };
        // Packets of earlier scripts go to other ports, and on plain IP those of other programs.
        let is_own = packet.get(2..4) == Some(&port.to_be_bytes()[..])
            && packet.get(..2) == Some(&self.stack.port().to_be_bytes()[..]);
        Ok(is_own.then(|| Bytes::copy_from_slice(packet)))
    }
}

/// Returns the payload of a datagram of IPv4, which a raw socket delivers with its header.
fn behind_ip_header(datagram: &[u8]) -> &[u8] {
    let words = datagram.first().map_or(0, |first| first & 0x0F);
    datagram.get(4 * usize::from(words)..).unwrap_or_default()
}

fn domain(address: IpAddr) -> Domain {
    match address {
        IpAddr::V4(_) => Domain::IPV4,
        IpAddr::V6(_) => Domain::IPV6,
    }
}

/// Opens a UDP socket for the stack. The first SCTP port is the UDP port, which no other run has at the same time.
fn open_udp(remote: SocketAddr) -> io::Result<(Socket, u16)> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let socket = Socket::new(domain(remote.ip()), Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind(&SocketAddr::new(any, 0).into())?;
    socket.connect(&remote.into())?;
    let local = socket.local_addr()?.as_socket();
    Ok((socket, local.map_or(LOWEST_PORT, |local| local.port())))
}

/// Opens a raw socket for the stack. Another run at the same time has another process number, and so probably another
/// first port.
fn open_raw(stack: IpAddr) -> io::Result<(Socket, u16)> {
    let protocol = Protocol::from(IP_PROTOCOL);
    let socket = Socket::new(domain(stack), Type::RAW, Some(protocol))?;
    socket.connect(&SocketAddr::new(stack, 0).into())?;
    let offset = std::process::id() % FIRST_PORTS;
    Ok((socket, LOWEST_PORT + offset as u16))
}
