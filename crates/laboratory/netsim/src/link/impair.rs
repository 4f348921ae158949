//! Delay, jitter and corruption of single packets.

use core::time::Duration;

use bytes::Bytes;

use super::config::{Jitter, LinkConfig};
use crate::packet::Packet;
use crate::rng::Random;

/// Draws the propagation delay of the next packet.
pub(crate) fn delay(config: &LinkConfig, random: &mut Random) -> Duration {
    match config.jitter {
        Jitter::None => config.delay,
        Jitter::Uniform(max) => config.delay.saturating_add(random.duration_up_to(max)),
        Jitter::Normal { standard_deviation } => {
            let deviation = random.standard_normal();
            let change = standard_deviation.mul_f64(deviation.abs());
            if deviation < 0.0 {
                config.delay.saturating_sub(change)
            } else {
                config.delay.saturating_add(change)
            }
        }
    }
}

/// Inverts one bit of the payload, and each further one with probability 1/2. Returns false if the
/// payload is empty.
///
/// The bits are distinct, so no bit is inverted twice.
pub(crate) fn corrupt(packet: &mut Packet, random: &mut Random) -> bool {
    let bits = packet.payload.len() as u64 * 8;
    if bits == 0 {
        return false;
    }
    let mut bytes = packet.payload.to_vec();
    let mut flipped = Vec::new();
    loop {
        let bit = random.below(bits);
        if flipped.contains(&bit) {
            break;
        }
        flipped.push(bit);
        bytes[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
        if !random.chance(0.5) {
            break;
        }
    }
    packet.payload = Bytes::from(bytes);
    true
}
