//! Endpoint-pair shared keys of an association (RFC 4895, with the operations of RFC 6458, section 8.3).

use carrick_wire::SharedKeyId;

use super::AssociationMut;
use crate::association::Association;
use crate::auth::{KeyError, SharedKey};

impl AssociationMut<'_> {
    /// Adds an endpoint-pair shared key or replaces the one with the same identifier. Packets that are
    /// authenticated with it are accepted from now on; [`Self::activate_key`] uses it for sending.
    ///
    /// # Errors
    /// [`KeyError::NotInForce`] or [`KeyError::TooManyKeys`].
    pub fn add_key(&mut self, key: SharedKey) -> Result<(), KeyError> {
        self.key_holder()?.auth_mut().add_key(key)
    }

    /// Uses this key for all packets that are authenticated from now on.
    ///
    /// # Errors
    /// [`KeyError::NotInForce`], [`KeyError::UnknownKey`] or [`KeyError::Deactivated`].
    pub fn activate_key(&mut self, key: SharedKeyId) -> Result<(), KeyError> {
        self.key_holder()?.auth_mut().activate_key(key)
    }

    /// Stops sending with this key; packets of the peer with it are still accepted.
    /// [`AuthenticationEvent::KeyFree`](crate::AuthenticationEvent::KeyFree) follows when the last packet with it has been sent.
    ///
    /// # Errors
    /// [`KeyError::NotInForce`], [`KeyError::UnknownKey`] or [`KeyError::Active`].
    pub fn deactivate_key(&mut self, key: SharedKeyId) -> Result<(), KeyError> {
        self.key_holder()?.deactivate_key(key)
    }

    /// Deletes a key. Packets of the peer with it are discarded from now on.
    ///
    /// # Errors
    /// [`KeyError::NotInForce`], [`KeyError::UnknownKey`] or [`KeyError::Active`].
    pub fn delete_key(&mut self, key: SharedKeyId) -> Result<(), KeyError> {
        self.key_holder()?.auth_mut().delete_key(key)
    }

    fn key_holder(&mut self) -> Result<&mut Association, KeyError> {
        let parts = self.parts().map_err(|_| KeyError::NotInForce);
        parts.map(|(association, _)| association)
    }
}
