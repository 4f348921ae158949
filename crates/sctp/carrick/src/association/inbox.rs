//! Messages and notifications that the endpoint's task has passed on and the program has not received.
//!
//! Both are shared with the task, which takes them back when the endpoint is handed over. The program locks them for each
//! call, and nothing else does until then, so that no one waits for a lock.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use carrick_proto::{CloseReason, Message};
use tokio::sync::mpsc;

use super::{EndpointLink, Notification, RecvItem};
use crate::assembly::Assembly;
use crate::command::Command;
use crate::error::{RecvError, TryRecvError};
use crate::lazy::{LazyReceiver, NeverOpened};
use crate::shared::SharedState;
use crate::unread_memory::SourceMemory;

/// Messages that the program has not received.
#[derive(Debug)]
pub(crate) struct Inbox {
    deliveries: LazyReceiver<mpsc::UnboundedReceiver<RecvItem>>,
    /// Messages of the last item, in their order.
    ready: std::vec::IntoIter<Message>,
    assembly: Assembly,
    /// The peer has restarted.
    has_restarted: bool,
    end: Option<CloseReason>,
}

/// Notifications that the program has not received.
pub(crate) type NotificationQueue = LazyReceiver<mpsc::Receiver<Box<Notification>>>;

impl Inbox {
    pub(crate) fn new(deliveries: LazyReceiver<mpsc::UnboundedReceiver<RecvItem>>) -> Self {
        Self {
            deliveries,
            ready: Vec::new().into_iter(),
            assembly: Assembly::default(),
            has_restarted: false,
            end: None,
        }
    }

    pub(super) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        link: &EndpointLink,
    ) -> Poll<Result<Option<Message>, RecvError>> {
        loop {
            if let Some(message) = self.next_ready(link) {
                return Poll::Ready(Ok(Some(message)));
            }
            if self.end.is_some() {
                return Poll::Ready(self.at_end());
            }
            let delivery = match ready!(self.deliveries.poll_opened(cx)) {
                Some(deliveries) => ready!(deliveries.poll_recv(cx)),
                None => end_without_messages(&link.shared),
            };
            self.take(delivery.ok_or(RecvError::EndpointClosed)?, &link.shared);
        }
    }

    pub(super) fn try_recv(&mut self, link: &EndpointLink) -> Result<Message, TryRecvError> {
        loop {
            if let Some(message) = self.next_ready(link) {
                return Ok(message);
            }
            if self.end.is_some() {
                return self.at_end()?.ok_or(TryRecvError::Finished);
            }
            let delivery = match self.deliveries.try_opened() {
                Ok(None) => return Err(TryRecvError::Empty),
                Ok(Some(deliveries)) => match deliveries.try_recv() {
                    Ok(delivery) => Some(delivery),
                    Err(mpsc::error::TryRecvError::Empty) => return Err(TryRecvError::Empty),
                    Err(mpsc::error::TryRecvError::Disconnected) => None,
                },
                Err(NeverOpened) => end_without_messages(&link.shared),
            };
            self.take(delivery.ok_or(RecvError::EndpointClosed)?, &link.shared);
        }
    }

    /// Takes an item when no message is ready.
    fn take(&mut self, delivery: RecvItem, shared: &SharedState) {
        match delivery {
            RecvItem::Messages(messages) => self.ready = messages.into_iter(),
            RecvItem::Restarted => {
                self.assembly.clear(&shared.unread());
                self.has_restarted = true;
            }
            RecvItem::End(reason) => {
                // The program gets it after the last message, or drops the handle.
                let _ = shared.end();
                self.end = Some(reason);
            }
        }
    }

    /// Returns the next message, whole or of a kind that is delivered in parts, of those that are ready.
    fn next_ready(&mut self, link: &EndpointLink) -> Option<Message> {
        for message in self.ready.by_ref() {
            if link.shared.receive_queue.remove(&message) {
                link.command(Command::Resume(link.id));
            }
            let whole = self.assembly.take(message, &link.shared.unread());
            if whole.is_some() {
                return whole;
            }
        }
        None
    }

    fn at_end(&self) -> Result<Option<Message>, RecvError> {
        match &self.end {
            Some(CloseReason::Shutdown) | None => Ok(None),
            Some(reason) => Err(RecvError::Ended(reason.clone())),
        }
    }

    pub(super) fn has_restarted(&self) -> bool {
        self.has_restarted
    }

    /// Discards all messages, and those that the task passes on later. Returns true if the association may still have
    /// some.
    pub(super) fn close(&mut self, memory: &SourceMemory<'_>) -> bool {
        self.assembly.clear(memory);
        self.ready = Vec::new().into_iter();
        self.deliveries = LazyReceiver::Gone;
        self.end.is_none()
    }

    /// Returns whether the program has got the end, after the last message.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Takes the messages back, for a successor that passes them on in this order. Messages of which a part has arrived
    /// are first, as their first parts. The program gets [`CloseReason::HandedOver`] from now on. For the task.
    #[cfg(target_os = "linux")]
    pub(crate) fn hand_over(&mut self, memory: &SourceMemory<'_>) -> Vec<RecvItem> {
        let mut items = Vec::new();
        if self.has_restarted {
            items.push(RecvItem::Restarted);
        }
        let mut messages = self.assembly.take_open(memory);
        messages.extend(self.ready.by_ref());
        if !messages.is_empty() {
            items.push(RecvItem::Messages(messages));
        }
        if let Ok(Some(deliveries)) = self.deliveries.try_opened() {
            let queued = std::iter::from_fn(|| deliveries.try_recv().ok());
            // The successor adds the end.
            items.extend(queued.filter(|item| !matches!(item, RecvItem::End(_))));
        }
        self.end = Some(CloseReason::HandedOver);
        items
    }
}

/// Returns the end of an association whose channel was dropped before it was opened.
fn end_without_messages(shared: &Arc<SharedState>) -> Option<RecvItem> {
    shared.ended.get().cloned().map(RecvItem::End)
}
