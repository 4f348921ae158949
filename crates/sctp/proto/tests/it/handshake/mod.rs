//! Set-up of an association (RFC 9260 sections 3.2.1, 3.3.2, 3.3.3, 5.1, 5.2.6).

mod advertised;
mod cookies;
mod course;
mod data;
mod ignored_addresses;
mod misplaced;
mod other_source;
mod parameters;
mod refusals;
mod streams;
