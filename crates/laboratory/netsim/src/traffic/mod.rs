//! Background traffic: sources that load links, and a sink that measures the received packets.
//!
//! Payloads of at least [`STAMP`] bytes begin with a sequence number and the time of sending, so
//! that a [`TrafficSink`] counts losses and measures delays per flow. Sources have no congestion control
//! and ignore received packets.

mod pattern;
mod sink;
mod source;

pub use pattern::{DurationDistribution, Pattern};
pub use sink::{FlowReport, TrafficSink};
pub use source::{TrafficSource, TrafficStream};

use bytes::Bytes;

use crate::time::Time;

/// Length of the sequence number and the time of sending at the start of a payload, in bytes.
pub const STAMP: usize = 16;

fn stamped(len: usize, number: u64, time: Time) -> Bytes {
    let mut payload = vec![0; len];
    if len >= STAMP {
        payload[..8].copy_from_slice(&number.to_be_bytes());
        payload[8..STAMP].copy_from_slice(&time.as_nanos().to_be_bytes());
    }
    payload.into()
}

fn stamp(payload: &[u8]) -> Option<(u64, Time)> {
    let stamp: &[u8; STAMP] = payload.first_chunk()?;
    let (words, _) = stamp.as_chunks::<8>();
    let nanos = u64::from_be_bytes(words[1]);
    Some((u64::from_be_bytes(words[0]), Time::from_nanos(nanos)))
}
