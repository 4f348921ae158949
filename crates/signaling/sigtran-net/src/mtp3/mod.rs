//! Link sets of MTP3 over M2PA: load sharing, changeover and changeback (RFC 4165, section 4.2.3; Q.704, sections 4 to 6),
//! route management and restart (Q.704, sections 9 and 13).
//!
//! State machines without I/O: [`LinkSet`] has the links to one adjacent signalling point, [`AdjacentRoutes`] the
//! routes over it, [`label`] and [`route_message`] the form of messages. Figures of Q.704 and T1.111 were not compared
//! with their text.

mod adjacent_routes;
pub(crate) mod label;
mod link_set;
mod procedures;
mod route_message;
#[cfg(test)]
mod route_tests;
#[cfg(test)]
mod tests;

pub(crate) use adjacent_routes::{AdjacentPoint, AdjacentRoutes};
pub(crate) use link_set::{LinkSet, LinkSetConfig, LinkSetError, LinkSetIndication};
pub(crate) use route_message::RouteMessage;
