//! The content of this crate is its tests.
