//! Endpoint-pair shared keys of an association by identifier (RFC 4895, section 6.1, with the operations
//! of RFC 6458, section 8.3).

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use carrick_wire::SharedKeyId;

use super::hmac::Keyed;
use super::{AuthenticationConfig, KeyVector, SharedKey};

/// Limit of keys of an association.
pub(super) const MAX_KEYS: usize = 64;

/// Error of an operation on keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyError {
    /// Authentication is not offered, or not supported by the peer.
    NotInForce,
    /// There is no key with this identifier.
    UnknownKey,
    /// The key is used for sending: activate another key first.
    Active,
    /// The key was deactivated and can't be used for sending again.
    Deactivated,
    /// The limit of 64 keys is reached.
    TooManyKeys,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInForce => "authentication is off: offer it, and use a peer that has it",
            Self::UnknownKey => "no such key: add it first",
            Self::Active => "the key is in use for sending: activate another one first",
            Self::Deactivated => "the key was deactivated: add a new one",
            Self::TooManyKeys => "there are 64 keys already: delete one first",
        })
    }
}

impl core::error::Error for KeyError {}

struct Key {
    id: SharedKeyId,
    secret: Bytes,
    /// May be used for sending.
    sends: bool,
    /// HMACs with the association key, once both key vectors are known.
    keyed: Option<Keyed>,
}

portable_struct! { Key { id, secret, sends } rebuilt { keyed: None } }

/// Keys of an association, and the identifier of the one used for sending.
pub(super) struct Keys {
    list: Vec<Key>,
    active: SharedKeyId,
}

portable_struct! { Keys { list, active } }

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.list.iter().map(|k| k.id))
            .finish()
    }
}

impl Keys {
    pub(super) fn new(config: &AuthenticationConfig) -> Self {
        let null = SharedKey {
            id: SharedKeyId(0),
            secret: Bytes::new(),
        };
        let mut keys = Self {
            list: Vec::new(),
            active: config.active,
        };
        let listed = config.keys.iter().cloned();
        for key in config.null_key.then_some(null).into_iter().chain(listed) {
            keys.put(key, None);
        }
        keys
    }

    /// Adds a key or replaces the one with the same identifier.
    pub(super) fn add(
        &mut self,
        key: SharedKey,
        vectors: Option<(&KeyVector, &KeyVector)>,
    ) -> Result<(), KeyError> {
        if self.find(key.id).is_none() && self.list.len() >= MAX_KEYS {
            return Err(KeyError::TooManyKeys);
        }
        self.put(key, vectors);
        Ok(())
    }

    fn put(&mut self, key: SharedKey, vectors: Option<(&KeyVector, &KeyVector)>) {
        self.list.retain(|k| k.id != key.id);
        let keyed = vectors.map(|(ours, theirs)| prepared(&key.secret, ours, theirs));
        self.list.push(Key {
            id: key.id,
            secret: key.secret,
            sends: true,
            keyed,
        });
    }

    /// Computes the association keys from both key vectors.
    pub(super) fn prepare(&mut self, ours: &KeyVector, theirs: &KeyVector) {
        for key in &mut self.list {
            key.keyed = Some(prepared(&key.secret, ours, theirs));
        }
    }

    /// Returns whether association keys have been computed.
    pub(super) fn are_prepared(&self) -> bool {
        self.list.iter().any(|key| key.keyed.is_some())
    }

    pub(super) fn activate(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        let key = self.find(id).ok_or(KeyError::UnknownKey)?;
        if !key.sends {
            return Err(KeyError::Deactivated);
        }
        self.active = id;
        Ok(())
    }

    pub(super) fn deactivate(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        if id == self.active {
            return Err(KeyError::Active);
        }
        let key = self.list.iter_mut().find(|k| k.id == id);
        key.ok_or(KeyError::UnknownKey)?.sends = false;
        Ok(())
    }

    pub(super) fn delete(&mut self, id: SharedKeyId) -> Result<(), KeyError> {
        if id == self.active {
            return Err(KeyError::Active);
        }
        self.find(id).ok_or(KeyError::UnknownKey)?;
        self.list.retain(|k| k.id != id);
        Ok(())
    }

    pub(super) fn active(&self) -> SharedKeyId {
        self.active
    }

    /// Returns the HMACs with the association key of this shared key, once both key vectors are known.
    pub(super) fn keyed(&self, id: SharedKeyId) -> Option<&Keyed> {
        self.find(id)?.keyed.as_ref()
    }

    fn find(&self, id: SharedKeyId) -> Option<&Key> {
        self.list.iter().find(|k| k.id == id)
    }
}

fn prepared(secret: &[u8], ours: &KeyVector, theirs: &KeyVector) -> Keyed {
    Keyed::new(&ours.association_key(theirs, secret))
}
