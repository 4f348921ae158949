//! Protection of the chunks behind the common header, as by the DTLS chunk
//! (draft-ietf-tsvwg-sctp-dtls-chunk).
//!
//! ```text
//! common header | SACK | DATA | DATA      what the association sends
//! common header | chunk of the protection what is on the wire
//! ```
//!
//! A [`ChunkProtection`] converts the chunks of each packet of an association into one chunk of its type
//! and back. It gets the common header and the route of each packet; space for it is reserved in every
//! packet. A parameter of INIT and INIT ACK negotiates it. Multi-homing works. AUTH (RFC 4895) is not used
//! together with it: the protection authenticates all chunks, those of RFC 5061 included.
//!
//! Its keys come from the user at run time, or from a key management in the protection, whose messages the
//! association exchanges under a payload protocol identifier of their own ([`ChunkProtectionOffer::key_management`]):
//!
//! 1. Messages of the user wait, and COMMUNICATION UP is not notified, until both sides have keys
//!    ([`KeyManagementState::Established`]).
//! 2. Until then, user data in the clear is accepted of the key management alone: ordered, on stream 0, in
//!    the order of the TSNs, so that nothing that was received in the clear is delivered to the user later.
//! 3. Later messages of the key management, such as those of new keys, pass beside those of the user.
//!
//! Two other places for a protection need nothing here. Below SCTP, whole packets are records of a session:
//! [`sessions`](crate::sessions) (RFC 8261). Above it, a DTLS record is a message (RFC 6083), for which the API has
//! a payload protocol identifier, a stream and an order per message ([`SendOptions`](crate::SendOptions)); messages of
//! 18445 bytes and more; AUTH for DATA ([`AuthenticationConfig::required`](crate::AuthenticationConfig::required)) with keys that change
//! at run time ([`AssociationMut::add_key`](crate::AssociationMut::add_key), [`AssociationMut::activate_key`](crate::AssociationMut::activate_key),
//! [`AssociationMut::delete_key`](crate::AssociationMut::delete_key)); and an event when all messages are acknowledged, before a key
//! changes or the connection closes ([`Event::AllAcknowledged`](crate::Event::AllAcknowledged)).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;

use carrick_wire::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, CauseCode, ChunkType, CommonHeader, Packet, PacketBuilder,
    ParameterType, Ppid, RawChunk, padded,
};

use crate::export::{ExportError, ExportReader, ExportWriter, ImportError, Portable};
use crate::route::Route;
use crate::time::Time;

/// Limit of a negotiation parameter's value in bytes; longer values of peers are not accepted.
pub const MAX_OFFER: usize = 64;

/// Limit of the bytes that a protection adds to a packet ([`ChunkProtectionOffer::overhead`]).
pub const MAX_OVERHEAD: usize = 200;

/// Limit of a message of the key management in bytes; an association with a longer one of the peer is aborted.
pub const MAX_KEY_MESSAGE: usize = 1 << 16;

/// Context of a packet to protect or unprotect.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PacketContext {
    /// Current time.
    pub now: Time,
    /// Common header, which is not encrypted.
    pub header: CommonHeader,
    /// Route of the packet.
    pub route: Route,
}

/// Values of the negotiation parameter of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Offers<'a> {
    /// Value of this side.
    pub ours: &'a [u8],
    /// Value of the peer.
    pub theirs: &'a [u8],
    /// This side initiated the association; `true` on both sides if both initiated.
    pub initiated: bool,
}

/// State of the key management of a protection ([`ChunkProtection::key_management_state`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyManagementState {
    /// Keys are not agreed yet, and no user data is sent.
    Pending,
    /// Packets are protected in both directions.
    Established,
    /// No keys could be agreed: the association is aborted. The text names what was refused by which side.
    Failed(String),
}

/// Result of [`ChunkProtection::protect`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seal {
    /// The chunks were replaced by the value of the protection's chunk.
    Sealed {
        /// Flags of the chunk.
        flags: u8,
    },
    /// The packet is sent in the clear.
    Clear,
    /// The packet is not sent; for the association it is lost.
    Drop,
}

/// Serialises a chunk type as its number.
#[cfg(feature = "serde")]
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serialize_with passes a reference"
)]
fn as_number<S: serde::Serializer>(kind: &ChunkType, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u8(kind.0)
}

/// Counters of the protection of an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProtectionStats {
    /// Type of the chunk that contains the protected chunks.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_number"))]
    pub chunk_type: ChunkType,
    /// Packets sent protected.
    pub sealed: u64,
    /// Packets sent in the clear ([`Seal::Clear`]).
    pub sent_clear: u64,
    /// Packets not sent: [`Seal::Drop`], or longer than [`ChunkProtectionOffer::overhead`] allows.
    pub held_back: u64,
    /// Protected packets received and opened.
    pub opened: u64,
    /// Forged or replayed packets received.
    pub forged: u64,
    /// Packets received in the clear with a chunk type that has to be protected.
    pub refused_clear: u64,
}

portable_struct! {
    ProtectionStats {
        chunk_type, sealed, sent_clear, held_back, opened, forged, refused_clear,
    }
}

impl ProtectionStats {
    pub(crate) const fn new(chunk_type: ChunkType) -> Self {
        Self {
            chunk_type,
            sealed: 0,
            sent_clear: 0,
            held_back: 0,
            opened: 0,
            forged: 0,
            refused_clear: 0,
        }
    }
}

/// Protection of the packets of an association. The user reaches it with
/// [`Endpoint::chunk_protection`](crate::Endpoint::chunk_protection), for instance to set keys.
pub trait ChunkProtection: Any + Debug + Send {
    /// Replaces the chunks of a packet to send by the value of the protection's chunk. A packet to which
    /// this adds more than [`ChunkProtectionOffer::overhead`] bytes is not sent.
    fn protect(&mut self, packet: &PacketContext, chunks: &mut Vec<u8>) -> Seal;

    /// Replaces the value of a received protection chunk by the chunks in it. Returns `false` if it is
    /// forged or replayed; the packet is then discarded and counted.
    fn unprotect(&mut self, packet: &PacketContext, flags: u8, value: &mut Vec<u8>) -> bool;

    /// Returns whether a packet in the clear may contain this chunk type. A packet with any other chunk
    /// type is discarded as a whole and counted.
    fn admits(&self, chunk: ChunkType) -> bool;

    /// Processes a restart of the peer, whose set-up was admitted in the clear or protected, with the offers
    /// of the new set-up.
    fn restarted(&mut self, now: Time, offers: &Offers<'_>) {
        let _ = (now, offers);
    }

    /// Returns the state of the key management. Not called without one
    /// ([`ChunkProtectionOffer::key_management`]).
    fn key_management_state(&self) -> KeyManagementState {
        KeyManagementState::Established
    }

    /// Begins the key management: the association is established.
    fn start_key_management(&mut self, now: Time) {
        let _ = now;
    }

    /// Processes a message of the peer's key management, at most [`MAX_KEY_MESSAGE`] bytes.
    fn on_key_message(&mut self, now: Time, message: &[u8]) {
        let _ = (now, message);
    }

    /// Returns the next message to the peer's key management. It is sent reliably, in order, on stream 0.
    fn poll_key_message(&mut self, now: Time) -> Option<Vec<u8>> {
        let _ = now;
        None
    }

    /// Returns when [`Self::handle_key_timeout`] is to be called.
    fn next_key_timeout(&self) -> Option<Time> {
        None
    }

    /// Handles the expiry of the key management's timers.
    fn handle_key_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// Returns the state for [`ChunkProtectionOffer::import`], with keys and record numbers; `None`, the
    /// default, if it can't be exported ([`Endpoint::export`](crate::Endpoint::export)).
    fn export(&self, now: Time) -> Option<Vec<u8>> {
        let _ = now;
        None
    }
}

/// Protection that an endpoint offers in INIT and INIT ACK. It is in force if both sides send the same
/// parameter and agree ([`Self::agree`]).
pub trait ChunkProtectionOffer: Debug + Send + Sync {
    /// Returns the type of the chunk that contains the protected chunks.
    fn chunk_type(&self) -> ChunkType;

    /// Returns the type of the negotiation parameter.
    fn parameter_type(&self) -> ParameterType;

    /// Returns the value of the parameter, at most [`MAX_OFFER`] bytes
    /// ([`AssociationConfig::validate`](crate::AssociationConfig::validate)). `random` is the random number of the
    /// association for this purpose. The value is computed several times for an association, equal each time.
    fn value(&self, random: u32) -> Vec<u8>;

    /// Returns the limit of bytes that the protection adds to the chunks of a packet, 0 to
    /// [`MAX_OVERHEAD`] ([`AssociationConfig::validate`](crate::AssociationConfig::validate)). They are reserved in every packet once
    /// the protection is negotiated.
    fn overhead(&self) -> usize;

    /// Returns whether the protection is used with a peer whose parameter has the value `theirs`, `None` without
    /// the parameter. Both sides have to come to the same result.
    ///
    /// # Errors
    /// The error cause of the ABORT that refuses the association.
    fn agree(&self, ours: &[u8], theirs: Option<&[u8]>) -> Result<bool, CauseCode>;

    /// Returns whether [`Self::agree`] refuses all peers without the parameter. AUTH is not offered then.
    fn is_required(&self) -> bool {
        false
    }

    /// Returns the payload protocol identifier of the messages of the key management; `None`, the default, if
    /// the user sets the keys.
    fn key_management(&self) -> Option<Ppid> {
        None
    }

    /// Creates the negotiated protection.
    fn begin(&self, offers: &Offers<'_>) -> Box<dyn ChunkProtection>;

    /// Continues a protection with the state of [`ChunkProtection::export`], where `now` is the moment of the
    /// export by the present clock; `None`, the default, if the state is none of this protection. Called by
    /// [`Endpoint::import`](crate::Endpoint::import).
    fn import(&self, now: Time, state: &[u8]) -> Option<Box<dyn ChunkProtection>> {
        let _ = (now, state);
        None
    }
}

/// The protection in force of an association and its statistics.
#[derive(Debug)]
pub(crate) struct Protected {
    implementation: Box<dyn ChunkProtection>,
    chunk_type: ChunkType,
    /// Value of the peer's parameter.
    theirs: Vec<u8>,
    keys: Keys,
    stats: ProtectionStats,
    /// Bytes that it adds to the chunks at most.
    overhead: usize,
    scratch: Vec<u8>,
}

/// Origin of the keys of a protection.
#[derive(Debug)]
enum Keys {
    /// The user sets them.
    OfUser,
    /// The key management agrees on them with the peer's.
    Managed {
        ppid: Ppid,
        phase: KeyPhase,
        /// Beginning of a message that is delivered in parts.
        parts: Vec<u8>,
    },
}

portable_enum! { Keys { 0: OfUser, 1: Managed { ppid, phase, parts } } }

/// Phase of the key management of an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeyPhase {
    /// The association is not established.
    SettingUp,
    /// The user was not notified of the association, and its messages wait.
    Pending,
    /// The user sends and receives messages.
    Established,
}

portable_enum! { KeyPhase { 0: SettingUp, 1: Pending, 2: Established } }

/// Result of [`Protected::advance`].
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum KeyProgress {
    /// Nothing changes for the user.
    None,
    /// Both sides have keys: the user may be notified of the association.
    Established,
    /// The association is to be aborted, for this reason.
    Failed(String),
}

/// Offer of a chunk protection, by the type of its parameter.
impl Portable for Arc<dyn ChunkProtectionOffer> {
    fn write(&self, out: &mut ExportWriter) {
        self.parameter_type().write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let kind = Portable::read(input)?;
        let mut listed = input.shared.get::<Vec<Self>>().into_iter().flatten();
        let found = listed.find(|offer| offer.parameter_type() == kind);
        found.cloned().ok_or(ImportError::MissingProtection(kind))
    }
}

impl Portable for Protected {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            implementation,
            chunk_type,
            theirs,
            keys,
            stats,
            overhead,
            scratch: _,
        } = self;
        match implementation.export(out.now()) {
            Some(state) => out.octets(&state),
            None => out.fail(ExportError::Protection(*chunk_type)),
        }
        chunk_type.write(out);
        theirs.write(out);
        keys.write(out);
        stats.write(out);
        overhead.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let (now, state) = (input.now(), input.octets()?);
        let chunk_type = Portable::read(input)?;
        let offer: &Option<Arc<dyn ChunkProtectionOffer>> = input.of_association()?;
        let implementation = offer.as_ref().and_then(|offer| offer.import(now, state));
        let protected = Self {
            implementation: implementation.ok_or(ImportError::Protection(chunk_type))?,
            chunk_type,
            theirs: Portable::read(input)?,
            keys: Portable::read(input)?,
            stats: Portable::read(input)?,
            overhead: Portable::read(input)?,
            scratch: Vec::new(),
        };
        if protected.overhead > MAX_OVERHEAD {
            return Err(ImportError::Malformed("Protected"));
        }
        Ok(protected)
    }
}

impl Protected {
    /// Starts the protection that both sides offer.
    pub(crate) fn new(offer: &dyn ChunkProtectionOffer, offers: &Offers<'_>) -> Self {
        let chunk_type = offer.chunk_type();
        let managed = |ppid| Keys::Managed {
            ppid,
            phase: KeyPhase::SettingUp,
            parts: Vec::new(),
        };
        Self {
            implementation: offer.begin(offers),
            chunk_type,
            theirs: offers.theirs.to_vec(),
            keys: offer.key_management().map_or(Keys::OfUser, managed),
            stats: ProtectionStats::new(chunk_type),
            overhead: offer.overhead(),
            scratch: Vec::new(),
        }
    }

    /// Returns whether it was started with this value of the peer's parameter.
    pub(crate) fn was_agreed_with(&self, theirs: &[u8]) -> bool {
        self.theirs == theirs
    }

    /// Returns the payload protocol identifier of the key management's messages, if it has one.
    pub(crate) fn key_management(&self) -> Option<Ppid> {
        match self.keys {
            Keys::OfUser => None,
            Keys::Managed { ppid, .. } => Some(ppid),
        }
    }

    /// Returns whether the user is not notified of the association yet, since keys are missing.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(
            self.keys,
            Keys::Managed {
                phase: KeyPhase::Pending,
                ..
            }
        )
    }

    /// Begins the key management of an association that is established. Returns whether its user has to wait.
    pub(crate) fn start(&mut self, now: Time) -> bool {
        let Keys::Managed { phase, .. } = &mut self.keys else {
            return false;
        };
        *phase = KeyPhase::Pending;
        self.implementation.start_key_management(now);
        true
    }

    /// Passes a message of the peer's key management, or a part of one; the last part `ends` it.
    pub(crate) fn on_key_message(&mut self, now: Time, part: &[u8], ends: bool) {
        let Keys::Managed { parts, .. } = &mut self.keys else {
            return;
        };
        if parts.len() + part.len() > MAX_KEY_MESSAGE {
            // The parts that follow are no message of the key management either.
            *parts = Vec::new();
            return;
        }
        parts.extend_from_slice(part);
        if ends {
            let whole = core::mem::take(parts);
            self.implementation.on_key_message(now, &whole);
        }
    }

    /// Discards the beginning of a message that will not be completed.
    pub(crate) fn discard_key_message(&mut self) {
        if let Keys::Managed { parts, .. } = &mut self.keys {
            *parts = Vec::new();
        }
    }

    /// Returns the next message to the peer's key management.
    pub(crate) fn poll_key_message(&mut self, now: Time) -> Option<Vec<u8>> {
        self.key_management()?;
        self.implementation.poll_key_message(now)
    }

    /// Returns what the state of the key management changes for the user.
    pub(crate) fn advance(&mut self) -> KeyProgress {
        let Keys::Managed { phase, .. } = &mut self.keys else {
            return KeyProgress::None;
        };
        if *phase == KeyPhase::SettingUp {
            return KeyProgress::None;
        }
        match self.implementation.key_management_state() {
            KeyManagementState::Failed(reason) => KeyProgress::Failed(reason),
            KeyManagementState::Established if *phase == KeyPhase::Pending => {
                *phase = KeyPhase::Established;
                KeyProgress::Established
            }
            KeyManagementState::Established | KeyManagementState::Pending => KeyProgress::None,
        }
    }

    /// Returns when the key management's timers expire.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.key_management()?;
        self.implementation.next_key_timeout()
    }

    /// Handles the expiry of the key management's timers.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.implementation.handle_key_timeout(now);
    }

    /// Returns the bytes that it takes from each packet, with the header and padding of its chunk.
    pub(crate) fn overhead(&self) -> usize {
        padded(self.overhead) + CHUNK_HEADER_LEN
    }

    pub(crate) fn stats(&self) -> ProtectionStats {
        self.stats
    }

    /// Returns the user's implementation.
    pub(crate) fn implementation(&mut self) -> &mut dyn ChunkProtection {
        &mut *self.implementation
    }

    /// Passes on that the peer restarted, with the offers of the new set-up.
    pub(crate) fn on_restart(&mut self, now: Time, offers: &Offers<'_>) {
        self.theirs = offers.theirs.to_vec();
        if let Keys::Managed { parts, .. } = &mut self.keys {
            *parts = Vec::new();
        }
        self.implementation.restarted(now, offers);
    }

    /// Returns whether this is the chunk that contains protected chunks.
    pub(crate) fn is_protected(&self, chunk: RawChunk<'_>) -> bool {
        chunk.kind == self.chunk_type
    }

    /// Returns whether a packet in the clear may contain these chunk types; counts it otherwise.
    pub(crate) fn admits(&mut self, mut kinds: impl Iterator<Item = ChunkType>) -> bool {
        let admitted = kinds.all(|kind| self.implementation.admits(kind));
        self.stats.refused_clear += u64::from(!admitted);
        admitted
    }

    /// Returns the chunks in a protected chunk. Returns `None` and counts the packet if it is forged or
    /// replayed.
    pub(crate) fn open(
        &mut self,
        chunk: RawChunk<'_>,
        header: CommonHeader,
        route: &Route,
        now: Time,
    ) -> Option<Vec<u8>> {
        let context = PacketContext {
            now,
            header,
            route: *route,
        };
        let mut value = chunk.value.to_vec();
        if !self
            .implementation
            .unprotect(&context, chunk.flags, &mut value)
        {
            self.stats.forged += 1;
            return None;
        }
        self.stats.opened += 1;
        Some(value)
    }

    /// Seals the packet at `start` of the buffer; a packet that must not be sent is removed.
    pub(crate) fn seal(&mut self, buf: &mut Vec<u8>, start: usize, route: &Route, now: Time) {
        let header = Packet::parse(&buf[start..]).map(|packet| packet.header());
        let Ok(header) = header else { return };
        let context = PacketContext {
            now,
            header,
            route: *route,
        };
        let chunks = buf.get(start + COMMON_HEADER_LEN..).unwrap_or_default();
        let longest = chunks.len() + self.overhead;
        self.scratch.clear();
        self.scratch.extend_from_slice(chunks);
        match self.implementation.protect(&context, &mut self.scratch) {
            Seal::Clear => self.stats.sent_clear += 1,
            Seal::Sealed { flags } if self.scratch.len() <= longest => {
                self.stats.sealed += 1;
                buf.truncate(start);
                let len = COMMON_HEADER_LEN + CHUNK_HEADER_LEN + padded(self.scratch.len());
                let mut packet = PacketBuilder::new(buf, header, len);
                packet.raw(self.chunk_type, flags, &self.scratch);
                packet.finish();
            }
            Seal::Drop | Seal::Sealed { .. } => {
                self.stats.held_back += 1;
                buf.truncate(start);
            }
        }
    }
}
