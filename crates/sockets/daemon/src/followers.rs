//! Readers of what happens to associations and paths, for `carrick ss --events`.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use carrick_ipc::{MAX_REPLY, Request};
use carrick_sockets::{AssociationReport, Errno};
use rustix::io::Errno as SystemErrno;
use rustix::net::send;
use serde_json::{Value, json};
use tokio::net::UnixDatagram;

use crate::connection::{ask, connection};
use crate::pair::{AT_ONCE, is_hung_up, open_pair};

/// Limit of readers at a time.
const MAX_FOLLOWERS: usize = 8;

/// All readers.
#[derive(Debug, Default)]
pub(crate) struct Followers(Vec<Follower>);

#[derive(Debug)]
struct Follower {
    /// End of the daemon. The reader has closed the other one when sending fails.
    ours: OwnedFd,
    /// Number of events for which the pair had no room.
    missed: u64,
}

impl Followers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a reader; returns its end.
    ///
    /// # Errors
    /// `EMFILE`: there are 8 already.
    pub(crate) fn start(&mut self) -> Result<OwnedFd, Errno> {
        self.0.retain(|follower| !is_hung_up(&follower.ours));
        if self.0.len() >= MAX_FOLLOWERS {
            return Err(Errno::EMFILE);
        }
        let (ours, theirs) = open_pair().map_err(|_| Errno::ENOMEM)?;
        self.0.push(Follower { ours, missed: 0 });
        Ok(theirs)
    }

    /// Passes an event to all readers as a JSON object.
    pub(crate) fn send(&mut self, report: &AssociationReport) {
        if self.0.is_empty() {
            return;
        }
        let mut object = json!({
            "association": report.association.number(),
            "trace": report.trace,
            "local": report.local,
            "local_port": report.local_port,
            "peer": report.peer,
            "was_established": report.was_established,
            "event": report.event,
            "line": report.to_string(),
        });
        self.0.retain_mut(|follower| {
            object["missed"] = follower.missed.into();
            match send(&follower.ours, object.to_string().as_bytes(), AT_ONCE) {
                Ok(_) => true,
                Err(SystemErrno::AGAIN | SystemErrno::NOBUFS) => {
                    follower.missed += 1;
                    true
                }
                Err(_) => false,
            }
        });
    }
}

/// Reader of the events of the associations and paths of a running daemon.
#[derive(Debug)]
pub struct Events {
    /// Its type is that of a datagram socket, for which the runtime can wait.
    objects: UnixDatagram,
    buffer: Vec<u8>,
}

impl Events {
    /// Starts with the events from now on. Must be called in a runtime.
    ///
    /// # Errors
    /// No daemon answers; it belongs to another user (`PermissionDenied`); it has 8 readers already.
    pub fn start(path: &Path) -> io::Result<Self> {
        let mut reply = ask(&connection(path)?, &Request::Follow)?;
        let error = reply.error;
        let Some(objects) = reply.attached.pop().filter(|_| error == 0) else {
            return Err(match error {
                limit if limit == Errno::EMFILE.number() => {
                    io::Error::other("the daemon has 8 readers of events already")
                }
                _ => io::Error::from_raw_os_error(error),
            });
        };
        rustix::io::ioctl_fionbio(&objects, true)?;
        Ok(Self {
            objects: UnixDatagram::from_std(objects.into())?,
            buffer: vec![0; MAX_REPLY],
        })
    }

    /// Waits for the next event; `None` when the daemon has ended or was replaced. A dropped call loses none.
    ///
    /// The object has the members `association` (its number in [`list`](crate::list)), `trace` (its name in the event log),
    /// `local` and `local_port`, `peer`, `was_established`, `event` (those of [`carrick_proto::EventReport`]), `line` (the
    /// line in the log of the daemon) and `missed`, the number of events so far that were not passed on.
    ///
    /// # Errors
    /// The daemon sends something else.
    pub async fn next(&mut self) -> io::Result<Option<Value>> {
        match self.objects.recv(&mut self.buffer).await? {
            0 => Ok(None),
            len => Ok(Some(serde_json::from_slice(&self.buffer[..len])?)),
        }
    }
}
