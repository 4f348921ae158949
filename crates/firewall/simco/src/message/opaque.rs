//! Values of variable length: challenge, token, owner (RFC 4540, sections 4.3.2 and 4.3.7).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |  0x0002, 0x0003 or 0x0008     |    octets: 4096, 4096, 255    |
//! +-------------------------------+-------------------------------+
//! |  value, not padded                                          ...
//! ```

use bytes::Bytes;

/// Maximum size of a challenge or token in octets.
pub const MAX_AUTHENTICATION: usize = 4096;
/// Maximum size of an owner in octets.
pub const MAX_OWNER: usize = 255;

macro_rules! opaque {
    ($(#[$doc:meta])* $name:ident, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $name(Bytes);

        impl $name {
            /// Creates the value; `None` if it is too long.
            pub fn new(value: impl Into<Bytes>) -> Option<Self> {
                let value = value.into();
                (value.len() <= $max).then_some(Self(value))
            }

            /// Returns its octets.
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }
        }
    };
}

opaque!(
    /// Challenge that the other side has to answer to authenticate itself, at most
    /// [`MAX_AUTHENTICATION`] octets.
    Challenge,
    MAX_AUTHENTICATION
);
opaque!(
    /// Answer to a [`Challenge`], at most [`MAX_AUTHENTICATION`] octets. An empty one means that the
    /// sender can't authenticate itself.
    Token,
    MAX_AUTHENTICATION
);
opaque!(
    /// Authenticated agent that owns a policy rule, at most [`MAX_OWNER`] octets.
    Owner,
    MAX_OWNER
);
