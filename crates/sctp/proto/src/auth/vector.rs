//! Key vectors: the parameters of authentication in INIT and INIT ACK, and the association shared key
//! derived from them (RFC 4895, sections 3 and 6.1).

use alloc::vec::Vec;

use carrick_wire::{ChunkType, HmacId, ParameterType, ParameterWriter, RawParameter};

use super::AuthenticationConfig;

/// Length of the random number in bytes (RFC 4895, section 6.1).
pub(crate) const RANDOM_LEN: usize = 32;

/// Length of a parameter's header in bytes.
const HEADER: usize = 4;

/// Limit of algorithms in a peer's list.
const MAX_ALGORITHMS: usize = 32;

/// Set of chunk types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChunkSet([u64; 4]);

portable_tuple! { ChunkSet(bits) }

impl ChunkSet {
    /// Returns the set of these types.
    pub(crate) const fn of(kinds: &[ChunkType]) -> Self {
        let mut set = Self([0; 4]);
        let mut n = 0;
        while n < kinds.len() {
            set.0[(kinds[n].0 >> 6) as usize] |= 1 << (kinds[n].0 & 63);
            n += 1;
        }
        set
    }

    /// Returns the types of this set and of another one.
    pub(crate) const fn with(mut self, other: Self) -> Self {
        let mut n = 0;
        while n < self.0.len() {
            self.0[n] |= other.0[n];
            n += 1;
        }
        self
    }

    /// Returns whether the sets have a type in common.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn insert(&mut self, kind: ChunkType) {
        self.0[usize::from(kind.0 >> 6)] |= 1 << (kind.0 & 63);
    }

    pub(crate) fn contains(&self, kind: ChunkType) -> bool {
        self.0[usize::from(kind.0 >> 6)] >> (kind.0 & 63) & 1 == 1
    }
}

/// Parameters RANDOM, CHUNKS and HMAC-ALGO of one side, in this order and without padding. Empty for a
/// side without authentication.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct KeyVector(Vec<u8>);

portable_tuple! { KeyVector(value) }

impl KeyVector {
    /// Returns the key vector of this side.
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

    /// Restores a key vector from [`Self::bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the parameters of the key vector.
    pub(crate) fn write(&self, parameters: &mut ParameterWriter<'_>) {
        self.items()
            .for_each(|(kind, value)| parameters.raw(kind, value));
    }

    /// Returns the chunk types in CHUNKS, without those that RFC 4895, section 3.2, excludes.
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

    /// Returns the HMAC algorithms in order of preference.
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

    /// Returns the association shared key for an endpoint-pair shared key (RFC 4895, section 6.1).
    pub(crate) fn association_key(&self, peer: &Self, secret: &[u8]) -> Vec<u8> {
        // Compared as numbers: both have the same first byte, not zero, so the longer one is larger.
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

/// Authentication parameters of the peer's INIT or INIT ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerAuth<'a> {
    random: &'a [u8],
    chunks: &'a [u8],
    algorithms: &'a [u8],
}

impl<'a> PeerAuth<'a> {
    /// Stores a parameter, the first of each type. Returns `false` if it violates RFC 4895, section 3.
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

    /// Returns the peer's key vector; `None` if it does not support authentication or no common algorithm.
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

    #[test]
    fn sets_are_united_and_compared() {
        let data = ChunkSet::of(&[ChunkType::DATA, ChunkType::I_DATA]);
        let all = data.with(ChunkSet::of(&[ChunkType::ASCONF]));
        for kind in (0..=u8::MAX).map(ChunkType) {
            let listed = [ChunkType::DATA, ChunkType::I_DATA, ChunkType::ASCONF].contains(&kind);
            assert_eq!(all.contains(kind), listed, "{kind}");
            assert_eq!(all.intersects(&ChunkSet::of(&[kind])), listed, "{kind}");
        }
        assert!(all.intersects(&data) && !all.intersects(&ChunkSet::default()));
    }

    fn vector(random: u8, required: &[ChunkType]) -> KeyVector {
        let config = AuthenticationConfig {
            required: required.to_vec(),
            ..Default::default()
        };
        KeyVector::new(&[random; RANDOM_LEN], &config, false)
    }

    /// RFC 4895, section 6.1.
    #[test]
    fn key_vector_has_parameters_without_padding() {
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

    /// RFC 4895, section 6.1.
    #[test]
    fn smaller_vector_comes_first_in_the_key() {
        let (small, large) = (vector(1, &[]), vector(2, &[]));
        let key = small.association_key(&large, b"secret");
        assert_eq!(key, large.association_key(&small, b"secret"));
        assert_eq!(key, [b"secret", small.bytes(), large.bytes()].concat());
        // A longer vector is the larger number.
        let long = vector(0, &[ChunkType::DATA]);
        let key = long.association_key(&small, b"");
        assert_eq!(key, [small.bytes(), long.bytes()].concat());
    }

    /// RFC 4895, section 3.2.
    #[test]
    fn excluded_chunk_types_are_ignored() {
        let mut bytes = vector(1, &[]).0;
        put(&mut bytes, ParameterType::CHUNKS, &[1, 2, 14, 15, 0xc1]);
        let set = KeyVector(bytes).chunks();
        for kind in [1, 2, 14, 15] {
            assert!(!set.contains(ChunkType(kind)));
        }
        assert!(set.contains(ChunkType::ASCONF));
    }
}
