//! Authentication in one association: what leaves authenticated (RFC 4895 section 6.2), and what
//! is believed (section 6.3).

use carrick_wire::{
    AUTH_HEADER_LEN, Auth as AuthChunk, AuthSlot, ChunkType, HmacId, Packet, PacketBuilder,
    SharedKeyId, padded,
};

use super::keys::Keys;
use super::{AuthenticationConfig, ChunkSet, KeyError, KeyVector, SharedKey};
use crate::stats::AuthenticationCounters;

/// What is to be done about the chunks behind a received AUTH chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// They are the peer's.
    Genuine,
    /// The algorithm is none that we asked for.
    UnsupportedAlgorithm(HmacId),
    /// There is no such key.
    UnknownKey(SharedKeyId),
    /// The HMAC is another one.
    Forged,
}

/// All of it. Boxed in the association, and absent where this side does not offer authentication.
#[derive(Debug)]
pub(crate) struct Auth {
    ours: KeyVector,
    /// Empty until the peer's INIT or INIT ACK came.
    theirs: KeyVector,
    /// Chunks that we take only authenticated.
    required: ChunkSet,
    /// Chunks that the peer takes only authenticated.
    wanted: ChunkSet,
    /// The first algorithm of the peer's list that we have.
    algorithm: HmacId,
    keys: Keys,
    pub(crate) counters: AuthenticationCounters,
    /// The key of the peer's last genuine AUTH chunk.
    pub(crate) peer_key: Option<SharedKeyId>,
    /// The unknown key that the user was told of last.
    pub(crate) told_unknown: Option<SharedKeyId>,
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
            told_unknown: None,
        }
    }

    /// What this side told the peer.
    pub(crate) fn ours(&self) -> &KeyVector {
        &self.ours
    }

    /// The vectors of the association are agreed, for the first time or anew. User's keys stay.
    pub(crate) fn negotiated(&mut self, ours: KeyVector, theirs: KeyVector) {
        let algorithm = theirs.algorithms().find(|id| id.hmac_len().is_some());
        self.algorithm = algorithm.unwrap_or(HmacId::SHA_1);
        self.required = ours.chunks();
        self.wanted = theirs.chunks();
        // ASCONF is not to be sent otherwise (RFC 5061 section 4.1.1), whatever the peer lists.
        self.wanted.insert(ChunkType::ASCONF);
        self.wanted.insert(ChunkType::ASCONF_ACK);
        self.keys.prepare(&ours, &theirs);
        self.ours = ours;
        self.theirs = theirs;
        self.peer_key = None;
    }

    /// Whether the vectors of both sides are known.
    pub(crate) fn is_negotiated(&self) -> bool {
        !self.theirs.is_empty()
    }

    /// A chunk of this type is taken only authenticated.
    pub(crate) fn requires(&self, kind: ChunkType) -> bool {
        self.required.contains(kind)
    }

    /// A chunk of this type has to leave authenticated.
    pub(crate) fn wants(&self, kind: ChunkType) -> bool {
        self.is_negotiated() && self.wanted.contains(kind)
    }

    /// Bytes of an AUTH chunk of ours.
    pub(crate) fn chunk_len(&self) -> usize {
        padded(AUTH_HEADER_LEN + self.algorithm.hmac_len().unwrap_or(0))
    }

    /// Puts the AUTH chunk into the packet; the HMAC follows with [`Self::sign`].
    pub(crate) fn open(&self, packet: &mut PacketBuilder<'_>) -> AuthSlot {
        let len = self.algorithm.hmac_len().unwrap_or(0);
        packet.auth(self.keys.active(), self.algorithm, len)
    }

    /// Writes the HMAC and finishes the packet.
    pub(crate) fn sign(
        &self,
        packet: PacketBuilder<'_>,
        slot: AuthSlot,
        without_checksum: bool,
    ) -> usize {
        let Some(keyed) = self.keys.keyed(self.keys.active()) else {
            // Unreachable: the active key can't be deleted, and AUTH needs the vectors.
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

    /// Judges a received AUTH chunk.
    pub(crate) fn judge(&self, chunk: &AuthChunk<'_>, packet: &Packet<'_>) -> Verdict {
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
