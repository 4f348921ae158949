//! Authentication of chunks (RFC 4895).
//!
//! - `config`: parameters and endpoint-pair shared keys
//! - `counters`: counters of failed authentication
//! - `vector`: key vectors of both sides and the association shared key (section 6.1)
//! - `hmac`: HMAC algorithms (section 8.4)
//! - `keys`: endpoint-pair shared keys of an association by identifier
//! - `state`: authentication state of an association: chunk types to authenticate, AUTH chunks that are
//!   sent, verification of received ones (sections 6.2 and 6.3)

mod config;
mod counters;
mod hmac;
mod keys;
mod state;
mod vector;

pub use config::{AuthenticationConfig, SharedKey};
pub use counters::AuthenticationCounters;
pub use keys::KeyError;
pub(crate) use state::{Auth, AuthOutcome};
pub(crate) use vector::{ChunkSet, KeyVector, PeerAuth};
