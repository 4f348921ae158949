//! Notifications of a lower layer other than IP (RFC 8261, section 6.1).

use super::AssociationMut;

impl AssociationMut<'_> {
    /// Processes the establishment or a path change of the lower layer's connection: resets path MTU and
    /// congestion window, and sends INIT at once during set-up (RFC 8261, section 6.1).
    pub fn lower_layer_changed(&mut self) {
        if let Ok((association, mut cx)) = self.parts() {
            association.lower_layer_changed(&mut cx);
        }
    }

    /// Closes the association, whose lower-layer connection is lost, without sending a packet. The reason is
    /// [`CloseReason::LowerLayerLost`](crate::CloseReason::LowerLayerLost).
    pub fn lower_layer_lost(mut self) {
        if let Ok((association, mut cx)) = self.parts() {
            association.lower_layer_lost(&mut cx);
        }
    }
}
