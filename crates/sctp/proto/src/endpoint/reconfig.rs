//! Stream reconfiguration requests of the user (RFC 6525, section 6.3).

use carrick_wire::StreamId;

use super::AssociationMut;
use crate::association::{Association, Context};
use crate::error::ReconfigError;
use crate::event::StreamDirection;

impl AssociationMut<'_> {
    /// Resets the stream sequence numbers of these streams to 0, of all streams if the list is empty:
    /// `SCTP_RESET_STREAMS` of RFC 6525, section 6.3.2. Messages sent before the call are delivered before
    /// the reset; later messages on the outgoing streams concerned wait in the send buffer until the peer
    /// has responded.
    ///
    /// [`Event::StreamsReset`](crate::Event::StreamsReset) reports the outcome for each direction. The peer decides when it
    /// resets incoming streams.
    ///
    /// # Errors
    /// See [`ReconfigError`].
    pub fn reset_streams(
        &mut self,
        direction: StreamDirection,
        streams: &[StreamId],
    ) -> Result<(), ReconfigError> {
        let (association, _) = self.reconfigurable()?;
        association.reset_streams(direction, streams)
    }

    /// Resets the TSNs and all stream sequence numbers of both sides: `SCTP_RESET_ASSOC` of RFC 6525,
    /// section 6.3.3. Messages sent before the call are delivered before the reset; later messages wait.
    /// At most one reset is performed in 30 seconds.
    ///
    /// [`Event::AssociationReset`](crate::Event::AssociationReset) reports the outcome.
    ///
    /// # Errors
    /// See [`ReconfigError`].
    pub fn reset_association(&mut self) -> Result<(), ReconfigError> {
        let (association, mut cx) = self.reconfigurable()?;
        association.reset_association(&mut cx)
    }

    /// Requests additional outgoing and incoming streams: `SCTP_ADD_STREAMS` of RFC 6525, section 6.3.4.
    /// They are usable after [`Event::StreamsChanged`](crate::Event::StreamsChanged), which reports each direction.
    ///
    /// # Errors
    /// See [`ReconfigError`].
    pub fn add_streams(&mut self, outgoing: u16, incoming: u16) -> Result<(), ReconfigError> {
        let (association, _) = self.reconfigurable()?;
        association.ask_for_streams(outgoing, incoming)
    }

    /// Returns the association, if its streams can be reset or added.
    fn reconfigurable(&mut self) -> Result<(&mut Association, Context<'_>), ReconfigError> {
        let parts = self.parts().map_err(|_| ReconfigError::WrongState)?;
        parts.0.may_reconfigure()?;
        Ok(parts)
    }
}
