//! How the outbound streams of an association share it (RFC 8260 section 4.3).

use carrick_proto::{StreamId, StreamScheduler};

use crate::association::{Association, SendHalf};
use crate::error::OperationError;

impl Association {
    /// See [`SendHalf::set_scheduler`].
    ///
    /// # Errors
    /// See there.
    pub async fn set_scheduler(&self, scheduler: StreamScheduler) -> Result<(), OperationError> {
        self.sender().set_scheduler(scheduler).await
    }

    /// See [`SendHalf::set_stream_value`].
    ///
    /// # Errors
    /// See there.
    pub async fn set_stream_value(&self, stream: u16, value: u16) -> Result<(), OperationError> {
        self.sender().set_stream_value(stream, value).await
    }

    /// See [`SendHalf::scheduler`].
    ///
    /// # Errors
    /// See there.
    pub async fn scheduler(&self) -> Result<StreamScheduler, OperationError> {
        self.sender().scheduler().await
    }

    /// See [`SendHalf::stream_value`].
    ///
    /// # Errors
    /// See there.
    pub async fn stream_value(&self, stream: u16) -> Result<u16, OperationError> {
        self.sender().stream_value(stream).await
    }
}

impl SendHalf {
    /// How streams share the association from now on, instead of
    /// [`crate::AssociationConfig::scheduler`] (RFC 8260 section 4.3.2). Messages that still wait in
    /// this library's queue are not ordered by it.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn set_scheduler(&self, scheduler: StreamScheduler) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_scheduler(now, id, scheduler))
            .await
    }

    /// The priority or weight of an outbound stream: what it means depends on the
    /// [scheduler](StreamScheduler) (RFC 8260 section 4.3.3). Streams begin with 0.
    ///
    /// # Errors
    /// The association has ended, or has no such stream.
    pub async fn set_stream_value(&self, stream: u16, value: u16) -> Result<(), OperationError> {
        self.operate(move |core, now, id| core.set_stream_value(now, id, StreamId(stream), value))
            .await
    }

    /// How streams share the association now (RFC 8260 section 4.3.2).
    ///
    /// # Errors
    /// The association has ended.
    pub async fn scheduler(&self) -> Result<StreamScheduler, OperationError> {
        let scheduler = self.work(|core, _, id| core.scheduler(id));
        scheduler.await?.ok_or_else(|| self.unknown())
    }

    /// The priority or weight that an outbound stream has now (RFC 8260 section 4.3.3).
    ///
    /// # Errors
    /// The association has ended, or has no such stream.
    pub async fn stream_value(&self, stream: u16) -> Result<u16, OperationError> {
        let value = self.work(move |core, _, id| {
            let exists = core.scheduler(id).is_some();
            (exists, core.stream_value(id, StreamId(stream)))
        });
        match value.await? {
            (_, Some(value)) => Ok(value),
            (true, None) => Err(carrick_proto::OperationError::InvalidStream.into()),
            (false, None) => Err(self.unknown()),
        }
    }
}
