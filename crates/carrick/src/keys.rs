//! Endpoint-pair shared keys come, go and change on an association that is up (RFC 4895; the
//! operations of RFC 6458 section 8.3).

use carrick_proto::{AssociationId, Endpoint as Core, SharedKey, SharedKeyId, Time};

use crate::association::{Association, SendHalf};
use crate::error::KeyError;

impl SendHalf {
    /// Adds an endpoint-pair shared key, or replaces the one of the same number: packets with it
    /// are believed from now on. Sending with it is begun by [`Self::activate_key`].
    ///
    /// # Errors
    /// Authentication is not in force, there are too many keys, or the association has ended.
    pub async fn add_key(&self, key: SharedKey) -> Result<(), KeyError> {
        self.on_keys(move |core, now, id| core.add_key(now, id, key))
            .await
    }

    /// Packets are authenticated with this key from now on. The peer should have it by then: what
    /// it can't check, it drops.
    ///
    /// # Errors
    /// The key is not there or was deactivated, or the association has ended.
    pub async fn activate_key(&self, key: SharedKeyId) -> Result<(), KeyError> {
        self.on_keys(move |core, now, id| core.activate_key(now, id, key))
            .await
    }

    /// The key is not used for sending any more; packets of the peer with it are still believed.
    /// [`crate::AuthenticationEvent::KeyFree`] says when the last packet with it has left.
    ///
    /// # Errors
    /// The key is not there or is the active one, or the association has ended.
    pub async fn deactivate_key(&self, key: SharedKeyId) -> Result<(), KeyError> {
        self.on_keys(move |core, now, id| core.deactivate_key(now, id, key))
            .await
    }

    /// Deletes a key: packets with it are dropped from now on.
    ///
    /// # Errors
    /// The key is not there or is the active one, or the association has ended.
    pub async fn delete_key(&self, key: SharedKeyId) -> Result<(), KeyError> {
        self.on_keys(move |core, now, id| core.delete_key(now, id, key))
            .await
    }

    async fn on_keys(
        &self,
        work: impl FnOnce(&mut Core, Time, AssociationId) -> Result<(), carrick_proto::KeyError>
        + Send
        + 'static,
    ) -> Result<(), KeyError> {
        match self.work(work).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refusal @ carrick_proto::KeyError::UnknownAssociation)) => {
                Err(match self.end() {
                    Some(reason) => KeyError::Ended(reason),
                    None => refusal.into(),
                })
            }
            Ok(Err(refusal)) => Err(refusal.into()),
            Err(_) => Err(KeyError::EndpointClosed),
        }
    }
}

impl Association {
    /// See [`SendHalf::add_key`].
    ///
    /// # Errors
    /// See there.
    pub async fn add_key(&self, key: SharedKey) -> Result<(), KeyError> {
        self.sender().add_key(key).await
    }

    /// See [`SendHalf::activate_key`].
    ///
    /// # Errors
    /// See there.
    pub async fn activate_key(&self, key: SharedKeyId) -> Result<(), KeyError> {
        self.sender().activate_key(key).await
    }

    /// See [`SendHalf::deactivate_key`].
    ///
    /// # Errors
    /// See there.
    pub async fn deactivate_key(&self, key: SharedKeyId) -> Result<(), KeyError> {
        self.sender().deactivate_key(key).await
    }

    /// See [`SendHalf::delete_key`].
    ///
    /// # Errors
    /// See there.
    pub async fn delete_key(&self, key: SharedKeyId) -> Result<(), KeyError> {
        self.sender().delete_key(key).await
    }
}
