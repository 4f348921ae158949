//! Events from the protocol to the handles.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use carrick_proto::{AssociationId, CloseReason, Event, PathStats, SourceKey, Time};
use tokio::sync::mpsc::error::TrySendError;

use super::{AssociationEntry, Driver};
use crate::association::Association;
use crate::error::ConnectError;
use crate::network::route_mtu;
use crate::shared::{ReceiveQueue, SharedState};

impl Driver {
    /// Passes the protocol's events to the handles. Returns true if there were any.
    pub(super) fn dispatch_events(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some((id, event)) = self.below.poll_event(now, &mut self.core) {
            any = true;
            self.on_event(id, event, now);
        }
        any
    }

    fn on_event(&mut self, id: AssociationId, event: Event, now: Time) {
        match event {
            Event::Established {
                peer_addresses,
                outbound_streams,
                inbound_streams,
                ..
            } => self.on_established(id, peer_addresses, (outbound_streams, inbound_streams), now),
            Event::Closed(reason) => self.on_closed(id, &reason),
            Event::MessageReceived => self.deliver(id),
            Event::SendBufferFree => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.send_waiting(&mut self.core, now, id);
                }
            }
            Event::AllAcknowledged => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.answer_flushes(&self.core, id);
                }
            }
            event => self.on_notification(id, event, now),
        }
    }

    fn on_notification(&mut self, id: AssociationId, event: Event, now: Time) {
        match event {
            Event::PathConfirmed(path)
            | Event::PathRecovered(path)
            | Event::PathLocalAddressChanged(path) => self.fit_paths(id, |p| p.id == path, now),
            // The program has asked not to see it.
            Event::UnexposedPathChange { .. } => return,
            _ => {}
        }
        let restarted = matches!(event, Event::Restarted);
        let changes = restarted || matches!(event, Event::StreamsChanged { .. });
        let stats = changes.then(|| self.core.association(id).map(|a| a.stats()));
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if let Some(stats) = stats.flatten() {
            entry
                .shared
                .set_streams(stats.outbound_streams, stats.inbound_streams);
            if restarted {
                entry.restarted();
                entry.answer_flushes(&self.core, id);
                if entry.shared.shutting_down.load(Ordering::Acquire) {
                    // The restart has ended a shutdown that had begun (RFC 9260, section 5.2.4).
                    entry.shutdown(&mut self.core, now, id, None);
                }
            }
        }
        if event == Event::PeerShutdown {
            entry.refuse_messages();
        }
        entry.notify(event);
    }

    /// Makes the handles of a new association, for `connect` or `accept`.
    fn on_established(
        &mut self,
        id: AssociationId,
        peers: Vec<IpAddr>,
        (outbound, inbound): (u16, u16),
        now: Time,
    ) {
        self.fit_paths(id, |_| true, now);
        let Some(commands) = self.commands.upgrade() else {
            return self.refuse(id, b"the endpoint is closing", now);
        };
        let peers = self.below.peer_addresses(peers);
        let port = self.core.association(id).map_or(0, |a| a.peer_port());
        let entry = self.new_entry(id, peers, port);
        entry.shared.set_streams(outbound, inbound);
        let association = Association::new(id, commands, Arc::clone(&entry.shared));
        let source = entry.shared.source();
        self.entries.insert(id, entry);
        if let Some(answer) = self.connecting.remove(&id) {
            association.accept();
            // If the future was dropped, so is the handle, which requests a
            // shutdown.
            drop(answer.send(Ok(association)));
            return;
        }
        self.queue_to_accept(id, association, source, now);
    }

    /// Returns the entry of an association with these addresses and this port of the peer at the set-up.
    pub(super) fn new_entry(
        &self,
        id: AssociationId,
        peers: Vec<IpAddr>,
        port: u16,
    ) -> AssociationEntry {
        let association = self.core.association(id);
        let fragments = association.is_none_or(|a| a.config().mtu.fragment);
        let extensions = association
            .map(|a| a.stats().extensions)
            .unwrap_or_default();
        let limits = &self.limits;
        let queue = ReceiveQueue::new(limits.receive_queue_messages, limits.receive_queue);
        let bare = !self.below.is_protected();
        let transport = bare.then(|| self.network.transport());
        let peer = (peers, port);
        let unread = Arc::clone(&self.unread);
        let mut shared =
            SharedState::new(limits.send_queue, queue, unread, peer, fragments, transport);
        shared.extensions = extensions;
        shared.handed_over = Arc::clone(&self.handed_over);
        #[cfg(feature = "dtls")]
        {
            shared.fingerprint = self.below.fingerprint(id);
        }
        AssociationEntry::new(shared, limits.notifications)
    }

    /// Queues an association for the program to accept, or refuses it.
    pub(super) fn queue_to_accept(
        &mut self,
        id: AssociationId,
        association: Association,
        source: SourceKey,
        now: Time,
    ) {
        let Some(accepted) = &self.accepted else {
            return self.refuse(id, b"the endpoint is closing", now);
        };
        match accepted.push(association, source) {
            Ok(()) => {}
            Err(TrySendError::Full(())) => {
                self.refuse(id, b"too many associations wait to be accepted", now);
            }
            Err(TrySendError::Closed(())) => {
                self.refuse(id, b"the endpoint is closing", now);
            }
        }
    }

    fn refuse(&mut self, id: AssociationId, reason: &[u8], now: Time) {
        // It has no handle, and is in no report.
        self.entries.remove(&id);
        // It was listed just before; otherwise it is refused already.
        let _ = self.core.abort(now, id, reason);
    }

    fn on_closed(&mut self, id: AssociationId, reason: &CloseReason) {
        let failure = self.below.take_failure(id);
        if let Some(answer) = self.connecting.remove(&id) {
            // The future of a cancelled connect() was dropped.
            // A server closes the session of a client that it does not trust without an error.
            let is_closed = *reason == CloseReason::LowerLayerLost && self.below.is_protected();
            let closed = "the peer closed it: it may have refused this side's certificate";
            let failure = failure.or_else(|| is_closed.then(|| closed.to_owned()));
            let failure = failure.map(ConnectError::Unprotected);
            let error = failure.unwrap_or_else(|| ConnectError::of_set_up(reason));
            let _ = answer.send(Err(error));
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.close(reason);
            self.deliver(id);
        }
    }

    /// Passes received messages to the handles; after the last one, the end.
    pub(super) fn deliver(&mut self, id: AssociationId) {
        // The end of the endpoint does not wait for programs that read.
        let all_at_end = self.ends.is_closing();
        self.deliver_messages(id, all_at_end);
    }

    /// Passes received messages to the handles, those of an association that has ended also beyond the
    /// room in its queue if `all_at_end`.
    pub(super) fn deliver_messages(&mut self, id: AssociationId, all_at_end: bool) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let all = all_at_end && entry.is_closed();
        if !entry.deliver(&mut self.core, id, all) || !entry.is_closed() {
            return;
        }
        if let Some(entry) = self.entries.remove(&id) {
            if let Some(reason) = entry.end_reason().cloned() {
                #[cfg(target_os = "linux")]
                if !entry.discards() {
                    let ended = (Arc::clone(&entry.shared), reason.clone());
                    self.ended.insert(id, ended);
                }
                let end = entry.report(reason);
                self.ends.add(&entry.shared, end);
            }
            if let Some(at) = entry.lingers_until {
                self.lingering.remove(&(at, id));
            }
            entry.end();
        }
    }

    /// Limits the MTU of the chosen paths to that of the host's route, with path MTU discovery also that of its probes.
    fn fit_paths(&mut self, id: AssociationId, is_chosen: impl Fn(&PathStats) -> bool, now: Time) {
        if self.below.is_protected() {
            // Path MTU discovery alone finds the MTU of a session.
            return;
        }
        let association = self.core.association(id).into_iter();
        let paths: Vec<_> = association
            .flat_map(|a| a.paths())
            .filter(is_chosen)
            .collect();
        for path in paths {
            let limits = |mtu: &usize| path.mtu_discovery.is_some() || *mtu < path.mtu;
            if let Some(mtu) = route_mtu(path.local, path.remote).filter(limits)
                && let Some(mut association) = self.core.association_mut(now, id)
            {
                // The path exists: it was listed just before.
                let _ = association.set_path_mtu(path.id, mtu);
            }
        }
    }
}
