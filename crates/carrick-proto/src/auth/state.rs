//! Authentication state of an association: sending of authenticated chunks (RFC 4895, section 6.2) and
//! verification of received ones (section 6.3).

use carrick_wire::{
    AUTH_HEADER_LEN, Auth as AuthChunk, AuthSlot, ChunkType, HmacId, Packet, PacketBuilder,
    SharedKeyId, padded,
};

use super::keys::Keys;
use super::{AuthenticationConfig, ChunkSet, KeyError, KeyVector, SharedKey};
use crate::stats::AuthenticationCounters;

/// Result of the verification of an AUTH chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The HMAC is valid.
    Genuine,
    /// This side did not list the HMAC algorithm.
    UnsupportedAlgorithm(HmacId),
    /// There is no shared key with this identifier.
    UnknownKey(SharedKeyId),
    /// The HMAC is invalid.
    Forged,
}

/// Authentication state; absent if this side does not offer authentication.
#[derive(Debug)]
pub(crate) struct Auth {
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
    pub(crate) counters: AuthenticationCounters,
    /// Key of the peer's last valid AUTH chunk.
    pub(crate) peer_key: Option<SharedKeyId>,
    /// Unknown key of which the user was notified last.
    pub(crate) reported_unknown_key: Option<SharedKeyId>,
}

impl Auth {
    pub(crate) fn new(config: &AuthenticationConfig, ours: KeyVector) -> Self {
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

    /// Returns the key vector of this side.
    pub(crate) fn ours(&self) -> &KeyVector {
        &self.ours
    }

    /// Sets the key vectors of both sides after set-up or restart. The user's keys are kept.
    pub(crate) fn negotiated(&mut self, ours: KeyVector, theirs: KeyVector) {
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
    pub(crate) fn is_negotiated(&self) -> bool {
        !self.theirs.is_empty()
    }

    /// Returns whether this side accepts the chunk type only authenticated.
    pub(crate) fn requires(&self, kind: ChunkType) -> bool {
        self.required.contains(kind)
    }

    /// Returns whether the peer accepts the chunk type only authenticated.
    pub(crate) fn wants(&self, kind: ChunkType) -> bool {
        self.is_negotiated() && self.wanted.contains(kind)
    }

    /// Returns the length of an AUTH chunk in bytes.
    pub(crate) fn chunk_len(&self) -> usize {
        padded(AUTH_HEADER_LEN + self.algorithm.hmac_len().unwrap_or(0))
    }

    /// Appends an AUTH chunk without its HMAC, which [`Self::sign`] fills in.
    pub(crate) fn open(&self, packet: &mut PacketBuilder<'_>) -> AuthSlot {
        let len = self.algorithm.hmac_len().unwrap_or(0);
        packet.auth(self.keys.active(), self.algorithm, len)
    }

    /// Fills in the HMAC and finishes the packet.
    pub(crate) fn sign(
        &self,
        packet: PacketBuilder<'_>,
        slot: AuthSlot,
        without_checksum: bool,
    ) -> usize {
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
    pub(crate) fn verify(&self, chunk: &AuthChunk<'_>, packet: &Packet<'_>) -> Verdict {
        if !self.ours.algorithms().any(|id| id == chunk.hmac_id) {
            return Verdict::UnsupportedAlgorithm(chunk.hmac_id);
        }
        let Some(keyed) = self.keys.keyed(chunk.shared_key) else {
            return Verdict::UnknownKey(chunk.shared_key);
        };
        if keyed.verify(chunk.hmac_id, chunk.covered(packet), chunk.hmac) {
            Verdict::Genuine
        } else {
            Verdict::Forged
        }
    }

    pub(crate) fn add_key(&mut self, key: SharedKey) -> Result<(), KeyError> {
        let vectors = (!self.theirs.is_empty()).then_some((&self.ours, &self.theirs));
        self.keys.add(key, vectors)
    }

    pub(crate) fn activate_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.keys.activate(id)
    }

    pub(crate) fn deactivate_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.keys.deactivate(id)
    }

    pub(crate) fn delete_key(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        self.keys.delete(id)
    }
}
