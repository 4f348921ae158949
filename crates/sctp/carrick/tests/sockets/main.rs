//! Endpoints on real sockets, over loopback.

mod addresses;
mod back_pressure;
mod cancellation;
mod closing;
#[cfg(feature = "dtls")]
mod dtls;
mod ecn;
mod ending;
mod flood;
mod flush;
#[cfg(target_os = "linux")]
mod handover;
mod interface;
mod keys;
mod many;
#[cfg(all(feature = "metrics", feature = "prometheus"))]
mod metrics;
mod names;
mod pacing;
mod packets;
mod plain_ip;
mod protection;
mod reconfiguration;
mod relay;
mod runtime_end;
#[cfg(feature = "dtls")]
mod secure;
#[cfg(target_os = "linux")]
mod shards;
mod streams;
mod support;
#[allow(dead_code, reason = "the tests of the core use more of it")]
#[path = "../../../proto/tests/support/toy.rs"]
mod toy;
mod transfer;

/// Names that the shared protection uses of the library.
mod hook {
    pub(crate) use carrick::protection::{
        ChunkProtection, ChunkProtectionOffer, Offers, PacketContext, ParameterType, Seal, Time,
    };
    pub(crate) use carrick::{CauseCode, ChunkType};
}
