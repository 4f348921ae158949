//! Agents and a middlebox in one process: sessions, rules, rights, limits, in virtual time.

mod answers;
mod broken;
mod conflicts;
mod limits;
mod load;
mod network;
mod order;
mod overtaking;
mod restart;
mod rights;
mod rules;
mod sessions;
mod translation;
mod waiting;
