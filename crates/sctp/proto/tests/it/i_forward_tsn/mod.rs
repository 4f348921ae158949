//! Partial reliability where messages interleave: I-FORWARD-TSN (RFC 8260 section 2.3.1).

mod endpoints;
mod receiver;
mod sender;

use carrick_proto::Extensions;

/// Extensions that both sides need.
const OFFERED: Extensions = Extensions {
    interleaving: true,
    partial_reliability: true,
    interleaved_partial_reliability: true,
    reconfiguration: true,
    ..Extensions::NONE
};
