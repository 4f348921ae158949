//! Agents and a middlebox in one process: sessions, rules, rights, limits, in virtual time.

mod answers;
mod broken;
mod conflicts;
mod corpus;
mod limits;
mod load;
#[path = "../support/messages.rs"]
#[allow(unreachable_pub, reason = "the fuzz targets use it too")]
mod messages;
mod network;
mod order;
mod overtaking;
mod restart;
mod rights;
mod rules;
#[path = "../support/session.rs"]
#[allow(unreachable_pub, reason = "the fuzz targets use it too")]
mod session;
mod sessions;
mod translation;
mod waiting;
