//! What a user may ask for after the set-up: streams are reset or added, all numbers begin anew
//! (RFC 6525 section 6.3).

use carrick_wire::StreamId;

use super::Endpoint;
use crate::association::{Association, AssociationId, Context};
use crate::reconfig::{ReconfigError, StreamDirection};
use crate::time::Time;

impl Endpoint {
    /// RESET STREAMS (RFC 6525 section 6.3.2): these streams begin at stream sequence number 0 again;
    /// an empty list means all. Messages given before the call are delivered before the reset.
    /// Those given after it, for the outgoing streams concerned, wait in the send buffer until the
    /// peer has answered.
    ///
    /// The outcome is [`crate::Event::StreamsReset`], one for each direction. Incoming streams are
    /// reset by the peer, at its own time.
    ///
    /// # Errors
    /// Says why it can't be asked for now.
    pub fn reset_streams(
        &mut self,
        now: Time,
        id: AssociationId,
        direction: StreamDirection,
        streams: &[StreamId],
    ) -> Result<(), ReconfigError> {
        self.reconfigure(now, id, |association, _| {
            association.reset_streams(direction, streams)
        })
    }

    /// RESET ASSOCIATION (RFC 6525 section 6.3.3): TSNs of both sides take other values, and all
    /// streams of both sides begin at 0 again. Messages given before the call are delivered before
    /// that, those given after it wait. Once in 30 seconds at most.
    ///
    /// The outcome is [`crate::Event::AssociationReset`].
    ///
    /// # Errors
    /// Says why it can't be asked for now.
    pub fn reset_association(&mut self, now: Time, id: AssociationId) -> Result<(), ReconfigError> {
        self.reconfigure(now, id, Association::reset_association)
    }

    /// ADD STREAMS (RFC 6525 section 6.3.4): this many more streams for this side and for the peer to
    /// send on. They can be used when [`crate::Event::StreamsChanged`] tells of them, which it does
    /// for each direction.
    ///
    /// # Errors
    /// Says why it can't be asked for now.
    pub fn add_streams(
        &mut self,
        now: Time,
        id: AssociationId,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ReconfigError> {
        self.reconfigure(now, id, |association, _| {
            association.ask_for_streams(outgoing, incoming)
        })
    }

    fn reconfigure(
        &mut self,
        now: Time,
        id: AssociationId,
        ask: impl FnOnce(&mut Association, &mut Context<'_>) -> Result<(), ReconfigError>,
    ) -> Result<(), ReconfigError> {
        self.with(now, id, |association, cx| {
            association.may_reconfigure()?;
            ask(association, cx)
        })
        .unwrap_or(Err(ReconfigError::UnknownAssociation))
    }
}
