//! Timers of an ASP: T(ack) and T(beat) (RFC 4666, sections 4.3.4.1 to 4.3.4.6).

use carrick_proto::Time;

use super::{
    Asp, AspIndication, Message, RequestFailure, StateRequest, TrafficRequest, Transmit,
    WantedTraffic,
};
use crate::m3ua::heartbeat_timer::HeartbeatAction;
use crate::m3ua::{DeregistrationResult, DeregistrationStatus, RoutingContext};

impl Asp {
    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let state = self.outstanding.map(|outstanding| outstanding.deadline);
        let servers = self.servers.iter().flat_map(|served| {
            let traffic = served.outstanding.map(|outstanding| outstanding.deadline);
            traffic.into_iter().chain(served.deregistration)
        });
        let registrations = self.registrations.iter().map(|pending| pending.deadline);
        state
            .into_iter()
            .chain(self.heartbeat.timeout())
            .chain(servers)
            .chain(registrations)
            .min()
    }

    /// Handles the timers that have expired: requests are sent again or fail.
    pub fn handle_timeout(&mut self, now: Time) {
        self.expire_state_request(now);
        for request in [TrafficRequest::Deactivate, TrafficRequest::Activate] {
            self.expire_traffic_requests(now, request);
        }
        self.expire_key_requests(now);
        match self.heartbeat.handle_timeout(now) {
            Some(HeartbeatAction::Send(heartbeat)) => {
                let message = Message::Heartbeat(heartbeat);
                self.transmits.push_back(Transmit::management(message));
            }
            Some(HeartbeatAction::PeerUnresponsive) => {
                self.indicate(AspIndication::PeerUnresponsive);
                self.lose_association();
            }
            None => {}
        }
    }

    fn expire_state_request(&mut self, now: Time) {
        let attempts = self.config.attempts.get();
        let t_ack = self.config.t_ack;
        let Some(outstanding) = &mut self.outstanding else {
            return;
        };
        if outstanding.deadline > now {
            return;
        }
        let request = outstanding.request;
        if outstanding.transmissions < attempts {
            outstanding.transmissions += 1;
            outstanding.deadline = now + t_ack;
            self.send_state_request(request);
        } else {
            self.outstanding = None;
            if request == StateRequest::Up {
                self.wanted = false;
            }
            self.confirm_state(request, Err(RequestFailure::TimedOut));
        }
    }

    fn expire_traffic_requests(&mut self, now: Time, request: TrafficRequest) {
        let attempts = self.config.attempts.get();
        let t_ack = self.config.t_ack;
        let mut again = Vec::new();
        for index in 0..self.servers.len() {
            let served = &mut self.servers[index];
            let Some(outstanding) = &mut served.outstanding else {
                continue;
            };
            if outstanding.request != request || outstanding.deadline > now {
                continue;
            }
            if outstanding.transmissions < attempts {
                outstanding.transmissions += 1;
                outstanding.deadline = now + t_ack;
                again.push(index);
            } else {
                served.wanted = WantedTraffic::Inactive;
                self.fail_traffic_request(index, RequestFailure::TimedOut);
            }
        }
        if !again.is_empty() {
            self.send_traffic_requests(request, &again);
        }
    }

    fn expire_key_requests(&mut self, now: Time) {
        let expired = self
            .registrations
            .extract_if(.., |pending| pending.deadline <= now);
        for registration in expired.collect::<Vec<_>>() {
            self.indicate(AspIndication::Registered(registration.local_id, Err(None)));
        }
        let mut deregistrations = Vec::new();
        for served in &mut self.servers {
            if served
                .deregistration
                .is_some_and(|deadline| deadline <= now)
            {
                served.deregistration = None;
                deregistrations.extend(served.server.routing_context);
            }
        }
        for routing_context in deregistrations {
            self.fail_deregistration(routing_context);
        }
    }

    fn fail_deregistration(&mut self, routing_context: RoutingContext) {
        self.indicate(AspIndication::Deregistered(DeregistrationResult {
            routing_context,
            status: DeregistrationStatus::UNKNOWN,
        }));
    }
}
