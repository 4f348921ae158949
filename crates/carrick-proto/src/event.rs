//! What the protocol tells its user: facts, in the order in which they happened (section 11.2).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use bytes::Bytes;
use carrick_wire::{Ppid, SharedKeyId, Ssn, StreamId, Tsn};

use crate::error::AbortCause;
use crate::path::PathId;
use crate::reconfig::{ReconfigOutcome, StreamDirection};
use crate::reliability::AbandonmentPolicy;

/// A fact about one association.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// COMMUNICATION UP: messages can be sent and received.
    Established {
        /// The peer's addresses, one a path, in the order of their [`PathId`].
        peer_addresses: Vec<IpAddr>,
        /// Streams this side may send on: 0 to this number less one.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// The peer set the association up, this side accepted it.
        accepted: bool,
    },
    /// RESTART: the peer lost its state and set the association up again. What had not been
    /// acknowledged comes back in [`Event::SendFailed`]. A message of which a part was read will
    /// not be completed; whole messages that wait to be read stay. Re-configurations that were under
    /// way are forgotten.
    Restarted,
    /// DATA ARRIVE: [`crate::Endpoint::receive`] has something. Told once until it returned `None`.
    MessageReceived,
    /// The peer gave up a message of which [`crate::Endpoint::receive`] has given the beginning, or a
    /// reset of its streams or numbers cut it short: it will not be completed (RFC 3758 section 3.6,
    /// RFC 6525 section 5.2.4). A [`crate::Part::Aborted`] stands where it
    /// would have gone on.
    MessageAborted {
        /// The stream of the message.
        stream: StreamId,
        /// Its number in the stream; `None` when it was sent unordered.
        ssn: Option<Ssn>,
        /// The TSN of its first fragment, as in [`crate::Message::tsn`].
        tsn: Tsn,
    },
    /// The send buffer, which had refused a message, has room again.
    SendBufferFree,
    /// SEND FAILURE: a message was not delivered, or it is not known whether it was. Boxed, because it
    /// is much larger than the others, and each association has room for some events.
    SendFailed(Box<SendFailure>),
    /// All that was sent so far has been acknowledged.
    AllAcknowledged,
    /// A peer address was verified and may carry data (section 5.4).
    PathConfirmed(PathId),
    /// NETWORK STATUS CHANGE: the path's error counter exceeded Path.Max.Retrans.
    PathFailed(PathId),
    /// NETWORK STATUS CHANGE: the path's error counter exceeded PotentiallyFailed.Max.Retrans; data
    /// takes another path if there is one (RFC 7829, `SCTP_ADDR_POTENTIALLY_FAILED`).
    PathPotentiallyFailed(PathId),
    /// NETWORK STATUS CHANGE: an inactive or potentially failed path works again.
    PathRecovered(PathId),
    /// The local address used on a path changed because the old one failed or vanished.
    PathLocalAddressChanged(PathId),
    /// New data now goes to this path.
    PrimaryChanged(PathId),
    /// The primary's error counter exceeded Primary.Switchover.Max.Retrans: this path is the primary
    /// now and stays it (RFC 7829 section 5).
    PrimarySwitchover(PathId),
    /// All paths are inactive; the association keeps trying until Association.Max.Retrans.
    Dormant,
    /// DATA has not advanced for a long time although the peer answers on its paths: something on
    /// the way eats data packets, which the error counters cannot see.
    NoProgress,
    /// COMMUNICATION ERROR: the peer reported errors in an ERROR chunk.
    PeerError(PeerError),
    /// AUTHENTICATION EVENT: something about keys (RFC 6458 section 6.1.8).
    Authentication(AuthenticationEvent),
    /// Addresses of the peer or of this side came or went (RFC 5061).
    Address(AddressEvent),
    /// The peer began to shut down; no new messages are taken.
    PeerShutdown,
    /// STREAM RESET (RFC 6525 section 6.1.1): the peer's streams begin at 0 again because one of the
    /// sides asked for it, or a request of this side was answered.
    StreamsReset {
        /// Outgoing or incoming.
        direction: StreamDirection,
        /// Which of them; none means all.
        streams: Vec<StreamId>,
        /// What came of it.
        outcome: ReconfigOutcome,
    },
    /// ASSOCIATION RESET (RFC 6525 section 6.1.2): all numbers began anew because one of the sides
    /// asked for it, or a request of this side was answered.
    AssociationReset {
        /// The next TSN of this side.
        local_tsn: Tsn,
        /// The next TSN of the peer.
        peer_tsn: Tsn,
        /// What came of it.
        outcome: ReconfigOutcome,
    },
    /// STREAM CHANGE (RFC 6525 section 6.1.3): there are more streams because one of the sides asked
    /// for them, or a request of this side was answered.
    StreamsChanged {
        /// Streams this side may send on now.
        outbound_streams: u16,
        /// Streams the peer may send on now.
        inbound_streams: u16,
        /// What came of it.
        outcome: ReconfigOutcome,
    },
    /// The association has ended. Nothing follows for it, and its identifier is void.
    Closed(CloseReason),
}

/// A change of the addresses of an association (RFC 5061).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressEvent {
    /// The peer has one more address; [`Event::PathConfirmed`] follows when it is verified.
    PeerAdded {
        /// Its path.
        path: PathId,
        /// The address.
        address: IpAddr,
    },
    /// The peer has one address less.
    PeerRemoved {
        /// The path that is no more. Its number will not soon be another one's.
        path: PathId,
        /// The address.
        address: IpAddr,
    },
    /// The peer wants to be sent to on this path.
    PeerPrefers(PathId),
    /// The peer knows a new address of this side, which is used from now on.
    LocalAdded(IpAddr),
    /// The peer has forgotten an address of this side.
    LocalRemoved(IpAddr),
    /// The peer has taken note of which address of this side it should send to.
    PreferenceTold(IpAddr),
    /// The peer refused to add, delete or prefer an address of this side.
    Refused {
        /// The address.
        address: IpAddr,
        /// Why: the code of the error cause (RFC 5061 section 4.3), 0 if it was only because of
        /// another one, or if the peer was not asked: it can't prefer an address that it has not
        /// taken, or prefers none.
        code: u16,
    },
    /// The peer turned out not to know ASCONF.
    NotSupported,
}

/// What there is to know about authentication (RFC 4895).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthenticationEvent {
    /// The peer lacks authentication, which this side had offered.
    NotSupported,
    /// The peer authenticates with this key from now on.
    PeerKeyChanged(SharedKeyId),
    /// The peer authenticates with a key that is not there; what it sends so is dropped. Told once
    /// for several packets with the same key.
    UnknownKey(SharedKeyId),
    /// A key that was deactivated is not used for sending any more: the peer can be told to delete it.
    KeyFree(SharedKeyId),
}

/// Why an association ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// SHUTDOWN COMPLETE: all messages of both sides were delivered.
    Shutdown,
    /// This side's user aborted it.
    AbortedByUser,
    /// The peer sent an ABORT.
    AbortedByPeer(AbortCause),
    /// This side's protocol aborted it, because the peer broke a rule.
    AbortedByProtocol(AbortCause),
    /// Max.Init.Retransmits was exceeded: the peer never answered the set-up.
    SetupTimedOut,
    /// The peer's cookie went stale again and again.
    StaleCookie,
    /// COMMUNICATION LOST: Association.Max.Retrans was exceeded.
    PeerUnreachable,
    /// The shutdown took longer than T5-shutdown-guard.
    ShutdownTimedOut,
    /// An ICMP message says that the host does not speak SCTP (section 10, ICMP8).
    ProtocolUnreachable,
    /// What carried it below SCTP is no more: see [`crate::Endpoint::lower_layer_lost`].
    LowerLayerLost,
}

/// A message that was not delivered for certain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendFailure {
    /// The caller's context from [`crate::SendOptions::context`].
    pub context: u64,
    /// Stream of the message.
    pub stream: StreamId,
    /// Payload protocol identifier of the message.
    pub ppid: Ppid,
    /// At least part of the message was sent; the peer may have received it.
    pub sent: bool,
    /// The part of the message that is still here: all of it when nothing was sent, and otherwise what
    /// is not known to have been delivered. It comes in the order of the message.
    pub unsent: UnsentMessage,
    /// What lies between the pieces of `unsent` or behind them and is not here, because the peer has
    /// it for good (NR-SACK): ranges of bytes, ascending, counted from the first byte of `unsent` in
    /// the message. What was delivered before that byte is not listed. See [`SendFailure::pieces`].
    pub delivered: Vec<Range<usize>>,
    /// Its time was over: [`crate::SendOptions::lifetime`] before anything was sent, or
    /// [`crate::Reliability::Timed`].
    pub expired: bool,
    /// The policy that gave the message up (RFC 3758, RFC 7496); `None` where it was the life time
    /// or the end of the association.
    pub abandoned: Option<AbandonmentPolicy>,
}

impl From<SendFailure> for Event {
    fn from(failure: SendFailure) -> Self {
        Self::SendFailed(Box::new(failure))
    }
}

impl SendFailure {
    /// Bytes of the message from the first one in `unsent` to its end: where `size` is the length of the
    /// message, `unsent` begins at `size - rest_len()`.
    pub fn rest_len(&self) -> usize {
        self.unsent.len() + self.delivered.iter().map(Range::len).sum::<usize>()
    }

    /// What came back, each piece with its place, counted in bytes as in `delivered`.
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

/// The bytes of a message that come back with [`SendFailure`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnsentMessage(pub Vec<Bytes>);

impl UnsentMessage {
    /// Bytes that came back.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Nothing came back.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One error cause of a received ERROR chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerError {
    /// The cause, with its code and information.
    pub cause: AbortCause,
}
