//! Keys for a restart of an association after the loss of its state (draft-ietf-tsvwg-sctp-dtls-chunk, sections 5.4
//! and 10.4).

use carrick_proto::Time;
use carrick_proto::export::{Format, ImportError, Portable};

use crate::cipher::KeyMaterial;
use crate::contexts::{KeyContexts, KeySet};

const FORMAT: Format = Format::new(*b"CARR-DTR");

/// Keys with which an association can be restarted once.
///
/// A process that has them can take over the association: store them so that only the owner can read them, and remove
/// them from the storage before they are used. A second use of the same keys would repeat nonces, which
/// discloses what they protect.
#[derive(Clone, Debug)]
pub struct RestartKeys {
    epoch: u64,
    send: KeyMaterial,
    receive: KeyMaterial,
}

portable_struct! { RestartKeys { epoch, send, receive } }

impl RestartKeys {
    pub(crate) fn of(contexts: &KeyContexts) -> Option<Self> {
        let (epoch, send, receive) = contexts.unused_restart_keys()?;
        Some(Self {
            epoch,
            send: send.clone(),
            receive: receive.clone(),
        })
    }

    /// Puts the keys into use.
    pub(crate) fn install(self, contexts: &mut KeyContexts) {
        contexts.install_send(KeySet::Restart, self.epoch, self.send);
        contexts.install_receive(KeySet::Restart, self.epoch, self.receive);
        contexts.restart();
    }

    /// Returns the keys as bytes, for storage. They are secret.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = FORMAT.export(Time::ZERO, |out| self.write(out));
        // Only controllers and protections of the user can't be exported.
        bytes.unwrap_or_default()
    }

    /// Reads the keys from bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// The bytes are damaged, or of a version that is not supported.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImportError> {
        let mut input = FORMAT.open(bytes, Time::ZERO, None)?;
        let keys = Self::read(&mut input)?;
        input.finish()?;
        Ok(keys)
    }
}
