//! Delivery rate and pacing of a path with a rate-based controller.

use super::Path;
use super::delivery::{DeliverySampler, PacketNumbers};
use super::pacer::{Pacer, PacingRate};
use crate::cc::{DeliverySample, PacketSent};
use crate::time::Time;

/// State of a path with a rate-based controller.
#[derive(Debug, Default)]
pub(super) struct RateState {
    delivery: DeliverySampler,
    pacer: Pacer,
}

portable_struct! { RateState { delivery, pacer } }

impl Path {
    /// Forgets deliveries and departures: the path, or the numbers of its packets, changed.
    pub(crate) fn reset_rate(&mut self) {
        if let Some(rate) = &mut self.rate {
            **rate = RateState::default();
        }
    }

    /// Departure time of a packet of data; `None` if it may leave now.
    pub(crate) fn departure(&mut self, now: Time) -> Option<Time> {
        let packet = self.rate.as_ref().map(|_| self.pmdcs())?;
        let state = self.rate.as_mut()?;
        let Some(rate) = self.congestion.pacing_rate() else {
            state.pacer.release();
            return None;
        };
        state.pacer.departure_at(now, PacingRate { rate, packet })
    }

    /// Returns whether a packet waited for its departure at the last query of the pacer.
    pub(crate) fn waits_for_departure(&self) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.pacer.waits())
    }

    /// Returns whether the controller paces the path.
    pub(crate) fn is_paced(&self) -> bool {
        self.rate.is_some() && self.congestion.pacing_rate().is_some()
    }

    /// Records a packet with `bytes` bytes of DATA chunks that leaves, with its numbers in the association, for a
    /// rate-based controller. `flight_before` bytes were in flight on the path.
    pub(crate) fn on_data_sent(
        &mut self,
        bytes: usize,
        flight_before: usize,
        numbers: PacketNumbers,
        now: Time,
    ) {
        if let Some(rate) = &mut self.rate {
            let sent = PacketSent {
                now,
                bytes,
                flight_before,
                app_limited: rate.delivery.is_app_limited(),
            };
            self.congestion.on_sent(&sent);
            rate.delivery.on_sent(numbers, &sent);
            rate.pacer.on_sent(bytes);
        }
    }

    /// Records a chunk of `bytes` bytes that was found lost, whose last transmission has this number.
    pub(crate) fn on_data_lost(&mut self, number: u64, bytes: usize, now: Time) {
        if let Some(rate) = &mut self.rate
            && let Some(lost) = rate.delivery.on_lost(number, bytes, now)
        {
            self.congestion.on_lost(&lost);
        }
    }

    /// Records that T3-rtx expired: what is in flight counts as lost.
    pub(crate) fn on_flight_timed_out(&mut self) {
        let flight = self.flight.size();
        if let Some(rate) = &mut self.rate {
            rate.delivery.on_timeout(flight);
        }
    }

    /// Records the acknowledgement of a chunk of `bytes` bytes, whose last transmission has this number;
    /// `once` if that was the only one.
    pub(crate) fn on_data_delivered(&mut self, number: u64, bytes: usize, once: bool, now: Time) {
        if let Some(rate) = &mut self.rate {
            rate.delivery.on_acknowledged(number, bytes, once, now);
        }
    }

    /// Returns the delivery of a SACK that newly acknowledges this number of bytes, and that advances the
    /// Cumulative TSN Ack Point to this index.
    pub(crate) fn take_delivery(
        &mut self,
        newly: usize,
        cumulative: u64,
    ) -> Option<DeliverySample> {
        self.rate.as_mut()?.delivery.take_sample(newly, cumulative)
    }

    /// Returns whether the path has a rate-based controller.
    pub(super) fn is_rate_based(&self) -> bool {
        self.rate.is_some()
    }

    /// Records that the user's data, and not the path, limits the rate of what is in flight.
    pub(super) fn limit_rate_by_user(&mut self) {
        let flight = self.flight.size();
        if let Some(rate) = &mut self.rate {
            rate.delivery.set_app_limited(flight);
        }
    }
}
