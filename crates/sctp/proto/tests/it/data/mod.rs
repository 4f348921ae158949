//! User data: fragments, bundles, order, acknowledgements (RFC 9260 sections 3.2, 3.3.1, 3.3.4,
//! 6.1, 6.2, 6.5 to 6.7, 6.9, 6.10).

mod fragments;
mod numbers;
mod partial_delivery;
mod sacks;
mod send_buffer;
mod support;
mod unknown_chunks;
