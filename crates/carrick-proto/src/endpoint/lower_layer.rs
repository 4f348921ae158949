//! A lower layer that is not IP tells what happened to its connections (RFC 8261 section 6.1).

use super::Endpoint;
use crate::association::{Association, AssociationId};
use crate::error::OperationError;
use crate::time::Time;

impl Endpoint {
    /// The lower layer's connection of this association came up or leads elsewhere: path MTU and
    /// congestion window begin anew, and a set-up starts with a fresh INIT (RFC 8261 section 6.1).
    ///
    /// # Errors
    /// The association is not known.
    pub fn lower_layer_changed(
        &mut self,
        now: Time,
        id: AssociationId,
    ) -> Result<(), OperationError> {
        self.operate(now, id, |association, cx| {
            association.lower_layer_changed(cx);
            Ok(())
        })
    }

    /// The lower layer's connection of this association is gone for good: the association ends
    /// without another packet, with [`crate::CloseReason::LowerLayerLost`].
    ///
    /// # Errors
    /// The association is not known.
    pub fn lower_layer_lost(&mut self, now: Time, id: AssociationId) -> Result<(), OperationError> {
        self.with(now, id, Association::lower_layer_lost)
            .ok_or(OperationError::UnknownAssociation)
    }
}
