//! The end of an association (RFC 9260 sections 8.5.1 B and C, 9.1, 9.2).

mod abort;
mod afterwards;
mod course;
mod data;
mod late;
mod states;
mod support;
