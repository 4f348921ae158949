//! The key vectors: what each side says about authentication in INIT or INIT ACK, and the
//! association key that is made of both (RFC 4895 sections 3 and 6.1).

use alloc::vec::Vec;

use carrick_wire::{ChunkType, HmacId, ParameterType, ParameterWriter, RawParameter};

use super::AuthenticationConfig;

/// Bytes of the random number (section 6.1).
pub(crate) const RANDOM_LEN: usize = 32;

/// Bytes of a parameter's header.
const HEADER: usize = 4;

/// Algorithms that a peer may list; two are defined.
const MAX_ALGORITHMS: usize = 32;

/// A set of chunk types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChunkSet([u64; 4]);

impl ChunkSet {
    pub(crate) fn insert(&mut self, kind: ChunkType) {
        self.0[usize::from(kind.0 >> 6)] |= 1 << (kind.0 & 63);
    }

    pub(crate) fn contains(&self, kind: ChunkType) -> bool {
        self.0[usize::from(kind.0 >> 6)] >> (kind.0 & 63) & 1 == 1
    }
}

/// RANDOM, CHUNKS and HMAC-ALGO of one side, in this order and without padding. Empty for a side
/// that does not authenticate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct KeyVector(Vec<u8>);

impl KeyVector {
    /// What this side says.
    pub(crate) fn new(
        random: &[u8; RANDOM_LEN],
        config: &AuthenticationConfig,
        dynamic_addresses: bool,
    ) -> Self {
        let mut bytes = Vec::with_capacity(64);
        put(&mut bytes, ParameterType::RANDOM, random);
        let mut required: Vec<u8> = config.required.iter().map(|kind| kind.0).collect();
        if dynamic_addresses {
            required.extend([ChunkType::ASCONF.0, ChunkType::ASCONF_ACK.0]);
        }
        required.sort_unstable();
        required.dedup();
        if !required.is_empty() {
            put(&mut bytes, ParameterType::CHUNKS, &required);
        }
        let algorithms = config.algorithms.iter();
        let ids: Vec<u8> = algorithms.flat_map(|id| id.0.to_be_bytes()).collect();
        put(&mut bytes, ParameterType::HMAC_ALGO, &ids);
        Self(bytes)
    }

    /// As it came out of [`Self::bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells the peer.
    pub(crate) fn write(&self, parameters: &mut ParameterWriter<'_>) {
        self.items()
            .for_each(|(kind, value)| parameters.raw(kind, value));
    }

    /// Chunks that this side takes only authenticated. Those of section 3.2 are ignored.
    pub(crate) fn chunks(&self) -> ChunkSet {
        let never = [
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::SHUTDOWN_COMPLETE,
            ChunkType::AUTH,
        ];
        let mut set = ChunkSet::default();
        let listed = self.value(ParameterType::CHUNKS).iter();
        listed
            .map(|kind| ChunkType(*kind))
            .filter(|kind| !never.contains(kind))
            .for_each(|kind| set.insert(kind));
        set
    }

    /// The algorithms that this side wants used, most wanted first.
    pub(crate) fn algorithms(&self) -> impl Iterator<Item = HmacId> + '_ {
        let (pairs, _) = self.value(ParameterType::HMAC_ALGO).as_chunks::<2>();
        pairs.iter().map(|id| HmacId(u16::from_be_bytes(*id)))
    }

    fn value(&self, wanted: ParameterType) -> &[u8] {
        let found = self.items().find(|(kind, _)| *kind == wanted);
        found.map_or(&[], |(_, value)| value)
    }

    fn items(&self) -> impl Iterator<Item = (ParameterType, &[u8])> {
        let mut rest = &self.0[..];
        core::iter::from_fn(move || {
            let (header, _) = rest.split_first_chunk::<HEADER>()?;
            let kind = ParameterType(u16::from_be_bytes([header[0], header[1]]));
            let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let value = rest.get(HEADER..len)?;
            rest = &rest[len..];
            Some((kind, value))
        })
    }

    /// The association key that belongs to an endpoint-pair shared key.
    pub(crate) fn association_key(&self, peer: &Self, secret: &[u8]) -> Vec<u8> {
        // As numbers: the first byte of both is the same and not zero, so that the longer is larger.
        let size = |vector: &Self| vector.0.len();
        let ordered = (size(self), &self.0) <= (size(peer), &peer.0);
        let (smaller, larger) = if ordered { (self, peer) } else { (peer, self) };
        [secret, &smaller.0, &larger.0].concat()
    }
}

fn put(bytes: &mut Vec<u8>, kind: ParameterType, value: &[u8]) {
    bytes.extend_from_slice(&kind.0.to_be_bytes());
    bytes.extend_from_slice(&((HEADER + value.len()) as u16).to_be_bytes());
    bytes.extend_from_slice(value);
}

/// What the peer's INIT or INIT ACK says about authentication: whole parameters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerAuth<'a> {
    random: &'a [u8],
    chunks: &'a [u8],
    algorithms: &'a [u8],
}

impl<'a> PeerAuth<'a> {
    /// Takes note of a parameter; each counts once. `false` if it breaks a rule of section 3.
    pub(crate) fn read(&mut self, raw: RawParameter<'a>) -> bool {
        let (place, fits) = match raw.kind {
            ParameterType::RANDOM => (&mut self.random, raw.value.len() == RANDOM_LEN),
            ParameterType::CHUNKS => (&mut self.chunks, raw.value.len() <= 256),
            ParameterType::HMAC_ALGO => {
                let fits = raw.value.len() <= 2 * MAX_ALGORITHMS;
                (&mut self.algorithms, fits)
            }
            _ => return true,
        };
        if place.is_empty() {
            *place = raw.bytes;
        }
        fits
    }

    /// The peer's key vector; `None` if it does not authenticate, or with no algorithm of ours.
    pub(crate) fn vector(&self) -> Option<KeyVector> {
        if self.random.is_empty() || self.algorithms.is_empty() {
            return None;
        }
        let vector = KeyVector([self.random, self.chunks, self.algorithms].concat());
        let common = vector.algorithms().any(|id| id.hmac_len().is_some());
        common.then_some(vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(random: u8, required: &[ChunkType]) -> KeyVector {
        let config = AuthenticationConfig {
            required: required.to_vec(),
            ..Default::default()
        };
        KeyVector::new(&[random; RANDOM_LEN], &config, false)
    }

    #[test]
    fn the_vector_is_the_parameters_without_padding_6_1() {
        let vector = vector(7, &[ChunkType::DATA]);
        let mut expected = alloc::vec![0x80, 2, 0, 36];
        expected.extend_from_slice(&[7; 32]);
        expected.extend_from_slice(&[0x80, 3, 0, 5, 0, 0x80, 4, 0, 8, 0, 3, 0, 1]);
        assert_eq!(vector.bytes(), expected);
        assert!(vector.chunks().contains(ChunkType::DATA));
        assert!(!vector.chunks().contains(ChunkType::SACK));
        let ids: Vec<_> = vector.algorithms().collect();
        assert_eq!(ids, [HmacId::SHA_256, HmacId::SHA_1]);
    }

    #[test]
    fn both_sides_make_the_same_key_the_smaller_vector_first_6_1() {
        let (small, large) = (vector(1, &[]), vector(2, &[]));
        let key = small.association_key(&large, b"secret");
        assert_eq!(key, large.association_key(&small, b"secret"));
        assert_eq!(key, [b"secret", small.bytes(), large.bytes()].concat());
        // A longer vector is the larger number, whatever it holds.
        let long = vector(0, &[ChunkType::DATA]);
        let key = long.association_key(&small, b"");
        assert_eq!(key, [small.bytes(), long.bytes()].concat());
    }

    #[test]
    fn chunks_that_set_an_association_up_or_end_it_are_ignored_3_2() {
        let mut bytes = vector(1, &[]).0;
        put(&mut bytes, ParameterType::CHUNKS, &[1, 2, 14, 15, 0xc1]);
        let set = KeyVector(bytes).chunks();
        for kind in [1, 2, 14, 15] {
            assert!(!set.contains(ChunkType(kind)));
        }
        assert!(set.contains(ChunkType::ASCONF));
    }
}
