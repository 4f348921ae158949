//! Notifications to the user (RFC 9260, section 11.2), in the order in which they occurred.

mod cause;
mod reconfig;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::ops::Range;

use bytes::Bytes;
use carrick_wire::{Ppid, SharedKeyId, Ssn, StreamId, Tsn};

use crate::path::PathId;
use crate::reliability::AbandonmentPolicy;

pub use cause::AbortCause;
pub use reconfig::{ReconfigOutcome, StreamDirection};

/// Notification about an association. The capitals are the names in RFC 9260, section 11.2.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// COMMUNICATION UP: messages can be sent and received.
    Established {
        /// Addresses of the peer, one for each path, ordered by [`PathId`].
        peer_addresses: Vec<IpAddr>,
        /// Number of outbound streams; their identifiers start at 0.
        outbound_streams: u16,
        /// Number of inbound streams.
        inbound_streams: u16,
        /// The peer initiated the association.
        accepted: bool,
    },
    /// RESTART: the peer lost its state and set up the association again. Messages that were not
    /// acknowledged are returned in [`Event::SendFailed`]. Complete received messages stay readable;
    /// partly read ones are not completed. Outstanding reconfiguration requests are dropped.
    Restarted,
    /// DATA ARRIVE: [`Endpoint::receive`](crate::Endpoint::receive) has a message. Emitted again only after that method has
    /// returned `None`.
    MessageReceived,
    /// A message of which [`Endpoint::receive`](crate::Endpoint::receive) has returned the beginning will not be completed:
    /// the peer abandoned it (RFC 3758, section 3.6), or a stream or association reset cut it short
    /// (RFC 6525, section 5.2.4). [`MessagePart::Aborted`](crate::MessagePart::Aborted) takes the place of its remaining parts.
    MessageAborted {
        /// Stream of the message.
        stream: StreamId,
        /// Stream sequence number; `None` for an unordered message.
        ssn: Option<Ssn>,
        /// TSN of the first fragment, as in [`Message::tsn`](crate::Message::tsn).
        tsn: Tsn,
    },
    /// The send buffer has room again after [`SendError::BufferFull`](crate::SendError::BufferFull).
    SendBufferFree,
    /// SEND FAILURE: a message was not delivered, or its delivery is unknown. Boxed, since it is much
    /// larger than the other events.
    SendFailed(Box<SendFailure>),
    /// All messages sent so far have been acknowledged.
    AllAcknowledged,
    /// A peer address was confirmed and may carry data (RFC 9260, section 5.4).
    PathConfirmed(PathId),
    /// A path to a peer address that is not confirmed has its first error, such as a heartbeat without acknowledgement: it
    /// carries no data until a heartbeat is acknowledged (RFC 9260, section 5.4). [`Event::PathConfirmed`] or
    /// [`Event::PathFailed`] follows.
    PathUnconfirmed(PathId),
    /// NETWORK STATUS CHANGE: the path's error counter exceeded Path.Max.Retrans.
    PathFailed(PathId),
    /// NETWORK STATUS CHANGE: the path's error counter exceeded PotentiallyFailed.Max.Retrans; data moves
    /// to another path if there is one (RFC 7829, `SCTP_ADDR_POTENTIALLY_FAILED`).
    PathPotentiallyFailed(PathId),
    /// NETWORK STATUS CHANGE: an inactive or potentially failed path is active again.
    PathRecovered(PathId),
    /// The local address of a path changed, because the previous one failed or was removed.
    PathLocalAddressChanged(PathId),
    /// This path carries new data now.
    PrimaryChanged(PathId),
    /// The error counter of the primary path exceeded Primary.Switchover.Max.Retrans: this path is the
    /// primary path now, permanently (RFC 7829, section 5).
    PrimarySwitchover(PathId),
    /// All paths are inactive (RFC 9260, section 8.2). Retransmission continues until
    /// Association.Max.Retrans.
    Dormant,
    /// The cumulative TSN has not advanced for [`TimerConfig::no_progress_after`](crate::TimerConfig::no_progress_after) RTOs although the
    /// peer acknowledges heartbeats, e.g. because a middlebox drops large packets; error counters do not
    /// detect this. Queued when T3-rtx expires.
    NoProgress,
    /// COMMUNICATION ERROR: the peer reported an error in an ERROR chunk.
    PeerError(PeerError),
    /// AUTHENTICATION EVENT: a key changed or is missing (RFC 6458, section 6.1.8).
    Authentication(AuthenticationEvent),
    /// Addresses of the peer or of this side changed (RFC 5061).
    Address(AddressEvent),
    /// The peer started the shutdown; no new messages are accepted.
    PeerShutdown,
    /// STREAM RESET (RFC 6525, section 6.1.1): stream sequence numbers start at 0 again on request of
    /// either side, or the peer responded to a request of this side.
    StreamsReset {
        /// Direction of the streams.
        direction: StreamDirection,
        /// Streams concerned; an empty list means all.
        streams: Vec<StreamId>,
        /// Outcome of the request.
        outcome: ReconfigOutcome,
    },
    /// ASSOCIATION RESET (RFC 6525, section 6.1.2): TSNs and stream sequence numbers were reset on request
    /// of either side, or the peer responded to a request of this side.
    AssociationReset {
        /// Next TSN of this side.
        local_tsn: Tsn,
        /// Next TSN of the peer.
        peer_tsn: Tsn,
        /// Outcome of the request.
        outcome: ReconfigOutcome,
    },
    /// STREAM CHANGE (RFC 6525, section 6.1.3): streams were added on request of either side, or the peer
    /// responded to a request of this side.
    StreamsChanged {
        /// Number of outbound streams now.
        outbound_streams: u16,
        /// Number of inbound streams now.
        inbound_streams: u16,
        /// Outcome of the request.
        outcome: ReconfigOutcome,
    },
    /// The association has ended. No event follows; its identifier becomes invalid once all received
    /// messages have been read.
    Closed(CloseReason),
    /// [`Event::PathPotentiallyFailed`], or [`Event::PathRecovered`] after it, of an association that does
    /// not expose that state ([`PathConfig::expose_potentially_failed`](crate::PathConfig::expose_potentially_failed)). For logs and counters of
    /// the operator, not for the program.
    UnexposedPathChange {
        /// Path concerned.
        path: PathId,
        /// The path became potentially failed; otherwise it is no longer potentially failed.
        potentially_failed: bool,
    },
}

portable_enum! {
    Event {
        0: Established { peer_addresses, outbound_streams, inbound_streams, accepted },
        1: Restarted,
        2: MessageReceived,
        3: MessageAborted { stream, ssn, tsn },
        4: SendBufferFree,
        5: SendFailed(value),
        6: AllAcknowledged,
        7: PathConfirmed(value),
        8: PathFailed(value),
        9: PathPotentiallyFailed(value),
        10: PathRecovered(value),
        11: PathLocalAddressChanged(value),
        12: PrimaryChanged(value),
        13: PrimarySwitchover(value),
        14: Dormant,
        15: NoProgress,
        16: PeerError(value),
        17: Authentication(value),
        18: Address(value),
        19: PeerShutdown,
        20: StreamsReset { direction, streams, outcome },
        21: AssociationReset { local_tsn, peer_tsn, outcome },
        22: StreamsChanged { outbound_streams, inbound_streams, outcome },
        23: Closed(value),
        24: UnexposedPathChange { path, potentially_failed },
        25: PathUnconfirmed(value),
    }
}

/// Change of the addresses of an association (RFC 5061).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AddressEvent {
    /// The peer added an address; [`Event::PathConfirmed`] follows when it is confirmed.
    PeerAdded {
        /// New path.
        path: PathId,
        /// Address of the path.
        address: IpAddr,
    },
    /// The peer deleted an address.
    PeerRemoved {
        /// Removed path. Its identifier is not reused soon.
        path: PathId,
        /// Address of the path.
        address: IpAddr,
    },
    /// The peer requested this path as the primary path (Set Primary Address).
    PeerPrefers(PathId),
    /// The peer accepted a new address of this side, which is used from now on.
    LocalAdded(IpAddr),
    /// The peer deleted an address of this side.
    LocalRemoved(IpAddr),
    /// The peer accepted an address of this side as its primary destination.
    PreferenceAccepted(IpAddr),
    /// The peer refused to add, delete or prefer an address of this side.
    Refused {
        /// Address of the request.
        address: IpAddr,
        /// Code of the error cause (RFC 5061, section 4.3). 0 if the request failed only because another
        /// one did, or was not sent: the peer can't prefer an address that it has not accepted.
        code: u16,
    },
    /// The peer does not support ASCONF.
    NotSupported,
}

portable_enum! {
    AddressEvent {
        0: PeerAdded { path, address },
        1: PeerRemoved { path, address },
        2: PeerPrefers(value),
        3: LocalAdded(value),
        4: LocalRemoved(value),
        5: PreferenceAccepted(value),
        6: Refused { address, code },
        7: NotSupported,
    }
}

/// Event of authentication (RFC 4895).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AuthenticationEvent {
    /// The peer does not support authentication, which this side offered.
    NotSupported,
    /// The peer authenticates with this key from now on.
    PeerKeyChanged(SharedKeyId),
    /// The peer authenticates with an unknown key; its packets are discarded. Emitted once for consecutive
    /// packets with the same key.
    UnknownKey(SharedKeyId),
    /// The last packet with a deactivated key has been sent; the peer may delete the key.
    KeyFree(SharedKeyId),
}

portable_enum! {
    AuthenticationEvent {
        0: NotSupported,
        1: PeerKeyChanged(value),
        2: UnknownKey(value),
        3: KeyFree(value),
    }
}

/// Reason for which an association ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// SHUTDOWN COMPLETE: all messages of both sides were delivered.
    Shutdown,
    /// The user of this side aborted the association.
    AbortedByUser,
    /// The peer sent an ABORT.
    AbortedByPeer(AbortCause),
    /// This side aborted the association because of a protocol violation by the peer.
    AbortedByProtocol(AbortCause),
    /// Max.Init.Retransmits was exceeded: the peer did not respond to INIT or COOKIE ECHO.
    SetupTimedOut,
    /// The peer repeatedly reported a stale cookie.
    StaleCookie,
    /// COMMUNICATION LOST: Association.Max.Retrans was exceeded.
    PeerUnreachable,
    /// The shutdown took longer than T5-shutdown-guard.
    ShutdownTimedOut,
    /// An ICMP message reported that the host does not support SCTP (RFC 9260, section 10, rule ICMP8).
    ProtocolUnreachable,
    /// The connection of the lower layer was lost: see [`AssociationMut::lower_layer_lost`](crate::AssociationMut::lower_layer_lost).
    LowerLayerLost,
    /// The peer has another association with this endpoint, and two endpoints have one at most (RFC 9260,
    /// section 1.3): a set-up to another address of it has ended, an association that the peer has replaced, or one of
    /// two associations that both sides have set up at the same time.
    AlreadyConnected,
    /// The association has not ended: another process continues it. For the handles of the former one; this crate
    /// does not emit it.
    HandedOver,
}

impl fmt::Display for CloseReason {
    /// Writes what happened to the association, such as `the peer aborted it: out of resource`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shutdown => "it was shut down",
            Self::AbortedByUser => "this side aborted it",
            Self::AbortedByPeer(cause) => return write!(f, "the peer aborted it: {cause}"),
            Self::AbortedByProtocol(cause) => {
                return write!(f, "the peer broke the protocol: {cause}");
            }
            Self::SetupTimedOut => {
                "the peer does not answer: check its address, port and transport"
            }
            Self::StaleCookie => {
                "the peer's cookies are stale on arrival: the round trip exceeds their lifetime"
            }
            Self::PeerUnreachable => "the peer no longer answers on any of its addresses",
            Self::ShutdownTimedOut => "the peer did not finish the shutdown",
            Self::ProtocolUnreachable => {
                "the peer's program has ended: its host reports that it has no SCTP stack"
            }
            Self::LowerLayerLost => {
                "the connection below it, of DTLS or to the daemon, has ended or could not be made"
            }
            Self::AlreadyConnected => {
                "there is already an association with this peer: use it or shut it down first"
            }
            Self::HandedOver => "it was handed over: the successor of this endpoint continues it",
        })
    }
}

impl core::error::Error for CloseReason {}

portable_enum! {
    CloseReason {
        0: Shutdown,
        1: AbortedByUser,
        2: AbortedByPeer(value),
        3: AbortedByProtocol(value),
        4: SetupTimedOut,
        5: StaleCookie,
        6: PeerUnreachable,
        7: ShutdownTimedOut,
        8: ProtocolUnreachable,
        9: LowerLayerLost,
        10: AlreadyConnected,
        11: HandedOver,
    }
}

/// Message that failed, or whose delivery is unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendFailure {
    /// Context of the caller from [`SendOptions::context`](crate::SendOptions::context).
    pub context: u64,
    /// Stream of the message.
    pub stream: StreamId,
    /// Payload protocol identifier of the message.
    pub ppid: Ppid,
    /// At least a part of the message was sent; the peer may have received it.
    pub sent: bool,
    /// Bytes of the message that are returned: the whole message if nothing was sent, otherwise those not
    /// known to be delivered, in their order.
    pub unsent: UnsentMessage,
    /// Ranges of bytes between or behind the pieces of `unsent` that are not returned because the peer
    /// has acknowledged them as non-renegable (NR-SACK), ascending, relative to the first byte of
    /// `unsent`. Bytes delivered before that byte are not listed. See [`SendFailure::pieces`].
    pub delivered: Vec<Range<usize>>,
    /// The lifetime expired: [`SendOptions::lifetime`](crate::SendOptions::lifetime) before anything was sent, or
    /// [`Reliability::Timed`](crate::Reliability::Timed).
    pub expired: bool,
    /// Policy that abandoned the message (RFC 3758, RFC 7496); `None` if its lifetime expired or the
    /// association ended.
    pub abandoned: Option<AbandonmentPolicy>,
}

portable_struct! {
    SendFailure {
        context, stream, ppid, sent, unsent, delivered, expired, abandoned,
    }
}

impl From<SendFailure> for Event {
    fn from(failure: SendFailure) -> Self {
        Self::SendFailed(Box::new(failure))
    }
}

impl SendFailure {
    /// Returns the number of bytes from the first one in `unsent` to the end of the message. In a message
    /// of `size` bytes, `unsent` starts at `size - rest_len()`.
    pub fn rest_len(&self) -> usize {
        self.unsent.len() + self.delivered.iter().map(Range::len).sum::<usize>()
    }

    /// Returns the pieces of `unsent` with their offsets in bytes, counted as in `delivered`.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, &Bytes)> {
        let mut delivered = self.delivered.iter().peekable();
        let mut next = 0;
        self.unsent.0.iter().map(move |piece| {
            while let Some(range) = delivered.next_if(|range| range.start <= next) {
                next = range.end;
            }
            let place = next;
            next += piece.len();
            (place, piece)
        })
    }
}

/// Bytes of a message that [`SendFailure`] returns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnsentMessage(pub Vec<Bytes>);

portable_tuple! { UnsentMessage(value) }

impl UnsentMessage {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Error cause of a received ERROR chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerError {
    /// Cause with its code and information.
    pub cause: AbortCause,
}

portable_struct! { PeerError { cause } }
