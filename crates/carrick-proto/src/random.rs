//! The endpoint's randomness: a ChaCha12 stream from the seed in the configuration.

use core::time::Duration;

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// A seeded, cryptographically strong generator for tags, nonces, secrets and jitter.
#[derive(Debug, Clone)]
pub(crate) struct Random(ChaCha12Rng);

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self(ChaCha12Rng::from_seed(seed))
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A value from 1 to 2^32 - 1, as tags have to be (RFC 9260 section 5.3.1).
    pub(crate) fn nonzero_u32(&mut self) -> u32 {
        loop {
            let value = self.u32();
            if value != 0 {
                return value;
            }
        }
    }

    pub(crate) fn key(&mut self) -> [u8; 32] {
        let mut key = [0; 32];
        self.0.fill_bytes(&mut key);
        key
    }

    /// A duration between half and one and a half times `duration` (section 8.3's jitter).
    pub(crate) fn jitter(&mut self, duration: Duration) -> Duration {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        let span = nanos.max(1);
        Duration::from_nanos(nanos / 2 + self.u64() % span)
    }
}
