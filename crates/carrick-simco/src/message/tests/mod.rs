//! Messages against the RFC's layouts, against themselves, and against lies.

mod layout;
mod lies;
mod round_trip;
mod streams;
