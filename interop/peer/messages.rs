//! Messages with content that the receiver can compute ("Messages" in `interop/README.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use carrick::{Bytes, Message, MessagePart, Ppid, Reliability, SendOptions, StreamId};
use serde_json::json;

use crate::options::{Options, Sizes};
use crate::output::emit;

/// Maximum number of error lines of a run.
const MAX_LINES: u64 = 20;

const PIECE: usize = 1 << 16;

/// Bytes that count up modulo 256, long enough for a piece from any start.
static RAMP: LazyLock<Vec<u8>> = LazyLock::new(|| (0..=255).cycle().take(PIECE + 256).collect());

/// Returns the value from which the bytes of message `index` of `stream` count up.
fn start(stream: u16, index: u32) -> usize {
    (index as usize + 29 * usize::from(stream)) % 256
}

/// Returns the content of message `index` of `stream`.
fn content(stream: u16, index: u32, length: usize) -> Bytes {
    let ramp = &RAMP[start(stream, index)..];
    let mut data = Vec::with_capacity(length);
    while data.len() < length {
        data.extend_from_slice(&ramp[..PIECE.min(length - data.len())]);
    }
    if length >= 8 {
        data[..4].copy_from_slice(&index.to_be_bytes());
        data[4..8].copy_from_slice(&(length as u32).to_be_bytes());
    }
    data.into()
}

/// Message to send.
pub(crate) struct OutgoingMessage {
    pub(crate) options: SendOptions,
    pub(crate) data: Bytes,
}

/// Messages of one sender, in order.
pub(crate) struct MessageSource {
    streams: u64,
    sizes: Sizes,
    seed: u64,
    unordered: u64,
    reliability: Reliability,
    number: u64,
    /// User bytes left for further messages.
    left: u64,
}

impl MessageSource {
    pub(crate) fn new(options: &Options, outbound_streams: u16) -> Self {
        Self {
            streams: u64::from(options.streams.min(outbound_streams).max(1)),
            sizes: options.sizes.clone(),
            seed: options.seed,
            unordered: options.unordered,
            reliability: options.extensions.reliability,
            number: 0,
            left: options.bytes,
        }
    }

    fn size(&self) -> usize {
        match &self.sizes {
            Sizes::List(sizes) => sizes[(self.number % sizes.len() as u64) as usize],
            Sizes::Range(low, high) => {
                let span = (high - low + 1) as u64;
                low + (split_mix(self.seed, self.number) % span) as usize
            }
        }
    }
}

impl Iterator for MessageSource {
    type Item = OutgoingMessage;

    fn next(&mut self) -> Option<OutgoingMessage> {
        if self.left == 0 {
            return None;
        }
        let size = (self.size() as u64).min(self.left);
        let n = self.number;
        let (stream, index) = ((n % self.streams) as u16, (n / self.streams) as u32);
        self.number += 1;
        self.left -= size;
        let options = SendOptions {
            ppid: Ppid(index),
            unordered: self.unordered > 0 && n % self.unordered == self.unordered - 1,
            reliability: self.reliability,
            ..SendOptions::on_stream(stream)
        };
        let data = content(stream, index, size as usize);
        Some(OutgoingMessage { options, data })
    }
}

/// Returns number n of the splitmix64 sequence that starts at `seed`.
fn split_mix(seed: u64, n: u64) -> u64 {
    let step = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = seed.wrapping_add(step);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Messages received on one stream.
#[derive(Default)]
struct StreamCheck {
    /// All lower indexes were received.
    next: u32,
    /// Received indexes at or above `next`.
    ahead: BTreeSet<u32>,
    last_ordered: Option<u32>,
}

impl StreamCheck {
    /// Records an index; returns true if it is new.
    fn record(&mut self, index: u32) -> bool {
        if index < self.next || !self.ahead.insert(index) {
            return false;
        }
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
        true
    }
}

/// Checks received messages: content, no duplicates, order per stream.
#[derive(Default)]
pub(crate) struct MessageCheck {
    streams: BTreeMap<StreamId, StreamCheck>,
    pub(crate) errors: u64,
}

impl MessageCheck {
    /// Reports and counts an error.
    pub(crate) fn fail(&mut self, message: &str) {
        self.errors += 1;
        if self.errors <= MAX_LINES {
            emit("error", json!({ "message": message }));
        }
    }

    /// Checks one message.
    pub(crate) fn message(&mut self, message: Message) {
        let (stream, index, ordered) = (message.stream, message.ppid.0, message.ssn.is_some());
        let length = message.payload.len();
        let id = stream.0;
        let mut fail = |what: &str| {
            self.fail(&format!(
                "stream {id}, PPID {index}, {length} bytes: {what}"
            ));
        };
        if message.part != MessagePart::Whole {
            fail("incomplete message");
        }
        let data = message.payload.into_bytes();
        if let Some((header, _)) = data.split_at_checked(8) {
            if header[..4] != index.to_be_bytes() {
                fail("the header has another index");
            }
            if header[4..] != (length as u32).to_be_bytes() {
                fail("the header has another length");
            }
        }
        if !content_is_right(&data, start(id, index)) {
            fail("wrong content");
        }
        let seen = self.streams.entry(stream).or_default();
        let last = seen.last_ordered;
        let is_new = seen.record(index);
        if ordered {
            seen.last_ordered = last.max(Some(index));
        }
        if !is_new {
            self.fail(&format!("stream {id}, PPID {index}: delivered twice"));
        }
        if let Some(last) = last.filter(|last| ordered && index <= *last) {
            self.fail(&format!(
                "stream {id}, PPID {index}: out of order after index {last}"
            ));
        }
    }

    /// Checks after a SHUTDOWN that no index is missing.
    pub(crate) fn complete(&mut self) {
        let gaps: Vec<String> = self
            .streams
            .iter()
            .filter_map(|(id, stream)| {
                let (missing, highest) = (stream.next, stream.ahead.last()?);
                Some(format!(
                    "stream {}: index {missing} never arrived, {highest} did",
                    id.0
                ))
            })
            .collect();
        for gap in &gaps {
            self.fail(gap);
        }
    }
}

/// Returns true if all bytes after the header count up from `start`.
fn content_is_right(data: &[u8], start: usize) -> bool {
    let header = if data.len() >= 8 { 8 } else { 0 };
    let ramp = &RAMP[(start + header) % 256..];
    data[header..]
        .chunks(PIECE)
        .all(|piece| *piece == ramp[..piece.len()])
}
