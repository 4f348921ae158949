//! States that an IPSP takes over from its peer's requests (RFC 4666, sections 4.3.1 and 4.3.4): one exchange of messages
//! changes the states of both ends.

use carrick_proto::Time;

use super::{
    Asp, AspState, RequestFailure, RoutingContext, StateRequest, TrafficRequest, WantedTraffic,
};

/// Messages of a peer that change this side's states: those of which there is a single exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::m3ua) struct Follows {
    /// ASP Up and ASP Down.
    pub(in crate::m3ua) aspsm: bool,
    /// ASP Active and ASP Inactive.
    pub(in crate::m3ua) asptm: bool,
}

impl Asp {
    /// Makes the ASP a part of an IPSP that follows its peer's requests. It has one request outstanding, so that an
    /// acknowledgement means the same at both ends.
    pub(in crate::m3ua) const fn follow(&mut self, follows: Follows) {
        self.follows = follows;
    }

    /// Enters ASP-INACTIVE: the peer's ASP Up was acknowledged. An ASP Up of this side still waits for its
    /// acknowledgement.
    pub(in crate::m3ua) fn assume_up(&mut self, now: Time) {
        self.enter_inactive();
        self.activate_wanted(now);
    }

    /// Enters ASP-DOWN: the peer's ASP Down was acknowledged. Recovery is the peer's matter.
    pub(in crate::m3ua) fn assume_down(&mut self) {
        self.forget_wanted();
        // An ASP Down of this side still waits for its acknowledgement.
        let down = self
            .outstanding
            .take_if(|outstanding| outstanding.request == StateRequest::Down);
        self.enter_down(RequestFailure::Superseded);
        self.outstanding = down;
    }

    /// Enters ASP-ACTIVE: the peer's ASP Active was acknowledged.
    pub(in crate::m3ua) fn assume_active(&mut self, context: RoutingContext) {
        let Some(index) = self.find(Some(context)) else {
            return;
        };
        let served = &mut self.servers[index];
        if served.wanted == WantedTraffic::Overridden {
            served.wanted = WantedTraffic::Active;
        }
        self.set_state(index, AspState::Active);
    }

    /// Enters ASP-INACTIVE: the peer's ASP Inactive was acknowledged, or, not `by_peer`, another IPSP overrides. This side
    /// does not become active again by itself. An ASP Active that was overridden is settled; the peer is to answer
    /// one that crossed its ASP Inactive.
    pub(in crate::m3ua) fn assume_inactive(&mut self, context: RoutingContext, by_peer: bool) {
        let Some(index) = self.find(Some(context)) else {
            return;
        };
        let served = &mut self.servers[index];
        if served.wanted == WantedTraffic::Active {
            served.wanted = WantedTraffic::Overridden;
        }
        let requested = served.outstanding.map(|outstanding| outstanding.request);
        self.set_state(index, AspState::Inactive);
        if requested == Some(TrafficRequest::Activate) && !by_peer {
            self.fail_traffic_request(index, RequestFailure::Superseded);
        }
    }

    /// Returns whether an ASP Down waits for its acknowledgement.
    pub(in crate::m3ua) fn is_going_down(&self) -> bool {
        self.is_outstanding(StateRequest::Down)
    }

    /// Returns whether an ASP Inactive waits for its acknowledgement in an application server of a list, or in any.
    pub(in crate::m3ua) fn is_deactivating(&self, contexts: Option<&[RoutingContext]>) -> bool {
        self.servers.iter().any(|served| {
            let outstanding = served.outstanding.map(|outstanding| outstanding.request);
            let listed = |list: &[RoutingContext]| {
                (served.server.routing_context).is_none_or(|context| list.contains(&context))
            };
            outstanding == Some(TrafficRequest::Deactivate) && contexts.is_none_or(listed)
        })
    }
}
