//! Messages with content that the receiver can compute ("Messages" in `interop/README.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::Bytes;
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

/// Message sent or received.
pub(crate) struct UserMessage {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    pub(crate) data: Bytes,
}

/// Messages of one sender, in order.
pub(crate) struct MessageSource {
    streams: u64,
    sizes: Sizes,
    seed: u64,
    unordered: u64,
    /// PPID of all messages, in place of the index.
    ppid: Option<u32>,
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
            ppid: options.ppid,
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
    type Item = UserMessage;

    fn next(&mut self) -> Option<UserMessage> {
        if self.left == 0 {
            return None;
        }
        let size = (self.size() as u64).min(self.left);
        let n = self.number;
        let (stream, index) = ((n % self.streams) as u16, (n / self.streams) as u32);
        self.number += 1;
        self.left -= size;
        Some(UserMessage {
            stream,
            ppid: self.ppid.unwrap_or(index),
            unordered: is_unordered(self.unordered, n),
            data: content(stream, index, size as usize),
        })
    }
}

/// Returns whether message number n is unordered if every `every`-th is.
pub(crate) fn is_unordered(every: u64, n: u64) -> bool {
    every > 0 && n % every == every - 1
}

/// Returns the index that the content of a message has: in its header, or modulo 256 without one.
pub(crate) fn index_of(stream: u16, data: &[u8]) -> u32 {
    match data.first_chunk() {
        Some(header) if data.len() >= 8 => u32::from_be_bytes(*header),
        _ => {
            let first = data.first().copied().unwrap_or_default();
            first.wrapping_sub((29 * usize::from(stream)) as u8).into()
        }
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
    streams: BTreeMap<u16, StreamCheck>,
    /// All messages have one PPID: the index is read from the content.
    has_one_ppid: bool,
    pub(crate) errors: u64,
}

impl MessageCheck {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            has_one_ppid: options.ppid.is_some(),
            ..Self::default()
        }
    }

    /// Reports and counts an error.
    pub(crate) fn fail(&mut self, message: &str) {
        self.errors += 1;
        if self.errors <= MAX_LINES {
            emit("error", json!({ "message": message }));
        }
    }

    /// Checks one message.
    pub(crate) fn message(&mut self, message: &UserMessage) {
        let (id, data) = (message.stream, &message.data);
        let index = if self.has_one_ppid {
            index_of(id, data)
        } else {
            message.ppid
        };
        let length = data.len();
        let mut fail = |what: &str| {
            self.fail(&format!(
                "stream {id}, index {index}, {length} bytes: {what}"
            ));
        };
        if let Some((header, _)) = data.split_at_checked(8) {
            if header[..4] != index.to_be_bytes() {
                fail("the header has another index");
            }
            if header[4..] != (length as u32).to_be_bytes() {
                fail("the header has another length");
            }
        }
        if !content_is_right(data, start(id, index)) {
            fail("wrong content");
        }
        let seen = self.streams.entry(id).or_default();
        let last = seen.last_ordered;
        let is_new = seen.record(index);
        if !message.unordered {
            seen.last_ordered = last.max(Some(index));
        }
        if !is_new {
            self.fail(&format!("stream {id}, index {index}: delivered twice"));
        }
        if let Some(last) = last.filter(|last| !message.unordered && index <= *last) {
            self.fail(&format!(
                "stream {id}, index {index}: out of order after index {last}"
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
                    "stream {id}: index {missing} never arrived, {highest} did"
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
