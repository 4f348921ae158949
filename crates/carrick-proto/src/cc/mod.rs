//! The congestion window of one path (RFC 9260 section 7): a trait and its algorithms.

mod coupled;
mod cubic;
mod hystart;
mod lia;
mod olia;
mod pooled;
mod rfc2960;
mod rfc9260;

use alloc::boxed::Box;
use core::fmt::Debug;
use core::time::Duration;

use crate::time::Time;

pub use cubic::Cubic;
pub use lia::Lia;
pub use olia::Olia;
pub use pooled::{CmtRpV1, CmtRpV2};
pub use rfc2960::Rfc2960;
pub use rfc9260::Rfc9260;

/// Makes the congestion control of a path.
pub trait Algorithm: Sync {
    /// The name for reports and configuration.
    fn name(&self) -> &'static str;
    /// Whether the windows of an association's paths depend on each other. They are then told of
    /// each other by [`CongestionControl::on_members`].
    fn couples(&self) -> bool {
        false
    }
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

/// The initial window of section 7.2.1.
fn initial_window(parameters: &Parameters) -> usize {
    let pmdcs = parameters.pmdcs;
    let floor = if parameters.ipv6 { 4344 } else { 4404 };
    (4 * pmdcs).min(floor.max(2 * pmdcs))
}

/// What one SACK said about one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acknowledged {
    /// Bytes that this SACK acknowledged for the first time on this path.
    pub bytes: usize,
    /// Outstanding bytes on the path before the SACK.
    pub flight_before: usize,
    /// The association is in Fast Recovery; with RACK, the path is.
    pub fast_recovery: bool,
    /// Nothing is outstanding on the association any more.
    pub all_acknowledged: bool,
    /// It advanced the Cumulative TSN Ack Point.
    pub advanced: bool,
    /// When the SACK arrived.
    pub now: Time,
    /// The round trip of the last chunk that this SACK acknowledged, if that had been sent once. It
    /// includes what the peer delayed the SACK.
    pub rtt: Option<Duration>,
    /// The window, and nothing else, held data of this path back when data was last looked for.
    pub window_limited: bool,
    /// The highest of the chunks of this path that were acknowledged, counted from the first that
    /// was ever sent.
    pub highest: u64,
    /// The number that the next new chunk will have.
    pub next: u64,
}

/// A path of an association, as the congestion controls of the others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Congestion window in bytes.
    pub cwnd: usize,
    /// Slow-start threshold in bytes; [`usize::MAX`] before the first loss.
    pub ssthresh: usize,
    /// The smoothed round-trip time, or the RTO before one was measured.
    pub rtt: Duration,
    /// See [`CongestionControl::between_losses`].
    pub between_losses: u64,
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
    /// All paths of the association that carry data, this one at `own`. Where
    /// [`Algorithm::couples`], comes before each [`Self::on_ack`], [`Self::on_loss`] and
    /// [`Self::on_timeout`].
    fn on_members(&mut self, members: &[Member], own: usize) {
        let _ = (members, own);
    }
    /// Bytes acknowledged between the last two losses, or since the last one if that is more; 0 where
    /// nobody asks.
    fn between_losses(&self) -> u64 {
        0
    }
    /// A SACK acknowledged data of this path.
    fn on_ack(&mut self, acknowledged: &Acknowledged);
    /// Missing reports showed a loss, and the association was not in Fast Recovery.
    fn on_loss(&mut self);
    /// T3-rtx expired.
    fn on_timeout(&mut self);
    /// The last loss or timeout was none: back to the window before it, unless it is larger now.
    fn on_undo(&mut self) {}
    /// Nothing was sent to the path for this many RTOs.
    fn on_idle(&mut self, rtos: u32);
    /// The path MTU changed.
    fn set_pmdcs(&mut self, pmdcs: usize);
    /// The path is another one now (section 7.2.5): back to the initial values.
    fn reset(&mut self);
}
