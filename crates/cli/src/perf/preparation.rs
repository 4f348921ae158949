//! Exchange of both sides before a measurement starts: the request, and times of their clocks.

use std::time::Instant;

use carrick::{PeerText, RecvHalf, SendHalf};

use super::clock::{ClockOffset, EXCHANGES, MeasurementClock};
use super::control::send_control;
use super::files::host_text;
use super::protocol::{CONTROL, ControlMessage};
use super::receiver::{Receiver, unexpected};
use super::request::MeasurementRequest;
use super::session::{ended, lost};
use crate::failure::Failure;

/// Maximum number of requests for the server's time.
const MAX_EXCHANGES: usize = 1000;

/// Sends the request; returns the description of the server's host. For the client.
pub(super) async fn request(
    sender: &SendHalf,
    receiver: &mut RecvHalf,
    request: &MeasurementRequest,
) -> Result<String, Failure> {
    send_control(sender, &ControlMessage::Request(Box::new(request.clone()))).await?;
    match next_control(receiver).await? {
        ControlMessage::Accepted { host } => Ok(host),
        ControlMessage::Refused { reason } => Err(Failure::Run(format!(
            "the server refuses the measurement: {}",
            PeerText::new(&reason)
        ))),
        _ => Err(unexpected()),
    }
}

/// Estimates the offset of the clocks. For the client.
pub(super) async fn clocks(
    sender: &SendHalf,
    receiver: &mut RecvHalf,
    clock: &MeasurementClock,
) -> Result<ClockOffset, Failure> {
    let mut best: Option<ClockOffset> = None;
    for _ in 0..EXCHANGES {
        let sent = clock.now();
        send_control(sender, &ControlMessage::ClockRequest).await?;
        let ControlMessage::ClockReply { received, replied } = next_control(receiver).await? else {
            return Err(unexpected());
        };
        let offset = ClockOffset::new(sent, received, replied, clock.now());
        best = Some(best.map_or(offset, |best| best.or(offset)));
    }
    best.ok_or_else(unexpected)
}

/// Starts the transfer, and waits until the server is ready. For the client.
pub(super) async fn start(
    sender: &SendHalf,
    receiver: &mut RecvHalf,
    offset: ClockOffset,
    incoming: &mut Receiver,
) -> Result<(), Failure> {
    send_control(sender, &ControlMessage::Start(offset)).await?;
    loop {
        let message = receiver.recv().await;
        let message = message.map_err(|e| lost(&e))?.ok_or_else(ended)?;
        if message.ppid != CONTROL {
            // Data of the server may overtake its reply, which is on another stream.
            incoming.take(message, Instant::now())?;
            continue;
        }
        return match ControlMessage::decode(message.payload)? {
            ControlMessage::Ready => Ok(()),
            _ => Err(unexpected()),
        };
    }
}

/// Accepts the request and answers the client until it starts the transfer. For the server, which sends Ready then.
pub(super) async fn serve(
    sender: &SendHalf,
    receiver: &mut RecvHalf,
    clock: &MeasurementClock,
) -> Result<ClockOffset, Failure> {
    let host = host_text();
    let accepted = ControlMessage::Accepted { host };
    send_control(sender, &accepted).await?;
    for _ in 0..MAX_EXCHANGES {
        match next_control(receiver).await? {
            ControlMessage::ClockRequest => {
                let received = clock.now();
                let reply = ControlMessage::ClockReply {
                    received,
                    replied: clock.now(),
                };
                send_control(sender, &reply).await?;
            }
            ControlMessage::Start(offset) => return Ok(offset),
            _ => return Err(unexpected()),
        }
    }
    Err(unexpected())
}

/// Receives a control message.
async fn next_control(receiver: &mut RecvHalf) -> Result<ControlMessage, Failure> {
    let message = receiver.recv().await;
    let message = message.map_err(|e| lost(&e))?.ok_or_else(ended)?;
    if message.ppid != CONTROL {
        return Err(unexpected());
    }
    ControlMessage::decode(message.payload)
}
