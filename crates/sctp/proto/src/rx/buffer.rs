//! Accounting of the receive buffer: data held, window to advertise, and when to send a window update
//! (RFC 9260, section 6.2, with avoidance of silly windows).

use super::window_announcement::BufferView;
use crate::config::AssociationConfig;
use crate::research::{SwsAvoidance, WindowAnnouncement};

/// Buffer space of chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) chunks: usize,
    pub(crate) payload: usize,
}

portable_struct! { Cost { chunks, payload } }

impl Cost {
    pub(super) fn one(payload: usize) -> Self {
        Self { chunks: 1, payload }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            chunks: self.chunks + other.chunks,
            payload: self.payload + other.payload,
        }
    }
}

/// Bytes of user data that an association may hold regardless of other associations. It may hold as
/// many bytes of stream state.
pub(crate) const MIN_RECEIVE: usize = 4096;

#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    capacity: usize,
    /// Limit that the endpoint sets, in bytes of user data and stream state.
    limit: usize,
    max_chunks: usize,
    overhead: usize,
    announcement: WindowAnnouncement,
    sws_avoidance: SwsAvoidance,
    /// The last SACK advertised a window of 0 or 1 because of [`SwsAvoidance::Below`].
    recovering: bool,
    mtu: u32,
    held: Cost,
    /// Heap memory of stream state, in bytes.
    streams: u32,
    /// Moving average of the payload of a chunk, with a weight of 1/16 for the last one, times 16.
    typical: u32,
    /// Free bytes that the last SACK advertised; 0 for a window of 0 or 1.
    advertised_free: usize,
}

portable_struct! {
    ReceiveBuffer {
        capacity, limit, max_chunks, overhead, announcement, sws_avoidance, recovering, mtu, held,
        streams, typical, advertised_free,
    }
}

impl ReceiveBuffer {
    pub(super) fn new(config: &AssociationConfig) -> Self {
        let mtu = saturating_u32(config.mtu.path_mtu);
        Self {
            capacity: config.buffers.receive_buffer,
            limit: usize::MAX,
            max_chunks: config.buffers.receive_buffer_chunks,
            overhead: config.buffers.message_overhead,
            announcement: config.research.policies.window_announcement,
            sws_avoidance: config.research.receiver_sws_avoidance,
            recovering: false,
            mtu,
            held: Cost::default(),
            streams: 0,
            typical: mtu.saturating_mul(16),
            advertised_free: config.buffers.receive_buffer,
        }
    }

    pub(super) fn add(&mut self, payload: usize) {
        self.held = self.held.plus(Cost::one(payload));
        self.typical = self.typical - self.typical / 16 + saturating_u32(payload);
    }

    pub(super) fn remove(&mut self, cost: Cost) {
        self.held.chunks = self.held.chunks.saturating_sub(cost.chunks);
        self.held.payload = self.held.payload.saturating_sub(cost.payload);
    }

    /// Sets the heap memory of stream state, in bytes.
    pub(super) fn set_streams(&mut self, bytes: usize) {
        self.streams = saturating_u32(bytes);
    }

    /// Returns the bytes of user data held, with the overhead of each chunk.
    pub(super) fn memory(&self) -> usize {
        self.bytes(self.held)
    }

    /// Returns the bytes of stream state by which the window is smaller.
    ///
    /// Reading does not free stream state, so at most half of the buffer counts: a peer that uses all of
    /// its streams gets a window again as soon as its messages are read. For the same reason, and
    /// because the peer may have filled the last window, no chunk is dropped for stream state.
    fn counted_streams(&self) -> usize {
        (self.streams as usize).min(self.capacity() / 2)
    }

    /// Returns the bytes of user data and stream state, which count in the memory of all associations.
    pub(super) fn charged(&self) -> usize {
        self.memory() + self.streams as usize
    }

    /// Returns whether the limit of the endpoint leaves no memory for the state of further streams.
    pub(super) fn limits_streams(&self) -> bool {
        self.charged() >= self.limit
    }

    /// Returns the bytes that chunks take in the buffer.
    pub(super) fn bytes(&self, cost: Cost) -> usize {
        cost.payload + cost.chunks * self.overhead
    }

    /// Grows the buffer to this capacity.
    pub(super) fn grow(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    /// Sets the limit of the endpoint, in bytes.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the bytes of user data that the buffer may hold now. [`MIN_RECEIVE`] always remains, so
    /// that an association whose user reads advances regardless of other associations.
    fn capacity(&self) -> usize {
        let rest = self.limit.saturating_sub(self.streams as usize);
        self.capacity.min(rest.max(MIN_RECEIVE))
    }

    pub(super) fn is_full(&self) -> bool {
        self.memory() >= self.capacity() || self.held.chunks >= self.max_chunks
    }

    pub(super) fn is_nearly_full(&self) -> bool {
        self.memory() >= self.capacity() / 4 * 3 || self.held.chunks >= self.max_chunks / 4 * 3
    }

    fn view(&self) -> BufferView {
        BufferView {
            capacity: self.capacity(),
            payload: self.held.payload,
            memory: self.memory() + self.counted_streams(),
            typical: self.typical as usize / 16,
            overhead: self.overhead,
        }
    }

    /// Returns the window to advertise: 0 if the buffer is full and DATA is dropped, and 1 if too little is
    /// free ([`SwsAvoidance`]), so that the peer sends no small chunks but still probes.
    pub(super) fn window(&self) -> usize {
        if self.is_full() && self.announcement != WindowAnnouncement::PayloadOnly {
            return 0;
        }
        let view = self.view();
        let free = self.announcement.free(&view);
        if free > 0 && free < self.silly() {
            1
        } else {
            self.announcement.window(&view)
        }
    }

    /// Returns the free bytes below which the window is too small to be advertised.
    fn silly(&self) -> usize {
        match self.sws_avoidance {
            SwsAvoidance::Off => 0,
            SwsAvoidance::Packets => (2 * self.mtu as usize).min(self.capacity() / 2),
            SwsAvoidance::Below(limit) => limit.min(self.capacity()),
        }
    }

    /// Returns whether the window can be increased by a quarter of the buffer, or has recovered.
    pub(super) fn wants_update(&self) -> bool {
        if self.recovering {
            return self.window() > 1;
        }
        let wanted = self.advertised_free.saturating_add(self.capacity() / 4);
        // The cheaper condition first: it is mostly false.
        self.announcement.free(&self.view()) >= wanted && self.free_as_advertised() >= wanted
    }

    /// Returns the free bytes that the window to advertise stands for.
    fn free_as_advertised(&self) -> usize {
        match self.window() {
            0 | 1 => 0,
            _ => self.announcement.free(&self.view()),
        }
    }

    /// Records that the window was advertised.
    pub(super) fn on_window_advertised(&mut self) {
        self.advertised_free = self.free_as_advertised();
        self.recovering =
            matches!(self.sws_avoidance, SwsAvoidance::Below(_)) && self.window() <= 1;
    }
}

/// Converts a number that is never large, to save memory in each association.
fn saturating_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(capacity: usize, announcement: WindowAnnouncement) -> ReceiveBuffer {
        let mut config = AssociationConfig::rfc9260().with(|c| {
            c.buffers.receive_buffer = capacity;
            c.buffers.message_overhead = 100;
        });
        config.research.policies.window_announcement = announcement;
        ReceiveBuffer::new(&config)
    }

    fn buffer(capacity: usize) -> ReceiveBuffer {
        with(capacity, WindowAnnouncement::True)
    }

    #[test]
    fn a_window_for_small_messages_is_small_and_not_silly() {
        let mut b = with(101_000, WindowAnnouncement::Fitting);
        for _ in 0..200 {
            b.add(1);
        }
        let typical = b.view().typical;
        assert_eq!(typical, 1);
        assert_eq!(b.window(), (101_000 - 200 * 101) / 101);
        b.on_window_advertised();
        (0..200).for_each(|_| b.remove(Cost::one(1)));
        assert_eq!(b.window(), 1000);
        assert!(!b.wants_update(), "a fifth of the buffer");
        (0..1000).for_each(|_| b.add(1));
        b.on_window_advertised();
        (0..300).for_each(|_| b.remove(Cost::one(1)));
        assert!(b.wants_update(), "three tenths of it");
    }

    #[test]
    fn the_window_counts_what_small_messages_cost() {
        let mut b = buffer(100_000);
        for _ in 0..100 {
            b.add(10);
        }
        assert_eq!((b.memory(), b.window()), (11_000, 89_000));
    }

    #[test]
    fn a_silly_window_is_one_and_a_full_buffer_zero() {
        let mut b = buffer(100_000);
        b.add(97_500);
        assert_eq!(b.window(), 1);
        b.add(3_000);
        assert_eq!((b.window(), b.is_full()), (0, true));
    }

    /// Paper `overhead`: the rule of its simulator
    #[test]
    fn window_below_the_limit_is_one_until_it_recovers() {
        let mut b = buffer(100_000);
        b.sws_avoidance = SwsAvoidance::Below(3000);
        b.add(96_900);
        assert_eq!(b.window(), 3000);
        b.add(1);
        assert_eq!(b.window(), 1);
        b.on_window_advertised();
        b.remove(Cost::one(1));
        assert!(b.wants_update(), "the limit is free again");
        b.on_window_advertised();
        b.remove(Cost::one(1000));
        assert!(!b.wants_update(), "less than a quarter more");
    }

    #[test]
    fn an_update_is_sent_after_a_quarter() {
        let mut b = buffer(100_000);
        b.add(99_900);
        b.on_window_advertised();
        b.remove(Cost {
            chunks: 0,
            payload: 24_000,
        });
        assert!(!b.wants_update());
        b.remove(Cost {
            chunks: 0,
            payload: 1_000,
        });
        assert!(b.wants_update());
        b.on_window_advertised();
        assert!(!b.wants_update());
    }

    #[test]
    fn the_number_of_chunks_is_bounded_too() {
        let mut b = ReceiveBuffer::new(&AssociationConfig::rfc9260().with(|c| {
            c.buffers.receive_buffer_chunks = 3;
            c.buffers.message_overhead = 0;
        }));
        (0..3).for_each(|_| b.add(1));
        assert!(b.is_full());
        assert_eq!(b.window(), 0);
    }
}
