//! Authentication state of an association: sending of authenticated chunks (RFC 4895, section 6.2) and
//! verification of received ones (section 6.3).

use alloc::boxed::Box;

use carrick_wire::{
    AUTH_HEADER_LEN, Auth as AuthChunk, AuthSlot, COMMON_HEADER_LEN, ChunkType, HmacId, Packet,
    PacketBuilder, SharedKeyId, padded,
};

use super::counters::AuthenticationCounters;
use super::keys::Keys;
use super::{AuthenticationConfig, ChunkSet, KeyError, KeyVector, SharedKey};
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::extensions::Extensions;
use crate::random::Random;

/// Result of the verification of an AUTH chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HmacCheck {
    /// The HMAC is valid.
    Valid,
    /// This side did not list the HMAC algorithm.
    UnsupportedAlgorithm(HmacId),
    /// There is no shared key with this identifier.
    UnknownKey(SharedKeyId),
    /// The HMAC is invalid.
    Invalid,
}

/// Result of a received AUTH chunk. Unless it is authentic, the chunks behind it are discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AuthOutcome {
    /// The chunks behind it are authentic.
    Authentic,
    /// The chunks behind it are authentic, and the peer uses this key instead of another one.
    PeerKeyChanged(SharedKeyId),
    /// The HMAC is invalid, or the key is unknown and was reported before.
    Rejected,
    /// There is no shared key with this identifier, of which the user is to be notified.
    UnknownKey(SharedKeyId),
    /// This side did not list the HMAC algorithm, of which the peer is to be informed.
    UnsupportedAlgorithm(HmacId),
}

/// Authentication of an association, without effect if this side does not offer it or the peer is known
/// to lack it.
#[derive(Debug, Default)]
pub(crate) struct Auth(Option<Box<AuthState>>);

portable_tuple! { Auth(value) }

#[derive(Debug)]
struct AuthState {
    ours: KeyVector,
    /// Key vector of the peer; empty before its INIT or INIT ACK.
    theirs: KeyVector,
    /// Chunk types that this side accepts only authenticated.
    required: ChunkSet,
    /// Chunk types that the peer accepts only authenticated.
    wanted: ChunkSet,
    /// First algorithm of the peer's list that this side supports.
    algorithm: HmacId,
    keys: Keys,
    counters: AuthenticationCounters,
    /// Key of the peer's last valid AUTH chunk.
    peer_key: Option<SharedKeyId>,
    /// Unknown key of which the user was notified last.
    reported_unknown_key: Option<SharedKeyId>,
}

/// Authentication state; the association keys are computed again.
impl Portable for AuthState {
    fn write(&self, out: &mut ExportWriter) {
        let Self {
            ours,
            theirs,
            required,
            wanted,
            algorithm,
            keys,
            counters,
            peer_key,
            reported_unknown_key,
        } = self;
        // Both have a method of this name that writes their parameters.
        Portable::write(ours, out);
        Portable::write(theirs, out);
        required.write(out);
        wanted.write(out);
        algorithm.write(out);
        keys.write(out);
        keys.are_prepared().write(out);
        counters.write(out);
        peer_key.write(out);
        reported_unknown_key.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let (ours, theirs) = Portable::read(input)?;
        let (required, wanted, algorithm): (_, _, HmacId) = Portable::read(input)?;
        if algorithm.hmac_len().is_none() {
            return Err(ImportError::Malformed("HMAC algorithm"));
        }
        let mut keys = Keys::read(input)?;
        if bool::read(input)? {
            keys.prepare(&ours, &theirs);
        }
        Ok(Self {
            ours,
            theirs,
            required,
            wanted,
            algorithm,
            keys,
            counters: Portable::read(input)?,
            peer_key: Portable::read(input)?,
            reported_unknown_key: Portable::read(input)?,
        })
    }
}

impl AuthState {
    fn new(config: &AuthenticationConfig, ours: KeyVector) -> Self {
        Self {
            required: ours.chunks(),
            ours,
            theirs: KeyVector::default(),
            wanted: ChunkSet::default(),
            algorithm: HmacId::SHA_1,
            keys: Keys::new(config),
            counters: AuthenticationCounters::default(),
            peer_key: None,
            reported_unknown_key: None,
        }
    }

    /// Sets the key vectors of both sides after set-up or restart. The user's keys are kept.
    fn negotiated(&mut self, ours: KeyVector, theirs: KeyVector) {
        let algorithm = theirs.algorithms().find(|id| id.hmac_len().is_some());
        self.algorithm = algorithm.unwrap_or(HmacId::SHA_1);
        self.required = ours.chunks();
        self.wanted = theirs.chunks();
        // ASCONF is always sent authenticated (RFC 5061, section 4.1.1).
        self.wanted.insert(ChunkType::ASCONF);
        self.wanted.insert(ChunkType::ASCONF_ACK);
        self.keys.prepare(&ours, &theirs);
        self.ours = ours;
        self.theirs = theirs;
        self.peer_key = None;
    }

    /// Returns whether the key vectors of both sides are known.
    fn is_negotiated(&self) -> bool {
        !self.theirs.is_empty()
    }

    /// Returns whether this side accepts the chunk type only authenticated.
    fn requires(&self, kind: ChunkType) -> bool {
        self.required.contains(kind)
    }

    /// Returns the chunk types that the peer has listed in CHUNKS.
    fn listed_by_peer(&self) -> impl Iterator<Item = ChunkType> {
        let chunks = self.theirs.chunks();
        (0..=u8::MAX)
            .map(ChunkType)
            .filter(move |kind| chunks.contains(*kind))
    }

    /// Returns whether the peer accepts one of these chunk types only authenticated.
    fn wants(&self, kinds: &ChunkSet) -> bool {
        self.is_negotiated() && self.wanted.intersects(kinds)
    }

    /// Returns the length of an AUTH chunk in bytes.
    fn chunk_len(&self) -> usize {
        padded(AUTH_HEADER_LEN + self.algorithm.hmac_len().unwrap_or(0))
    }

    /// Appends an AUTH chunk without its HMAC, which [`Self::sign`] fills in.
    fn open(&self, packet: &mut PacketBuilder<'_>) -> AuthSlot {
        let len = self.algorithm.hmac_len().unwrap_or(0);
        packet.auth(self.keys.active(), self.algorithm, len)
    }

    /// Fills in the HMAC and finishes the packet.
    fn sign(&self, packet: PacketBuilder<'_>, slot: AuthSlot, without_checksum: bool) -> usize {
        let Some(keyed) = self.keys.keyed(self.keys.active()) else {
            // Unreachable: the active key can't be deleted, and AUTH needs both key vectors.
            return packet.finish();
        };
        let packet = packet.authenticate(slot, |covered| {
            keyed.compute(self.algorithm, core::iter::once(covered))
        });
        if without_checksum {
            packet.finish_with_zero_checksum()
        } else {
            packet.finish()
        }
    }

    /// Verifies a received AUTH chunk (RFC 4895, section 6.3).
    fn verify(&self, chunk: &AuthChunk<'_>, packet: &Packet<'_>) -> HmacCheck {
        if !self.ours.algorithms().any(|id| id == chunk.hmac_id) {
            return HmacCheck::UnsupportedAlgorithm(chunk.hmac_id);
        }
        let Some(keyed) = self.keys.keyed(chunk.shared_key) else {
            return HmacCheck::UnknownKey(chunk.shared_key);
        };
        if keyed.verify(chunk.hmac_id, chunk.covered(packet), chunk.hmac) {
            HmacCheck::Valid
        } else {
            HmacCheck::Invalid
        }
    }
}

impl Auth {
    /// Returns the authentication that an INIT offers, with a new random number.
    pub(crate) fn offered(
        offered: Extensions,
        config: &AuthenticationConfig,
        random: &mut Random,
    ) -> Self {
        if !offered.authentication {
            return Self::default();
        }
        let ours = KeyVector::new(&random.key(), config, offered.dynamic_addresses);
        Self(Some(Box::new(AuthState::new(config, ours))))
    }

    /// Returns the authentication that a cookie with these key vectors describes.
    pub(crate) fn of_cookie(
        config: &AuthenticationConfig,
        ours: &KeyVector,
        theirs: &KeyVector,
    ) -> Self {
        let mut auth = Self::default();
        auth.negotiate(config, Some(ours), theirs.clone());
        auth
    }

    /// Sets the key vectors of both sides after set-up or restart: `ours` from a cookie, or that of the
    /// INIT. The user's keys are kept.
    pub(crate) fn negotiate(
        &mut self,
        config: &AuthenticationConfig,
        ours: Option<&KeyVector>,
        theirs: KeyVector,
    ) {
        let state = self.0.get_or_insert_with(|| {
            let ours = ours.cloned().unwrap_or_default();
            Box::new(AuthState::new(config, ours))
        });
        let ours = ours.unwrap_or(&state.ours).clone();
        state.negotiated(ours, theirs);
    }

    /// Returns the chunk types that the peer has listed in CHUNKS; none before its INIT or INIT ACK.
    pub(crate) fn listed_by_peer(&self) -> impl Iterator<Item = ChunkType> {
        self.0.iter().flat_map(|state| state.listed_by_peer())
    }

    /// Ends authentication, which the peer lacks.
    pub(crate) fn disable(&mut self) {
        self.0 = None;
    }

    /// Returns whether authentication is offered or negotiated.
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the key vectors of both sides are known.
    pub(crate) fn is_negotiated(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.is_negotiated())
    }

    /// Returns the key vector of this side.
    pub(crate) fn key_vector(&self) -> Option<&KeyVector> {
        self.0.as_ref().map(|state| &state.ours)
    }

    pub(crate) fn counters(&self) -> AuthenticationCounters {
        self.0
            .as_ref()
            .map_or_else(Default::default, |a| a.counters)
    }

    /// Returns whether this side accepts the chunk type only authenticated.
    pub(crate) fn requires(&self, kind: ChunkType) -> bool {
        self.0.as_ref().is_some_and(|state| state.requires(kind))
    }

    /// Returns whether a chunk of this type, which no AUTH chunk precedes, is to be discarded, and counts
    /// it then.
    pub(crate) fn rejects_plain(&mut self, kind: ChunkType) -> bool {
        let state = self.0.as_mut().filter(|state| state.requires(kind));
        state.is_some_and(|state| {
            state.counters.unauthenticated_chunks += 1;
            true
        })
    }

    /// Counts an AUTH chunk that can't be parsed.
    pub(crate) fn count_malformed(&mut self) {
        if let Some(state) = &mut self.0 {
            state.counters.forged_packets += 1;
        }
    }

    /// Processes a received AUTH chunk (RFC 4895, section 6.3).
    pub(crate) fn on_auth(&mut self, chunk: &AuthChunk<'_>, packet: &Packet<'_>) -> AuthOutcome {
        let Some(state) = &mut self.0 else {
            return AuthOutcome::Rejected;
        };
        if !state.is_negotiated() {
            state.counters.unknown_keys += 1;
            return AuthOutcome::Rejected;
        }
        match state.verify(chunk, packet) {
            HmacCheck::Valid => {
                let key = chunk.shared_key;
                state.reported_unknown_key = None;
                match state.peer_key.replace(key) {
                    Some(before) if before != key => AuthOutcome::PeerKeyChanged(key),
                    _ => AuthOutcome::Authentic,
                }
            }
            HmacCheck::Invalid => {
                state.counters.forged_packets += 1;
                AuthOutcome::Rejected
            }
            HmacCheck::UnknownKey(key) => {
                state.counters.unknown_keys += 1;
                match state.reported_unknown_key.replace(key) {
                    Some(before) if before == key => AuthOutcome::Rejected,
                    _ => AuthOutcome::UnknownKey(key),
                }
            }
            HmacCheck::UnsupportedAlgorithm(id) => {
                state.counters.unknown_keys += 1;
                AuthOutcome::UnsupportedAlgorithm(id)
            }
        }
    }

    /// Returns whether an AUTH chunk in front of a COOKIE ECHO is valid.
    pub(crate) fn is_genuine(&self, chunk: &AuthChunk<'_>, packet: &Packet<'_>) -> bool {
        let state = self.0.as_ref();
        state.is_some_and(|state| state.verify(chunk, packet) == HmacCheck::Valid)
    }

    /// Appends an AUTH chunk if the peer requires it for one of the chunk types that may follow; [`Self::finish`]
    /// fills in its HMAC.
    #[inline]
    pub(crate) fn open(
        &self,
        packet: &mut PacketBuilder<'_>,
        kinds: &ChunkSet,
    ) -> Option<AuthSlot> {
        let state = self.0.as_ref().filter(|state| state.wants(kinds))?;
        Some(state.open(packet))
    }

    /// Returns the bytes of the AUTH chunk that [`Self::open`] appends, 0 if it appends none.
    #[inline]
    pub(crate) fn len_for(&self, kinds: &ChunkSet) -> usize {
        let state = self.0.as_ref().filter(|state| state.wants(kinds));
        state.map_or(0, |state| state.chunk_len())
    }

    /// Returns whether AUTH precedes each chunk of a packet that the peer accepts only authenticated (RFC 4895,
    /// section 6.2).
    pub(crate) fn covers(&self, packet: &[u8]) -> bool {
        let (Some(state), Ok(packet)) = (&self.0, Packet::parse(packet)) else {
            return true;
        };
        let chunks = packet.chunks().map_while(Result::ok).map(|raw| raw.kind);
        let mut bare = chunks.take_while(|kind| *kind != ChunkType::AUTH);
        !bare.any(|kind| state.wants(&ChunkSet::of(&[kind])))
    }

    /// Fills in the HMAC, finishes a packet and returns its length; 0 for a packet without a chunk behind
    /// AUTH, which is discarded.
    #[inline]
    pub(crate) fn finish(
        &self,
        packet: PacketBuilder<'_>,
        slot: Option<AuthSlot>,
        without_checksum: bool,
    ) -> usize {
        let (Some(state), Some(slot)) = (&self.0, slot) else {
            return if without_checksum {
                packet.finish_with_zero_checksum()
            } else {
                packet.finish()
            };
        };
        if packet.len() <= COMMON_HEADER_LEN + state.chunk_len() {
            packet.discard();
            return 0;
        }
        state.sign(packet, slot, without_checksum)
    }

    fn state_mut(&mut self) -> Result<&mut AuthState, KeyError> {
        self.0.as_deref_mut().ok_or(KeyError::NotInForce)
    }

    pub(crate) fn add_key(&mut self, key: SharedKey) -> Result<(), KeyError> {
        let state = self.state_mut()?;
        let vectors = state
            .is_negotiated()
            .then_some((&state.ours, &state.theirs));
        state.keys.add(key, vectors)
    }

    pub(crate) fn activate_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.state_mut()?.keys.activate(id)
    }

    pub(crate) fn deactivate_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.state_mut()?.keys.deactivate(id)
    }

    pub(crate) fn delete_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.state_mut()?.keys.delete(id)
    }
}
