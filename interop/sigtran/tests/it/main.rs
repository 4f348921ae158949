//! The crates `m3ua`, `m2pa` and `sua` of crates.io against crate `carrick-sigtran`.

/// In place of the checks that the samples take part in elsewhere.
mod layer {
    macro_rules! layer {
        ($($any:tt)*) => {};
    }
    pub(crate) use layer;
}
#[allow(dead_code)]
#[path = "../../../../crates/signaling/sigtran/tests/it/samples.rs"]
mod samples;
#[allow(dead_code)]
#[path = "../../../../crates/signaling/sigtran/tests/it/sua/samples.rs"]
mod sua_samples;

mod m2pa_peer;
mod m3ua_peer;
mod sua_peer;
