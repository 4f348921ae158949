//! `connect` and `sctp_connectx`.

use std::os::fd::{AsFd, OwnedFd};

use carrick_proto::Time;
use carrick_sockets::linux::read_addresses;
use carrick_sockets::{Errno, Style};
use rustix::fs::{OFlags, fcntl_getfl};

use super::reply::ReplyContent;
use crate::descriptor::{Descriptor, PairEnd, PhaseEvent, pair};
use crate::pair::open_pair;
use crate::parts::Parts;
use crate::poller::Token;
use crate::users::Users;

/// Starts an association. A one-to-one descriptor is not writable until it is established. A caller that
/// blocks on a one-to-many descriptor, which stays writable, gets another descriptor for the result.
///
/// 1. Open what the call needs: file descriptors first, so that nothing has to be taken back without them.
/// 2. Start the association.
/// 3. Let the caller wait: on a pair for the result, or on its descriptor, which gets another pair after a set-up that
///    failed. The daemon's end of the old one is closed, and what the program sees of that cannot be undone.
pub(super) fn connect(
    parts: &mut Parts,
    now: Time,
    (token, descriptor): (Token, &mut Descriptor),
    (addresses, theirs): (&[u8], &OwnedFd),
) -> Result<ReplyContent, Errno> {
    // 1
    let (id, uid) = (descriptor.socket(), descriptor.uid());
    let status = parts.sockets.status(id);
    let is_many = status.is_ok_and(|status| status.style == Style::OneToMany);
    let peers = read_addresses(addresses)?;
    let waits = is_many && !is_nonblocking(theirs);
    let result = waits.then(|| open_setup(&parts.users, uid)).transpose()?;
    let is_renewed = !is_many && descriptor.is_ended();
    let renewed = is_renewed.then(|| open_renewed(parts, token, uid));
    let renewed = renewed.transpose()?;
    // 2
    let association = parts.sockets.connectx(now, id, &peers)?;
    // 3
    if let Some((ours, theirs)) = result {
        parts.sockets.watch_setup(association);
        let caller = (uid, ours);
        parts.setups.insert(&mut parts.users, association, caller);
        return Ok(ReplyContent::in_progress(association, Some(theirs)));
    }
    let renewed = renewed.map(|(end, theirs)| {
        let new = Descriptor::new(id, descriptor.owner(), end);
        let mut old = std::mem::replace(descriptor, new);
        parts.descriptors.replace(now, token, &old, descriptor);
        if let Some(ours) = old.take_ours() {
            parts.users.close_pair(uid, ours);
        }
        theirs
    });
    if !is_many {
        let theirs = renewed.as_ref().unwrap_or(theirs);
        descriptor.plug(PhaseEvent::SetupStarted, theirs.as_fd());
    }
    Ok(ReplyContent::in_progress(association, renewed))
}

/// Opens the pair on which a caller gets the result of a set-up.
fn open_setup(users: &Users, uid: u32) -> Result<(OwnedFd, OwnedFd), Errno> {
    let opened = users.check_setups(uid).and_then(|()| open_pair());
    opened.map_err(|error| cannot_connect(users, uid, error))
}

/// Opens another pair for a descriptor whose set-up has failed.
fn open_renewed(parts: &Parts, token: Token, uid: u32) -> Result<(PairEnd, OwnedFd), Errno> {
    let opened = parts.users.check_departed(uid).and_then(|()| pair());
    let opened = opened.and_then(|(end, theirs)| {
        parts.descriptors.ends().watch(&theirs)?;
        parts.poller.watch_as(end.ours(), token)?;
        Ok((end, theirs))
    });
    opened.map_err(|error| cannot_connect(&parts.users, uid, error))
}

fn cannot_connect(users: &Users, uid: u32, error: rustix::io::Errno) -> Errno {
    users.record_failure(&format!("user {uid} cannot connect"), error);
    Errno::EMFILE
}

/// Returns whether calls on a descriptor do not block.
fn is_nonblocking(descriptor: &OwnedFd) -> bool {
    fcntl_getfl(descriptor).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}
