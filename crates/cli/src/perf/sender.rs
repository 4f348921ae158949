//! Sending side of a measurement.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carrick::{SendError, SendHalf, SendOptions, StreamId};

use super::clock::MeasurementClock;
use super::delay::MessageSource;
use super::pacing::{SendSchedule, SendTurn};
use super::protocol::DATA;
use super::request::MeasurementRequest;
use super::tally::TransferTally;

/// Bytes, and number, of messages that are handed over together.
const RUN_BYTES: usize = 16 * 1024;
const RUN: usize = 64;

/// Sends the requested data over its streams, at the requested rate; returns when the last message is queued.
pub(super) async fn send_data(
    sender: &SendHalf,
    request: &MeasurementRequest,
    tally: &TransferTally,
    clock: MeasurementClock,
) -> Result<(), SendError> {
    let size = request.size as usize;
    let mut source = MessageSource::new(size, clock);
    // An extent in bytes has no time limit.
    let time = request.sending_time();
    let timed = time.is_some();
    let mut end = std::pin::pin!(tokio::time::sleep(time.unwrap_or(Duration::MAX)));
    let mut unqueued = request.extent.bytes().unwrap_or(u64::MAX);
    let mut stream = 0;
    let run = (RUN_BYTES / size.max(1)).clamp(1, RUN);
    let start = Instant::now();
    let mut schedule = SendSchedule::new(request.bitrate, request.size);
    let mut messages = VecDeque::with_capacity(run);
    loop {
        let due = match schedule.as_mut().map(|s| s.turn(start.elapsed())) {
            // Nothing is waited for after the last message.
            Some(SendTurn::At(time)) if unqueued > 0 => {
                tokio::select! {
                    biased;
                    () = &mut end, if timed => return Ok(()),
                    () = tokio::time::sleep(time.saturating_sub(start.elapsed())) => continue,
                }
            }
            Some(SendTurn::Now(due)) => run.min(usize::try_from(due).unwrap_or(run)),
            Some(SendTurn::At(_)) | None => run,
        };
        let stamp = source.stamp();
        while messages.len() < due && unqueued > 0 {
            let length = unqueued.min(size as u64) as usize;
            let options = SendOptions {
                stream: StreamId(1 + stream),
                ppid: DATA,
                unordered: request.unordered,
                ..SendOptions::default()
            };
            messages.push_back((source.message(length, stamp), options));
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
        if let Some(schedule) = &mut schedule {
            schedule.sent(queued);
        }
        match sent {
            Some(sent) => sent?,
            None => return Ok(()),
        }
    }
}

fn bytes_of(messages: &VecDeque<(Bytes, SendOptions)>) -> u64 {
    messages.iter().map(|(data, _)| data.len() as u64).sum()
}
