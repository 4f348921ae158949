//! Resetting and adding streams of an established association (RFC 6525).

use carrick_proto::{StreamDirection, StreamId};

use super::AssociationControl;
use crate::error::OperationError;

impl AssociationControl {
    /// Requests a reset of these streams, or of all if none is named: their stream sequence numbers
    /// start again at 0. Messages keep their order; messages for outgoing streams that are sent after
    /// this call wait for the peer's response.
    ///
    /// Ready when the request is queued. [`Event::StreamsReset`](crate::Event::StreamsReset) reports its result, once for
    /// each direction.
    ///
    /// # Errors
    /// The extension is not in force, another request is under way, there is no such stream, or the
    /// association is not established.
    pub async fn reset_streams(
        &self,
        direction: StreamDirection,
        streams: impl Into<Vec<StreamId>>,
    ) -> Result<(), OperationError> {
        let streams = streams.into();
        self.change(move |a| a.reset_streams(direction, &streams))
            .await
    }

    /// Requests new TSNs in both directions and a reset of all streams.
    /// [`Event::AssociationReset`](crate::Event::AssociationReset) reports the result.
    ///
    /// # Errors
    /// As [`Self::reset_streams`], and within 30 seconds of the last time.
    pub async fn reset_association(&self) -> Result<(), OperationError> {
        self.change(|a| a.reset_association()).await
    }

    /// Requests more streams, for this side (`outgoing`) and for the peer (`incoming`) to send on.
    /// [`Event::StreamsChanged`](crate::Event::StreamsChanged) reports that they exist.
    ///
    /// # Errors
    /// As [`Self::reset_streams`], and where there would be too many.
    pub async fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), OperationError> {
        self.change(move |a| a.add_streams(outgoing, incoming))
            .await
    }
}
