//! The receive buffer's account: what is held, what is announced, when to say that it opened
//! (RFC 9260 section 6.2 with silly window avoidance).

use crate::config::AssociationConfig;
use crate::policy::{BufferView, WindowAnnouncement};

/// What something in the receive buffer costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) chunks: usize,
    pub(crate) payload: usize,
}

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

/// Bytes of user data that an association may hold whatever others hold. It may hold as much state of
/// streams besides.
pub(crate) const MIN_RECEIVE: usize = 4096;

#[derive(Debug)]
pub(super) struct Buffer {
    capacity: usize,
    /// Bytes that the endpoint leaves to this association, user data and state of streams.
    limit: usize,
    max_chunks: usize,
    overhead: usize,
    announcement: WindowAnnouncement,
    avoid_silly_windows: bool,
    mtu: u32,
    held: Cost,
    /// Heap that the state of streams takes, in bytes.
    streams: u32,
    /// Mean payload of a chunk, with a weight of 1/16 for the last one, times 16.
    typical: u32,
    /// The free bytes that the last SACK told of; 0 if it told to wait.
    last_free: usize,
}

impl Buffer {
    pub(super) fn new(config: &AssociationConfig) -> Self {
        let mtu = small(config.path_mtu);
        Self {
            capacity: config.receive_buffer,
            limit: usize::MAX,
            max_chunks: config.receive_buffer_chunks,
            overhead: config.message_overhead,
            announcement: config.policies.window_announcement,
            avoid_silly_windows: config.receiver_sws_avoidance,
            mtu,
            held: Cost::default(),
            streams: 0,
            typical: mtu.saturating_mul(16),
            last_free: config.receive_buffer,
        }
    }

    pub(super) fn add(&mut self, payload: usize) {
        self.held = self.held.plus(Cost::one(payload));
        self.typical = self.typical - self.typical / 16 + small(payload);
    }

    pub(super) fn remove(&mut self, cost: Cost) {
        self.held.chunks = self.held.chunks.saturating_sub(cost.chunks);
        self.held.payload = self.held.payload.saturating_sub(cost.payload);
    }

    /// Sets the heap that the state of streams takes, in bytes.
    pub(super) fn set_streams(&mut self, bytes: usize) {
        self.streams = small(bytes);
    }

    /// Bytes of user data in use, with what each chunk costs besides its payload.
    pub(super) fn memory(&self) -> usize {
        self.bytes(self.held)
    }

    /// Bytes of stream state that the window is smaller by.
    ///
    /// Reading does not free them, so that at most half of the buffer counts: a peer that uses all of
    /// its streams has a window again as soon as its messages are read. For the same reason, and
    /// because the peer may have sent what the last window allowed, no chunk is dropped for them.
    fn counted_streams(&self) -> usize {
        (self.streams as usize).min(self.capacity() / 2)
    }

    /// Bytes of user data and of the state of streams, which count in the memory of all associations.
    pub(super) fn charged(&self) -> usize {
        self.memory() + self.streams as usize
    }

    /// Returns whether the endpoint leaves no bytes to this association for the state of further
    /// streams.
    pub(super) fn limits_streams(&self) -> bool {
        self.charged() >= self.limit
    }

    /// Bytes that something in the buffer takes.
    pub(super) fn bytes(&self, cost: Cost) -> usize {
        cost.payload + cost.chunks * self.overhead
    }

    /// Makes the buffer this large, if it is smaller.
    pub(super) fn grow(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    /// Sets the bytes that the endpoint leaves to this association.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Bytes of user data that the buffer may hold now. Some are always left: reading frees them, and
    /// an association whose user reads advances whatever others hold.
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

    /// The window to announce. With less than two packets (or half of a small buffer) free it is 1
    /// instead of the truth, so that the peer stops sending scraps but probes; 0 means that all is
    /// dropped.
    pub(super) fn window(&self) -> usize {
        if self.is_full() && self.announcement != WindowAnnouncement::PayloadOnly {
            return 0;
        }
        let view = self.view();
        let free = self.announcement.free(&view);
        let silly = (2 * self.mtu as usize).min(self.capacity() / 2);
        if free > 0 && free < silly && self.avoid_silly_windows {
            1
        } else {
            self.announcement.window(&view)
        }
    }

    /// The buffer has become free by a quarter since this was last announced.
    pub(super) fn wants_update(&self) -> bool {
        let wanted = self.last_free.saturating_add(self.capacity() / 4);
        // Mostly there is not even so much free.
        self.announcement.free(&self.view()) >= wanted && self.announceable() >= wanted
    }

    /// The free bytes that an announcement stands for.
    fn announceable(&self) -> usize {
        match self.window() {
            0 | 1 => 0,
            _ => self.announcement.free(&self.view()),
        }
    }

    pub(super) fn announced(&mut self) {
        self.last_free = self.announceable();
    }
}

/// Converts a number that is never large, to take 4 octets of each association.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(capacity: usize, announcement: WindowAnnouncement) -> Buffer {
        let mut config = AssociationConfig {
            receive_buffer: capacity,
            message_overhead: 100,
            ..Default::default()
        };
        config.policies.window_announcement = announcement;
        Buffer::new(&config)
    }

    fn buffer(capacity: usize) -> Buffer {
        with(capacity, WindowAnnouncement::True)
    }

    #[test]
    fn a_window_for_small_messages_is_small_and_not_silly() {
        let mut b = with(101_000, WindowAnnouncement::Fitting);
        for _ in 0..200 {
            b.add(1);
        }
        // The mean is kept in sixteenths, so that it comes down to 1 at most to a fraction.
        let typical = b.view().typical;
        assert_eq!(typical, 1);
        assert_eq!(b.window(), (101_000 - 200 * 101) / 101);
        b.announced();
        (0..200).for_each(|_| b.remove(Cost::one(1)));
        assert_eq!(b.window(), 1000);
        assert!(!b.wants_update(), "a fifth of the buffer");
        (0..1000).for_each(|_| b.add(1));
        b.announced();
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
    fn a_silly_window_is_announced_as_one_and_a_full_one_as_zero() {
        let mut b = buffer(100_000);
        b.add(97_500);
        assert_eq!(b.window(), 1);
        b.add(3_000);
        assert_eq!((b.window(), b.is_full()), (0, true));
    }

    #[test]
    fn an_update_is_sent_after_a_quarter() {
        let mut b = buffer(100_000);
        b.add(99_900);
        b.announced();
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
        b.announced();
        assert!(!b.wants_update());
    }

    #[test]
    fn the_number_of_chunks_is_bounded_too() {
        let mut b = Buffer::new(&AssociationConfig {
            receive_buffer_chunks: 3,
            message_overhead: 0,
            ..Default::default()
        });
        (0..3).for_each(|_| b.add(1));
        assert!(b.is_full());
        assert_eq!(b.window(), 0);
    }
}
