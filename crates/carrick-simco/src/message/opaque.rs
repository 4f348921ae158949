//! Values of variable length: challenge, token, owner (RFC 4540 sections 4.3.2 and 4.3.7).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |  0x0002, 0x0003 or 0x0008     |    octets: 4096, 4096, 255    |
//! +-------------------------------+-------------------------------+
//! |  value, not padded                                          ...
//! ```

use bytes::Bytes;

/// Octets of a challenge or token at most.
pub const MAX_AUTHENTICATION: usize = 4096;
/// Octets of an owner at most.
pub const MAX_OWNER: usize = 255;

macro_rules! opaque {
    ($(#[$doc:meta])* $name:ident, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $name(Bytes);

        impl $name {
            /// The value; `None` if it is too long.
            pub fn new(value: impl Into<Bytes>) -> Option<Self> {
                let value = value.into();
                (value.len() <= $max).then_some(Self(value))
            }

            /// Its octets.
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }
        }
    };
}

opaque!(
    /// What the other side is to prove itself with, at most [`MAX_AUTHENTICATION`] octets.
    Challenge,
    MAX_AUTHENTICATION
);
opaque!(
    /// The answer to a [`Challenge`], at most [`MAX_AUTHENTICATION`] octets. An empty one says that
    /// the sender can't authenticate itself.
    Token,
    MAX_AUTHENTICATION
);
opaque!(
    /// The authenticated agent that a policy rule belongs to, at most [`MAX_OWNER`] octets.
    Owner,
    MAX_OWNER
);
