//! Derivation of key material (draft-porfiri-tsvwg-sctp-dtls-handshake, sections 5.2 and 5.3).

use crate::cipher::{CipherSuite, IV_LEN, KeyMaterial};
use crate::contexts::KeySet;
use crate::parameter::{Role, on_the_wire};

/// Label of the exporter.
pub(crate) const LABEL: &[u8] = b"EXPORTER_TLS_FOR_DTLS_IN_SCTP";

/// Parameters of the set-up as they were on the wire: that of the client of the key management, then that of the
/// server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SetupParameters(pub(crate) Vec<u8>);

portable_tuple! { SetupParameters(value) }

impl SetupParameters {
    /// Joins the values of this side, which has this role, and of the peer.
    pub(crate) fn new(role: Role, ours: &[u8], theirs: &[u8]) -> Self {
        let (client, server) = match role {
            Role::Client => (ours, theirs),
            Role::Server => (theirs, ours),
        };
        Self([on_the_wire(client), on_the_wire(server)].concat())
    }

    /// Derives the key material that `sender` protects records with. `export` writes as many bytes as its buffer
    /// has, for a context.
    pub(crate) fn derive(
        &self,
        suite: CipherSuite,
        sender: Role,
        set: KeySet,
        mut export: impl FnMut(&[u8], &mut [u8]) -> bool,
    ) -> Option<KeyMaterial> {
        let direction = match sender {
            Role::Client => 0,
            Role::Server => 1,
        };
        let restart = u8::from(set == KeySet::Restart);
        let mut part = |kind: u8, len: usize| {
            let context = [&[direction, restart, kind], &self.0[..]].concat();
            let mut bytes = zeroize::Zeroizing::new(vec![0; len]);
            export(&context, &mut bytes).then_some(bytes)
        };
        let key = part(0, suite.key_len())?;
        let number_key = part(1, suite.key_len())?;
        let iv = part(2, IV_LEN)?;
        KeyMaterial::new(suite, &key, &iv, &number_key).ok()
    }
}
