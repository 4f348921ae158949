//! Handover to another task, usually of another process: this one stops without an end of the associations, and the other
//! one continues them.
//!
//! 1. Refuse what cannot be handed over; the task continues. Later steps do not fail for a reason that these checks find.
//! 2. Let handles that are dropped discard nothing: a program drops all of them as soon as it has the reason of one. Take back
//!    what they have not received. Abort set-ups, whose futures get the reason.
//! 3. Let senders and operations fail with [`CloseReason::HandedOver`], and take the commands that were given before: a thread
//!    may be about to give one, which ends in the queue.
//! 4. Send the packets of this moment, and export the protocol.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use carrick_proto::{CloseReason, Time};

use super::entry::ended_state;
use super::{Driver, Handles, Phase};
use crate::association::Association;
use crate::command::{Command, Commands, HandOverAnswer};
use crate::error::ConnectError;
use crate::handover::{
    AssociationState, EndpointState, HandOverError, Handover, SocketEntry, clock,
};
use crate::network::InheritedSocket;

/// Reason in the ABORTs of set-ups.
const REASON: &[u8] = b"the endpoint is handed over";

/// Progress of a handover.
#[derive(Default)]
pub(super) enum HandOver {
    /// None was requested.
    #[default]
    Idle,
    Requested(HandOverAnswer),
    /// Step 3.
    TakingCommands(HandOverAnswer, Inherited),
}

/// Sockets for the successor, the claim of the port, and the associations that have ended.
pub(super) struct Inherited {
    sockets: Vec<InheritedSocket>,
    claim: Option<OwnedFd>,
    ended: Vec<AssociationState>,
}

impl Driver {
    /// Hands the associations over if a handle has requested it. Ready if the task has to end.
    pub(super) fn poll_hand_over(&mut self, cx: &mut Context<'_>, now: Time) -> Poll<()> {
        let (answer, inherited) = match std::mem::take(&mut self.hand_over) {
            HandOver::Idle => return Poll::Pending,
            HandOver::Requested(answer) if answer.is_closed() => return Poll::Pending,
            HandOver::Requested(answer) => match self.prepare(now) {
                Ok(mut inherited) => {
                    inherited.ended = self.stop(now);
                    (answer, inherited)
                }
                Err(error) => {
                    // The caller may have dropped its future.
                    let _ = answer.send(Err(error));
                    return Poll::Pending;
                }
            },
            HandOver::TakingCommands(answer, inherited) => (answer, inherited),
        };
        if self.take_last_commands(cx, now).is_pending() {
            self.hand_over = HandOver::TakingCommands(answer, inherited);
            return Poll::Pending;
        }
        self.transmit(cx, now);
        // An end that an operation or the network has caused: the protocol may no longer have the association.
        self.dispatch_events(now);
        let handover = self.export(now, inherited);
        let is_exported = handover.is_ok();
        // Without a successor, the end of the task aborts the associations.
        if answer.send(handover).is_ok() && is_exported {
            self.phase = Phase::HandedOver;
        }
        Poll::Ready(())
    }

    /// Returns whether only the last commands are still to be taken. Packets and timers are the successor's then.
    pub(super) fn is_handing_over(&self) -> bool {
        matches!(self.hand_over, HandOver::TakingCommands(..))
    }

    /// Checks that the endpoint can be handed over. Returns the sockets for the successor.
    fn prepare(&self, now: Time) -> Result<Inherited, HandOverError> {
        if self.ending {
            return Err(HandOverError::EndpointClosed);
        }
        if self.below.is_protected() {
            return Err(HandOverError::Dtls);
        }
        if self.network.is_leased() {
            return Err(HandOverError::Daemon);
        }
        let duplicates = || {
            Ok(Inherited {
                sockets: self.network.duplicate()?,
                claim: self.network.duplicate_port_name()?,
                ended: Vec::new(),
            })
        };
        let inherited = duplicates().map_err(HandOverError::Descriptors)?;
        self.core.export(now).map_err(HandOverError::Export)?;
        Ok(inherited)
    }

    /// Step 2, and the end of the handles. Returns the associations that have ended.
    fn stop(&mut self, now: Time) -> Vec<AssociationState> {
        // A task that gets the reason of one association may drop the handles of all.
        self.handed_over.store(true, Ordering::SeqCst);
        let ended = std::mem::take(&mut self.ended);
        let ended = ended.iter();
        let ended = ended.filter_map(|(id, ended)| ended_state(*id, ended));
        let ended = ended.collect();
        for entry in self.entries.values_mut() {
            entry.stop_handles();
        }
        self.ending = true;
        self.accepted = None;
        for (id, answer) in std::mem::take(&mut self.connecting) {
            // The association exists, or has just failed.
            let _ = self.core.abort(now, id, REASON);
            // The future of a cancelled connect() was dropped.
            let _ = answer.send(Err(ConnectError::Failed(CloseReason::HandedOver)));
        }
        self.orders.close();
        ended
    }

    /// Takes the commands that were given before the end of the handles. Ready after the last one.
    fn take_last_commands(&mut self, cx: &mut Context<'_>, now: Time) -> Poll<()> {
        while let Some(command) = ready!(self.orders.poll_recv(cx)) {
            // Messages were accepted, changes may have been, and handles were dropped before any got the reason. The other
            // commands are answered with the reason.
            match command {
                Command::Send(..)
                | Command::SendMany(..)
                | Command::Work(..)
                | Command::Shutdown(..)
                | Command::Abort(..)
                | Command::Discard(_)
                | Command::Release(_) => self.execute(command, now),
                _ => {}
            }
        }
        Poll::Ready(())
    }

    /// Exports the protocol and the queues.
    fn export(&mut self, now: Time, inherited: Inherited) -> Result<Handover, HandOverError> {
        let core = self.core.export(now).map_err(HandOverError::Export)?;
        let mut associations = inherited.ended;
        for (id, entry) in std::mem::take(&mut self.entries) {
            associations.push(entry.hand_over(id, now));
        }
        let mut descriptors = Vec::with_capacity(inherited.sockets.len() + 1);
        let mut sockets = Vec::with_capacity(inherited.sockets.len());
        for InheritedSocket {
            kind,
            address,
            descriptor,
        } in inherited.sockets
        {
            sockets.push(SocketEntry { kind, address });
            descriptors.push(descriptor);
        }
        // Read at once, so that both are those of one moment.
        let (clock, since) = (clock(), self.now().since(now));
        let state = EndpointState {
            clock: clock.saturating_sub(since.as_nanos() as u64),
            now: now.as_nanos(),
            transport: self.network.transport(),
            sockets,
            has_claim: inherited.claim.is_some(),
            core: core.into_bytes().into(),
            associations,
        };
        descriptors.extend(inherited.claim);
        let state = state.encode().map_err(HandOverError::Export)?;
        Ok(Handover::from_parts(state, descriptors))
    }

    /// Continues the associations of another task, whose clock began at `epoch`. Returns handles of those that a program had
    /// accepted; other ones wait to be accepted again.
    pub(crate) fn resume(
        &mut self,
        epoch: Instant,
        associations: Vec<AssociationState>,
        commands: &Commands,
    ) -> Vec<Association> {
        self.epoch = epoch;
        let now = self.now();
        let mut accepted = Vec::new();
        let mut ids = Vec::with_capacity(associations.len());
        for mut state in associations {
            let id = state.id;
            ids.push(id);
            let peers = std::mem::take(&mut state.peer_addresses);
            let mut entry = self.new_entry(id, peers, state.peer_port);
            if let Some(stats) = self.core.association(id).map(|a| a.stats()) {
                let streams = (stats.outbound_streams, stats.inbound_streams);
                entry.shared.set_streams(streams.0, streams.1);
            }
            let (handles, is_accepted) = (state.handles, state.is_accepted);
            entry.resume(state, now);
            if let Some(at) = entry.lingers_until {
                self.lingering.insert((at, id));
            }
            let association = Association::new(id, commands.clone(), Arc::clone(&entry.shared));
            let source = entry.shared.source();
            self.entries.insert(id, entry);
            match (handles, is_accepted) {
                // The task gets the command of the last handle again.
                (Handles::Dropped, _) => drop(association),
                (_, true) => accepted.push(association),
                (_, false) => self.queue_to_accept(id, association, source, now),
            }
        }
        for id in ids {
            if let Some(entry) = self.entries.get_mut(&id)
                && !entry.is_closed()
            {
                entry.send_waiting(&mut self.core, now, id);
            }
            self.deliver(id);
        }
        accepted
    }
}
