//! Stream schedulers (RFC 8260, section 4.3).

use carrick_wire::StreamId;

use super::AssociationMut;
use crate::config::StreamScheduler;
use crate::error::OperationError;

impl AssociationMut<'_> {
    /// Sets the stream scheduler: `SCTP_STREAM_SCHEDULER` of RFC 8260, section 4.3.2. It replaces
    /// [`StreamConfig::scheduler`](crate::StreamConfig::scheduler). Without interleaving, a message of which fragments have
    /// been sent is completed first.
    pub fn set_scheduler(&mut self, scheduler: StreamScheduler) {
        if let Ok((association, _)) = self.parts() {
            association.set_scheduler(scheduler);
        }
    }

    /// Sets the scheduler's value of an outbound stream: `SCTP_STREAM_SCHEDULER_VALUE` of RFC 8260,
    /// section 4.3.3. It is the priority for [`StreamScheduler::Priority`], 0 being the highest, and the
    /// weight for [`StreamScheduler::WeightedFair`], where 0 counts as 1. Other schedulers ignore it. The
    /// default is 0.
    ///
    /// # Errors
    /// [`OperationError::InvalidStream`].
    pub fn set_stream_value(&mut self, stream: StreamId, value: u16) -> Result<(), OperationError> {
        self.parts()?.0.set_stream_value(stream, value)
    }
}
