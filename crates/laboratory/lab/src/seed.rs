//! Seeds of repetitions and of the parts of a simulation, derived from the seed of a run.

/// Derives a seed for the part that `labels` identify, for example repetition and host. Different
/// labels give unrelated seeds; the mixing function is that of the `SplitMix64` generator.
pub fn derive(seed: u64, labels: &[u64]) -> u64 {
    labels.iter().fold(mix(seed), |state, label| {
        mix(state ^ mix(label.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    })
}

/// Derives a 32-byte seed for the part that `labels` identify, as endpoints require it.
pub fn derive_bytes(seed: u64, labels: &[u64]) -> [u8; 32] {
    let mut state = derive(seed, labels);
    let mut bytes = [0; 32];
    for part in bytes.chunks_exact_mut(8) {
        state = mix(state);
        part.copy_from_slice(&state.to_le_bytes());
    }
    bytes
}

fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn labels_and_seeds_give_different_seeds() {
        let mut seen = BTreeSet::new();
        for seed in 0..20 {
            for a in 0..20 {
                assert!(seen.insert(derive(seed, &[a])));
                for b in 0..20 {
                    assert!(seen.insert(derive(seed, &[a, b])));
                }
            }
        }
    }

    #[test]
    fn equal_labels_give_equal_bytes() {
        assert_eq!(derive_bytes(1, &[2, 3]), derive_bytes(1, &[2, 3]));
        assert_ne!(derive_bytes(1, &[2, 3]), derive_bytes(1, &[3, 2]));
    }
}
