//! Stream schedulers (RFC 8260 section 4.3).

use carrick_proto::{StreamId, StreamScheduler};

use super::AssociationControl;
use crate::error::OperationError;

impl AssociationControl {
    /// Sets the stream scheduler, at first [`StreamConfig::scheduler`](crate::StreamConfig::scheduler)
    /// (`SCTP_STREAM_SCHEDULER`, RFC 8260 section 4.3.2). Messages that wait in front of the send
    /// buffer ([`Config::send_queue`](crate::Config::send_queue)) are not ordered by it.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn set_scheduler(&self, scheduler: StreamScheduler) -> Result<(), OperationError> {
        self.link.with(move |a| a.set_scheduler(scheduler)).await
    }

    /// Sets the priority or weight of an outbound stream, depending on the
    /// [scheduler](StreamScheduler) (`SCTP_STREAM_SCHEDULER_VALUE`, RFC 8260 section 4.3.3). Streams
    /// start with 0.
    ///
    /// # Errors
    /// The association has ended, or has no such stream.
    pub async fn set_stream_value(
        &self,
        stream: impl Into<StreamId>,
        value: u16,
    ) -> Result<(), OperationError> {
        let stream = stream.into();
        self.change(move |a| a.set_stream_value(stream, value))
            .await
    }

    /// Returns the stream scheduler (RFC 8260 section 4.3.2).
    ///
    /// # Errors
    /// The association has ended.
    pub async fn scheduler(&self) -> Result<StreamScheduler, OperationError> {
        self.link.read(|a| a.scheduler()).await
    }

    /// Returns the priority or weight of an outbound stream (RFC 8260 section 4.3.3).
    ///
    /// # Errors
    /// The association has ended, or has no such stream.
    pub async fn stream_value(&self, stream: impl Into<StreamId>) -> Result<u16, OperationError> {
        let stream = stream.into();
        let read = self.link.read(move |a| a.stream_value(stream));
        read.await?.ok_or(OperationError::InvalidStream)
    }
}
