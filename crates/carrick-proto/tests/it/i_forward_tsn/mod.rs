//! Partial reliability where messages interleave: I-FORWARD-TSN (RFC 8260 section 2.3.1).

mod receiver;
mod sender;
mod worlds;

use carrick_proto::Extensions;

/// What it takes on both sides.
const OFFERED: Extensions = Extensions {
    interleaving: true,
    partial_reliability: true,
    interleaved_partial_reliability: true,
    reconfiguration: true,
    ..Extensions::NONE
};
