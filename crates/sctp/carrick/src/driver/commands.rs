//! Commands of the handles.

use std::time::Duration;

use carrick_proto::{AssociationId, Time};

#[cfg(target_os = "linux")]
use super::handover::HandOver;
use super::{Driver, Handles, ShardLink};
use crate::command::{AssociationEnded, Command, ConnectRequest, OutgoingMessage};
use crate::error::{BindError, ConnectError};

impl Driver {
    pub(super) fn execute(&mut self, command: Command, now: Time) {
        match command {
            Command::Send(id, out) => self.send(id, [out], now),
            Command::SendMany(id, run) => self.send(id, run, now),
            Command::Resume(id) => self.deliver(id),
            Command::Connect(connect) => self.connect(connect, now),
            Command::ConnectCancelled => self.cancel_connects(now),
            Command::Shutdown(id, answer) => match self.entries.get_mut(&id) {
                Some(entry) if !entry.is_closed() => {
                    entry.shutdown(&mut self.core, now, id, Some(answer));
                }
                // The handle has the reason.
                _ => drop(answer),
            },
            Command::AwaitEnd(id, answer) => match self.entries.get_mut(&id) {
                Some(entry) => entry.await_end(answer),
                // The handle has the reason.
                None => drop(answer),
            },
            Command::Flush(id, answer) => match self.entries.get_mut(&id) {
                Some(entry) => entry.flush(&self.core, id, answer),
                None => drop(answer.send(Err(AssociationEnded))),
            },
            // Aborting what has ended changes nothing.
            Command::Abort(id, reason) => drop(self.core.abort(now, id, &reason)),
            Command::Discard(id) => self.discard(id),
            Command::Release(id) => self.release(id, now),
            Command::Work(work) => work(&mut self.core, now),
            Command::Stats(answer) => {
                // The caller may have dropped its future.
                let _ = answer.send(crate::endpoint::Stats {
                    protocol: self.core.stats(),
                    unsendable: self.network.unsendable(),
                    passed_on: self.shards.as_ref().map_or(0, ShardLink::passed_on),
                    not_passed_on: self.shards.as_ref().map_or(0, ShardLink::not_passed_on),
                    #[cfg(feature = "dtls")]
                    sessions: self.below.stats(),
                });
            }
            Command::AddAddress(address, answer) => {
                let added = self.add_address(address);
                // The caller may have dropped its future.
                let _ = answer.send(added);
            }
            Command::RemoveAddress(address) => {
                if !self.below.is_protected() {
                    self.core.local_address_removed(now, address);
                }
                self.network.remove(address);
                self.share_removed(address);
            }
            Command::AddSocket(socket) => {
                self.core.local_address_added(socket.address());
                self.network.push(*socket);
            }
            #[cfg(target_os = "linux")]
            Command::HandOver(answer) => self.hand_over = HandOver::Requested(answer),
            Command::StopAccepting => self.end(),
            Command::Close(limit) => self.close(limit, now),
        }
    }

    fn add_address(&mut self, address: std::net::IpAddr) -> Result<(), BindError> {
        self.network.add(address)?;
        if !self.below.is_protected() {
            self.core.local_address_added(address);
        }
        self.share_added();
        Ok(())
    }

    fn send(
        &mut self,
        id: AssociationId,
        messages: impl IntoIterator<Item = OutgoingMessage>,
        now: Time,
    ) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.send(&mut self.core, now, id, messages);
        } else {
            // Without an entry the association has ended; the handle has the reason, for a sender that
            // waits for an answer.
            let accepted = messages.into_iter().filter(|out| out.answer.is_none());
            self.ends.add_undelivered(accepted.count() as u64);
        }
    }

    fn connect(&mut self, connect: ConnectRequest, now: Time) {
        if self.ending {
            let _ = connect.answer.send(Err(ConnectError::EndpointClosed));
            return;
        }
        match self.below.connect(now, &mut self.core, &connect) {
            Ok(id) => drop(self.connecting.insert(id, connect.answer)),
            Err(e) => drop(connect.answer.send(Err(e))),
        }
    }

    /// Aborts the set-ups whose futures were dropped.
    fn cancel_connects(&mut self, now: Time) {
        let cancelled: Vec<AssociationId> = self
            .connecting
            .iter()
            .filter(|(_, answer)| answer.is_closed())
            .map(|(id, _)| *id)
            .collect();
        for id in cancelled {
            self.connecting.remove(&id);
            // The association exists, or has just failed.
            let _ = self.core.abort(now, id, b"set-up cancelled");
        }
    }

    fn discard(&mut self, id: AssociationId) {
        #[cfg(target_os = "linux")]
        self.ended.remove(&id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.discard();
            self.deliver(id);
        }
    }

    /// Shuts the association down after its last handle was dropped, with a time limit.
    fn release(&mut self, id: AssociationId, now: Time) {
        self.discard(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.handles = Handles::Dropped;
        }
        self.shut_down_within(Some(self.limits.linger), id, now);
    }

    /// Shuts the association down; it is aborted after this time, or after an earlier limit that it has.
    fn shut_down_within(&mut self, limit: Option<Duration>, id: AssociationId, now: Time) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if let Some(at) = limit.map(|limit| now + limit)
            && entry.lingers_until.is_none_or(|earlier| at < earlier)
        {
            if let Some(earlier) = entry.lingers_until.replace(at) {
                self.lingering.remove(&(earlier, id));
            }
            self.lingering.insert((at, id));
        }
        if !entry.is_closed() {
            entry.shutdown(&mut self.core, now, id, None);
        }
    }

    /// Aborts the association: the time for its shutdown is over.
    pub(super) fn abort_lingering(&mut self, id: AssociationId, now: Time) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.lingers_until = None;
        if !entry.is_closed() {
            entry.timed_out = true;
            // It exists: it has an entry that is not closed.
            let _ = self.core.abort(now, id, b"not shut down in time");
        }
        self.discard(id);
    }

    /// Refuses new associations.
    pub(super) fn end(&mut self) {
        self.ending = true;
        self.accepted = None;
        self.core.set_accepting(false);
    }

    /// Closes the endpoint; the associations that are left after `limit` are aborted.
    fn close(&mut self, limit: Option<Duration>, now: Time) {
        self.end();
        let ids: Vec<AssociationId> = self.core.associations().collect();
        for id in &ids {
            if let Some(entry) = self.entries.get_mut(id) {
                if !entry.shared.receive_queue.is_accepted() {
                    // No program accepts it any more.
                    entry.discard();
                }
                self.deliver_messages(*id, true);
            }
        }
        // The associations that have ended are recorded.
        self.ends.close();
        for id in ids {
            if self.entries.contains_key(&id) {
                self.shut_down_within(limit, id, now);
            } else {
                // The association is being set up, or has ended.
                let _ = self.core.abort(now, id, b"the endpoint is closing");
            }
        }
    }
}
