//! Notifications of a lower layer other than IP (RFC 8261, section 6.1).

use super::Endpoint;
use crate::association::Association;
use crate::error::OperationError;
use crate::ids::AssociationId;
use crate::time::Time;

impl Endpoint {
    /// Processes the establishment or a path change of the lower layer's connection: resets path MTU and
    /// congestion window, and sends INIT at once during set-up (RFC 8261, section 6.1).
    ///
    /// # Errors
    /// [`OperationError::UnknownAssociation`].
    pub fn lower_layer_changed(
        &mut self,
        now: Time,
        id: AssociationId,
    ) -> Result<(), OperationError> {
        self.update_open_association(now, id, |association, cx| {
            association.lower_layer_changed(cx);
            Ok(())
        })
    }

    /// Closes an association whose lower-layer connection is lost, without sending a packet. The reason is
    /// [`CloseReason::LowerLayerLost`](crate::CloseReason::LowerLayerLost).
    ///
    /// # Errors
    /// [`OperationError::UnknownAssociation`].
    pub fn lower_layer_lost(&mut self, now: Time, id: AssociationId) -> Result<(), OperationError> {
        self.update_association(now, id, Association::lower_layer_lost)
            .ok_or(OperationError::UnknownAssociation)
    }
}
