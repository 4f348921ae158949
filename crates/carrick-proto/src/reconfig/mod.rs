//! Changes of an association that is in progress: its addresses (RFC 5061).

pub(crate) mod addresses;
