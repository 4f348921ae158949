//! Random numbers of the endpoint: a ChaCha12 stream from the seed in the configuration.

use core::time::Duration;

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// Cryptographically strong generator for tags, nonces, secrets and jitter.
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

    /// Returns a value from 1 to 2^32 - 1, the range of tags (RFC 9260, section 5.3.1).
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

    /// Returns a random duration from 0.5 to 1.5 times `duration` (jitter of RFC 9260, section 8.3).
    pub(crate) fn jitter(&mut self, duration: Duration) -> Duration {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        let span = nanos.max(1);
        Duration::from_nanos(nanos / 2 + self.u64() % span)
    }
}

portable_tuple! { Random(generator) }
