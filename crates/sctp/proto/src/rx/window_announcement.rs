//! Computation of the advertised receive window (paper `overhead`, section 4).

use crate::config::AssociationConfig;
use crate::research::WindowAnnouncement;

/// The receive buffer as an announcement sees it, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferView {
    pub(crate) capacity: usize,
    /// Payload in it.
    pub(crate) payload: usize,
    /// The payload and the overhead of its chunks.
    pub(crate) memory: usize,
    /// Payload of a chunk, as it was lately.
    pub(crate) typical: usize,
    /// Memory that a chunk takes besides its payload.
    pub(crate) overhead: usize,
}

/// The least `a_rwnd` of INIT and INIT ACK.
const MIN_INITIAL: usize = 1500;

impl WindowAnnouncement {
    /// The bytes that count as free.
    pub(crate) fn free(self, buffer: &BufferView) -> usize {
        match self {
            Self::True | Self::Fitting => buffer.capacity.saturating_sub(buffer.memory),
            Self::PayloadOnly => buffer.capacity.saturating_sub(buffer.payload),
        }
    }

    /// The window in bytes of payload.
    pub(crate) fn window(self, buffer: &BufferView) -> usize {
        let free = self.free(buffer);
        match self {
            Self::True | Self::PayloadOnly => free,
            Self::Fitting => {
                let (payload, overhead) = (buffer.typical.max(1) as u64, buffer.overhead as u64);
                (free as u64 * payload / (payload + overhead)) as usize
            }
        }
    }

    /// The window that INIT and INIT ACK announce, when full packets are expected. A peer refuses one
    /// of less than 1500 bytes (section 3.3.2).
    pub(crate) fn initially(config: &AssociationConfig) -> u32 {
        let window = config
            .research
            .policies
            .window_announcement
            .window(&BufferView {
                capacity: config.buffers.receive_buffer,
                payload: 0,
                memory: 0,
                typical: config.mtu.path_mtu,
                overhead: config.buffers.message_overhead,
            });
        u32::try_from(window.max(MIN_INITIAL)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(payload: usize, memory: usize) -> BufferView {
        BufferView {
            capacity: 1000,
            payload,
            memory,
            typical: 30,
            overhead: 20,
        }
    }

    #[test]
    fn the_true_window_counts_what_a_chunk_costs() {
        assert_eq!(WindowAnnouncement::True.window(&view(100, 350)), 650);
        assert_eq!(WindowAnnouncement::PayloadOnly.window(&view(100, 350)), 900);
        assert_eq!(WindowAnnouncement::True.window(&view(900, 1150)), 0);
    }

    #[test]
    fn the_fitting_window_leaves_room_for_chunk_overhead() {
        let window = WindowAnnouncement::Fitting.window(&view(100, 350));
        assert_eq!(window, 390);
        let chunks = window / 30;
        assert!(350 + chunks * (30 + 20) <= 1000);
        assert_eq!(WindowAnnouncement::Fitting.window(&view(900, 1150)), 0);
    }

    #[test]
    fn the_first_window_expects_full_packets() {
        let mut config = AssociationConfig::rfc9260().with(|c| {
            c.buffers.receive_buffer = 1_628_000;
            c.mtu.path_mtu = 1500;
            c.buffers.message_overhead = 128;
        });
        config.research.policies.window_announcement = WindowAnnouncement::True;
        assert_eq!(WindowAnnouncement::initially(&config), 1_628_000);
        config.research.policies.window_announcement = WindowAnnouncement::Fitting;
        assert_eq!(WindowAnnouncement::initially(&config), 1_500_000);
        config.buffers.receive_buffer = 1500;
        assert_eq!(WindowAnnouncement::initially(&config), 1500, "not refused");
    }
}
