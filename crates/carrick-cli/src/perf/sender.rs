//! Sending side of a measurement.

use std::time::Duration;

use bytes::Bytes;
use carrick::{SendError, SendHalf, SendOptions, StreamId};

use super::protocol::{DATA, MeasurementRequest};
use super::tally::TransferTally;

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
    let mut left = request.extent.bytes().unwrap_or(u64::MAX);
    let mut stream = 0;
    while left > 0 {
        let length = left.min(size as u64) as usize;
        let options = SendOptions {
            stream: StreamId(1 + stream),
            ppid: DATA,
            unordered: request.unordered,
            ..SendOptions::default()
        };
        tokio::select! {
            biased;
            () = &mut end, if timed => break,
            sent = sender.send(message.slice(..length), options) => sent?,
        }
        tally.add(length, true);
        left -= length as u64;
        stream = (stream + 1) % request.streams;
    }
    Ok(())
}
