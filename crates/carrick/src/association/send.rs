//! Messages that leave, and the end of the association.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use carrick_proto::{CloseReason, SendError as Refusal, SendOptions};
use tokio::sync::oneshot;

use super::Link;
use crate::command::{Command, Outgoing};
use crate::error::{OperationError, SendError, TrySendError};
use crate::room::{NoRoom, Permit};
use crate::shared::cost;

/// Sends messages and controls the association. Clones send on the same association.
#[derive(Clone)]
pub struct SendHalf {
    pub(super) link: Arc<Link>,
}

impl SendHalf {
    /// Sends a message: waits until there is room for it, then queues it as a whole. What this took
    /// is delivered by a [`Self::shutdown`] that follows, also of another handle; what is not
    /// delivered, because the peer shuts down or the association breaks, is told by
    /// [`crate::Event::SendFailed`].
    ///
    /// The endpoint's task delivers it later, so the runtime must live on until [`Self::flushed`],
    /// [`Self::shutdown`] or [`crate::Endpoint::close`] is ready; see the crate's documentation.
    ///
    /// Senders get room in the order in which they ask for it. One that waits holds its place, also
    /// while nobody polls it: don't await another `send` with this one pending in the same task, but
    /// poll both, or give each a task.
    ///
    /// Cancel-safe: when this future is dropped before it is ready, the message was not queued, or
    /// was as a whole; the latter only when `options.path` is set or the association does not
    /// fragment, because then the protocol is asked whether it takes the message.
    ///
    /// # Errors
    /// The message does not fit the association, or the association takes none any more.
    pub async fn send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), SendError> {
        let data = data.into();
        self.check(&data, &options)?;
        let shared = &self.link.shared;
        let taken = shared.room.take(cost(data.len())).await;
        let permit = taken.map_err(|_| self.link.refusal())?;
        if options.path.is_none() && shared.fragments {
            return self.queue(data, options, permit, None);
        }
        let (answer, answered) = oneshot::channel();
        self.queue(data, options, permit, Some(answer))?;
        match answered.await {
            Ok(taken) => Ok(taken?),
            Err(_) => Err(self.link.refusal()),
        }
    }

    /// Sends a message if there is room for it now. What [`Self::send`] asks the protocol about is
    /// not checked here; [`crate::Event::SendFailed`] tells if the protocol refuses the message.
    ///
    /// # Errors
    /// There is no room, the message does not fit the association, or the association takes none
    /// any more.
    pub fn try_send(
        &self,
        data: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<(), TrySendError> {
        let data = data.into();
        self.check(&data, &options)?;
        let shared = &self.link.shared;
        match shared.room.try_take(cost(data.len())) {
            Ok(permit) => Ok(self.queue(data, options, permit, None)?),
            Err(NoRoom::Full) => Err(TrySendError::Full(data)),
            Err(NoRoom::Closed) => Err(self.link.refusal().into()),
        }
    }

    fn check(&self, data: &Bytes, options: &SendOptions) -> Result<(), SendError> {
        let shared = &self.link.shared;
        if let Some(reason) = shared.ended.get() {
            return Err(SendError::Ended(reason.clone()));
        }
        if shared.shutting_down.load(Ordering::Acquire) {
            return Err(Refusal::ShuttingDown.into());
        }
        if data.is_empty() {
            return Err(Refusal::Empty.into());
        }
        let streams = shared.outbound_streams.load(Ordering::Acquire);
        if options.stream.0 >= streams {
            return Err(Refusal::InvalidStream { streams }.into());
        }
        Ok(())
    }

    fn queue(
        &self,
        data: Bytes,
        options: SendOptions,
        permit: Permit,
        answer: Option<oneshot::Sender<Result<(), Refusal>>>,
    ) -> Result<(), SendError> {
        let message = Outgoing {
            data,
            options,
            permit,
            answer,
        };
        self.link
            .commands
            .send(Command::Send(self.link.id, message))
            .map_err(|_| SendError::EndpointClosed)
    }

    /// Waits until the peer has all messages for good that were sent before, also of other handles:
    /// none waits here, and the cumulative TSN acknowledges all that left, but for what was given up
    /// or failed, which [`crate::Event::SendFailed`] tells. This is what keys have to wait for before
    /// they change where DTLS is above SCTP (RFC 6083 section 4.8; SENDER DRY of RFC 6458 section
    /// 6.1.9). Ready at once if there is nothing to wait for; while others go on to send, as soon as
    /// there is a moment without anything on its way.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// The association ended otherwise than by a shutdown, before or while this waited.
    pub async fn flushed(&self) -> Result<(), OperationError> {
        let (answer, answered) = oneshot::channel();
        self.link.tell(Command::Flush(self.link.id, answer));
        let flushed = answered.await.map_err(|_| OperationError::EndpointClosed)?;
        match flushed.map_err(|_| self.link.unknown()) {
            Err(OperationError::Ended(CloseReason::Shutdown)) => Ok(()),
            flushed => flushed,
        }
    }

    /// Shuts the association down: takes no new messages, waits until all messages of both sides
    /// are delivered (RFC 9260 section 9.2). Those of the peer must be received meanwhile if they
    /// exceed the receive buffer, and can be received afterwards if not.
    ///
    /// When this future is dropped, the shutdown goes on.
    ///
    /// # Errors
    /// The association ended otherwise.
    pub async fn shutdown(&self) -> Result<(), OperationError> {
        match self.link.shared.ended.get() {
            Some(CloseReason::Shutdown) => return Ok(()),
            Some(reason) => return Err(OperationError::Ended(reason.clone())),
            None => {}
        }
        self.link.shared.refuse_messages();
        let (answer, answered) = oneshot::channel();
        self.link.tell(Command::Shutdown(self.link.id, answer));
        answered
            .await
            .unwrap_or(Err(OperationError::EndpointClosed))
    }

    /// Ends the association at once and gives the reason to the peer (RFC 9260 section 9.1); the
    /// first 1024 bytes of it are sent. What has not been delivered is lost.
    pub fn abort(&self, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.link.tell(Command::Abort(self.link.id, reason));
    }

    /// The peer's addresses at the set-up, one a path.
    pub fn peer_addresses(&self) -> &[IpAddr] {
        &self.link.shared.peer_addresses
    }

    /// The fingerprint of the certificate that the peer's session of DTLS began with, whatever made it
    /// trusted; `None` without DTLS, and where it was not asked for one because anyone is trusted.
    #[cfg(feature = "dtls")]
    pub fn peer_fingerprint(&self) -> Option<carrick_dtls::Fingerprint> {
        self.link.shared.fingerprint
    }

    /// The peer's SCTP port.
    pub fn peer_port(&self) -> u16 {
        self.link.shared.peer_port
    }

    /// Streams to send on: 0 to this number less one.
    pub fn outbound_streams(&self) -> u16 {
        self.link.shared.outbound_streams.load(Ordering::Acquire)
    }

    /// Streams that the peer may send on.
    pub fn inbound_streams(&self) -> u16 {
        self.link.shared.inbound_streams.load(Ordering::Acquire)
    }
}
