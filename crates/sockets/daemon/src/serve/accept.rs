//! Pairs of new descriptors, and associations that a program accepts.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use carrick_ipc::{FrameKind, Header};
use carrick_proto::Time;
use carrick_sockets::{Errno, Readiness, SocketId};

use crate::descriptor::{Descriptor, OutgoingFrame, PairEnd, describe, pair};
use crate::parts::Parts;
use crate::poller::{PAUSE, Token};
use crate::users::Owner;

/// Socket pair without a socket.
#[derive(Debug)]
pub(crate) struct SocketPair {
    token: Token,
    end: PairEnd,
    theirs: OwnedFd,
    owner: Owner,
}

/// Opens a socket pair for another socket of a user: before the socket exists, so that a socket without a pair
/// never does.
///
/// # Errors
/// `EMFILE` at the user's limit, or without a free file descriptor.
pub(crate) fn open_pair(parts: &mut Parts, owner: Owner) -> Result<SocketPair, Errno> {
    let (token, end, theirs) = open_watched(parts, owner.uid, pair, PairEnd::ours)?;
    let watched = parts.descriptors.ends().watch(&theirs);
    watched.map_err(|_| Errno::EMFILE)?;
    Ok(SocketPair {
        token,
        end,
        theirs,
        owner,
    })
}

/// Opens a pair for a user, and watches the daemon's end, which `ours` returns. Returns its token and both ends.
///
/// # Errors
/// As for [`open_pair`].
pub(crate) fn open_watched<E>(
    parts: &mut Parts,
    uid: u32,
    pair: impl FnOnce() -> rustix::io::Result<(E, OwnedFd)>,
    ours: impl FnOnce(&E) -> &OwnedFd,
) -> Result<(Token, E, OwnedFd), Errno> {
    let opened = parts.users.check_descriptors(uid).and_then(|()| pair());
    let opened = opened.and_then(|(end, theirs)| {
        let token = parts.poller.watch(ours(&end))?;
        Ok((token, end, theirs))
    });
    opened.map_err(|error| {
        let failed = format!("cannot open a socket of user {uid}");
        parts.users.record_failure(&failed, error);
        Errno::EMFILE
    })
}

/// Adds a socket with its pair. Returns the program's end and the token.
pub(crate) fn insert_descriptor(
    parts: &mut Parts,
    socket: SocketId,
    pair: SocketPair,
) -> (OwnedFd, Token) {
    let descriptor = Descriptor::new(socket, pair.owner, pair.end);
    parts.users.add_descriptor(pair.owner.uid);
    parts.descriptors.insert(pair.token, descriptor);
    (pair.theirs, pair.token)
}

/// Accepts an association. Without a descriptor for it, all wait in the backlog.
pub(super) fn next_accepted(
    parts: &mut Parts,
    now: Time,
    token: Token,
    listener: &Descriptor,
) -> Option<OutgoingFrame> {
    let level = parts.sockets.readiness(listener.socket())?;
    if !level.contains(Readiness::READABLE) {
        return None;
    }
    let Ok(pair) = open_pair(parts, listener.owner()) else {
        // Nothing reports that another process has closed a file, so that the backlog is served again after a while.
        parts.descriptors.starve(token, now + PAUSE);
        return None;
    };
    let (id, peer) = parts.sockets.accept(listener.socket()).ok()?;
    let (theirs, _) = insert_descriptor(parts, id, pair);
    let description = parts.sockets.status(id).map(|status| describe(&status));
    let description = description.unwrap_or_default().encode();
    Some(OutgoingFrame {
        header: Header {
            address: Some(peer),
            ..Header::new(FrameKind::Accepted)
        },
        payload: Bytes::copy_from_slice(&description),
        attached: Some(theirs),
    })
}
