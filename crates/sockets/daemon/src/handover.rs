//! Handover to a successor: another process of the same user continues all sockets, with the descriptors of
//! programs and the sockets of the network.
//!
//! Messages that are in the kernel's pairs, and packets that have not been read, stay there, since the descriptors
//! move. The steps, between two rounds of the task, which reads and sends nothing meanwhile:
//!
//! 1. The successor requests the handover on a control connection ([`Request::TakeOver`]).
//! 2. The daemon sends its state as a file in memory, and then all descriptors.
//! 3. The successor imports the state, and acknowledges or refuses it.
//! 4. The daemon confirms the acknowledgement and ends. After a refusal, or without an answer, it continues.
//!
//! Exactly one of both serves afterwards: the successor reads nothing before the confirmation, and the daemon
//! nothing after it.
//!
//! A restart by the service manager is a handover without a moment in which both run: the daemon gives the file and
//! the descriptors to the manager and ends ([`Driver::hold`]), and its successor gets them when it starts
//! ([`continue_held`]).

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick::Transport;
use carrick::network::{InheritedKind, InheritedSocket, Network, NetworkConfig};
use carrick_ipc::{MAX_ATTACHED, Reply, Request};
use carrick_proto::export::{ExportReader, Format, Portable};
use carrick_proto::{ImportError, Time, portable_struct};
use carrick_sockets::{AssocId, Sockets};
use rustix::fs::{FileType, MemfdFlags, SealFlags, fcntl_add_seals, fstat, memfd_create};
use rustix::io::{Errno, ioctl_fionbio, pread, write};
use rustix::net::{SendFlags, sockopt};
use rustix::time::{ClockId, clock_gettime};

use crate::clients::Client;
use crate::config::Config;
use crate::connection::{PATIENCE, ReceivedReply, ask, connection, may_share, peer_of, receive};
use crate::descriptor::{Descriptor, Phase};
use crate::driver::Driver;
use crate::error::DaemonError;
use crate::metrics::MetricsServer;
use crate::pair::send_with_files;
use crate::poller::Token;
use crate::{Daemon, service};

/// Format of the daemon's state.
const FORMAT: Format = Format::new(*b"carrickd");

/// Socket of the network, without its descriptor.
struct NetworkEntry {
    kind: u8,
    address: IpAddr,
}

portable_struct! { NetworkEntry { kind, address } }

/// Control connection, without its descriptor.
struct ClientEntry {
    token: Token,
    uid: u32,
    process: i32,
}

portable_struct! { ClientEntry { token, uid, process } }

/// State of a daemon besides its descriptors, which follow in the order of the fields.
struct DaemonState {
    /// `CLOCK_MONOTONIC` at the export in nanoseconds, which both processes read.
    clock: u64,
    /// Moment of the export by the task's clock in nanoseconds.
    now: u64,
    /// Transport: UDP, plain IP, or both.
    transport: u8,
    /// UDP port.
    port: u16,
    /// The daemon has created the path of the control socket.
    owns_path: bool,
    network: Vec<NetworkEntry>,
    /// Address of the metrics.
    metrics: Option<SocketAddr>,
    next_token: u64,
    clients: Vec<ClientEntry>,
    descriptors: BTreeMap<Token, Descriptor>,
    /// For each descriptor whether the daemon has its end, and for each of its waiting frames whether a descriptor
    /// is attached.
    attached: Vec<Vec<bool>>,
    setups: Vec<AssocId>,
    /// Inode of each descriptor: a service manager keeps them in any order.
    inodes: Vec<u64>,
    sockets: Bytes,
}

portable_struct! {
    DaemonState {
        clock, now, transport, port, owns_path, network, metrics, next_token, clients, descriptors, attached, setups,
        inodes, sockets,
    }
}

/// Reason of a handover that failed, for both sides.
type Reason = String;

fn described(error: impl std::fmt::Display) -> Reason {
    error.to_string()
}

fn reason_of(reply: &ReceivedReply) -> Reason {
    String::from_utf8_lossy(&reply.value).into_owned()
}

/// Returns the transport as numbers.
fn numbers_of(transport: Transport) -> (u8, u16) {
    match transport {
        Transport::Udp { port } => (0, port),
        Transport::Raw => (1, 0),
        Transport::Both { port } => (2, port),
    }
}

fn number_of(kind: InheritedKind) -> u8 {
    match kind {
        InheritedKind::Udp => 0,
        InheritedKind::Raw => 1,
        InheritedKind::Claim => 2,
    }
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Makes calls on a connection block, with a time limit.
fn limit_waiting(connection: &OwnedFd, limit: Option<Duration>) -> rustix::io::Result<()> {
    ioctl_fionbio(connection, false)?;
    sockopt::set_socket_timeout(connection, sockopt::Timeout::Recv, limit)?;
    sockopt::set_socket_timeout(connection, sockopt::Timeout::Send, limit)
}

fn send_with(
    connection: &OwnedFd,
    reply: &Reply<'_>,
    attached: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let bytes = reply.encode();
    send_with_files(
        connection,
        &[IoSlice::new(&bytes)],
        attached,
        SendFlags::NOSIGNAL,
    )
}

/// Returns a file in memory with this content, sealed against changes.
fn sealed(content: &[u8]) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create(
        "carrick-handover",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = write(&file, rest)?;
        rest = &rest[written..];
    }
    fcntl_add_seals(
        &file,
        SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
    )?;
    Ok(file)
}

fn content(file: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let size = usize::try_from(fstat(file)?.st_size).map_err(|_| Errno::FBIG)?;
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match pread(file, &mut bytes[done..], done as u64)? {
            0 => return Err(Errno::IO),
            len => done += len,
        }
    }
    Ok(bytes)
}

impl Driver {
    /// Returns the reason why a process of this user cannot take over now.
    pub(crate) fn refuses_handover(&self, uid: u32) -> Option<&'static str> {
        if !may_share(uid) {
            return Some("only the user of the daemon and the superuser can take over");
        }
        if self.ends.is_some() {
            return Some("the daemon is ending");
        }
        self.successor
            .is_some()
            .then_some("another process is taking over")
    }

    /// Hands over to the process on a control connection. Returns its process id if it has taken over.
    pub(crate) fn hand_over(&mut self, now: Time, client: &Client) -> Option<u32> {
        let process = client.process as u32;
        match self.try_hand_over(now, &client.connection) {
            Ok(()) => Some(process),
            Err(reason) => {
                (self.config.log)(&format!(
                    "process {process} has not taken over: {reason}; the daemon continues"
                ));
                None
            }
        }
    }

    fn try_hand_over(&mut self, now: Time, connection: &OwnedFd) -> Result<(), Reason> {
        limit_waiting(connection, Some(PATIENCE)).map_err(described)?;
        // They are renewed, with the daemon that then serves.
        self.end_leases(now);
        let refuse = |reason: Reason| {
            let reply = Reply {
                error: Errno::CANCELED.raw_os_error(),
                value: reason.as_bytes(),
                ..Reply::default()
            };
            // The reason is reported here as well.
            let _ = send_with(connection, &reply, &[]);
            reason
        };
        let network = self.network.duplicate().map_err(described);
        let network = network.map_err(refuse)?;
        let state = self.export(now, &network).map_err(refuse)?;
        let file = sealed(&state).map_err(described).map_err(refuse)?;
        drop(state);
        let all = self.held_descriptors(&network);
        let reply = Reply {
            result: all.len() as i32,
            ..Reply::default()
        };
        send_with(connection, &reply, &[file.as_fd()]).map_err(described)?;
        for part in all.chunks(MAX_ATTACHED) {
            send_with(connection, &Reply::default(), part).map_err(described)?;
        }
        let acknowledged = receive(connection).map_err(described)?;
        if acknowledged.error != 0 {
            return Err(reason_of(&acknowledged));
        }
        send_with(connection, &Reply::default(), &[]).map_err(described)
    }

    /// Gives all sockets to the service manager, for the next process of the service.
    ///
    /// # Errors
    /// The reason; this daemon still has everything.
    pub(crate) fn hold(&mut self, now: Time) -> Result<(), Reason> {
        self.end_leases(now);
        let network = self.network.duplicate().map_err(described)?;
        let file = sealed(&self.export(now, &network)?).map_err(described)?;
        let mut all = self.held_descriptors(&network);
        all.push(file.as_fd());
        service::hold(&all).map_err(described)
    }

    fn export(&mut self, now: Time, network: &[InheritedSocket]) -> Result<Vec<u8>, Reason> {
        let exported = self.sockets.export(now).map_err(described)?;
        let (transport, port) = numbers_of(self.transport());
        let held = self.held_descriptors(network);
        let inodes = held.iter().map(|fd| fstat(fd).map(|file| file.st_ino));
        let inodes = inodes.collect::<Result<_, _>>().map_err(described)?;
        let since = self.now().as_nanos().saturating_sub(now.as_nanos());
        // Moved for the export, and back again.
        let descriptors = std::mem::take(&mut self.descriptors);
        let attached = descriptors.values();
        let attached = attached.map(|d| d.files().map(|file| file.is_some()).collect());
        let network = network.iter().map(|socket| NetworkEntry {
            kind: number_of(socket.kind),
            address: socket.address,
        });
        let clients = self.clients.iter().map(|(token, client)| ClientEntry {
            token: *token,
            uid: client.uid,
            process: client.process,
        });
        let state = DaemonState {
            clock: clock().saturating_sub(since),
            now: now.as_nanos(),
            transport,
            port,
            owns_path: self.owns_path,
            network: network.collect(),
            metrics: self.metrics.as_ref().map(|(address, _)| *address),
            next_token: self.poller.next_token(),
            clients: clients.collect(),
            attached: attached.collect(),
            descriptors,
            setups: self.setups.keys().copied().collect(),
            inodes,
            sockets: exported.into_bytes().into(),
        };
        let bytes = FORMAT.export(now, |out| state.write(out));
        self.descriptors = state.descriptors;
        bytes.map_err(described)
    }

    /// Returns all descriptors, in the order of the fields of [`DaemonState`].
    fn held_descriptors<'a>(&'a self, network: &'a [InheritedSocket]) -> Vec<BorrowedFd<'a>> {
        let mut all = vec![self.control.as_fd(), self.open_ends.as_fd()];
        all.extend(network.iter().map(|socket| socket.descriptor.as_fd()));
        all.extend(self.metrics.iter().map(|(_, listener)| listener.as_fd()));
        all.extend(self.clients.values().map(|c| c.connection.as_fd()));
        for descriptor in self.descriptors.values() {
            all.extend(descriptor.files().flatten().map(|file| file.as_fd()));
        }
        all.extend(self.setups.values().map(|(_, fd)| fd.as_fd()));
        all
    }

    /// Continues the clients and descriptors of the predecessor. All of them are served in the first round.
    fn resume(
        &mut self,
        state: DaemonState,
        inherited: &mut VecDeque<OwnedFd>,
    ) -> Result<(), Reason> {
        let DaemonState {
            next_token,
            clients,
            descriptors,
            attached,
            setups,
            ..
        } = state;
        let mut take = || inherited.pop_front().ok_or_else(incomplete);
        self.poller.continue_tokens(next_token);
        let is_known = |token: &Token| (1..next_token).contains(&token.0);
        let tokens = clients.iter().map(|client| &client.token);
        if !tokens.chain(descriptors.keys()).all(is_known) || attached.len() != descriptors.len() {
            return Err(incomplete());
        }
        for ClientEntry {
            token,
            uid,
            process,
        } in clients
        {
            let connection = take()?;
            self.poller
                .watch_as(&connection, token)
                .map_err(described)?;
            self.users.add_client(uid);
            let client = Client {
                connection,
                uid,
                process,
                is_refused: false,
            };
            self.clients.insert(token, client);
        }
        for ((token, mut descriptor), attached) in descriptors.into_iter().zip(attached) {
            for (slot, is_attached) in descriptor.files_mut().zip(attached) {
                if is_attached {
                    *slot = Some(take()?);
                }
            }
            if let Some(ours) = descriptor.ours() {
                self.poller.watch_as(ours, token).map_err(described)?;
            }
            if descriptor.is_ended() {
                self.ended.insert(token);
            } else {
                descriptor.incoming.set_readable(true);
            }
            if !matches!(descriptor.phase(), Phase::Broken(_)) {
                self.by_socket.insert(descriptor.socket(), token);
            }
            self.by_cookie.insert(descriptor.cookie(), token);
            self.users.add_descriptor(descriptor.uid());
            self.ready.insert(token);
            self.descriptors.insert(token, descriptor);
        }
        for association in setups {
            // The user matters where pairs pass files alone.
            self.setups.insert(association, (0, take()?));
            self.users.add_setup();
        }
        self.users.count_files();
        self.schedule_check(self.now());
        Ok(())
    }
}

fn incomplete() -> Reason {
    "the number of passed descriptors does not match the exported state".into()
}

/// Requests a handover from the daemon on a control socket. Returns the daemon that continues, or the reason of the
/// failure, which the predecessor has got as well.
pub(crate) fn take_over(config: Config) -> Result<Daemon, DaemonError> {
    let path = config.socket.clone();
    try_take_over(config).map_err(|reason| DaemonError::NotTakenOver { path, reason })
}

fn try_take_over(config: Config) -> Result<Daemon, Reason> {
    let connection = connected(&config.socket)?;
    limit_waiting(&connection, Some(PATIENCE)).map_err(described)?;
    let reply = ask(&connection, &Request::TakeOver).map_err(described)?;
    if reply.error != 0 {
        return Err(reason_of(&reply));
    }
    let [state] = <[OwnedFd; 1]>::try_from(reply.attached).map_err(|_| incomplete())?;
    let taken = receive_all(&connection, reply.result as usize);
    match taken.and_then(|inherited| continued(config, read(&state)?, inherited)) {
        Ok(daemon) => {
            send_with(&connection, &Reply::default(), &[]).map_err(described)?;
            // The predecessor has stopped waiting if the connection ends.
            limit_waiting(&connection, None).map_err(described)?;
            receive(&connection).map_err(described)?;
            Ok(daemon)
        }
        Err(reason) => {
            let reply = Reply {
                error: Errno::CANCELED.raw_os_error(),
                value: reason.as_bytes(),
                ..Reply::default()
            };
            // The predecessor may have ended.
            let _ = send_with(&connection, &reply, &[]);
            Err(reason)
        }
    }
}

fn connected(path: &Path) -> Result<OwnedFd, Reason> {
    let connection = connection(path).map_err(|error: io::Error| {
        format!("no daemon answers ({error}); start one without --take-over")
    })?;
    let (uid, _) = peer_of(&connection).map_err(described)?;
    if !may_share(uid) {
        return Err("it belongs to another user".into());
    }
    Ok(connection)
}

fn receive_all(connection: &OwnedFd, count: usize) -> Result<VecDeque<OwnedFd>, Reason> {
    let mut all = VecDeque::new();
    while all.len() < count {
        let attached = receive(connection).map_err(described)?.attached;
        if attached.is_empty() {
            return Err(format!(
                "{} of {count} descriptors were received; raise the limit of file descriptors (ulimit -n)",
                all.len()
            ));
        }
        all.extend(attached);
    }
    Ok(all)
}

/// Returns the daemon that continues what the service manager held for its predecessor.
///
/// # Errors
/// The reason; the descriptors are closed.
pub(crate) fn continue_held(config: Config, held: Vec<OwnedFd>) -> Result<Daemon, Reason> {
    let mut state = None;
    let mut by_inode = BTreeMap::new();
    for descriptor in held {
        let file = fstat(&descriptor).map_err(described)?;
        if FileType::from_raw_mode(file.st_mode) == FileType::RegularFile {
            state = Some(read(&descriptor)?);
        } else {
            by_inode.insert(file.st_ino, descriptor);
        }
    }
    let state = state.ok_or("the exported state is missing")?;
    let inodes = state.inodes.iter();
    let inherited: Option<_> = inodes.map(|inode| by_inode.remove(inode)).collect();
    continued(config, state, inherited.ok_or_else(incomplete)?)
}

/// Returns the daemon with the state and the descriptors of its predecessor. Nothing is read or sent yet.
///
/// 1. Compare the transport with the configuration.
/// 2. Continue the clock, so that all timers keep their times.
/// 3. Continue the sockets of the network, those of programs, and the metrics.
/// 4. Continue clients and descriptors.
fn continued(
    mut config: Config,
    mut state: DaemonState,
    mut inherited: VecDeque<OwnedFd>,
) -> Result<Daemon, Reason> {
    // 1
    let (transport, port) = numbers_of(config.transport);
    if transport != state.transport || ![0, state.port].contains(&port) {
        return Err(
            "the transport or the UDP port in its configuration differs, which takes a restart"
                .into(),
        );
    }
    config.transport = match transport {
        0 => Transport::Udp { port: state.port },
        1 => Transport::Raw,
        _ => Transport::Both { port: state.port },
    };
    // 2
    let since =
        Duration::from_nanos(state.now) + Duration::from_nanos(clock().saturating_sub(state.clock));
    let epoch = Instant::now().checked_sub(since);
    let epoch = epoch.ok_or("the clock is not that of the predecessor")?;
    // 3
    let mut take = || inherited.pop_front().ok_or_else(incomplete);
    let control = take()?;
    let open_ends = take()?;
    let mut sockets = Vec::new();
    for NetworkEntry { kind, address } in std::mem::take(&mut state.network) {
        sockets.push(InheritedSocket {
            kind: match kind {
                0 => InheritedKind::Udp,
                1 => InheritedKind::Raw,
                _ => InheritedKind::Claim,
            },
            address,
            descriptor: take()?,
        });
    }
    let mut network = NetworkConfig::new(config.transport);
    network.addresses.clone_from(&config.addresses);
    let network = Network::adopt(network, sockets).map_err(described)?;
    let listener = match state.metrics {
        Some(address) => Some((address, take()?)),
        None => None,
    };
    let metrics = match (config.metrics, listener) {
        (Some(wanted), Some((address, listener)))
            if wanted == address || (wanted.ip(), wanted.port()) == (address.ip(), 0) =>
        {
            Some(MetricsServer::adopt(listener).map_err(described)?)
        }
        (Some(wanted), _) => Some(MetricsServer::bind(wanted).map_err(described)?),
        (None, _) => None,
    };
    let now = Time::from_nanos(state.now);
    let parameters = config.of_sockets(Vec::new(), [0; 32]);
    let sockets = Sockets::import(parameters, now, &state.sockets).map_err(described)?;
    state.sockets = Bytes::new();
    // 4
    let socket = config.socket.clone();
    let owns_path = state.owns_path;
    let driver = Driver::new(config, network, sockets, control).map_err(described)?;
    let mut driver = Box::new(driver.with_epoch(epoch));
    driver.open_ends = open_ends;
    driver.resume(state, &mut inherited)?;
    if !inherited.is_empty() {
        return Err(incomplete());
    }
    driver.owns_path = owns_path;
    Ok(Daemon::new(driver, socket, metrics, true))
}

/// Reads the state in a file.
fn read(file: &OwnedFd) -> Result<DaemonState, Reason> {
    let bytes = content(file).map_err(described)?;
    decoded(&bytes).map_err(described)
}

fn decoded(bytes: &[u8]) -> Result<DaemonState, ImportError> {
    let mut input = FORMAT.open(bytes, Time::ZERO, None)?;
    let state = DaemonState::read(&mut input)?;
    input.finish()?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use carrick_proto::export::{ExportWriter, OLDEST_VERSION, VERSION};

    use super::*;

    #[test]
    fn damaged_states_and_other_versions_are_refused() {
        let refused = |bytes: &[u8]| decoded(bytes).map(drop).unwrap_err();
        assert_eq!(refused(b"state"), ImportError::NoExport);
        let mut other = FORMAT
            .export(Time::ZERO, |_: &mut ExportWriter| {})
            .unwrap();
        let found = VERSION + 1;
        other[8..10].copy_from_slice(&found.to_be_bytes());
        let version = ImportError::Version {
            found,
            oldest: OLDEST_VERSION,
            latest: VERSION,
        };
        assert_eq!(refused(&other), version);
        let mut damaged = FORMAT.export(Time::ZERO, |out| out.raw(&[0; 9])).unwrap();
        assert!(matches!(refused(&damaged), ImportError::Malformed(_)));
        damaged[20] ^= 1;
        assert_eq!(refused(&damaged), ImportError::Damaged);
    }

    /// Checksum of all lists of fields, which changes with the version of [`FORMAT`].
    const LAYOUT: u32 = 0x5e0a_7058;

    #[test]
    fn version_stands_for_the_layout() {
        let sources = [
            include_str!("handover.rs"),
            include_str!("descriptor/mod.rs"),
            include_str!("descriptor/incoming.rs"),
            include_str!("descriptor/outgoing.rs"),
            include_str!("descriptor/phase.rs"),
            include_str!("poller.rs"),
        ];
        let mut lists = Vec::new();
        for text in sources {
            for begin in [
                "\nportable_struct! {",
                "\nportable_tuple! {",
                "\nportable_enum! {",
            ] {
                for list in text.split(begin).skip(1) {
                    let ends = ["\n}\n", " }\n"].iter().filter_map(|end| list.find(end));
                    let words = list[..ends.min().unwrap()].split_whitespace();
                    lists.push(words.collect::<Vec<_>>().join(" "));
                }
            }
        }
        assert_eq!(lists.len(), 11);
        let sum = carrick_wire::crc32c(lists.join("\n").as_bytes());
        assert_eq!(
            sum, LAYOUT,
            "the exported state changed: set LAYOUT to {sum:#x}, and follow the same test of carrick-proto (export/tests.rs)"
        );
    }
}
