//! The receive window from both sides (RFC 9260 sections 6.1 A, 6.2, 6.2.1).

mod receiver;
mod sender;
mod silly;
mod support;
