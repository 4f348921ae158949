//! Endpoint-pair shared keys of an association (RFC 4895; the operations of RFC 6458 section 8.3).

use carrick_wire::SharedKeyId;

use super::Endpoint;
use crate::association::{Association, AssociationId};
use crate::auth::{KeyError, SharedKey};
use crate::time::Time;

impl Endpoint {
    /// Adds an endpoint-pair shared key, or replaces the one of the same number: packets with it
    /// are believed from now on. Sending with it is begun by [`Self::activate_key`].
    ///
    /// # Errors
    /// Authentication is not in force, or there are too many keys.
    pub fn add_key(
        &mut self,
        now: Time,
        id: AssociationId,
        key: SharedKey,
    ) -> Result<(), KeyError> {
        self.on_keys(now, id, |association| association.add_key(key))
    }

    /// Packets are authenticated with this key from now on.
    ///
    /// # Errors
    /// The key is not there or was deactivated.
    pub fn activate_key(
        &mut self,
        now: Time,
        id: AssociationId,
        key: SharedKeyId,
    ) -> Result<(), KeyError> {
        self.on_keys(now, id, |association| association.activate_key(key))
    }

    /// The key is not used for sending any more; packets of the peer with it are still believed.
    /// [`crate::AuthenticationEvent::KeyFree`] says when the last packet with it has left.
    ///
    /// # Errors
    /// The key is not there, or is the active one.
    pub fn deactivate_key(
        &mut self,
        now: Time,
        id: AssociationId,
        key: SharedKeyId,
    ) -> Result<(), KeyError> {
        self.on_keys(now, id, |association| association.deactivate_key(key))
    }

    /// Deletes a key: packets with it are dropped from now on.
    ///
    /// # Errors
    /// The key is not there, or is the active one.
    pub fn delete_key(
        &mut self,
        now: Time,
        id: AssociationId,
        key: SharedKeyId,
    ) -> Result<(), KeyError> {
        self.on_keys(now, id, |association| association.delete_key(key))
    }

    fn on_keys(
        &mut self,
        now: Time,
        id: AssociationId,
        operation: impl FnOnce(&mut Association) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        self.with(now, id, |association, _| operation(association))
            .unwrap_or(Err(KeyError::UnknownAssociation))
    }
}
