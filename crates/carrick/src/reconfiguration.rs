//! Streams are reset and added on an association that is up (RFC 6525).

use carrick_proto::{StreamDirection, StreamId};

use crate::association::{Association, SendHalf};
use crate::error::ReconfigError;

impl SendHalf {
    /// Asks for a reset of these streams, of all if none is named: their stream sequence numbers
    /// begin again at 0. Messages keep their order; those for outgoing streams that the protocol
    /// takes after this wait for the peer's answer.
    ///
    /// Ready when the request is under way. What comes of it is told by
    /// [`crate::Event::StreamsReset`], once for each direction.
    ///
    /// # Errors
    /// The extension is not in force, another request is under way, there is no such stream, or the
    /// association is not established.
    pub async fn reset_streams(
        &self,
        direction: StreamDirection,
        streams: impl Into<Vec<StreamId>>,
    ) -> Result<(), ReconfigError> {
        let streams = streams.into();
        self.reconfigure(move |core, now, id| core.reset_streams(now, id, direction, &streams))
            .await
    }

    /// Asks for new TSNs in both directions, with a reset of all streams. What comes of it is told
    /// by [`crate::Event::AssociationReset`].
    ///
    /// # Errors
    /// As [`Self::reset_streams`], and within 30 seconds of the last time.
    pub async fn reset_association(&self) -> Result<(), ReconfigError> {
        self.reconfigure(|core, now, id| core.reset_association(now, id))
            .await
    }

    /// Asks for more streams, for this side and for the peer to send on. They are there when
    /// [`crate::Event::StreamsChanged`] tells of them.
    ///
    /// # Errors
    /// As [`Self::reset_streams`], and where there would be too many.
    pub async fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ReconfigError> {
        self.reconfigure(move |core, now, id| core.add_streams(now, id, outgoing, incoming))
            .await
    }
}

impl Association {
    /// See [`SendHalf::reset_streams`].
    ///
    /// # Errors
    /// See there.
    pub async fn reset_streams(
        &self,
        direction: StreamDirection,
        streams: impl Into<Vec<StreamId>>,
    ) -> Result<(), ReconfigError> {
        self.sender().reset_streams(direction, streams).await
    }

    /// See [`SendHalf::reset_association`].
    ///
    /// # Errors
    /// See there.
    pub async fn reset_association(&self) -> Result<(), ReconfigError> {
        self.sender().reset_association().await
    }

    /// See [`SendHalf::add_streams`].
    ///
    /// # Errors
    /// See there.
    pub async fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ReconfigError> {
        self.sender().add_streams(outgoing, incoming).await
    }
}
