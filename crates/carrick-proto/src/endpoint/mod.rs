//! One SCTP endpoint: a port, its addresses, and all associations on them.
//!
//! - `input`: which association a packet belongs to, and the verification tag (RFC 9260 section 8.5)
//! - `init`: INITs are answered without keeping anything (sections 5.1 B, 5.2.1, 5.2.2)
//! - `connect`: set-ups of this side (section 11.1.2)
//! - `cookie`, `cookie_echo`: the sealed state that comes back (sections 5.1.3, 5.1.5, 5.2.4)
//! - `out_of_the_blue`: packets of no association (section 8.4)
//! - `addresses`: the host's addresses come and go (RFC 5061)
//! - `icmp`: what ICMP messages may do (section 10)
//! - `keys`: endpoint-pair shared keys (RFC 4895)
//! - `local_addresses`: which of them a peer knows (section 5.1.2)
//! - `lower_layer`: connections below, where that is not IP (RFC 8261)
//! - `peers`, `sharing`: several associations at one peer address and port (RFC 6951)
//! - `protection`: packets whose chunks are protected
//! - `reconfig`: streams are reset and added (RFC 6525)
//! - `registry`: associations by identifier, address and timer
//! - `sources`: how many associations peers have set up from one address, and what these hold
//! - `streams`: how they share an association (RFC 8260)

mod addresses;
mod connect;
mod cookie;
mod cookie_echo;
mod icmp;
mod init;
mod input;
mod keys;
mod local_addresses;
mod lower_layer;
mod out_of_the_blue;
mod peers;
mod protection;
mod reconfig;
mod registry;
mod replies;
mod sharing;
mod sources;
mod streams;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::StreamId;

use crate::association::{Association, AssociationId, Context};
use crate::config::{AssociationConfig, ConfigError, EndpointConfig};
use crate::error::{AbortCause, OperationError, SendError};
use crate::event::{CloseReason, Event};
use crate::path::{PathId, PathThresholds};
use crate::random::Random;
use crate::recv::message::Message;
use crate::route::Transmit;
use crate::send::message::SendOptions;
use crate::stats::{AssociationStats, EndpointStats, PathStats, StreamStats};
use crate::time::Time;
use crate::trace::TraceRecord;

use registry::Registry;

pub use connect::PeerAddress;
pub(crate) use cookie::Cookie;
pub use icmp::{IcmpInput, IcmpKind};
pub(crate) use init::shortened;
pub(crate) use local_addresses::{LocalAddresses, Told};
pub(crate) use replies::Replies;
pub(crate) use sources::SourceIndex;

/// One SCTP endpoint with its associations. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    local_addresses: LocalAddresses,
    /// What peers' associations start with, shared by all of them.
    accepted: Arc<AssociationConfig>,
    random: Random,
    secrets: Option<cookie::Secrets>,
    registry: Registry,
    replies: Replies,
    /// Where cookies are put together.
    cookie_buffer: Vec<u8>,
    events: VecDeque<(AssociationId, Event)>,
    /// Some association may have its chunks protected.
    protects: bool,
    stats: EndpointStats,
}

impl Endpoint {
    /// Makes an endpoint.
    ///
    /// # Errors
    /// Names a parameter of the configuration that is out of its range.
    pub fn new(mut config: EndpointConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut random = Random::new(config.seed);
        let registry = Registry::new(&mut random, config.association.finds_by_tag());
        let protects = config.association.protection.is_some();
        Ok(Self {
            accepted: Arc::new(config.association.clone()),
            local_addresses: LocalAddresses::new(core::mem::take(&mut config.local_addresses)),
            config,
            random,
            secrets: None,
            registry,
            replies: Replies::default(),
            cookie_buffer: Vec::new(),
            events: VecDeque::new(),
            protects,
            stats: EndpointStats::default(),
        })
    }

    /// SEND (section 11.1.5): gives a message to the association. It is taken as a whole or not.
    ///
    /// # Errors
    /// Says why the message was not taken; with [`SendError::BufferFull`],
    /// [`Event::SendBufferFree`] tells when to try again.
    pub fn send(
        &mut self,
        now: Time,
        id: AssociationId,
        options: SendOptions,
        data: Bytes,
    ) -> Result<(), SendError> {
        let association = self
            .registry
            .get_mut(id)
            .ok_or(SendError::UnknownAssociation)?;
        association.send(now, options, data)?;
        if options.may_be_abandoned() {
            self.registry.touch(id);
        } else {
            // A message without a deadline moves no timer before it leaves.
            self.registry.list(id);
        }
        Ok(())
    }

    /// RECEIVE (section 11.1.7): the next message, or the next part of one. Taking it opens the
    /// window that the peer is told of.
    pub fn receive(&mut self, id: AssociationId) -> Option<Message> {
        self.registry.limit_receiver(id, self.config.receive_memory);
        let association = self.registry.get_mut(id)?;
        let message = association.receive();
        let done = association.state.is_closed() && association.receiver.receivable() == 0;
        let update = association.receiver.sack_is_due();
        self.registry.charge(id);
        if done {
            self.registry.remove(id);
        } else if update {
            self.registry.list(id);
        }
        message
    }

    /// SHUTDOWN (section 11.1.3): ends the association after all messages of both sides have been
    /// delivered. An association that is still being set up is dropped.
    ///
    /// # Errors
    /// The association is not known.
    pub fn shutdown(&mut self, now: Time, id: AssociationId) -> Result<(), OperationError> {
        self.operate(now, id, Association::shutdown)
    }

    /// ABORT (section 11.1.4): ends the association at once and gives the reason to the peer.
    /// Messages that have not been read are dropped, also those of an association that has ended.
    ///
    /// # Errors
    /// The association is not known.
    pub fn abort(
        &mut self,
        now: Time,
        id: AssociationId,
        reason: &[u8],
    ) -> Result<(), OperationError> {
        let cause = AbortCause::new(carrick_wire::CauseCode::USER_INITIATED_ABORT.0, reason);
        let known = self.with(now, id, |association, cx| {
            association.abort(CloseReason::AbortedByUser, &cause, cx);
        });
        self.registry.remove(id);
        known.ok_or(OperationError::UnknownAssociation)
    }

    /// SET PRIMARY (section 11.1.6): new data goes to this path while it works.
    ///
    /// # Errors
    /// The association or the path is not known.
    pub fn set_primary(
        &mut self,
        now: Time,
        id: AssociationId,
        path: PathId,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, _| association.set_primary(path))
    }

    /// CHANGE HEARTBEAT (section 11.1.9) on one path.
    ///
    /// # Errors
    /// The association or the path is not known.
    pub fn set_heartbeat(
        &mut self,
        now: Time,
        id: AssociationId,
        path: PathId,
        enabled: bool,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, cx| {
            association.set_heartbeat(path, enabled, cx)
        })
    }

    /// REQUEST HEARTBEAT (section 11.1.10) on one path.
    ///
    /// # Errors
    /// The association or the path is not known, or the state has no heartbeats.
    pub fn request_heartbeat(
        &mut self,
        now: Time,
        id: AssociationId,
        path: PathId,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, _| {
            association.request_heartbeat(path)
        })
    }

    /// SET FAILURE THRESHOLD (section 11.1.12): Path.Max.Retrans of one path.
    ///
    /// # Errors
    /// The association or the path is not known.
    pub fn set_failure_threshold(
        &mut self,
        now: Time,
        id: AssociationId,
        path: PathId,
        threshold: u32,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, _| {
            let known = association.thresholds(Some(path));
            let thresholds = PathThresholds {
                path_max_retrans: threshold,
                ..known.ok_or(OperationError::UnknownPath)?
            };
            association.set_thresholds(Some(path), thresholds)
        })
    }

    /// Sets all thresholds of one path, or of all present and future ones: `SCTP_PEER_ADDR_THLDS` of
    /// RFC 7829 section 7.2.
    ///
    /// # Errors
    /// The association or the path is not known, or the thresholds contradict each other.
    pub fn set_path_thresholds(
        &mut self,
        now: Time,
        id: AssociationId,
        path: Option<PathId>,
        thresholds: PathThresholds,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, _| {
            association.set_thresholds(path, thresholds)
        })
    }

    /// The thresholds of one path, or those that new paths get.
    pub fn path_thresholds(
        &self,
        id: AssociationId,
        path: Option<PathId>,
    ) -> Option<PathThresholds> {
        self.registry.get(id)?.thresholds(path)
    }

    /// Whether events and statistics show that paths are potentially failed:
    /// `SCTP_EXPOSE_POTENTIALLY_FAILED_STATE` of RFC 7829 section 7.3. To see what applies, read
    /// [`AssociationConfig::expose_potentially_failed`] in [`Self::association_config`].
    ///
    /// # Errors
    /// The association is not known.
    pub fn set_expose_potentially_failed(
        &mut self,
        now: Time,
        id: AssociationId,
        expose: bool,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, _| {
            association.expose_potentially_failed(expose);
            Ok(())
        })
    }

    /// The path MTU of one path in bytes, IP header included, as the driver knows it. Where path MTU
    /// discovery is on, this is the limit of the search until it begins anew.
    ///
    /// # Errors
    /// The association or the path is not known.
    pub fn set_path_mtu(
        &mut self,
        now: Time,
        id: AssociationId,
        path: PathId,
        mtu: usize,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, _| {
            if !association.paths.contains(path) {
                return Err(OperationError::UnknownPath);
            }
            association.set_path_mtu(path, mtu, now);
            Ok(())
        })
    }

    /// Handles all timers that have expired at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.registry.next_expired(now) {
            self.with(now, id, Association::handle_timeout);
        }
    }

    /// When [`Self::handle_timeout`] wants to be called next, once [`Self::poll_transmit`] has returned
    /// `None`. It may turn out that nothing was due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.registry.next_timeout()
    }

    /// Appends the next packets to `buf` and says where they go; `None` when there is nothing more
    /// to send now.
    pub fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.replies.poll_transmit(buf) {
            self.stats.packets_sent += 1;
            return Some(transmit);
        }
        while let Some(id) = self.registry.next_ready() {
            let (registry, mut cx) = self.split(now);
            let Some(association) = registry.get_mut(id) else {
                continue;
            };
            let transmit = association.poll_transmit(buf, &mut cx);
            let told = !association.events.is_empty();
            if told {
                association.tell();
            }
            if transmit.is_some() {
                // Its timers are looked at when nothing is left to send.
                self.registry.list(id);
            } else {
                self.registry.schedule(id);
            }
            if told {
                self.collect(id);
            }
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    /// The next fact about an association.
    pub fn poll_event(&mut self) -> Option<(AssociationId, Event)> {
        let (id, event) = self.events.pop_front()?;
        if let (Event::PeerError(_), Some(association)) = (&event, self.registry.get_mut(id)) {
            association.peer_errors = association.peer_errors.saturating_sub(1);
        }
        Some((id, event))
    }

    /// The next record of an association's log, when [`AssociationConfig::trace`] is set. The log
    /// ends with the association.
    pub fn poll_trace(&mut self, id: AssociationId) -> Option<TraceRecord> {
        self.registry.get_mut(id)?.trace.pop()
    }

    /// The endpoint's counters.
    pub fn stats(&self) -> EndpointStats {
        EndpointStats {
            replies_dropped: self.replies.dropped,
            receive_memory: self.registry.received(),
            ..self.stats
        }
    }

    /// STATUS (section 11.1.8).
    pub fn association_stats(&self, id: AssociationId) -> Option<AssociationStats> {
        self.registry.get(id).map(Association::stats)
    }

    /// The state and counters of one path.
    pub fn path_stats(&self, id: AssociationId, path: PathId) -> Option<PathStats> {
        let association = self.registry.get(id)?;
        association
            .paths
            .contains(path)
            .then(|| association.path_stats(path))
    }

    /// The counters of an outbound stream (RFC 7496 section 4.3); `None` where there is no such
    /// stream.
    pub fn stream_stats(&self, id: AssociationId, stream: StreamId) -> Option<StreamStats> {
        self.registry.get(id)?.stream_stats(stream)
    }

    /// The paths of an association, in their order.
    pub fn paths(&self, id: AssociationId) -> impl Iterator<Item = PathStats> + '_ {
        self.registry
            .get(id)
            .into_iter()
            .flat_map(|a| a.paths.ids().map(|id| a.path_stats(id)))
    }

    /// Changes the association limits, [`EndpointConfig::max_associations`] and
    /// [`EndpointConfig::max_associations_per_source`]. Existing associations are kept even if they
    /// exceed them.
    pub fn set_max_associations(&mut self, most: usize, per_source: Option<usize>) {
        self.config.max_associations = most;
        self.config.max_associations_per_source = per_source;
    }

    /// The associations that exist now.
    pub fn associations(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.registry.ids()
    }

    /// The SCTP port of the association's peer.
    pub fn peer_port(&self, id: AssociationId) -> Option<u16> {
        self.registry.get(id).map(|a| a.peer_port)
    }

    /// The parameters of an association.
    pub fn association_config(&self, id: AssociationId) -> Option<&AssociationConfig> {
        self.registry.get(id).map(|a| &*a.config)
    }

    /// The parameters that associations set up by peers get.
    pub fn default_config(&self) -> Arc<AssociationConfig> {
        Arc::clone(&self.accepted)
    }

    /// From now on INITs of peers are answered, or refused with ABORT.
    pub fn set_accepting(&mut self, accept: bool) {
        self.config.accept = accept;
    }

    /// The SCTP port of this endpoint.
    pub fn port(&self) -> u16 {
        self.config.port
    }

    /// The local addresses of this endpoint.
    pub fn local_addresses(&self) -> &[IpAddr] {
        self.local_addresses.all()
    }

    /// The registry and everything else that an association works with.
    fn split(&mut self, now: Time) -> (&mut Registry, Context<'_>) {
        let context = Context {
            now,
            random: &mut self.random,
            local_addresses: &self.local_addresses,
            selection: &*self.config.source_selection,
            stats: &mut self.stats,
            replies: &mut self.replies,
        };
        (&mut self.registry, context)
    }

    fn operate(
        &mut self,
        now: Time,
        id: AssociationId,
        operation: impl FnOnce(&mut Association, &mut Context<'_>) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let open = |association: &mut Association, cx: &mut Context<'_>| {
            if association.state.is_closed() {
                return Err(OperationError::UnknownAssociation);
            }
            operation(association, cx)
        };
        self.with(now, id, open)
            .unwrap_or(Err(OperationError::UnknownAssociation))
    }

    /// Lets an association work, then collects its events and timers, and removes it if it ended.
    fn with<R>(
        &mut self,
        now: Time,
        id: AssociationId,
        work: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.registry.limit_receiver(id, self.config.receive_memory);
        let (registry, mut cx) = self.split(now);
        let association = registry.get_mut(id)?;
        let result = work(association, &mut cx);
        association.tell();
        let listing_changed = core::mem::take(&mut association.listing_changed);
        let gone = association.take_address_news();
        if gone.is_some() || listing_changed {
            self.registry.reindex(&gone.unwrap_or_default(), id);
        }
        self.registry.charge(id);
        self.collect(id);
        self.registry.touch(id);
        Some(result)
    }

    fn collect(&mut self, id: AssociationId) {
        let Some(association) = self.registry.get_mut(id) else {
            return;
        };
        while let Some(event) = association.events.pop_front() {
            self.events.push_back((id, event));
        }
        if association.state.is_closed() {
            // What the user has not read stays until it was read; the peer is free to come again.
            let unread = association.receiver.receivable() > 0;
            self.registry.unlink(id);
            if !unread {
                self.registry.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tag_tests;
#[cfg(test)]
mod tests;
