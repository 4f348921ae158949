//! Operations of the user on one association, which end with one update of the endpoint.

use super::Endpoint;
use crate::association::{Association, Context};
use crate::error::OperationError;
use crate::ids::AssociationId;
use crate::time::Time;

/// Association to be changed: its paths, streams, keys and parameters. [`Endpoint::association_mut`] returns it.
///
/// When it is dropped, the endpoint is updated once for all changes: their events are queued,
/// [`Endpoint::poll_transmit`] returns their packets, and [`Endpoint::poll_timeout`] regards their timers.
#[derive(Debug)]
pub struct AssociationMut<'a> {
    endpoint: &'a mut Endpoint,
    id: AssociationId,
    now: Time,
}

impl Endpoint {
    /// Returns an association to change it; `None` if it is unknown or has ended.
    pub fn association_mut(&mut self, now: Time, id: AssociationId) -> Option<AssociationMut<'_>> {
        if self.registry.get(id)?.state().is_closed() {
            return None;
        }
        self.registry.limit_receiver(id, self.config.receive_memory);
        Some(AssociationMut {
            endpoint: self,
            id,
            now,
        })
    }
}

impl AssociationMut<'_> {
    /// Returns the association with the context for its methods. It exists until the update.
    pub(super) fn parts(&mut self) -> Result<(&mut Association, Context<'_>), OperationError> {
        let (registry, context) = self.endpoint.registry_and_context(self.now);
        let association = registry.get_mut(self.id);
        Ok((
            association.ok_or(OperationError::UnknownAssociation)?,
            context,
        ))
    }
}

impl Drop for AssociationMut<'_> {
    fn drop(&mut self) {
        self.endpoint.finish_update(self.now, self.id);
    }
}
