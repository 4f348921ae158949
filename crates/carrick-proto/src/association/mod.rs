//! One association: its control block (RFC 9260 section 14.2) and what moves it.
//!
//! - `addresses_in`, `addresses_out`: addresses that come and go (RFC 5061)
//! - `addresses_wildcard`: the same behind a NAT (RFC 6951 section 5.7)
//! - `authentication`: AUTH chunks of packets, and their keys (RFC 4895)
//! - `handshake`: set-up on the initiating side, collisions and restart (section 5)
//! - `input`: chunks of a packet in their order
//! - `forward_tsn`: messages that are given up (RFC 3758)
//! - `protection`: chunks that are protected on the wire
//! - `shutdown`: the graceful and the abortive end (section 9)
//! - `heartbeat`: reachability of the paths (sections 5.4 and 8)
//! - `failover`: potentially failed paths (RFC 7829)
//! - `lower_layer`: news from what carries the packets (RFC 8261)
//! - `mtu_discovery`: probes for the path MTU (RFC 8899)
//! - `timeout`: all timers
//! - `sources`: the local address of each path (section 6.4)
//! - `told`: the addresses in INIT and INIT ACK
//! - `output`: what leaves next
//! - `oversized`: packets that IP has to fragment
//! - `ecn`: congestion marks
//! - `encapsulation`: the peer's UDP ports (RFC 6951)

mod addresses_in;
mod addresses_out;
mod addresses_wildcard;
mod authentication;
mod ecn;
mod encapsulation;
mod failover;
mod forward_tsn;
mod handshake;
mod heartbeat;
mod input;
mod lower_layer;
mod mtu_discovery;
mod output;
mod output_control;
mod oversized;
mod peer_parameters;
mod protection;
mod reconfig;
mod reconfig_answers;
mod reconfig_requests;
mod shutdown;
mod sources;
pub(crate) mod state;
mod timeout;
mod told;
pub(crate) mod zero_checksum;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{ChunkType, CommonHeader, StreamId, Tsn, VerificationTag};

use crate::auth::Auth;
use crate::config::AssociationConfig;
use crate::endpoint::{LocalAddresses, Replies, SourceIndex, Told};
use crate::error::{AbortCause, OperationError, SendError};
use crate::event::{CloseReason, Event};
use crate::extensions::Extensions;
use crate::path::{PathId, Paths};
use crate::random::Random;
use crate::reconfig::Streams;
use crate::reconfig::addresses::DynamicAddresses;
use crate::recv::Receiver;
use crate::recv::message::Message;
use crate::route::{Route, SourceSelection};
use crate::send::Sender;
use crate::send::message::SendOptions;
use crate::stats::{AssociationCounters, AssociationStats, EndpointStats, PathStats, StreamStats};
use crate::time::Time;
use crate::trace::Trace;
use ecn::EcnState;
pub(crate) use handshake::TieTags;
pub(crate) use output_control::cookie_while_shutting_down;
pub(crate) use peer_parameters::{InitFault, PeerParameters, is_usable};
use state::State;
pub(crate) use told::Listed;

/// Names an association of an endpoint. Never reused for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Answers that wait at most; one packet rarely asks for more than one.
const MAX_REPLIES: usize = 16;

/// Missing reports that wait to leave at most. With the SACK that follows them they are RFC 2960's
/// four, and a peer needs no more of them for a fast retransmission.
const MAX_MISSING_REPORTS: usize = 3;

/// Events that the peer can cause at will, waiting at most.
const MAX_PEER_EVENTS: usize = 64;

/// What the endpoint lends to an association while it works.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) random: &'a mut Random,
    pub(crate) local_addresses: &'a LocalAddresses,
    pub(crate) selection: &'a dyn SourceSelection,
    pub(crate) stats: &'a mut EndpointStats,
    pub(crate) replies: &'a mut Replies,
}

/// A control chunk that answers a packet, and goes back the way that came.
#[derive(Debug)]
pub(crate) enum Reply {
    CookieAck,
    HeartbeatAck(Bytes),
    /// The value of an ASCONF-ACK.
    AsconfAck(Bytes),
    /// An ERROR chunk's causes, encoded.
    Error(Bytes),
    /// The parameters of a RE-CONFIG chunk with responses, encoded.
    ReConfig(Bytes),
    /// The window was reduced for the marks up to this TSN.
    Cwr(Tsn),
    /// The type and value of a SACK or NR-SACK that the next packet with DATA must not be merged into.
    Sack(ChunkType, Bytes),
}

/// The transmission control block.
#[derive(Debug)]
pub(crate) struct Association {
    pub(crate) id: AssociationId,
    pub(crate) config: Arc<AssociationConfig>,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) local_tag: VerificationTag,
    /// Zero until the peer's INIT ACK came.
    pub(crate) peer_tag: VerificationTag,
    pub(crate) local_initial_tsn: Tsn,
    /// Which local addresses the peer was told of.
    pub(crate) told: Told,
    /// Those of them that were in the packet that told them; `None` for all.
    pub(crate) only_told: Option<Box<[IpAddr]>>,
    pub(crate) peer_adaptation_layer: Option<u32>,
    pub(crate) tie_tags: Option<TieTags>,
    /// [`LocalAddresses::source_version`] at the last selection of source addresses.
    sources_seen: u32,
    /// The extensions that both sides have.
    pub(crate) extensions: Extensions,
    /// Where dynamic addresses are in force.
    dynamic: Option<Box<DynamicAddresses>>,
    /// Where this side offers authentication, and until the peer is known to lack it.
    pub(crate) auth: Option<Box<Auth>>,
    /// Where chunks are protected on the wire.
    pub(crate) protection: Option<Box<protection::Protected>>,
    pub(crate) state: State,
    pub(crate) paths: Paths,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// Re-configuration of streams.
    streams: Streams,
    replies: VecDeque<(Route, Reply)>,
    pub(crate) error_count: u32,
    /// The way of the last packet with DATA: where the SACK belongs.
    data_route: Option<Route>,
    pub(crate) events: VecDeque<Event>,
    /// Events that the peer can cause at will and the user has not taken.
    pub(crate) peer_errors: usize,
    ecn: EcnState,
    pub(crate) trace: Trace,
    counters: AssociationCounters,
    accepted: bool,
    told_dormant: bool,
    /// The stall that was reported, by when it began.
    told_stall: Option<Time>,
    last_heartbeat_ack: Option<Time>,
    /// The first ICMP message since the peer's last packet that denied SCTP there.
    unreachable_since: Option<Time>,
    /// The endpoint's timer structure wakes this association at this time.
    pub(crate) scheduled: Option<Time>,
    /// The tag of ours by which the registry finds it, where it does so.
    pub(crate) indexed: Option<VerificationTag>,
    /// What the registry keeps of the peer's addresses has changed: a UDP port, or whether an address
    /// is confirmed.
    pub(crate) listing_changed: bool,
    /// An address of the peer could not be verified and has left the registry.
    pub(crate) found_by_tag: bool,
    /// Where the peer is, in the registry's table.
    pub(crate) source: Option<SourceIndex>,
    /// Bytes of received data that the table counts.
    pub(crate) charged: usize,
    /// In the endpoint's list of associations that may have something to send.
    pub(crate) listed: bool,
}

impl Association {
    pub(crate) fn new(
        id: AssociationId,
        config: Arc<AssociationConfig>,
        ports: (u16, u16),
        local_tag: VerificationTag,
        local_initial_tsn: Tsn,
        told: Told,
        state: State,
    ) -> Box<Self> {
        let sender = Sender::new(local_initial_tsn, &config);
        let receiver = Receiver::new(Tsn::new(0), 0, false, &config);
        let trace = Trace::new(config.trace);
        Box::new(Self {
            id,
            config,
            local_port: ports.0,
            peer_port: ports.1,
            local_tag,
            peer_tag: VerificationTag::ZERO,
            local_initial_tsn,
            told,
            only_told: None,
            peer_adaptation_layer: None,
            tie_tags: None,
            sources_seen: 0,
            extensions: Extensions::NONE,
            dynamic: None,
            auth: None,
            protection: None,
            state,
            paths: Paths::new(),
            sender,
            receiver,
            streams: Streams::new(local_initial_tsn, Tsn::new(0)),
            replies: VecDeque::new(),
            error_count: 0,
            data_route: None,
            // Idle associations have had no more at once.
            events: VecDeque::with_capacity(2),
            peer_errors: 0,
            ecn: EcnState::default(),
            trace,
            counters: AssociationCounters::default(),
            accepted: false,
            told_dormant: false,
            told_stall: None,
            last_heartbeat_ack: None,
            unreachable_since: None,
            scheduled: None,
            indexed: None,
            listing_changed: false,
            found_by_tag: false,
            source: None,
            charged: 0,
            listed: false,
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
        let result = self
            .sender
            .send(options, data, now, &mut self.paths, &self.config);
        self.counters.messages_sent += u64::from(result.is_ok());
        // It may have pushed others out.
        self.report_abandoned();
        result
    }

    pub(crate) fn receive(&mut self) -> Option<Message> {
        let message = self.receiver.receive()?;
        self.counters.messages_delivered += 1;
        Some(message)
    }

    pub(crate) fn set_primary(&mut self, path: PathId) -> Result<(), OperationError> {
        if !self.paths.contains(path) {
            return Err(OperationError::UnknownPath);
        }
        self.paths.set_primary(path);
        self.choose_path();
        Ok(())
    }

    /// Chooses the path for new data again and tells the user if it changed.
    fn choose_path(&mut self) {
        if let Some(path) = self.paths.choose() {
            self.events.push_back(Event::PrimaryChanged(path));
        }
        self.switch_over_primary();
        let untried = self.paths.iter().any(|p| p.active && !p.confirmed);
        let dormant = self.paths.all_inactive() && !untried;
        if dormant && !self.told_dormant {
            self.events.push_back(Event::Dormant);
        }
        self.told_dormant = dormant;
    }

    /// The peer set it up.
    pub(crate) fn was_accepted(&self) -> bool {
        self.accepted
    }

    /// The peer's addresses changed since this was last asked: those that are gone.
    pub(crate) fn take_address_news(&mut self) -> Option<alloc::vec::Vec<core::net::IpAddr>> {
        self.dynamic.as_mut()?.news.take()
    }

    /// Ends the association. The endpoint removes it after this.
    pub(crate) fn close(&mut self, reason: CloseReason, cx: &mut Context<'_>) {
        if self.state.is_closed() {
            return;
        }
        if !self.state.is_setup() {
            cx.stats.closed += 1;
        }
        self.state = State::Closed;
        self.receiver.release_at_end();
        self.tell_aborted();
        if self.receiver.take_news() {
            self.events.push_back(Event::MessageReceived);
        }
        self.events
            .extend(self.sender.take_failures().into_iter().map(Event::from));
        self.events.push_back(Event::Closed(reason));
    }

    /// Sends an ABORT to the peer and ends the association.
    pub(crate) fn abort(&mut self, reason: CloseReason, cause: &AbortCause, cx: &mut Context<'_>) {
        if self.state.is_closed() {
            return;
        }
        if !self.peer_tag.is_zero() && !self.state.is_closed() {
            let route = match &self.data_route {
                Some(route) => self.answer_route(route),
                None => self.paths[self.paths.current()].route(),
            };
            let header = self.header();
            self.send_last(route.for_reply(), cx, |association, buf| {
                let mut packet = carrick_wire::PacketBuilder::new(buf, header, 1200);
                let slot = association.open_auth(&mut packet, &[carrick_wire::ChunkType::ABORT]);
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

    /// The peer broke a rule that leaves no way to go on (section 3.3.10.13).
    pub(crate) fn violation(&mut self, what: &str, cx: &mut Context<'_>) {
        let cause = AbortCause::new(
            carrick_wire::CauseCode::PROTOCOL_VIOLATION.0,
            what.as_bytes(),
        );
        self.abort(CloseReason::AbortedByProtocol(cause.clone()), &cause, cx);
    }

    /// Looks what there is to tell the user after anything happened.
    pub(crate) fn tell(&mut self) {
        if self.state.is_closed() {
            // Nothing follows the end.
            return;
        }
        self.tell_aborted();
        if self.receiver.take_news() {
            self.events.push_back(Event::MessageReceived);
        }
        if self.sender.take_room(&self.paths, &self.config) {
            self.events.push_back(Event::SendBufferFree);
        }
        // Also when that was what the shutdown waited for.
        if !self.state.is_setup() && self.sender.take_drained() {
            self.events.push_back(Event::AllAcknowledged);
        }
    }

    pub(crate) fn stream_stats(&self, stream: StreamId) -> Option<StreamStats> {
        let exists = stream.0 < self.sender.outbound_streams();
        exists.then(|| StreamStats {
            abandoned: self.sender.abandoned_on(stream),
        })
    }

    pub(crate) fn path_stats(&self, id: PathId) -> PathStats {
        self.paths[id].stats(self.config.expose_potentially_failed)
    }

    pub(crate) fn stats(&self) -> AssociationStats {
        AssociationStats {
            state: self.state.name(),
            outbound_streams: self.sender.outbound_streams(),
            inbound_streams: self.receiver.inbound_streams(),
            peer_rwnd: self.sender.rwnd(),
            a_rwnd: self.receiver.a_rwnd(),
            outstanding_chunks: self.sender.outstanding_chunks(),
            outstanding_bytes: self.sender.outstanding_bytes(),
            queued_messages: self.sender.queued_messages(),
            send_buffer_bytes: self.sender.buffered_bytes(),
            receive_buffer_bytes: self.receiver.buffered_bytes(),
            receivable_messages: self.receiver.receivable(),
            primary: (self.paths.len() > 0).then(|| self.paths.current()),
            error_count: self.error_count,
            extensions: self.extensions,
            peer_adaptation_layer: self.peer_adaptation_layer,
            abandoned: self.sender.abandoned(),
            counters: self.counters,
            authentication: self
                .auth
                .as_ref()
                .map_or_else(Default::default, |a| a.counters),
            protection: self.protection.as_ref().map(|p| p.stats),
        }
    }
}
