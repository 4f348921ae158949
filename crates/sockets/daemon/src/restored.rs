//! Listening descriptors that the next process of the service restores, after the daemon was killed
//! ([`crate::listeners`]).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use carrick_sockets::{ListenerState, SocketId, Style};
use rustix::fs::{FileType, fstat};
use rustix::net::{Shutdown, shutdown};

use crate::descriptor::{Descriptor, PairEnd};
use crate::handover::{Reason, described};
use crate::listeners::ListenerRecord;
use crate::memory_file::content;
use crate::pair::is_hung_up;
use crate::parts::Parts;
use crate::requests::open_loopback;

/// Limit of the descriptors that have a line in the log because they are not restored.
const MAX_LOGGED: usize = 64;

/// Files of a descriptor that the manager has passed.
struct PassedListener {
    /// The daemon's end of the pair.
    ours: OwnedFd,
    records: Vec<OwnedFd>,
}

impl PassedListener {
    /// Finds the files; `None` if the program has closed its end.
    ///
    /// # Errors
    /// The end is missing.
    fn find(files: Vec<OwnedFd>) -> Result<Option<Self>, Reason> {
        let is_record = |file: &OwnedFd| {
            let status = fstat(file);
            status.is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile)
        };
        let (records, mut pairs): (Vec<_>, Vec<_>) = files.into_iter().partition(is_record);
        let ours = pairs.pop().ok_or(
            "a listening socket of the previous process is not restored: its end is missing",
        )?;
        Ok((!is_hung_up(&ours)).then_some(Self { ours, records }))
    }
}

/// Restores the listening descriptors that the manager held when a predecessor was killed. Programs notice nothing of
/// it, except that the associations have ended. Descriptors that can't be restored end as those of associations.
pub(crate) fn restore(parts: &mut Parts, passed: BTreeMap<u64, Vec<OwnedFd>>) {
    let (mut restored, mut failed) = (0, 0);
    let mut removed = Vec::new();
    let log = parts.config.log;
    for (cookie, files) in passed {
        let found = PassedListener::find(files);
        let made = found.and_then(|found| match found {
            Some(listener) => restore_one(parts, cookie, listener).map(|()| true),
            None => Ok(false),
        });
        match made {
            Ok(true) => {
                restored += 1;
                continue;
            }
            Ok(false) => {}
            Err(reason) => {
                failed += 1;
                if failed <= MAX_LOGGED {
                    log(&reason);
                }
            }
        }
        removed.push(cookie);
    }
    if failed > MAX_LOGGED {
        let more = failed - MAX_LOGGED;
        log(&format!(
            "{more} further listening sockets are not restored"
        ));
    }
    if restored > 0 {
        log(&format!(
            "{restored} listening sockets of the previous process restored; their associations have ended"
        ));
    }
    parts.users.count_files();
    parts.listeners.discard(removed.into_iter());
}

/// Restores a descriptor.
///
/// 1. Read the record.
/// 2. Make the socket again, with the addresses that the host has now.
/// 3. Continue the descriptor on its pair, in which frames of the program have stayed.
fn restore_one(parts: &mut Parts, cookie: u64, listener: PassedListener) -> Result<(), Reason> {
    let PassedListener { ours, records } = listener;
    let made = make(parts, cookie, &records);
    let watched = made.and_then(|made| {
        let token = parts.poller.watch(&ours).map_err(described)?;
        Ok((made, token))
    });
    let ((socket, record), token) = watched.inspect_err(|_| {
        // The manager keeps the end open until it has processed the removal.
        let _ = shutdown(&ours, Shutdown::Both);
    })?;
    // 3
    let end = PairEnd::restored(ours, record.cookie, record.inode);
    let descriptor = Descriptor::restored(socket, record.owner, end, record.phase);
    parts.users.add_descriptor(record.owner.uid);
    parts.descriptors.insert_unwatched(token, descriptor);
    parts.listeners.add_restored(token, &record);
    Ok(())
}

/// Makes the socket of the latest record. Returns it with the record.
fn make(
    parts: &mut Parts,
    cookie: u64,
    records: &[OwnedFd],
) -> Result<(SocketId, ListenerRecord), Reason> {
    // 1
    let read = read(parts, records).map_err(|reason| {
        format!("a listening socket of the previous process is not restored: {reason}")
    });
    let (record, state) = read?;
    let addresses = state.addresses();
    let name = name(record.owner.uid, &state, &addresses);
    let failed = |reason: Reason| format!("{name} is not restored: {reason}");
    if record.cookie != cookie {
        return Err(failed("its record is that of another one".into()));
    }
    if state.style() == Style::OneToMany && !parts.listeners.has_ids() {
        return Err(failed(
            "the identifiers of its associations are unknown".into(),
        ));
    }
    // 2
    let room = parts.users.check_descriptors(record.owner.uid);
    room.map_err(|error| failed(described(error)))?;
    let opened = open_loopback(&parts.sockets, &mut parts.network, &addresses);
    let made = opened.and_then(|()| parts.sockets.restore_listener(state));
    let socket = made.map_err(|error| failed(described(error)))?;
    Ok((socket, record))
}

/// Returns a listening socket in the words of the log.
fn name(uid: u32, state: &ListenerState, addresses: &[SocketAddr]) -> String {
    let addresses = addresses.iter().map(|address| address.ip().to_string());
    let addresses: Vec<String> = addresses.collect();
    format!(
        "the listening socket of user {uid} at port {}, {}",
        state.port(),
        addresses.join(", ")
    )
}

/// Reads the latest record and the state of the socket in it.
fn read(parts: &Parts, records: &[OwnedFd]) -> Result<(ListenerRecord, ListenerState), Reason> {
    let mut latest: Option<ListenerRecord> = None;
    for file in records {
        let bytes = content(file).map_err(described)?;
        let record = ListenerRecord::decode(&bytes).map_err(described)?;
        let known = latest.as_ref().map(|known| known.stored_at);
        if known.is_none_or(|known| known < record.stored_at) {
            latest = Some(record);
        }
    }
    let record = latest.ok_or("its record is missing")?;
    let state = parts.sockets.read_listener(&record.socket);
    Ok((record, state.map_err(described)?))
}
