//! Values of an association that the endpoint reads, for itself or for the user. The endpoint changes an
//! association by its procedures alone.

use alloc::sync::Arc;

use carrick_wire::{ChunkType, StreamId, Tsn, VerificationTag};

use super::Association;
use super::state::AssociationState;
use crate::auth::Auth;
use crate::config::{AssociationConfig, StreamScheduler};
use crate::cookie::TieTags;
use crate::ids::AssociationId;
use crate::path::{PathId, PathStats, Paths};
use crate::stats::{AssociationCounters, AssociationStats, StreamStats};

impl Association {
    pub(crate) fn id(&self) -> AssociationId {
        self.id
    }

    /// Returns the parameters.
    pub fn config(&self) -> &Arc<AssociationConfig> {
        &self.config
    }

    pub(crate) fn state(&self) -> &AssociationState {
        &self.state
    }

    /// Returns the SCTP port of the peer.
    pub fn peer_port(&self) -> u16 {
        self.peer_port
    }

    pub(crate) fn local_tag(&self) -> VerificationTag {
        self.local_tag
    }

    /// Returns the peer's tag; zero before its INIT ACK.
    pub(crate) fn peer_tag(&self) -> VerificationTag {
        self.peer_tag
    }

    /// Returns whether a cookie with these tie-tags is one of this association (section 5.2.2).
    pub(crate) fn has_tie_tags(&self, tags: TieTags) -> bool {
        tags != TieTags::default() && self.tie_tags == Some(tags)
    }

    /// Returns whether the peer set the association up.
    pub(crate) fn was_accepted(&self) -> bool {
        self.accepted
    }

    pub(crate) fn path_set(&self) -> &Paths {
        &self.paths
    }

    pub(crate) fn auth(&self) -> &Auth {
        &self.auth
    }

    /// Returns whether chunks are protected on the wire.
    pub(crate) fn is_protected(&self) -> bool {
        self.protection.is_some()
    }

    /// Returns whether the user has messages to receive.
    pub(crate) fn has_receivable(&self) -> bool {
        self.receiver.receivable() > 0
    }

    /// Returns the bytes of received data and of inbound streams that count for the endpoint's memory.
    pub(crate) fn receive_memory(&self) -> usize {
        self.receiver.charged_bytes()
    }

    /// Returns whether a SACK is due, as after the user has opened the window.
    pub(crate) fn sack_is_due(&self) -> bool {
        self.receiver.sack_is_due()
    }

    /// Returns the highest TSN of the peer up to which all have been received (`rcv_cumtsn` of RFC 6458, section 5.3.5).
    pub fn cumulative_tsn(&self) -> Tsn {
        self.receiver.cumulative_tsn()
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    pub(crate) fn counters(&self) -> AssociationCounters {
        self.counters.all()
    }

    /// Returns the stream scheduler.
    pub fn scheduler(&self) -> StreamScheduler {
        self.sender.queue().scheduler()
    }

    /// Returns the scheduler's value of an outbound stream; `None` if the stream does not exist.
    pub fn stream_value(&self, stream: StreamId) -> Option<u16> {
        self.sender.queue().stream_value(stream)
    }

    /// Returns the chunk types that the peer requires to be authenticated: its CHUNKS parameter
    /// (`SCTP_PEER_AUTH_CHUNKS` of RFC 6458, section 8.2.3).
    pub fn peer_required_chunks(&self) -> impl Iterator<Item = ChunkType> {
        self.auth.listed_by_peer()
    }

    /// Returns the counters of an outbound stream (RFC 7496, section 4.3); `None` if it does not exist.
    pub fn stream_stats(&self, stream: StreamId) -> Option<StreamStats> {
        let exists = stream.0 < self.sender.queue().outbound_streams();
        exists.then(|| StreamStats {
            abandoned: self.sender.abandoned_on(stream),
        })
    }

    /// Returns the state and counters of all paths, ordered by [`PathId`].
    pub fn paths(&self) -> impl Iterator<Item = PathStats> {
        self.paths.ids().filter_map(|id| self.path_stats(id))
    }

    /// Returns the state and counters of a path; `None` if it does not exist.
    pub fn path_stats(&self, id: PathId) -> Option<PathStats> {
        self.paths.contains(id).then(|| self.paths[id].stats())
    }

    /// Bytes of messages in the send buffer, outstanding ones included.
    pub(crate) fn send_buffer_bytes(&self) -> usize {
        self.sender.buffered_bytes()
    }

    /// Returns the state and counters: STATUS of RFC 9260, section 11.1.8.
    pub fn stats(&self) -> AssociationStats {
        AssociationStats {
            state: self.state.name(),
            outbound_streams: self.sender.queue().outbound_streams(),
            inbound_streams: self.receiver.inbound_streams(),
            peer_rwnd: self.sender.rwnd(),
            a_rwnd: self.receiver.a_rwnd(),
            outstanding_chunks: self.sender.outstanding_chunks(),
            outstanding_bytes: self.sender.outstanding_bytes(),
            queued_messages: self.sender.queued_messages(),
            send_buffer_bytes: self.sender.buffered_bytes(),
            receive_buffer_bytes: self.receiver.buffered_bytes(),
            receivable_messages: self.receiver.receivable(),
            primary: Some(self.paths.primary()).filter(|id| self.paths.contains(*id)),
            current: (self.paths.len() > 0).then(|| self.paths.current()),
            error_count: self.liveness.errors(),
            extensions: self.extensions,
            peer_adaptation_layer: self.peer_adaptation_layer,
            abandoned: self.sender.abandoned(),
            counters: self.counters.all(),
            authentication: self.auth.counters(),
            protection: self.protection.as_ref().map(|p| p.stats()),
        }
    }
}
