//! One association: its control block (RFC 9260 section 14.2) and its procedures.
//!
//! - `addresses`: dynamic addresses (RFC 5061)
//! - `authentication`: AUTH chunks and keys (RFC 4895)
//! - `handshake`: normal establishment (section 5.1); `collision`: set-ups that meet an existing
//!   association, restart (section 5.2)
//! - `input`: chunks of a packet in their order; `data`, `acknowledge`: what DATA, SACK and ECNE do
//! - `events`: notifications for the user
//! - `replies`: control chunks that answer a packet
//! - `forward_tsn`: abandoned messages (RFC 3758)
//! - `protection`: chunks that are protected on the wire
//! - `queries`: values for the endpoint and its user
//! - `shutdown`: graceful shutdown (section 9.2)
//! - `paths`: changes of the paths: reachability (sections 5.4 and 8), failover, path MTU
//! - `lower_layer`: reports of the layers below: ICMP, DTLS (RFC 8261)
//! - `timers`: all timers
//! - `sources`: the local address of each path (section 6.4)
//! - `streams`: re-configuration of streams (RFC 6525)
//! - `output`: the order of packets; `output_control`: packets of control chunks
//! - `assemble`: packets with DATA (section 6.10)
//! - `oversized`: packets that IP has to fragment
//! - `routes`: routes of replies (section 6.4), the peer's UDP ports (RFC 6951)

mod acknowledge;
mod addresses;
mod assemble;
mod authentication;
mod collision;
mod data;
mod events;
mod forward_tsn;
mod handshake;
mod input;
mod liveness;
mod lower_layer;
mod output;
mod output_control;
mod oversized;
mod paths;
mod peer_parameters;
mod protection;
mod queries;
mod replies;
mod routes;
mod sack;
mod shutdown;
mod sources;
pub(crate) mod state;
mod streams;
mod timers;
mod zero_checksum;

use alloc::boxed::Box;
use alloc::sync::Arc;

use bytes::Bytes;
use carrick_wire::{CommonHeader, StreamId, Tsn, VerificationTag};

use crate::addresses::{AddressVersion, AdvertisedAddresses, DynamicAddresses, LocalAddresses};
use crate::auth::{Auth, ChunkSet};
use crate::config::{AssociationConfig, StreamScheduler};
use crate::cookie::TieTags;
use crate::counters::Counters;
use crate::ecn::CongestionMarks;
use crate::error::{OperationError, SendError};
use crate::event::{AbortCause, CloseReason, Event};
use crate::extensions::Extensions;
use crate::ids::AssociationId;
use crate::observer::{Observation, ObservedEvent, Observer};
use crate::path::Paths;
use crate::protection::Protected;
use crate::random::Random;
use crate::reply_packets::Replies;
use crate::route::SourceSelection;
use crate::rx::Receiver;
use crate::rx::message::Message;
use crate::stats::EndpointStats;
use crate::streams::Streams;
use crate::time::Time;
use crate::tx::Sender;
use crate::tx::message::SendOptions;
use events::EventQueue;
pub(crate) use input::PacketFront;
use liveness::Liveness;
pub(crate) use output_control::cookie_while_shutting_down;
pub(crate) use peer_parameters::{InitFault, PeerParameters, ip_addresses, shortened};
use replies::{Reply, ReplyQueue};
use state::AssociationState;

/// Parts of the endpoint that an association uses.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) random: &'a mut Random,
    pub(crate) local_addresses: &'a LocalAddresses,
    pub(crate) selection: &'a dyn SourceSelection,
    pub(crate) stats: &'a mut EndpointStats,
    pub(crate) replies: &'a mut Replies,
}

/// Association, for reading: [`Endpoint::association`](crate::Endpoint::association) returns it, and
/// [`Endpoint::association_mut`](crate::Endpoint::association_mut) a handle to change it.
// The transmission control block (RFC 9260, section 14.2). Parts keep their state private: paths, sender,
// receiver, `advertised`, `dynamic`, `auth`, `protection`, `streams`, `replies`, `liveness`, `ecn` and
// `events`; the association applies the results of one part to the other parts. The endpoint
// reads it by the methods in `queries`.
#[derive(Debug)]
pub struct Association {
    id: AssociationId,
    config: Arc<AssociationConfig>,
    local_port: u16,
    peer_port: u16,
    local_tag: VerificationTag,
    /// Zero before the peer's INIT ACK.
    peer_tag: VerificationTag,
    local_initial_tsn: Tsn,
    /// Local addresses that the peer knows from the set-up.
    advertised: AdvertisedAddresses,
    peer_adaptation_layer: Option<u32>,
    tie_tags: Option<TieTags>,
    /// [`LocalAddresses::source_version`] at the last selection of source addresses.
    sources_seen: u32,
    /// Extensions that both sides support.
    extensions: Extensions,
    /// Present where dynamic addresses are negotiated (RFC 5061).
    dynamic: Option<Box<DynamicAddresses>>,
    auth: Auth,
    /// Present where chunks are protected on the wire.
    protection: Option<Box<Protected>>,
    state: AssociationState,
    paths: Paths,
    sender: Sender,
    receiver: Receiver,
    /// Re-configuration of streams (RFC 6525).
    streams: Streams,
    replies: ReplyQueue,
    liveness: Liveness,
    events: EventQueue,
    ecn: CongestionMarks,
    observation: Observation,
    counters: Counters,
    accepted: bool,
    /// A UDP port of the peer changed, or an address was confirmed, since the last query of the endpoint.
    peer_entries_changed: bool,
}

portable_struct! {
    Association {
        id, config, local_port, peer_port, local_tag, peer_tag, local_initial_tsn, advertised,
        peer_adaptation_layer, tie_tags, sources_seen, extensions, dynamic, auth, protection, state,
        paths, sender, receiver, streams, replies, liveness, events, ecn, observation, counters, accepted,
        peer_entries_changed,
    }
    check Self::is_consistent
}

impl Association {
    /// Returns whether the parts of an imported association fit together.
    fn is_consistent(&self) -> bool {
        // Data of an association that has ended was dropped without regard to its paths.
        let sends = !self.state.is_closed();
        self.paths.is_consistent() && (!sends || self.sender.is_consistent_with(&self.paths))
    }

    pub(crate) fn new(
        id: AssociationId,
        config: Arc<AssociationConfig>,
        ports: (u16, u16),
        local_tag: VerificationTag,
        local_initial_tsn: Tsn,
        advertised: AddressVersion,
        state: AssociationState,
    ) -> Box<Self> {
        Box::new(Self {
            id,
            local_port: ports.0,
            peer_port: ports.1,
            local_tag,
            peer_tag: VerificationTag::ZERO,
            local_initial_tsn,
            advertised: AdvertisedAddresses::new(advertised),
            peer_adaptation_layer: None,
            tie_tags: None,
            sources_seen: 0,
            extensions: Extensions::NONE,
            dynamic: None,
            auth: Auth::default(),
            protection: None,
            state,
            paths: Paths::new(),
            sender: Sender::new(local_initial_tsn, &config),
            receiver: Receiver::new(Tsn::new(0), 0, false, &config),
            streams: Streams::new(local_initial_tsn, Tsn::new(0)),
            replies: ReplyQueue::default(),
            liveness: Liveness::default(),
            events: EventQueue::new(),
            ecn: CongestionMarks::default(),
            observation: Observation::default(),
            counters: Counters::default(),
            accepted: false,
            peer_entries_changed: false,
            config,
        })
    }

    /// The header of a packet to the peer.
    pub(crate) fn header(&self) -> CommonHeader {
        CommonHeader {
            source_port: self.local_port,
            destination_port: self.peer_port,
            tag: self.peer_tag,
        }
    }

    pub(crate) fn send(
        &mut self,
        now: Time,
        options: SendOptions,
        data: Bytes,
    ) -> Result<(), SendError> {
        if self.state.is_closed() {
            return Err(SendError::UnknownAssociation);
        }
        if !self.state.takes_messages() {
            return Err(SendError::ShuttingDown);
        }
        if self.is_for_key_management(options.stream, options.ppid) {
            return Err(SendError::KeyManagement(options.ppid));
        }
        let result = self
            .sender
            .send(options, data, now, &mut self.paths, &self.config);
        self.counters.messages_sent += u64::from(result.is_ok());
        // The send buffer may have abandoned other messages for it.
        self.report_abandoned();
        result
    }

    /// Returns whether a message may be sent; if the send buffer has no room, the user is notified once it
    /// has.
    pub(crate) fn has_send_room(&mut self) -> bool {
        self.state.takes_messages() && self.sender.check_room(&self.paths, &self.config)
    }

    pub(crate) fn set_scheduler(&mut self, scheduler: StreamScheduler) {
        self.sender.queue_mut().set_scheduler(scheduler);
    }

    /// Sets the scheduler's value of an outbound stream.
    pub(crate) fn set_stream_value(
        &mut self,
        stream: StreamId,
        value: u16,
    ) -> Result<(), OperationError> {
        let exists = self.sender.queue_mut().set_stream_value(stream, value);
        exists.then_some(()).ok_or(OperationError::InvalidStream)
    }

    /// Changes the parameters. Those of the acknowledgement apply at once.
    pub(crate) fn set_config(&mut self, config: AssociationConfig) {
        self.receiver.set_sack_timing(&config);
        self.config = Arc::new(config);
    }

    /// Limits the receive buffer to the association's share of the endpoint's memory.
    pub(crate) fn limit_receive_buffer(&mut self, bytes: usize) {
        self.receiver.set_limit(bytes);
    }

    pub(crate) fn receive(&mut self) -> Option<Message> {
        let message = self.receiver.receive()?;
        self.counters.messages_delivered += 1;
        Some(message)
    }

    /// Returns whether the endpoint's entries for the peer's addresses became outdated since the last call:
    /// a UDP port changed, or an address was confirmed.
    pub(crate) fn take_peer_entries_changed(&mut self) -> bool {
        core::mem::take(&mut self.peer_entries_changed)
    }

    /// Ends the association. The endpoint removes it then.
    pub(crate) fn close(&mut self, reason: CloseReason, cx: &mut Context<'_>) {
        if self.state.is_closed() {
            return;
        }
        let was_established = !self.state.is_setup();
        cx.stats.closed += u64::from(was_established);
        match reason {
            CloseReason::Shutdown => cx.stats.shut_down += u64::from(was_established),
            CloseReason::SetupTimedOut
            | CloseReason::StaleCookie
            | CloseReason::ProtocolUnreachable => {}
            CloseReason::AlreadyConnected if !was_established => {}
            _ => cx.stats.aborted += 1,
        }
        self.state = AssociationState::Closed;
        self.receiver.release_at_end();
        self.notify_aborted_messages();
        if self.receiver.take_notification() {
            self.events.push(Event::MessageReceived);
        }
        self.events.extend(self.sender.take_failures());
        self.events.push(Event::Closed(reason));
    }

    /// Sends an ABORT to the peer and ends the association.
    pub(crate) fn abort(&mut self, reason: CloseReason, cause: &AbortCause, cx: &mut Context<'_>) {
        if self.state.is_closed() {
            return;
        }
        if !self.peer_tag.is_zero() {
            let route = match self.receiver.data_route() {
                Some(route) => self.answer_route(&route),
                None => self.paths[self.paths.current()].route(),
            };
            let header = self.header();
            self.send_last(route.for_reply(), cx, |association, buf| {
                let mut packet = carrick_wire::PacketBuilder::new(buf, header, 1200);
                let kinds = ChunkSet::of(&[carrick_wire::ChunkType::ABORT]);
                let slot = association.auth.open(&mut packet, &kinds);
                packet.abort(false, |causes| {
                    if cause.code != 0 {
                        causes.raw(carrick_wire::CauseCode(cause.code), &cause.information);
                    }
                });
                association.finish(packet, slot);
            });
        }
        self.close(reason, cx);
    }

    /// Aborts because of a protocol violation (section 3.3.10.13).
    pub(crate) fn violation(&mut self, what: &str, cx: &mut Context<'_>) {
        let cause = AbortCause::new(
            carrick_wire::CauseCode::PROTOCOL_VIOLATION.0,
            what.as_bytes(),
        );
        self.abort(CloseReason::AbortedByProtocol(cause.clone()), &cause, cx);
    }

    /// Returns the next event of the user. COMMUNICATION UP precedes all other events; of an association that has ended
    /// without keys they are those of a set-up that failed.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let waits = self.waits_for_keys();
        if waits && !self.state.is_closed() {
            return None;
        }
        loop {
            let event = self.events.pop()?;
            let is_for_user = match &event {
                Event::SendFailed(failure) => {
                    !self.is_for_key_management(failure.stream, failure.ppid)
                }
                Event::Closed(_) => true,
                _ => !waits,
            };
            if is_for_user {
                return Some(event);
            }
        }
    }

    /// Counts down the reports of the peer's errors that wait for the user, who has polled one.
    pub(crate) fn on_peer_error_polled(&mut self) {
        self.events.on_peer_error_polled();
    }

    /// Passes the events of this association to an observer from now on, or to none.
    pub(crate) fn observe(&mut self, observer: Option<Arc<dyn Observer>>, now: Time) {
        self.observation = Observation::new(self.id, observer);
        self.observation.record(now, || ObservedEvent::Begun {
            local_port: self.local_port,
            peer_port: self.peer_port,
            accepted: self.accepted,
        });
        self.observe_changes(now);
    }

    /// Passes the changes of state and paths to the observer.
    #[inline]
    pub(crate) fn observe_changes(&mut self, now: Time) {
        if self.observation.is_active() {
            self.observation
                .compare(now, self.state.name(), &self.paths);
        }
    }

    /// Queues notifications that became due.
    pub(crate) fn queue_notifications(&mut self) {
        if self.state.is_closed() {
            // `Event::Closed` is the last one.
            return;
        }
        self.notify_aborted_messages();
        if self.receiver.take_notification() {
            self.events.push(Event::MessageReceived);
        }
        if self.sender.take_room(&self.paths, &self.config) {
            self.events.push(Event::SendBufferFree);
        }
        // Also in a shutdown, which waits for it.
        if !self.state.is_setup() && self.sender.take_drained() {
            self.events.push(Event::AllAcknowledged);
        }
    }
}
