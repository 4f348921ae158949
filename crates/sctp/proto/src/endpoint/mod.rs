//! SCTP endpoint: a port, its local addresses, and all associations on them.
//!
//! Input, with the sections of RFC 9260:
//! - `input`: demultiplexing and verification tags (sections 6.8, 8.5)
//! - `zero_checksum`: packets with a zero checksum (RFC 9653)
//! - `protection`: packets with protected chunks
//! - `init`: INIT (sections 5.1 B, 5.2.1, 5.2.2)
//! - `cookie`, `cookie_echo`: State Cookie and COOKIE ECHO (sections 5.1.3, 5.1.5, 5.2.4)
//! - `setup_lookup`: associations to which INIT and COOKIE ECHO refer
//! - `same_peer`: one association between two endpoints (section 1.3)
//! - `out_of_the_blue`: packets without an association (section 8.4)
//! - `icmp`: ICMP messages (section 10)
//!
//! Operations of the user:
//! - `association_mut`: handle for operations on one association
//! - `connect`: ASSOCIATE (section 11.1.2)
//! - `addresses`: changes of the host's addresses (RFC 5061)
//! - `keys`: endpoint-pair shared keys (RFC 4895)
//! - `paths`: primary path, heartbeats, thresholds, MTU, encapsulation (sections 11.1.6 to 11.1.12)
//! - `parameters`: protocol parameters that change at run time (section 11.1.13)
//! - `lower_layer`: connections of a lower layer other than IP (RFC 8261)
//! - `reconfig`: reset and addition of streams (RFC 6525)
//! - `streams`: stream schedulers (RFC 8260)
//!
//! - `config`: parameters of the endpoint
//! - `export`: export and import of the endpoint
//!
//! Tables:
//! - `registry`: associations by identifier, address, tag and next timeout
//! - `shard`: associations of all endpoints with one port and its addresses
//! - `peer_index`: associations by peer address and port
//! - `source_table`: number and memory of the associations with one source

//! - `replies`: packets of the endpoint itself

mod addresses;
mod association_mut;
mod config;
mod connect;
mod cookie_echo;
mod export;
mod icmp;
mod init;
mod input;
mod keys;
mod lower_layer;
mod out_of_the_blue;
mod parameters;
mod paths;
mod peer_index;
mod protection;
mod reconfig;
mod registry;
mod same_peer;
mod setup_lookup;
mod shard;
mod source_table;
mod streams;
mod zero_checksum;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use bytes::Bytes;

use crate::association::{Association, Context};
use crate::capacity::ReserveDoubling;
use crate::config::AssociationConfig;
use crate::cookie::CookieSecrets;
use crate::error::{ConfigError, OperationError, SendError};
use crate::event::{AbortCause, CloseReason, Event};
use crate::ids::AssociationId;
use crate::observer::{ObservedEvent, Observer};
use crate::random::Random;
use crate::reply_packets::Replies;
use crate::route::PeerAddress;
use crate::rx::message::Message;
use crate::stats::{AssociationCounters, BufferUse, EndpointStats};
use crate::time::Time;
use crate::transmit::Transmit;
use crate::tx::message::SendOptions;

use input::PacketRun;
use registry::Registry;
use same_peer::PeerChange;
use shard::{NewAssociation, Refusal};

pub(crate) use crate::addresses::{AddressVersion, LocalAddresses};
pub use association_mut::AssociationMut;
pub use config::{EndpointConfig, ImportConfig};
pub use export::EndpointExport;
pub use icmp::{IcmpInput, IcmpKind};
pub use shard::{Shard, ShardTable, SharedTable};
pub use source_table::SourceKey;

pub use parameters::ParameterChanges;

/// SCTP endpoint with its associations. The crate's documentation has the order of calls.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    local_addresses: LocalAddresses,
    /// Parameters of associations that peers initiate.
    accepted: Arc<AssociationConfig>,
    random: Random,
    secrets: Option<CookieSecrets>,
    registry: Registry,
    replies: Replies,
    /// Buffer for the encoding of cookies, reused.
    cookie_buffer: Vec<u8>,
    events: VecDeque<(AssociationId, Event)>,
    /// A chunk protection is configured for some association.
    uses_protection: bool,
    run: PacketRun,
    stats: EndpointStats,
    observer: Option<Arc<dyn Observer>>,
}

impl Endpoint {
    /// Creates an endpoint.
    ///
    /// # Errors
    /// Returns the first parameter of the configuration that is out of its range.
    pub fn new(mut config: EndpointConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut random = Random::new(config.seed);
        let registry = Registry::new(
            &mut random,
            config.association.finds_by_tag(),
            config.shard.clone(),
        );
        let uses_protection = config.association.security.protection.is_some();
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
            uses_protection,
            run: PacketRun::default(),
            stats: EndpointStats::default(),
            observer: None,
        })
    }

    /// Queues a message for transmission: SEND of RFC 9260, section 11.1.5. The message is accepted as a
    /// whole or refused.
    ///
    /// # Errors
    /// See [`SendError`]. After [`SendError::BufferFull`], [`Event::SendBufferFree`] follows once the send
    /// buffer has room.
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
        self.registry.update_queued(id);
        if options.may_be_abandoned() {
            self.registry.refresh(id);
        } else {
            // A message without a lifetime changes no timer before it is sent.
            self.registry.mark_ready(id);
        }
        Ok(())
    }

    /// Returns whether [`Self::send`] would accept a message of one byte. If the send buffer is full,
    /// [`Event::SendBufferFree`] follows once it has room, as after [`SendError::BufferFull`].
    pub fn has_send_room(&mut self, id: AssociationId) -> bool {
        self.registry
            .get_mut(id)
            .is_some_and(Association::has_send_room)
    }

    /// Returns the next received message, or the next part of one: RECEIVE of RFC 9260, section 11.1.7.
    /// This frees receive buffer and opens the advertised window.
    pub fn receive(&mut self, id: AssociationId) -> Option<Message> {
        self.registry.limit_receiver(id, self.config.receive_memory);
        let association = self.registry.get_mut(id)?;
        let message = association.receive();
        let done = association.state().is_closed() && !association.has_receivable();
        let update = association.sack_is_due();
        self.registry.update_memory_use(id);
        if done {
            self.remove(id);
        } else if update {
            self.registry.mark_ready(id);
        }
        message
    }

    /// Shuts an association down after all messages of both sides have been delivered: SHUTDOWN of
    /// RFC 9260, section 11.1.3. An association that is not yet established is dropped.
    ///
    /// # Errors
    /// [`OperationError::UnknownAssociation`].
    pub fn shutdown(&mut self, now: Time, id: AssociationId) -> Result<(), OperationError> {
        self.update_association(now, id, Association::shutdown)
            .unwrap_or(Err(OperationError::UnknownAssociation))
    }

    /// Aborts an association with a reason for the peer: ABORT of RFC 9260, section 11.1.4. Received
    /// messages that have not been read are dropped, also those of an association that has ended.
    ///
    /// # Errors
    /// [`OperationError::UnknownAssociation`].
    pub fn abort(
        &mut self,
        now: Time,
        id: AssociationId,
        reason: &[u8],
    ) -> Result<(), OperationError> {
        let cause = AbortCause::new(carrick_wire::CauseCode::USER_INITIATED_ABORT.0, reason);
        let aborted = self.update_association(now, id, |association, cx| {
            association.abort(CloseReason::AbortedByUser, &cause, cx);
        });
        self.remove(id);
        aborted.ok_or(OperationError::UnknownAssociation)
    }

    /// Returns the highest RTO that a measurement or a timeout has set on a path of an association since the
    /// last call, with the address of the path. `None` if the association is not known or none was set.
    pub fn take_highest_rto(&mut self, id: AssociationId) -> Option<(IpAddr, Duration)> {
        self.registry.get_mut(id)?.take_highest_rto()
    }

    /// Processes all timers that have expired at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.registry.next_expired(now) {
            self.update_association(now, id, Association::handle_timeout);
            self.end_repeated_set_up(now, id);
        }
    }

    /// Returns the time of the next call of [`Self::handle_timeout`], valid once [`Self::poll_transmit`]
    /// has returned `None`. It may be earlier than the next timer, never later.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.registry.next_timeout()
    }

    /// Appends the next packets to `buf` and returns their route and sizes; `None` if there is nothing to
    /// send at `now`.
    ///
    /// Replies of the endpoint itself come first, then the packets of each association with something to
    /// send, in the order in which the associations were queued.
    pub fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.replies.poll_transmit(buf) {
            self.stats.packets_sent += 1;
            return Some(transmit);
        }
        while let Some(id) = self.registry.next_ready() {
            let (registry, mut cx) = self.registry_and_context(now);
            let Some(association) = registry.get_mut(id) else {
                continue;
            };
            let transmit = association.poll_transmit(buf, &mut cx);
            let has_events = association.has_events();
            if has_events {
                association.queue_notifications();
            }
            if transmit.is_some() {
                // Its timers are scheduled when nothing is left to send.
                self.registry.mark_ready(id);
            } else {
                self.registry.schedule(id);
            }
            if has_events {
                self.registry.update_queued(id);
                self.collect_events(now, id);
            }
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    /// Returns the next event of an association.
    pub fn poll_event(&mut self) -> Option<(AssociationId, Event)> {
        let (id, event) = self.events.pop_front()?;
        if let (Event::PeerError(_), Some(association)) = (&event, self.registry.get_mut(id)) {
            association.on_peer_error_polled();
        }
        Some((id, event))
    }

    /// Sets the observer of all associations, those that exist and those to come; `None` ends the observation. The
    /// observer is first passed [`ObservedEvent::Begun`](crate::ObservedEvent::Begun), the paths and the state of each association
    /// that exists. It is not exported.
    pub fn set_observer(&mut self, now: Time, observer: Option<Arc<dyn Observer>>) {
        self.observer = observer;
        let ids: Vec<AssociationId> = self.associations().collect();
        for id in ids {
            if let Some(association) = self.registry.get_mut(id) {
                association.observe(self.observer.clone(), now);
            }
        }
    }

    /// Returns the observer of [`Self::set_observer`].
    pub fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.observer.as_ref()
    }

    /// Returns the counters of the endpoint.
    pub fn stats(&self) -> EndpointStats {
        EndpointStats {
            replies_dropped: self.replies.dropped,
            receive_memory: self.registry.received(),
            ..self.stats
        }
    }

    /// Returns the counters of all associations since the endpoint was created, those included that have
    /// ended. No counter decreases. Takes time in proportion to the number of associations.
    pub fn association_counters(&self) -> AssociationCounters {
        let mut sum = self.stats.removed;
        for association in self.associations().filter_map(|id| self.registry.get(id)) {
            sum += association.counters();
        }
        sum
    }

    /// Changes the association limits, [`EndpointConfig::max_associations`] and
    /// [`EndpointConfig::max_associations_per_source`]. Existing associations are kept even if they
    /// exceed them.
    pub fn set_max_associations(&mut self, most: usize, per_source: Option<usize>) {
        self.config.max_associations = most;
        self.config.max_associations_per_source = per_source;
    }

    /// Changes the memory for received data, [`EndpointConfig::receive_memory`]. Data that was received
    /// before is kept.
    pub fn set_receive_memory(&mut self, bytes: usize) {
        self.config.receive_memory = bytes;
    }

    /// Limits the received data of the associations that the next inputs concern to what each holds and `room`
    /// bytes more, but at least to 4 KiB, instead of their shares of [`EndpointConfig::receive_memory`]. For users
    /// with several endpoints, which share memory. `None`, as at first, restores the shares.
    pub fn set_receive_room(&mut self, room: Option<usize>) {
        self.registry.set_receive_room(room);
    }

    /// Records the associations whose buffers change, for [`Self::poll_buffer_change`], which has to be
    /// called regularly from then on. Those that hold data now come first.
    pub fn record_buffer_changes(&mut self) {
        self.registry.record_buffer_changes();
    }

    /// Returns an association whose received data or send buffer has changed, with the bytes that they hold; 0
    /// bytes after its removal.
    pub fn poll_buffer_change(&mut self) -> Option<(AssociationId, BufferUse)> {
        self.registry.poll_buffer_change()
    }

    /// Returns the source of an association, as the limits of [`EndpointConfig`] have it, and whether the peer
    /// initiated it.
    pub fn source(&self, id: AssociationId) -> Option<(SourceKey, bool)> {
        self.registry.source(id)
    }

    /// Returns an association to read its state; `None` if it is unknown, or has ended and its messages have
    /// been received.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.registry.get(id)
    }

    /// Returns the identifiers of all associations.
    pub fn associations(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.registry.ids()
    }

    /// Returns the parameters of associations that peers initiate.
    pub fn default_config(&self) -> Arc<AssociationConfig> {
        Arc::clone(&self.accepted)
    }

    /// Sets whether INITs of peers are accepted or refused with ABORT.
    pub fn set_accepting(&mut self, accept: bool) {
        self.config.accept = accept;
    }

    /// Returns the SCTP port of this endpoint.
    pub fn port(&self) -> u16 {
        self.config.port
    }

    /// Returns the local addresses of this endpoint.
    pub fn local_addresses(&self) -> &[IpAddr] {
        self.local_addresses.all()
    }

    /// Admits an association within the limits of the endpoint, and reserves its identifier.
    fn admit(&mut self, new: &NewAssociation<'_>) -> Result<AssociationId, Refusal> {
        let full = |peer: &PeerAddress| self.registry.is_full(peer.address, new.port);
        if new.claimed().iter().any(full) {
            return Err(Refusal::Limit);
        }
        let limits = (self.config.max_associations, self.config.per_source());
        self.registry.admit(new, limits)
    }

    /// Borrows the registry together with the context that association methods need.
    fn registry_and_context(&mut self, now: Time) -> (&mut Registry, Context<'_>) {
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

    /// Performs an operation on an association and updates everything that depends on its state:
    ///
    /// 1. Limit its receive buffer to its share of the endpoint's memory.
    /// 2. Perform the operation.
    /// 3. Advance the key management of its chunk protection.
    /// 4. Queue the notifications that became due.
    /// 5. Update the index by the peer's addresses.
    /// 6. Update the accounting of receive memory.
    /// 7. Move its events to the endpoint's queue, and remove it if it has ended.
    /// 8. Update the index by tag and the queue of associations to send.
    ///
    /// Returns `None` if there is no such association.
    fn update_association<R>(
        &mut self,
        now: Time,
        id: AssociationId,
        operation: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.registry.limit_receiver(id, self.config.receive_memory);
        let (registry, mut cx) = self.registry_and_context(now);
        let association = registry.get_mut(id)?;
        let result = operation(association, &mut cx);
        self.finish_update(now, id);
        Some(result)
    }

    /// Takes steps 3 to 8 of [`Self::update_association`].
    fn finish_update(&mut self, now: Time, id: AssociationId) {
        let (registry, mut cx) = self.registry_and_context(now);
        let Some(association) = registry.get_mut(id) else {
            return;
        };
        association.manage_keys(&mut cx);
        association.queue_notifications();
        association.observe_changes(now);
        let outdated = association.take_peer_entries_changed();
        let gone = association.take_peer_address_changes();
        if gone.is_some() || outdated {
            self.registry.reindex(&gone.unwrap_or_default(), id);
        }
        self.registry.update_memory_use(id);
        self.collect_events(now, id);
        self.registry.refresh(id);
    }

    /// Removes an association and keeps its counters.
    fn remove(&mut self, id: AssociationId) {
        if let Some(association) = self.registry.remove(id) {
            self.stats.removed += association.counters();
        }
    }

    /// Moves the events of an association to the endpoint's queue. A closed association leaves the indexes,
    /// and the registry when its received messages have been read.
    fn collect_events(&mut self, now: Time, id: AssociationId) {
        while let Some(event) = self.registry.get_mut(id).and_then(Association::poll_event) {
            if let Some(observer) = &self.observer
                && ObservedEvent::detail_of(&event) <= observer.detail()
            {
                observer.observe(id, now, &ObservedEvent::Notified(event.clone()));
            }
            let change = PeerChange::of(&event);
            self.events.reserve_doubling();
            self.events.push_back((id, event));
            if let Some(change) = change {
                self.on_peer_change(now, id, change);
            }
        }
        let Some(association) = self.registry.get(id) else {
            return;
        };
        if association.state().is_closed() {
            // Received messages stay readable; the peer can set up a new association.
            if association.has_receivable() {
                self.registry.unlink(id);
            } else {
                self.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tag_tests;
#[cfg(test)]
mod tests;
