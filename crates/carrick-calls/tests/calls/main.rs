//! The back-to-back user agent between a caller and a callee that speak SIP by hand, over UDP on
//! loopback, with a middlebox that is told what to do.

mod changes;
mod delayed;
mod ends;
mod peer;
mod robust;
mod setup;
