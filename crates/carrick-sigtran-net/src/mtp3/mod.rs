//! Link sets of MTP3 over M2PA: load sharing, changeover and changeback (RFC 4165, section 4.2.3; Q.704, sections 4 to 6).
//!
//! State machines without I/O: [`LinkSet`] has the links to one adjacent signalling point, [`label`] the form of
//! messages on them. Figures of Q.704 and T1.111 were not compared with their text.

pub(crate) mod label;
mod link_set;
mod procedures;
#[cfg(test)]
mod tests;

pub(crate) use link_set::{LinkSet, LinkSetConfig, LinkSetError, LinkSetIndication};
