//! Endpoint-pair shared keys of an association (RFC 4895, with the operations of RFC 6458, section 8.3).

use carrick_wire::{ChunkType, SharedKeyId};

use super::Endpoint;
use crate::association::Association;
use crate::auth::{KeyError, SharedKey};
use crate::ids::AssociationId;
use crate::time::Time;

impl Endpoint {
    /// Adds an endpoint-pair shared key or replaces the one with the same identifier. Packets that are
    /// authenticated with it are accepted from now on; [`Self::activate_key`] uses it for sending.
    ///
    /// # Errors
    /// [`KeyError::UnknownAssociation`], [`KeyError::NotInForce`] or [`KeyError::TooManyKeys`].
    pub fn add_key(
        &mut self,
        now: Time,
        id: AssociationId,
        key: SharedKey,
    ) -> Result<(), KeyError> {
        self.update_keys(now, id, |association| association.keys()?.add_key(key))
    }

    /// Uses this key for all packets that are authenticated from now on.
    ///
    /// # Errors
    /// [`KeyError::UnknownKey`] or [`KeyError::Deactivated`], and as for [`Self::add_key`].
    pub fn activate_key(
        &mut self,
        now: Time,
        id: AssociationId,
        key: SharedKeyId,
    ) -> Result<(), KeyError> {
        self.update_keys(now, id, |association| association.keys()?.activate_key(key))
    }

    /// Stops sending with this key; packets of the peer with it are still accepted.
    /// [`AuthenticationEvent::KeyFree`](crate::AuthenticationEvent::KeyFree) follows when the last packet with it has been sent.
    ///
    /// # Errors
    /// [`KeyError::UnknownKey`] or [`KeyError::Active`], and as for [`Self::add_key`].
    pub fn deactivate_key(
        &mut self,
        now: Time,
        id: AssociationId,
        key: SharedKeyId,
    ) -> Result<(), KeyError> {
        self.update_keys(now, id, |association| association.deactivate_key(key))
    }

    /// Deletes a key. Packets of the peer with it are discarded from now on.
    ///
    /// # Errors
    /// [`KeyError::UnknownKey`] or [`KeyError::Active`], and as for [`Self::add_key`].
    pub fn delete_key(
        &mut self,
        now: Time,
        id: AssociationId,
        key: SharedKeyId,
    ) -> Result<(), KeyError> {
        self.update_keys(now, id, |association| association.keys()?.delete_key(key))
    }

    /// Returns the chunk types that the peer requires to be authenticated: its CHUNKS parameter
    /// (`SCTP_PEER_AUTH_CHUNKS` of RFC 6458, section 8.2.3). Empty for an unknown association.
    pub fn peer_required_chunks(&self, id: AssociationId) -> impl Iterator<Item = ChunkType> + '_ {
        let association = self.registry.get(id).into_iter();
        association.flat_map(|association| association.auth().listed_by_peer())
    }

    fn update_keys(
        &mut self,
        now: Time,
        id: AssociationId,
        operation: impl FnOnce(&mut Association) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        self.update_association(now, id, |association, _| operation(association))
            .unwrap_or(Err(KeyError::UnknownAssociation))
    }
}
