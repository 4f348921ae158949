//! Messages and notifications that arrive.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use carrick_proto::{CloseReason, Event, Message};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::{Delivery, Link, Notification};
use crate::assembly::Assembly;
use crate::command::Command;
use crate::error::RecvError;
use crate::lazy::{Inlet, Never};
use crate::shared::Shared;

/// Receives messages.
pub struct RecvHalf {
    pub(super) link: Arc<Link>,
    pub(super) deliveries: Inlet<mpsc::UnboundedReceiver<Delivery>>,
    pub(super) assembly: Assembly,
    pub(super) end: Option<CloseReason>,
    pub(super) events: Option<Events>,
}

/// Receives notifications.
pub struct Events {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Inlet<mpsc::Receiver<Box<Notification>>>,
    pub(super) ended: bool,
}

impl RecvHalf {
    /// The next message; `None` after the association was shut down gracefully and all its messages
    /// were received.
    ///
    /// A message is whole unless it is larger than the receive buffer and would, in pieces, take more
    /// than [`crate::Config::assembly_limit`]; of such ones the parts are delivered, marked in
    /// [`Message::part`]. A restart of the peer drops a message
    /// that has only come in part.
    ///
    /// Cancel-safe: when this future is dropped before it is ready, nothing is lost.
    ///
    /// # Errors
    /// The association ended otherwise. What arrived before was received before.
    pub async fn recv(&mut self) -> Result<Option<Message>, RecvError> {
        while self.end.is_none() {
            let delivery = match self.deliveries.opened().await {
                Some(deliveries) => deliveries.recv().await,
                None => self.end_without_messages(),
            };
            let delivery = delivery.ok_or(RecvError::EndpointClosed)?;
            if let Some(message) = self.take(delivery) {
                return Ok(Some(message));
            }
        }
        self.at_end()
    }

    /// The next message if it is there now; see [`Self::recv`]. `Ok(None)` also says that there is
    /// none now.
    ///
    /// # Errors
    /// The association ended other than gracefully.
    pub fn try_recv(&mut self) -> Result<Option<Message>, RecvError> {
        while self.end.is_none() {
            let delivery = match self.deliveries.try_opened() {
                Ok(None) => return Ok(None),
                Ok(Some(deliveries)) => match deliveries.try_recv() {
                    Ok(delivery) => Some(delivery),
                    Err(TryRecvError::Empty) => return Ok(None),
                    Err(TryRecvError::Disconnected) => None,
                },
                Err(Never) => self.end_without_messages(),
            };
            let delivery = delivery.ok_or(RecvError::EndpointClosed)?;
            if let Some(message) = self.take(delivery) {
                return Ok(Some(message));
            }
        }
        self.at_end()
    }

    /// The task has given up the channel before anything was sent.
    fn end_without_messages(&self) -> Option<Delivery> {
        self.link.shared.ended.get().cloned().map(Delivery::End)
    }

    fn take(&mut self, delivery: Delivery) -> Option<Message> {
        match delivery {
            Delivery::Message(message) => {
                if self.link.shared.incoming.remove(&message) {
                    self.link.tell(Command::Resume(self.link.id));
                }
                self.assembly.take(message)
            }
            Delivery::Restarted => {
                self.assembly.clear();
                None
            }
            Delivery::End(reason) => {
                self.end = Some(reason);
                None
            }
        }
    }

    fn at_end(&self) -> Result<Option<Message>, RecvError> {
        match &self.end {
            Some(CloseReason::Shutdown) | None => Ok(None),
            Some(reason) => Err(RecvError::Ended(reason.clone())),
        }
    }

    /// The next notification; `None` after the last one ([`Event::Closed`]), and when
    /// [`Self::take_events`] was called.
    ///
    /// Cancel-safe.
    pub async fn next_event(&mut self) -> Option<Notification> {
        self.events.as_mut()?.next().await
    }

    /// Takes the notifications apart, to wait for them and for messages at the same time.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }
}

impl Drop for RecvHalf {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.link.tell(Command::Discard(self.link.id));
        }
    }
}

impl Events {
    /// The next notification; `None` after the last one ([`Event::Closed`]).
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Notification> {
        if let Some(queue) = self.queue.opened().await
            && let Some(notification) = queue.recv().await
        {
            return Some(*notification);
        }
        let lagged = self.shared.lagged.swap(0, Ordering::AcqRel);
        if lagged > 0 {
            return Some(Notification::Lagged(lagged));
        }
        let reason = self.shared.ended.get()?;
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        Some(Notification::Event(Event::Closed(reason.clone())))
    }
}
