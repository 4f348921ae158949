//! Congestion control of a path (RFC 9260, section 7): a trait and its algorithms.
//!
//! - `rfc9260`, `rfc2960`, `cubic` with `hystart`: the window of one path
//! - `coupled`: what `pooled` (CMT/RP), `lia` and `olia` share, the windows of several paths together
//! - `bbr`: a model of one path by delivery rate and round-trip time, paced
//! - `rate_based`: the delivery rate of one path, paced, and nothing else
//!
//! A controller is an [`Algorithm`] and a [`Controller`] in one file. It learns of what was sent, what was
//! acknowledged, congestion and idleness of its path; it returns a window and, optionally, a pacing rate.

/// Implements [`Algorithm`] for a type of this crate by its name and the type of its controllers, which are
/// created by `new` and imported by the list of their fields. The property, if any, is `true`.
macro_rules! algorithm {
    ($algorithm:ident: $name:literal, $controller:ty $(, $property:ident)?) => {
        impl $crate::cc::Algorithm for $algorithm {
            fn name(&self) -> &'static str {
                $name
            }

            $(fn $property(&self) -> bool {
                true
            })?

            fn start(
                &self,
                parameters: $crate::cc::Parameters,
            ) -> alloc::boxed::Box<dyn $crate::cc::Controller> {
                alloc::boxed::Box::new(<$controller>::new(parameters))
            }

            fn import(
                &self,
                now: $crate::time::Time,
                state: &[u8],
            ) -> Option<alloc::boxed::Box<dyn $crate::cc::Controller>> {
                $crate::cc::import::<$controller>(now, state)
            }
        }
    };
}

mod bbr;
mod coupled;
mod cubic;
mod hystart;
mod lia;
mod olia;
mod pooled;
mod rate_based;
#[cfg(test)]
mod rate_based_tests;
mod rfc2960;
mod rfc9260;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

use crate::export::{
    ExportError, ExportReader, ExportWriter, ImportError, Portable, from_bytes, to_bytes,
};
use crate::time::Time;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use lia::Lia;
pub use olia::Olia;
pub use pooled::{CmtRpV1, CmtRpV2};
pub use rate_based::RateBased;
pub use rfc2960::Rfc2960;
pub use rfc9260::Rfc9260;

/// Algorithm of congestion control, which creates the controller of each path.
pub trait Algorithm: Debug + Send + Sync {
    /// Returns the name for reports and configuration.
    fn name(&self) -> &'static str;
    /// Returns whether the windows of an association's paths depend on each other.
    /// [`Controller::on_members`] then passes them to each controller. Default: `false`.
    fn couples(&self) -> bool {
        false
    }
    /// Returns whether the controllers are rate-based: their paths sample the delivery rate
    /// ([`Acknowledged::delivery`]) and are paced ([`Controller::pacing_rate`]). The paths of other
    /// controllers have neither. Default: `false`.
    fn is_rate_based(&self) -> bool {
        false
    }
    /// Creates the controller of a path.
    fn start(&self, parameters: Parameters) -> Box<dyn Controller>;
    /// Continues a controller with the state of [`Controller::export`], where `now` is the moment of the export by the
    /// present clock; `None`, the default, if the state is none of this algorithm. Called by
    /// [`Endpoint::import`](crate::Endpoint::import).
    fn import(&self, now: Time, state: &[u8]) -> Option<Box<dyn Controller>> {
        let _ = (now, state);
        None
    }
}

/// Returns all algorithms of this crate, for selection by [name](Algorithm::name).
pub fn algorithms() -> Vec<Arc<dyn Algorithm>> {
    vec![
        Arc::new(Rfc9260),
        Arc::new(Rfc2960),
        Arc::new(Cubic),
        Arc::new(Lia),
        Arc::new(Olia),
        Arc::new(CmtRpV1),
        Arc::new(CmtRpV2),
        Arc::new(RateBased),
        Arc::new(Bbr),
    ]
}

/// Initial parameters of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Path Maximum DATA Chunk Size: bytes of a packet for DATA chunks, their headers included.
    pub pmdcs: usize,
    /// The peer's address is IPv6 (the initial window differs).
    pub ipv6: bool,
    /// L of RFC 9260, section 7.2.1.
    pub slow_start_limit: u32,
}

portable_struct! { Parameters { pmdcs, ipv6, slow_start_limit } }

/// Returns the initial window of RFC 9260, section 7.2.1, in bytes.
fn initial_window(parameters: &Parameters) -> usize {
    let pmdcs = parameters.pmdcs;
    let floor = if parameters.ipv6 { 4344 } else { 4404 };
    (4 * pmdcs).min(floor.max(2 * pmdcs))
}

/// Packet with DATA that leaves on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PacketSent {
    /// Departure time.
    pub now: Time,
    /// Bytes of its DATA chunks, headers and padding included.
    pub bytes: usize,
    /// Outstanding bytes on the path before the packet.
    pub flight_before: usize,
    /// The user's data, and not the path, limits the rate of what is in flight.
    pub app_limited: bool,
}

/// DATA chunk that was found lost before T3-rtx expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PacketLost {
    /// Time at which it was found lost.
    pub now: Time,
    /// Bytes of the chunk.
    pub bytes: usize,
    /// Outstanding bytes on the path when its packet left, the packet included.
    pub flight_at_departure: usize,
    /// Bytes that were found lost on the path since its packet left, the chunk included.
    pub lost: u64,
    /// The user's data, and not the path, limited the rate when its packet left.
    pub app_limited: bool,
    /// It was sent right after the chunk that was found lost before it.
    pub adjacent: bool,
}

/// Acknowledgement of data of one path by one SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acknowledged {
    /// Bytes that the SACK acknowledges for the first time on this path.
    pub bytes: usize,
    /// Outstanding bytes on the path before the SACK.
    pub flight_before: usize,
    /// Outstanding bytes on the path without what the SACK acknowledges.
    pub flight: usize,
    /// The association is in Fast Recovery; with RACK, the path is.
    pub fast_recovery: bool,
    /// Losses on the path are being repaired, in Fast Recovery or after T3-rtx expired.
    pub repairing: bool,
    /// No data of the association is outstanding any more.
    pub all_acknowledged: bool,
    /// The SACK advanced the Cumulative TSN Ack Point.
    pub advanced: bool,
    /// Arrival of the SACK.
    pub now: Time,
    /// Round-trip time of the last chunk that this SACK acknowledged, if that had been sent once. It
    /// includes the delay of the SACK by the peer.
    pub rtt: Option<Duration>,
    /// The window, and nothing else, limited transmission on this path at the last attempt to send.
    pub window_limited: bool,
    /// Highest of the chunks of this path that were acknowledged, counted from the first that was ever
    /// sent.
    pub highest: u64,
    /// Number that the next new chunk will have.
    pub next: u64,
    /// Delivery of data since the newest of the acknowledged packets left; only with
    /// [`Algorithm::is_rate_based`].
    pub delivery: Option<DeliverySample>,
}

/// Sample of a path's delivery rate (draft-ietf-ccwg-bbr, section 4.1). It covers the time from the departure
/// of the newest acknowledged packet to its acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeliverySample {
    /// Bytes that the SACK acknowledges for the first time on this path.
    pub newly_acknowledged: usize,
    /// Bytes delivered on the path in all.
    pub total_delivered: u64,
    /// `total_delivered` when the packet left. A round trip ends with the first packet that left when what
    /// is delivered now was.
    pub prior_delivered: u64,
    /// Bytes delivered in `interval`.
    pub delivered: u64,
    /// Time in which they left or were acknowledged, whichever is longer. Zero where the path can't have
    /// delivered them in it: it is shorter than the minimum RTT.
    pub interval: Duration,
    /// `delivered` by `interval`, in bytes per second; `None` for an interval of zero.
    pub rate: Option<u64>,
    /// The user's data, and not the path, limited the rate: it is a lower bound.
    pub app_limited: bool,
    /// Outstanding bytes on the path when the packet left, the packet included.
    pub flight_at_departure: usize,
    /// Bytes that were found lost on the path since the packet left.
    pub lost: u64,
    /// Round-trip time of the packet, if none of what the SACK acknowledges of it was sent more than once.
    pub rtt: Option<Duration>,
}

/// Congestion that a controller responds to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CongestionEvent {
    /// The loss of chunks, of which each window of data counts once (RFC 9260, section 7.2.4).
    Loss,
    /// A packet was marked "congestion experienced" (RFC 4960, appendix A).
    Ecn,
    /// T3-rtx expired (RFC 9260, section 7.2.3).
    Timeout,
}

/// State of a path for the controllers of the other paths of its association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Member {
    /// Congestion window in bytes.
    pub cwnd: usize,
    /// Slow-start threshold in bytes; [`usize::MAX`] before the first loss.
    pub ssthresh: usize,
    /// Smoothed round-trip time, or the RTO before one was measured.
    pub rtt: Duration,
    /// See [`Controller::between_losses`].
    pub between_losses: u64,
}

portable_struct! { Member { cwnd, ssthresh, rtt, between_losses } }

/// Congestion controller of one path. All sizes are in bytes.
pub trait Controller: Debug + Send {
    /// Returns the congestion window.
    fn window(&self) -> usize;
    /// Returns the slow-start threshold; [`usize::MAX`], the default, for controllers without one.
    fn ssthresh(&self) -> usize {
        usize::MAX
    }
    /// Returns the bytes acknowledged towards the next increase.
    fn partial_bytes_acked(&self) -> usize {
        0
    }
    /// Returns the pacing rate in bytes per second; `None`, the default, for packets that leave as soon as
    /// the window allows. Evaluated with [`Algorithm::is_rate_based`] only.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    /// Records a packet with DATA that leaves on the path. Called with [`Algorithm::is_rate_based`] only.
    fn on_sent(&mut self, sent: &PacketSent) {
        let _ = sent;
    }
    /// Records a chunk of the path that was found lost before T3-rtx expired. Precedes the congestion event of
    /// its loss. Called with [`Algorithm::is_rate_based`] only.
    fn on_lost(&mut self, lost: &PacketLost) {
        let _ = lost;
    }
    /// Processes a SACK that acknowledges data of the path.
    fn on_ack(&mut self, acknowledged: &Acknowledged);
    /// Responds to congestion. A loss during Fast Recovery is part of the same event.
    fn on_congestion(&mut self, event: CongestionEvent);
    /// Undoes the response to the last event, which was needless: restores the window before it, unless the
    /// window is larger now.
    fn on_undo(&mut self) {}
    /// Handles the lack of transmissions on the path for this number of RTOs.
    fn on_idle(&mut self, rtos: u32);
    /// Sets the PMDCS after a change of the path MTU.
    fn set_pmdcs(&mut self, pmdcs: usize);
    /// Returns to the initial values: the path changed (RFC 9260, section 7.2.5).
    fn reset(&mut self);
    /// Sets the state of all paths of the association that carry data, this one at `own`. With
    /// [`Algorithm::couples`], precedes each [`Self::on_ack`] and [`Self::on_congestion`].
    fn on_members(&mut self, members: &[Member], own: usize) {
        let _ = (members, own);
    }
    /// Returns the bytes acknowledged between the last two losses, or since the last one if those are more;
    /// 0 for controllers whose group does not evaluate it.
    fn between_losses(&self) -> u64 {
        0
    }
    /// Returns the state for [`Algorithm::import`]; `None`, the default, if it can't be exported
    /// ([`Endpoint::export`](crate::Endpoint::export)).
    fn export(&self, now: Time) -> Option<Vec<u8>> {
        let _ = now;
        None
    }
}

/// Algorithm of congestion control, by its name.
impl Portable for Arc<dyn Algorithm> {
    fn write(&self, out: &mut ExportWriter) {
        out.octets(self.name().as_bytes());
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let name = input.octets()?;
        let listed = input.shared.get::<Vec<Self>>().into_iter().flatten();
        let mut known = listed.cloned().chain(algorithms());
        let found = known.find(|algorithm| algorithm.name().as_bytes() == name);
        found.ok_or_else(|| ImportError::unknown_algorithm(name))
    }
}

/// Controller of a path, continued by the algorithm of its association.
impl Portable for Box<dyn Controller> {
    fn write(&self, out: &mut ExportWriter) {
        match self.export(out.now()) {
            Some(state) => out.octets(&state),
            None => out.fail(ExportError::Controller),
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let (now, state) = (input.now(), input.octets()?);
        let algorithm: &Arc<dyn Algorithm> = input.of_association()?;
        let controller = algorithm.import(now, state);
        controller.ok_or(ImportError::Controller(algorithm.name()))
    }
}

/// Returns the state of a controller for [`import`].
#[expect(
    clippy::unnecessary_wraps,
    reason = "Controller::export returns an Option"
)]
fn export(controller: &impl Portable, now: Time) -> Option<Vec<u8>> {
    Some(to_bytes(controller, now))
}

/// Continues a controller of this type.
fn import<C: Portable + Controller + 'static>(
    now: Time,
    state: &[u8],
) -> Option<Box<dyn Controller>> {
    let controller: C = from_bytes(state, now)?;
    Some(Box::new(controller))
}
