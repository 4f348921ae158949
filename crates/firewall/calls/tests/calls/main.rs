//! Back-to-back user agent between a caller and a callee whose SIP messages the tests write, over UDP
//! on loopback, with a simulated middlebox.

mod answers;
mod changes;
mod delayed;
mod ends;
mod flood;
mod order;
mod peer;
mod prompt;
mod robust;
mod setup;
mod silence;
mod simco;
mod tcp;
mod world;
