//! Endpoint-pair shared keys of an established association (RFC 4895; RFC 6458 section 8.3).

use carrick_proto::{SharedKey, SharedKeyId};

use super::AssociationControl;
use crate::error::OperationError;

impl AssociationControl {
    /// Adds an endpoint-pair shared key, or replaces the one of the same number. Packets with
    /// it are accepted from now on; [`Self::activate_key`] selects it for sending.
    ///
    /// # Errors
    /// Authentication is not in force, there are too many keys, or the association has ended.
    pub async fn add_key(&self, key: SharedKey) -> Result<(), OperationError> {
        self.change(move |a| a.add_key(key)).await
    }

    /// Authenticates packets with this key from now on. The peer has to have the key by then: it
    /// discards chunks that it cannot authenticate.
    ///
    /// # Errors
    /// The key is not there or was deactivated, or the association has ended.
    pub async fn activate_key(&self, key: SharedKeyId) -> Result<(), OperationError> {
        self.change(move |a| a.activate_key(key)).await
    }

    /// Stops using a key for sending; packets of the peer with it are still accepted.
    /// [`AuthenticationEvent::KeyFree`](crate::AuthenticationEvent::KeyFree) reports that the last packet with it has left.
    ///
    /// # Errors
    /// The key is not there or is the active one, or the association has ended.
    pub async fn deactivate_key(&self, key: SharedKeyId) -> Result<(), OperationError> {
        self.change(move |a| a.deactivate_key(key)).await
    }

    /// Deletes a key. Packets with it are discarded from now on.
    ///
    /// # Errors
    /// The key is not there or is the active one, or the association has ended.
    pub async fn delete_key(&self, key: SharedKeyId) -> Result<(), OperationError> {
        self.change(move |a| a.delete_key(key)).await
    }
}
