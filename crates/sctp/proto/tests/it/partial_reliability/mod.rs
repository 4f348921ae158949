//! Abandoned messages: the sender's policies and FORWARD-TSN (RFC 3758, sections 3.5 and 4.1, RFC
//! 7496).

mod course;
mod forward;
mod policies;
mod priority;
mod recovery;
mod support;
