//! How streams share an association (RFC 8260 section 4.3).

use carrick_wire::StreamId;

use super::Endpoint;
use crate::association::AssociationId;
use crate::error::OperationError;
use crate::send::scheduler::StreamScheduler;
use crate::time::Time;

impl Endpoint {
    /// SET STREAM SCHEDULER (RFC 8260 section 4.3.2): how streams share the association from now on,
    /// instead of [`crate::AssociationConfig::scheduler`]. Without interleaving, a message that has
    /// begun is finished first.
    ///
    /// # Errors
    /// The association is not known.
    pub fn set_scheduler(
        &mut self,
        now: Time,
        id: AssociationId,
        scheduler: StreamScheduler,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, _| {
            association.sender.set_scheduler(scheduler);
            Ok(())
        })
    }

    /// The stream scheduler of an association.
    pub fn scheduler(&self, id: AssociationId) -> Option<StreamScheduler> {
        self.registry.get(id).map(|a| a.sender.scheduler())
    }

    /// SET STREAM SCHEDULER VALUE (RFC 8260 section 4.3.3): what the scheduler needs to know of an
    /// outbound stream. For [`StreamScheduler::Priority`] the priority, of which 0 is the highest; for
    /// [`StreamScheduler::WeightedFair`] the weight, with 0 as 1. Others ignore it, but it is kept.
    /// Every stream begins with 0.
    ///
    /// # Errors
    /// The association is not known, or has no such stream.
    pub fn set_stream_value(
        &mut self,
        now: Time,
        id: AssociationId,
        stream: StreamId,
        value: u16,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, _| {
            let known = association.sender.set_stream_value(stream, value);
            known.then_some(()).ok_or(OperationError::InvalidStream)
        })
    }

    /// What [`Self::set_stream_value`] set for an outbound stream; `None` if there is none.
    pub fn stream_value(&self, id: AssociationId, stream: StreamId) -> Option<u16> {
        self.registry.get(id)?.sender.stream_value(stream)
    }
}
