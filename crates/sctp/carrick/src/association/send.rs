//! Sending messages, shutdown and abort.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use carrick_proto::{CloseReason, SendOptions};
use tokio::sync::oneshot;

use super::AssociationControl;
use crate::command::{Command, OutgoingMessage};
use crate::error::{OperationError, SendError, TrySendError};
use crate::send_credit::{CreditPermit, NoCredit};
use crate::shared::cost;

/// Number of messages that are handed to the endpoint's task together.
const RUN: usize = 256;

/// Sends messages, and ends the association. Clones are handles of the same association;
/// [`Self::control`] is the one that reads its state and changes it.
///
/// A message that is abandoned if it can't be delivered within 200 ms (RFC 7496), and an unordered one:
///
/// ```
/// # use carrick::{Config, ConnectOptions, Endpoint};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let config = || Config::udp([[127, 0, 0, 1].into(), [127, 0, 0, 2].into()]).encapsulation_port(0);
/// # let (client, server) = (Endpoint::bind(config())?, Endpoint::bind(config())?);
/// # let options = ConnectOptions::new().encapsulation_port(server.encapsulation_port().ok_or("not in UDP")?);
/// # let peer = (["127.0.0.1".parse()?], server.port());
/// # let (near, far) = tokio::join!(client.connect_with(peer, options), server.accept());
/// # let (association, mut peer) = (near?, far.ok_or("no association")?.accept());
/// use std::time::Duration;
///
/// use carrick::{Reliability, SendOptions};
///
/// let (sender, receiver) = association.split();
/// let position = SendOptions {
///     reliability: Reliability::Timed(Duration::from_millis(200)),
///     ..SendOptions::on_stream(1)
/// };
/// sender.send("47.1 N 9.5 E", position).await?;
/// sender.send("alarm", SendOptions::on_stream(0).unordered()).await?;
/// sender.flushed().await?; // The peer has acknowledged both.
/// assert_eq!(sender.undelivered(), 0);
/// # drop((receiver, peer));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SendHalf {
    pub(super) control: AssociationControl,
}

impl SendHalf {
    /// Returns a handle that reads the state of the association and changes it.
    pub fn control(&self) -> &AssociationControl {
        &self.control
    }

    /// Sends a message: waits until there is room in the send queue, then queues it as a whole. A later
    /// [`Self::shutdown`], also of another handle, delivers queued messages first.
    /// [`Event::SendFailed`](crate::Event::SendFailed) reports messages that are not delivered because the peer shuts down
    /// or the association fails.
    ///
    /// The endpoint's task delivers it later, so the runtime must live on until [`Self::flushed`],
    /// [`Self::shutdown`] or [`Endpoint::close`](crate::Endpoint::close) is ready; see the crate's documentation.
    ///
    /// Senders get room in the order of their calls. A pending `send` keeps its place in that order even
    /// if it is not polled: don't await another `send` in the same task before it is ready; poll both,
    /// or use two tasks.
    ///
    /// Cancel-safe: when this future is dropped before it is ready, the message was not queued, or
    /// was as a whole; the latter only when `options.path` is set or the association does not
    /// fragment, because then the protocol is asked whether it takes the message.
    ///
    /// # Errors
    /// The association does not take the message, or has ended.
    pub async fn send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), SendError> {
        let data = data.into();
        self.check(&data, &options)?;
        let shared = &self.control.link.shared;
        let taken = shared.send_credit.take(cost(data.len())).await;
        let permit = taken.map_err(|_| self.control.link.refusal())?;
        if options.path.is_none() && shared.fragments {
            return self.queue(data, options, permit, None);
        }
        let (answer, answered) = oneshot::channel();
        self.queue(data, options, permit, Some(answer))?;
        match answered.await {
            Ok(Err(carrick_proto::SendError::UnknownAssociation)) | Err(_) => {
                Err(self.control.link.refusal())
            }
            Ok(taken) => Ok(taken?),
        }
    }

    /// Sends a message if there is room in the send queue now. [`Event::SendFailed`](crate::Event::SendFailed) reports a
    /// message that the protocol refuses because of its path or length.
    ///
    /// # Errors
    /// There is no room, the association does not take the message, or it has ended.
    pub fn try_send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), TrySendError> {
        let data = data.into();
        self.check(&data, &options)?;
        let shared = &self.control.link.shared;
        match shared.send_credit.try_take(cost(data.len())) {
            Ok(permit) => Ok(self.queue(data, options, permit, None)?),
            Err(NoCredit::Full) => Err(TrySendError::Full(data)),
            Err(NoCredit::Closed) => Err(self.control.link.refusal().into()),
        }
    }

    /// Sends messages in their order, as [`Self::send`] does one after the other, and hands those that have room
    /// to the endpoint's task together, which is cheaper for small messages. Each is removed from `messages`
    /// when it is queued. [`Event::SendFailed`](crate::Event::SendFailed) reports a message that the protocol refuses because of its
    /// path or length.
    ///
    /// Cancel-safe: when this future is dropped before it is ready, the messages that are left were not queued.
    ///
    /// # Errors
    /// The association does not take the first one of the messages that are left, or has ended.
    pub async fn send_many(
        &self,
        messages: &mut VecDeque<(Bytes, SendOptions)>,
    ) -> Result<(), SendError> {
        let credit = &self.control.link.shared.send_credit;
        while let Some((first, options)) = messages.front() {
            self.check(first, options)?;
            // Half of the queue at most, so that the task has work while the sender waits for room.
            let (mut total, mut count) = (cost(first.len()), 1);
            for (data, options) in messages.iter().take(RUN).skip(1) {
                let with = total.saturating_add(cost(data.len()));
                if with > credit.capacity() / 2 || self.check(data, options).is_err() {
                    break;
                }
                (total, count) = (with, count + 1);
            }
            let taken = credit.take(total).await;
            let mut permit = taken.map_err(|_| self.control.link.refusal())?;
            let run = messages.drain(..count).map(|(data, options)| {
                let permit = permit.split(cost(data.len()));
                OutgoingMessage {
                    data,
                    options,
                    permit,
                    answer: None,
                }
            });
            let run = run.collect();
            let command = Command::SendMany(self.control.link.id, run);
            if let Err(refused) = self.control.link.commands.send(command) {
                if let Command::SendMany(_, run) = refused.0 {
                    for out in run.into_iter().rev() {
                        messages.push_front((out.data, out.options));
                    }
                }
                return Err(self.control.link.refusal());
            }
        }
        Ok(())
    }

    fn check(&self, data: &Bytes, options: &SendOptions) -> Result<(), SendError> {
        let shared = &self.control.link.shared;
        if let Some(reason) = shared.end() {
            return Err(SendError::Ended(reason.clone()));
        }
        if shared.shutting_down.load(Ordering::Acquire) {
            return Err(SendError::ShuttingDown);
        }
        if data.is_empty() {
            return Err(SendError::Empty);
        }
        let streams = shared.outbound_streams.load(Ordering::Acquire);
        if options.stream.0 >= streams {
            return Err(SendError::InvalidStream { streams });
        }
        Ok(())
    }

    fn queue(
        &self,
        data: Bytes,
        options: SendOptions,
        permit: CreditPermit,
        answer: Option<oneshot::Sender<Result<(), carrick_proto::SendError>>>,
    ) -> Result<(), SendError> {
        let message = OutgoingMessage {
            data,
            options,
            permit,
            answer,
        };
        self.control
            .link
            .commands
            .send(Command::Send(self.control.link.id, message))
            .map_err(|_| self.control.link.refusal())
    }

    /// Waits until the cumulative TSN acknowledges all messages that were sent before, also of other
    /// handles, except those that were abandoned or failed ([`Event::SendFailed`](crate::Event::SendFailed)). This is
    /// SENDER DRY of RFC 6458 section 6.1.9, which DTLS over SCTP needs before a change of keys
    /// (RFC 6083 section 4.8). Ready at once if nothing is outstanding; while other handles keep
    /// sending, at the first moment at which nothing is.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// The association ended, not by a shutdown.
    pub async fn flushed(&self) -> Result<(), OperationError> {
        let (answer, answered) = oneshot::channel();
        self.control
            .link
            .command(Command::Flush(self.control.link.id, answer));
        let flushed = answered.await.map_err(|_| self.control.link.unknown())?;
        match flushed.map_err(|_| self.control.link.unknown()) {
            Err(OperationError::Ended(CloseReason::Shutdown)) => Ok(()),
            flushed => flushed,
        }
    }

    /// Shuts the association down: takes no new messages and waits until the messages of both sides are
    /// delivered (RFC 9260 section 9.2). The peer's messages have to be received meanwhile if they
    /// exceed the receive buffer, and can be received afterwards if not.
    ///
    /// Dropping this future does not stop the shutdown.
    ///
    /// # Errors
    /// The association ended, not by a shutdown.
    pub async fn shutdown(&self) -> Result<(), OperationError> {
        if self.close_reason().is_none() {
            self.control.link.shared.refuse_messages();
            let (answer, answered) = oneshot::channel();
            self.control
                .link
                .command(Command::Shutdown(self.control.link.id, answer));
            // Without an answer the association ended before the task received the command.
            let _ = answered.await;
        }
        match self.control.link.unknown() {
            OperationError::Ended(CloseReason::Shutdown) => Ok(()),
            error => Err(error),
        }
    }

    /// Waits until the association has ended, and returns the reason. Begins no shutdown. Received messages
    /// can still be read afterwards.
    ///
    /// Any number of tasks may wait, each with a handle ([`Association::sender`](crate::Association::sender)); a handle that waits
    /// keeps the association. Cancel-safe.
    pub async fn closed(&self) -> CloseReason {
        self.control.link.closed().await
    }

    /// Returns the number of messages that [`Self::send`] accepted and the peer did not acknowledge, as
    /// [`AssociationEnd::undelivered`](crate::AssociationEnd::undelivered) counts them. Final when the association has ended.
    pub fn undelivered(&self) -> u64 {
        self.control
            .link
            .shared
            .undelivered
            .load(Ordering::Acquire)
            .into()
    }

    /// Returns why the association has ended; `None` until then.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.control.link.shared.end().cloned()
    }

    /// Aborts the association: sends an ABORT with the first 1024 bytes of the reason (RFC 9260 section
    /// 9.1). Messages that have not been delivered are lost.
    pub fn abort(&self, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.control
            .link
            .command(Command::Abort(self.control.link.id, reason));
    }
}
