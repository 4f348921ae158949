//! Sending of control messages.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use carrick::SendHalf;

use super::protocol::ControlMessage;
use crate::failure::Failure;

/// Control messages that wait while data is sent. A send that waits for room has to be polled again, or no
/// other send gets room.
#[derive(Debug, Default)]
pub(super) struct Outbox(Mutex<VecDeque<Bytes>>);

impl Outbox {
    pub(super) fn add(&self, control: &ControlMessage) -> Result<(), Failure> {
        let control = control.encode()?;
        self.waiting().push_back(control);
        Ok(())
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Bytes>> {
        // No code panics while it has the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting().len()
    }

    pub(super) async fn send_all(&self, sender: &SendHalf) -> Result<(), Failure> {
        loop {
            let Some(message) = self.waiting().front().cloned() else {
                return Ok(());
            };
            send(sender, message).await?;
            self.waiting().pop_front();
        }
    }
}

/// Sends a control message.
pub(super) async fn send_control(
    sender: &SendHalf,
    control: &ControlMessage,
) -> Result<(), Failure> {
    send(sender, control.encode()?).await
}

async fn send(sender: &SendHalf, message: Bytes) -> Result<(), Failure> {
    let sent = sender.send(message, ControlMessage::options()).await;
    sent.map_err(|e| Failure::Run(e.to_string()))
}
