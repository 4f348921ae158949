//! Sending side of a measurement.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick::{SendError, SendHalf, SendOptions, StreamId};

use super::protocol::{DATA, MeasurementRequest};
use super::tally::TransferTally;

/// Bytes, and number, of messages that are handed over together.
const RUN_BYTES: usize = 16 * 1024;
const RUN: usize = 64;

/// Sends the requested data over its streams; returns when the last message is queued.
pub(super) async fn send_data(
    sender: &SendHalf,
    request: &MeasurementRequest,
    tally: &TransferTally,
) -> Result<(), SendError> {
    let size = request.size as usize;
    let message = Bytes::from(vec![b'c'; size]);
    // An extent in bytes has no time limit.
    let time = request.extent.time().unwrap_or(Duration::MAX);
    let timed = request.extent.time().is_some();
    let mut end = std::pin::pin!(tokio::time::sleep(time));
    let mut unqueued = request.extent.bytes().unwrap_or(u64::MAX);
    let mut stream = 0;
    let run = (RUN_BYTES / size.max(1)).clamp(1, RUN);
    let mut messages = VecDeque::with_capacity(run);
    loop {
        while messages.len() < run && unqueued > 0 {
            let length = unqueued.min(size as u64) as usize;
            let options = SendOptions {
                stream: StreamId(1 + stream),
                ppid: DATA,
                unordered: request.unordered,
                ..SendOptions::default()
            };
            messages.push_back((message.slice(..length), options));
            unqueued -= length as u64;
            stream = (stream + 1) % request.streams;
        }
        if messages.is_empty() {
            return Ok(());
        }
        let (bytes, count) = (bytes_of(&messages), messages.len());
        let sent = tokio::select! {
            biased;
            () = &mut end, if timed => None,
            sent = sender.send_many(&mut messages) => Some(sent),
        };
        let queued = (count - messages.len()) as u64;
        tally.add_all(bytes - bytes_of(&messages), queued);
        match sent {
            Some(sent) => sent?,
            None => return Ok(()),
        }
    }
}

fn bytes_of(messages: &VecDeque<(Bytes, SendOptions)>) -> u64 {
    messages.iter().map(|(data, _)| data.len() as u64).sum()
}
