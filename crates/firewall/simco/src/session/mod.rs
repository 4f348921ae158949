//! Parts common to both sides of a session: names and authentication (RFC 4540, sections 3 and 7.2),
//! and the stream pairs of SIMCO over SCTP.

mod authentication;
mod identity;
mod streams;

pub(crate) use authentication::token_identity;
pub use authentication::{
    NONCE_LEN, SessionSide, SharedKey, challenge_identity, make_challenge, make_token, verify_token,
};
pub use identity::Identity;
pub use streams::StreamPairs;
