//! Timers of an ASP: T(ack) and T(beat) (RFC 4666, sections 4.3.4.1 to 4.3.4.6).

use std::collections::BTreeMap;

use carrick_proto::Time;

use super::registration::status;
use super::{
    Asp, AspEvent, Outstanding, RequestFailure, ServedId, StateRequest, Timer, TrafficRequest,
    WantedTraffic,
};
use crate::aspm::heartbeat_timer::{HeartbeatAction, HeartbeatTimer};
use crate::aspm::{Layer, Maintenance};

impl<L: Layer> Asp<L> {
    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let user = L::asp_timeout(&self.user);
        self.deadlines.next().into_iter().chain(user).min()
    }

    /// Handles the timers that have expired: requests are sent again or fail.
    pub fn handle_timeout(&mut self, now: Time) {
        let mut again: BTreeMap<TrafficRequest, Vec<_>> = BTreeMap::new();
        for timer in self.deadlines.due(now) {
            match timer {
                Timer::State => self.expire_state_request(now),
                Timer::Traffic(request, id) => {
                    if self.expire_traffic_request(now, &id) {
                        again.entry(request).or_default().push(id);
                    }
                }
                Timer::Registration(local_id) => self.fail_registration(local_id),
                Timer::Deregistration(id) => {
                    self.set_deregistration(&id, None);
                    if let Some(id) = id {
                        self.indicate(AspEvent::Deregistered(id, status::UNKNOWN));
                    }
                }
                Timer::Heartbeat => self.expire_heartbeat(now),
            }
        }
        for (request, ids) in again {
            self.send_traffic_requests(request, &ids);
        }
        L::expire_asp(self, now);
    }

    fn expire_heartbeat(&mut self, now: Time) {
        match self.update_heartbeat(|heartbeat| heartbeat.handle_timeout(now)) {
            Some(HeartbeatAction::Send(heartbeat)) => {
                self.send_maintenance(Maintenance::Heartbeat(heartbeat));
            }
            Some(HeartbeatAction::PeerUnresponsive) => {
                self.indicate(AspEvent::PeerUnresponsive);
                self.lose_association();
            }
            None => {}
        }
    }

    /// Changes T(beat).
    pub(super) fn update_heartbeat<R>(
        &mut self,
        change: impl FnOnce(&mut HeartbeatTimer) -> R,
    ) -> R {
        let previous = self.heartbeat.timeout();
        let result = change(&mut self.heartbeat);
        let next = self.heartbeat.timeout();
        self.deadlines.reschedule(Timer::Heartbeat, previous, next);
        result
    }

    fn expire_state_request(&mut self, now: Time) {
        let Some(outstanding) = self.take_state_request() else {
            return;
        };
        let request = outstanding.request;
        if outstanding.transmissions < self.config.attempts.get() {
            self.start_state_request(now, request, outstanding.transmissions + 1);
        } else {
            if request == StateRequest::Up {
                self.wanted = false;
            }
            self.confirm_state(request, Err(RequestFailure::TimedOut));
        }
    }

    /// Starts T(ack) of the request of an application server again and returns `true`, or lets the request fail.
    fn expire_traffic_request(&mut self, now: Time, id: &ServedId<L::AsId>) -> bool {
        let Some(served) = self.servers.get_mut(id) else {
            return false;
        };
        let Some(outstanding) = served.outstanding else {
            return false;
        };
        let repeats = outstanding.transmissions < self.config.attempts.get();
        if repeats {
            let next = Outstanding {
                deadline: now + self.config.t_ack,
                transmissions: outstanding.transmissions + 1,
                ..outstanding
            };
            self.set_traffic_request(id, Some(next));
        } else {
            served.wanted = WantedTraffic::Inactive;
            self.fail_traffic_request(id, RequestFailure::TimedOut);
        }
        repeats
    }
}
