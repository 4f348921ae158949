//! Messages: layout, round trips, malformed input, byte streams.

mod layout;
mod malformed;
mod round_trip;
mod streams;
