//! The congestion window of one path (RFC 9260 section 7): a trait and its algorithms.

mod rfc9260;

use alloc::boxed::Box;
use core::fmt::Debug;

pub use rfc9260::Rfc9260;

/// Makes the congestion control of a path.
pub trait Algorithm: Sync {
    /// The name for reports and configuration.
    fn name(&self) -> &'static str;
    /// A fresh congestion control.
    fn start(&self, parameters: Parameters) -> Box<dyn CongestionControl>;
}

/// What a congestion control starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Path Maximum DATA Chunk Size: the bytes a packet has for DATA chunks, headers included.
    pub pmdcs: usize,
    /// The peer's address is IPv6 (the initial window differs).
    pub ipv6: bool,
    /// L of section 7.2.1.
    pub slow_start_limit: u32,
}

/// What one SACK said about one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// Bytes that this SACK acknowledged for the first time on this path.
    pub bytes: usize,
    /// Outstanding bytes on the path before the SACK.
    pub flight_before: usize,
    /// The association is in Fast Recovery.
    pub fast_recovery: bool,
    /// Nothing is outstanding on the association any more.
    pub all_acknowledged: bool,
}

/// The window of one path. All sizes are in bytes.
pub trait CongestionControl: Debug + Send {
    /// Congestion window.
    fn cwnd(&self) -> usize;
    /// Slow-start threshold.
    fn ssthresh(&self) -> usize;
    /// Bytes acknowledged towards the next increase.
    fn partial_bytes_acked(&self) -> usize {
        0
    }
    /// A SACK acknowledged data of this path.
    fn on_ack(&mut self, acknowledged: &Acknowledged);
    /// Missing reports showed a loss, and the association was not in Fast Recovery.
    fn on_loss(&mut self);
    /// T3-rtx expired.
    fn on_timeout(&mut self);
    /// Nothing was sent to the path for this many RTOs.
    fn on_idle(&mut self, rtos: u32);
    /// The path MTU changed.
    fn set_pmdcs(&mut self, pmdcs: usize);
    /// The path is another one now (section 7.2.5): back to the initial values.
    fn reset(&mut self);
}
