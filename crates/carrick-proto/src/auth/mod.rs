//! Authentication of chunks (RFC 4895).
//!
//! - `config`: what this side asks for, and the endpoint-pair shared keys
//! - `vector`: the key vectors that both sides tell each other, and the key made of them (section 6.1)
//! - `hmac`: the algorithms (section 8.4)
//! - `keys`: endpoint-pair shared keys with their identifiers
//! - `state`: what one association knows; which chunks have to be authenticated, and the verdict on
//!   a received AUTH chunk (sections 6.2 and 6.3)

mod config;
mod hmac;
mod keys;
mod state;
mod vector;

pub use config::{AuthenticationConfig, SharedKey};
pub use keys::KeyError;
pub(crate) use state::{Auth, Verdict};
pub(crate) use vector::{ChunkSet, KeyVector, PeerAuth};
