//! Handover to a successor: another process of the same user continues all sockets, with the descriptors of
//! programs and the sockets of the network.
//!
//! Messages that are in the kernel's pairs, and packets that have not been read, stay there, since the descriptors
//! move. The steps, between two rounds of the task, which reads and sends nothing meanwhile:
//!
//! 1. The successor requests the handover on a control connection ([`carrick_ipc::Request::TakeOver`]).
//! 2. The daemon sends its state as a file in memory, and then all descriptors.
//! 3. The successor imports the state, and acknowledges or refuses it.
//! 4. The daemon confirms the acknowledgement and ends. After a refusal, or without an answer, it continues.
//!
//! Exactly one of both serves afterwards: the successor reads nothing before the confirmation, and the daemon
//! nothing after it.
//!
//! A restart by the service manager is a handover without a moment in which both run: the daemon gives the file and
//! the descriptors to the manager and ends ([`Handover::hold`]), and its successor gets them when it starts
//! ([`crate::successor`]).

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use bytes::Bytes;
use carrick::Transport;
use carrick::network::{InheritedKind, InheritedSocket};
use carrick_ipc::{MAX_ATTACHED, Reply};
use carrick_proto::export::{Format, Portable};
use carrick_proto::{ImportError, Time, portable_struct};
use carrick_sockets::AssocId;
use rustix::fs::fstat;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{SendFlags, sockopt};

use crate::clients::Client;
use crate::connection::{PATIENCE, ReceivedReply, receive};
use crate::descriptor::Descriptor;
use crate::memory_file::{content, sealed};
use crate::pair::send_with_files;
use crate::parts::Parts;
use crate::poller::Token;
use crate::serve::lease::end_leases;
use crate::service;
use crate::timer::{TaskTimer, clock};
use crate::users::Owner;

/// Format of the daemon's state.
const FORMAT: Format = Format::new(*b"carrickd");

/// Socket of the network, without its descriptor.
pub(crate) struct NetworkEntry {
    pub(crate) kind: u8,
    pub(crate) address: IpAddr,
}

portable_struct! { NetworkEntry { kind, address } }

/// Control connection, without its descriptor.
struct ClientEntry {
    token: Token,
    owner: Owner,
}

portable_struct! { ClientEntry { token, owner } }

/// State of a daemon besides its descriptors, which follow in the order of the fields.
pub(crate) struct DaemonState {
    /// `CLOCK_MONOTONIC` at the export in nanoseconds, which both processes read.
    pub(crate) clock: u64,
    /// Moment of the export by the task's clock in nanoseconds.
    pub(crate) now: u64,
    /// Transport: UDP, plain IP, or both.
    pub(crate) transport: u8,
    /// UDP port.
    pub(crate) port: u16,
    /// The daemon has created the path of the control socket.
    pub(crate) owns_path: bool,
    pub(crate) network: Vec<NetworkEntry>,
    /// Address of the metrics.
    pub(crate) metrics: Option<SocketAddr>,
    next_token: u64,
    clients: Vec<ClientEntry>,
    descriptors: BTreeMap<Token, Descriptor>,
    /// For each descriptor whether the daemon has its end, and for each of its waiting frames whether a descriptor
    /// is attached.
    attached: Vec<Vec<bool>>,
    setups: Vec<AssocId>,
    /// Inode of each descriptor: a service manager keeps them in any order.
    pub(crate) inodes: Vec<u64>,
    pub(crate) sockets: Bytes,
}

portable_struct! {
    DaemonState {
        clock, now, transport, port, owns_path, network, metrics, next_token, clients, descriptors, attached, setups,
        inodes, sockets,
    }
}

/// Reason of a handover that failed, for both sides.
pub(crate) type Reason = String;

pub(crate) fn described(error: impl std::fmt::Display) -> Reason {
    error.to_string()
}

pub(crate) fn reason_of(reply: &ReceivedReply) -> Reason {
    String::from_utf8_lossy(&reply.value).into_owned()
}

/// Returns the transport as numbers.
pub(crate) fn numbers_of(transport: Transport) -> (u8, u16) {
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

/// Makes calls on a connection block, with a time limit.
pub(crate) fn limit_waiting(
    connection: &OwnedFd,
    limit: Option<Duration>,
) -> rustix::io::Result<()> {
    ioctl_fionbio(connection, false)?;
    sockopt::set_socket_timeout(connection, sockopt::Timeout::Recv, limit)?;
    sockopt::set_socket_timeout(connection, sockopt::Timeout::Send, limit)
}

pub(crate) fn send_with(
    connection: &OwnedFd,
    reply: &Reply<'_>,
    attached: &[BorrowedFd<'_>],
) -> Result<(), Reason> {
    let bytes = reply.encode();
    let parts = [IoSlice::new(&bytes)];
    send_with_files(connection, &parts, attached, SendFlags::NOSIGNAL).map_err(described)
}

/// Sends the other side the reason of a handover that failed, and returns it. The other side may have ended.
pub(crate) fn refuse(connection: &OwnedFd, reason: Reason) -> Reason {
    let reply = Reply {
        error: Errno::CANCELED.raw_os_error(),
        value: reason.as_bytes(),
        ..Reply::default()
    };
    let _ = send_with(connection, &reply, &[]);
    reason
}

/// A handover between two rounds of the task.
#[derive(Debug)]
pub(crate) struct Handover<'a> {
    /// Time of the last round.
    pub(crate) now: Time,
    pub(crate) timer: &'a TaskTimer,
    /// Address and socket of the metrics.
    pub(crate) metrics: Option<&'a (SocketAddr, OwnedFd)>,
}

impl Handover<'_> {
    /// Hands over to the process on a control connection. Returns its process id if it has taken over.
    pub(crate) fn hand_over(&self, parts: &mut Parts, client: &Client) -> Option<u32> {
        let process = client.owner.process as u32;
        match self.try_hand_over(parts, &client.connection) {
            Ok(()) => Some(process),
            Err(reason) => {
                (parts.config.log)(&format!(
                    "process {process} has not taken over: {reason}; the daemon continues"
                ));
                None
            }
        }
    }

    fn try_hand_over(&self, parts: &mut Parts, connection: &OwnedFd) -> Result<(), Reason> {
        limit_waiting(connection, Some(PATIENCE)).map_err(described)?;
        let prepared = self.prepare(parts);
        let (network, file) = prepared.map_err(|reason| refuse(connection, reason))?;
        let all = self.held_descriptors(parts, &network);
        let reply = Reply {
            result: all.len() as i32,
            ..Reply::default()
        };
        send_with(connection, &reply, &[file.as_fd()])?;
        for part in all.chunks(MAX_ATTACHED) {
            send_with(connection, &Reply::default(), part)?;
        }
        let acknowledged = receive(connection).map_err(described)?;
        if acknowledged.error != 0 {
            return Err(reason_of(&acknowledged));
        }
        send_with(connection, &Reply::default(), &[])
    }

    /// Gives all sockets to the service manager, for the next process of the service.
    ///
    /// # Errors
    /// The reason; this daemon still has everything.
    pub(crate) fn hold(&self, parts: &mut Parts) -> Result<(), Reason> {
        let (network, file) = self.prepare(parts)?;
        let count = self.held_descriptors(parts, &network).len() + 1;
        if !service::can_be_passed(count, parts.listeners.names_length()) {
            // The state contains them.
            parts.listeners.close();
        }
        // The manager ignores the ends of listening descriptors that it holds under their own names. Without the file,
        // which is the last one, the next process restores these alone.
        let mut all = self.held_descriptors(parts, &network);
        all.push(file.as_fd());
        service::hold(&all).map_err(described)
    }

    /// Returns the sockets of the network, and the file with the state.
    fn prepare(&self, parts: &mut Parts) -> Result<(Vec<InheritedSocket>, OwnedFd), Reason> {
        // They are renewed, with the daemon that then serves.
        end_leases(parts, self.now);
        let network = parts.network.duplicate().map_err(described)?;
        let state = self.export(parts, &network)?;
        Ok((network, sealed(&state).map_err(described)?))
    }

    fn export(&self, parts: &mut Parts, network: &[InheritedSocket]) -> Result<Vec<u8>, Reason> {
        let now = self.now;
        let exported = parts.sockets.export(now).map_err(described)?;
        let (transport, port) = numbers_of(parts.network.transport());
        let held = self.held_descriptors(parts, network);
        let inodes = held.iter().map(|fd| fstat(fd).map(|file| file.st_ino));
        let inodes = inodes.collect::<Result<_, _>>().map_err(described)?;
        // Read at once, so that both are those of one moment.
        let (clock, since) = (clock(), self.timer.now().since(now));
        // Moved for the export, and back again.
        let descriptors = parts.descriptors.exchange(BTreeMap::new());
        let attached = descriptors.values();
        let attached = attached.map(|d| d.files().map(|file| file.is_some()).collect());
        let network = network.iter().map(|socket| NetworkEntry {
            kind: number_of(socket.kind),
            address: socket.address,
        });
        let clients = parts.clients.iter().map(|(token, client)| ClientEntry {
            token,
            owner: client.owner,
        });
        let state = DaemonState {
            clock: clock.saturating_sub(since.as_nanos() as u64),
            now: now.as_nanos(),
            transport,
            port,
            owns_path: parts.clients.owns_path(),
            network: network.collect(),
            metrics: self.metrics.map(|(address, _)| *address),
            next_token: parts.poller.next_token(),
            clients: clients.collect(),
            attached: attached.collect(),
            descriptors,
            setups: parts.setups.iter().map(|(id, _)| id).collect(),
            inodes,
            sockets: exported.into_bytes().into(),
        };
        let bytes = FORMAT.export(now, |out| state.write(out));
        parts.descriptors.exchange(state.descriptors);
        bytes.map_err(described)
    }

    /// Returns all descriptors, in the order of the fields of [`DaemonState`].
    fn held_descriptors<'a>(
        &'a self,
        parts: &'a Parts,
        network: &'a [InheritedSocket],
    ) -> Vec<BorrowedFd<'a>> {
        let ends = parts.descriptors.ends().instance();
        let mut all = vec![parts.clients.control().as_fd(), ends.as_fd()];
        all.extend(network.iter().map(|socket| socket.descriptor.as_fd()));
        all.extend(self.metrics.iter().map(|(_, listener)| listener.as_fd()));
        all.extend(parts.clients.iter().map(|(_, c)| c.connection.as_fd()));
        let files = parts.descriptors.iter().flat_map(|(_, d)| d.files());
        all.extend(files.flatten().map(|file| file.as_fd()));
        all.extend(parts.setups.iter().map(|(_, ours)| ours.as_fd()));
        all
    }
}

/// Continues the clients and descriptors of the predecessor. All of them are served in the first round.
pub(crate) fn resume(
    parts: &mut Parts,
    state: DaemonState,
    inherited: &mut VecDeque<OwnedFd>,
) -> Result<(), Reason> {
    let DaemonState {
        next_token,
        clients,
        descriptors,
        attached,
        setups,
        now,
        ..
    } = state;
    let mut take = || inherited.pop_front().ok_or_else(incomplete);
    parts.poller.continue_tokens(next_token);
    let is_known = |token: &Token| (1..next_token).contains(&token.0);
    let tokens = clients.iter().map(|client| &client.token);
    if !tokens.chain(descriptors.keys()).all(is_known) || attached.len() != descriptors.len() {
        return Err(incomplete());
    }
    for ClientEntry { token, owner } in clients {
        let connection = take()?;
        let watched = parts.poller.watch_as(&connection, token);
        watched.map_err(described)?;
        let client = Client {
            connection,
            owner,
            is_refused: false,
        };
        parts.clients.insert(&mut parts.users, token, client);
    }
    for ((token, mut descriptor), attached) in descriptors.into_iter().zip(attached) {
        for (slot, is_attached) in descriptor.files_mut().zip(attached) {
            if is_attached {
                *slot = Some(take()?);
            }
        }
        if let Some(ours) = descriptor.ours() {
            parts.poller.watch_as(ours, token).map_err(described)?;
        }
        if !descriptor.is_ended() {
            descriptor.incoming.set_readable(true);
        }
        parts.users.add_descriptor(descriptor.uid());
        parts.descriptors.insert(token, descriptor);
    }
    for association in setups {
        // The user matters where pairs pass files alone.
        let caller = (0, take()?);
        parts.setups.insert(&mut parts.users, association, caller);
    }
    parts.users.count_files();
    parts.descriptors.schedule_check(Time::from_nanos(now));
    Ok(())
}

pub(crate) fn incomplete() -> Reason {
    "the number of passed descriptors does not match the exported state".into()
}

/// Reads the state in a file.
pub(crate) fn read(file: &OwnedFd) -> Result<DaemonState, Reason> {
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
    const LAYOUT: u32 = 0x46c3_34e4;

    #[test]
    fn version_stands_for_the_layout() {
        let sources = [
            include_str!("handover.rs"),
            include_str!("descriptor/mod.rs"),
            include_str!("descriptor/incoming.rs"),
            include_str!("descriptor/outgoing.rs"),
            include_str!("descriptor/phase.rs"),
            include_str!("listeners.rs"),
            include_str!("poller.rs"),
            include_str!("users.rs"),
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
        assert_eq!(lists.len(), 13);
        let sum = carrick_wire::crc32c(lists.join("\n").as_bytes());
        assert_eq!(
            sum, LAYOUT,
            "the exported state changed: set LAYOUT to {sum:#x}, and follow the same test of carrick-proto (export/tests.rs)"
        );
    }
}
