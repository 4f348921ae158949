//! The successor of a daemon, which continues what its predecessor has handed over ([`crate::handover`]).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick::Transport;
use carrick::network::{InheritedKind, InheritedSocket, Network, NetworkConfig};
use carrick_ipc::{Reply, Request};
use carrick_proto::Time;
use carrick_sockets::Sockets;
use rustix::fs::{FileType, fstat};

use crate::config::Config;
use crate::connection::{PATIENCE, ask, connection, may_share, peer_of, receive};
use crate::descriptors::Descriptors;
use crate::driver::Driver;
use crate::ends::ProgramEnds;
use crate::handover::{
    DaemonState, NetworkEntry, Reason, described, incomplete, limit_waiting, numbers_of, read,
    reason_of, refuse, resume, send_with,
};
use crate::metrics::MetricsServer;
use crate::parts::Parts;
use crate::timer::clock;

/// Daemon that continues what a predecessor has handed over. It has read and sent nothing yet.
#[derive(Debug)]
pub(crate) struct Successor {
    pub(crate) driver: Driver,
    pub(crate) metrics: Option<MetricsServer>,
}

/// Requests a handover from the daemon on a control socket.
///
/// # Errors
/// The reason, which the predecessor has got as well.
pub(crate) fn take_over(config: Config) -> Result<Successor, Reason> {
    let connection = connected(&config.socket)?;
    limit_waiting(&connection, Some(PATIENCE)).map_err(described)?;
    let reply = ask(&connection, &Request::TakeOver).map_err(described)?;
    if reply.error != 0 {
        return Err(reason_of(&reply));
    }
    let [state] = <[OwnedFd; 1]>::try_from(reply.attached).map_err(|_| incomplete())?;
    let taken = receive_all(&connection, reply.result as usize);
    let continued = taken.and_then(|inherited| continued(config, read(&state)?, inherited));
    let successor = continued.map_err(|reason| refuse(&connection, reason))?;
    send_with(&connection, &Reply::default(), &[])?;
    // The predecessor has stopped waiting if the connection ends.
    limit_waiting(&connection, None).map_err(described)?;
    receive(&connection).map_err(described)?;
    Ok(successor)
}

fn connected(path: &Path) -> Result<OwnedFd, Reason> {
    let connection = connection(path)
        .map_err(|error| format!("no daemon answers ({error}); start one without --take-over"))?;
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

/// Returns the daemon that continues what the service manager held for its predecessor. The manager had the ends of
/// listening descriptors before, under their own names.
///
/// # Errors
/// The reason; the descriptors in `held` are closed.
pub(crate) fn continue_held(
    config: Config,
    held: Vec<OwnedFd>,
    listeners: &BTreeMap<u64, Vec<OwnedFd>>,
) -> Result<Successor, Reason> {
    let mut state = None;
    let mut by_inode = BTreeMap::new();
    for descriptor in held {
        match inode(&descriptor)? {
            Some(inode) => drop(by_inode.insert(inode, descriptor)),
            None => state = Some(read(&descriptor)?),
        }
    }
    let state = state
        .ok_or("their state is missing, the previous process was killed before it was complete")?;
    for descriptor in listeners.values().flatten() {
        if let Some(inode) = inode(descriptor)? {
            by_inode.insert(inode, descriptor.try_clone().map_err(described)?);
        }
    }
    let inodes = state.inodes.iter();
    let inherited: Option<_> = inodes.map(|inode| by_inode.remove(inode)).collect();
    continued(config, state, inherited.ok_or_else(incomplete)?)
}

/// Returns the inode of a socket; `None` for a file in memory.
fn inode(descriptor: &OwnedFd) -> Result<Option<u64>, Reason> {
    let file = fstat(descriptor).map_err(described)?;
    let is_file = FileType::from_raw_mode(file.st_mode) == FileType::RegularFile;
    Ok((!is_file).then_some(file.st_ino))
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
) -> Result<Successor, Reason> {
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
    let owned = (control, state.owns_path);
    let parts = Parts::new(config, network, sockets, owned);
    let mut parts = parts.map_err(described)?;
    parts.descriptors = Descriptors::new(ProgramEnds::adopt(open_ends));
    resume(&mut parts, state, &mut inherited)?;
    if !inherited.is_empty() {
        return Err(incomplete());
    }
    Ok(Successor {
        driver: Driver::new(parts, epoch),
        metrics,
    })
}
