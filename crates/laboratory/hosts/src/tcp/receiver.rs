//! Data receiver of a TCP connection: reordering, SACK blocks (RFC 2018) and delayed ACKs (RFC 5681, section 4.2).

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::Time;

/// Receiver of a byte stream. Offsets count the bytes of the stream from 0. The program takes data as soon as it is in
/// order, so that the window never changes.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Offset of the next byte in order (RCV.NXT).
    pub(super) next: u64,
    window: u64,
    ack_delay: Option<Duration>,
    /// Data above `next` by the offset of its first byte.
    queue: BTreeMap<u64, Bytes>,
    /// SACK blocks, the most recent first.
    pub(super) blocks: Vec<Range<u64>>,
    /// Time of the next acknowledgement, which may be carried by data.
    pub(super) ack_at: Option<Time>,
    /// A duplicate ACK is due, a segment without data.
    pub(super) duplicate_ack: bool,
}

impl Receiver {
    /// Returns a receiver with a window of `window` bytes that delays ACKs by up to `ack_delay`.
    pub(super) fn new(window: usize, ack_delay: Option<Duration>) -> Self {
        Self {
            next: 0,
            window: window as u64,
            ack_delay,
            queue: BTreeMap::new(),
            blocks: Vec::new(),
            ack_at: None,
            duplicate_ack: false,
        }
    }

    /// Handles the data of a segment, not empty; returns the data that is now in order.
    pub(super) fn handle_data(&mut self, now: Time, offset: u64, data: Bytes) -> Vec<Bytes> {
        let end = offset + data.len() as u64;
        if end <= self.next || end > self.next + self.window {
            self.duplicate_ack = true;
            return Vec::new();
        }
        if offset > self.next {
            self.duplicate_ack = true;
            self.add_block(offset..end);
            let queued = self.queue.entry(offset).or_default();
            if queued.len() < data.len() {
                *queued = data;
            }
            return Vec::new();
        }
        let fills_gap = !self.queue.is_empty();
        self.queue.insert(offset, data);
        let mut delivered = Vec::new();
        while let Some(first) = self
            .queue
            .first_entry()
            .filter(|first| *first.key() <= self.next)
        {
            let (offset, data) = first.remove_entry();
            let old = (self.next - offset) as usize;
            if old < data.len() {
                self.next = offset + data.len() as u64;
                delivered.push(data.slice(old..));
            }
        }
        self.blocks.retain(|block| block.end > self.next);
        // Every second segment, and one that fills a gap, is acknowledged at once.
        let at_once = fills_gap || self.ack_at.is_some();
        let delay = self.ack_delay.filter(|_| !at_once).unwrap_or_default();
        self.ack_at = Some(now + delay);
        delivered
    }

    /// Puts the block of a segment first, together with the blocks that it joins (RFC 2018, section 4).
    fn add_block(&mut self, segment: Range<u64>) {
        let mut block = segment;
        self.blocks.retain(|other| {
            let joins = other.start <= block.end && block.start <= other.end;
            if joins {
                block = block.start.min(other.start)..block.end.max(other.end);
            }
            !joins
        });
        self.blocks.insert(0, block);
    }

    /// Records that a segment acknowledges what has been received.
    pub(super) fn acknowledged(&mut self) {
        self.ack_at = None;
        self.duplicate_ack = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(200);
    const NOW: Time = Time::ZERO;

    /// Receives the bytes of a range, each of the value of its offset.
    fn receive(receiver: &mut Receiver, range: Range<u8>) -> Vec<u8> {
        let data: Vec<u8> = range.clone().collect();
        let delivered = receiver.handle_data(NOW, u64::from(range.start), data.into());
        delivered.concat()
    }

    fn receiver() -> Receiver {
        Receiver::new(100, Some(DELAY))
    }

    /// RFC 1122, section 4.2.3.2
    /// RFC 5681, section 4.2
    #[test]
    fn every_second_segment_is_acknowledged_at_once() {
        let mut own = receiver();
        receive(&mut own, 0..10);
        assert_eq!(own.ack_at, Some(NOW + DELAY));
        receive(&mut own, 10..20);
        assert_eq!(own.ack_at, Some(NOW));
        own.acknowledged();
        receive(&mut own, 20..30);
        assert_eq!(own.ack_at, Some(NOW + DELAY));
        let mut own = Receiver::new(100, None);
        receive(&mut own, 0..10);
        assert_eq!(own.ack_at, Some(NOW));
    }

    /// RFC 5681, section 4.2
    #[test]
    fn gaps_are_acknowledged_at_once() {
        let mut own = receiver();
        assert_eq!(receive(&mut own, 10..20), [0; 0]);
        assert!(own.duplicate_ack && own.ack_at.is_none());
        own.acknowledged();
        assert_eq!(receive(&mut own, 0..10), (0..20).collect::<Vec<u8>>());
        assert!(!own.duplicate_ack && own.ack_at == Some(NOW));
        assert!(own.blocks.is_empty());
    }

    /// RFC 2018, section 4
    #[test]
    fn the_most_recent_block_is_the_first() {
        let mut own = receiver();
        for range in [10..20, 30..40, 50..60] {
            receive(&mut own, range);
        }
        assert_eq!(own.blocks, [50..60, 30..40, 10..20]);
        receive(&mut own, 20..30);
        assert_eq!(own.blocks, [10..40, 50..60], "joined");
        assert_eq!(receive(&mut own, 0..10).len(), 40);
        assert_eq!(own.blocks.first(), Some(&(50..60)));
        assert_eq!(own.blocks.len(), 1);
    }

    /// RFC 9293, section 3.10.7.4
    #[test]
    fn overlaps_are_delivered_once() {
        let mut own = receiver();
        receive(&mut own, 5..15);
        receive(&mut own, 5..25);
        receive(&mut own, 12..18);
        assert_eq!(receive(&mut own, 0..8), (0..25).collect::<Vec<u8>>());
        own.acknowledged();
        assert_eq!(receive(&mut own, 3..20), [0; 0], "old data");
        assert!(own.duplicate_ack);
        assert_eq!(receive(&mut own, 120..130), [0; 0], "beyond the window");
        assert_eq!(receive(&mut own, 20..30), [25, 26, 27, 28, 29]);
    }
}
