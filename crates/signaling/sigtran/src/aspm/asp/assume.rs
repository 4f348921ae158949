//! States that an IPSP takes over from its peer's requests (RFC 4666, sections 4.3.1 and 4.3.4): one exchange of messages
//! changes the states of both ends.

use carrick_proto::Time;

use super::{Asp, AspState, RequestFailure, StateRequest, TrafficRequest, WantedTraffic};
use crate::aspm::{AsIds, Layer};

/// Messages of a peer that change this side's states: those of which there is a single exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Follows {
    /// ASP Up and ASP Down.
    pub(crate) aspsm: bool,
    /// ASP Active and ASP Inactive.
    pub(crate) asptm: bool,
}

impl<L: Layer> Asp<L> {
    /// Makes the ASP a part of an IPSP that follows its peer's requests. It has one request outstanding, so that an
    /// acknowledgement means the same at both ends.
    pub(crate) const fn follow(&mut self, follows: Follows) {
        self.follows = follows;
    }

    /// Enters ASP-INACTIVE: the peer's ASP Up was acknowledged. An ASP Up of this side still waits for its
    /// acknowledgement.
    pub(crate) fn assume_up(&mut self, now: Time) {
        self.enter_inactive();
        self.activate_wanted(now);
    }

    /// Enters ASP-DOWN: the peer's ASP Down was acknowledged. Recovery is the peer's matter.
    pub(crate) fn assume_down(&mut self) {
        self.forget_wanted();
        // An ASP Down of this side still waits for its acknowledgement.
        let down = self.is_outstanding(StateRequest::Down);
        let down = if down {
            self.take_state_request()
        } else {
            None
        };
        self.enter_down(RequestFailure::Superseded);
        self.set_state_request(down);
    }

    /// Enters ASP-ACTIVE: the peer's ASP Active was acknowledged.
    pub(crate) fn assume_active(&mut self, id: L::AsId) {
        let id = Some(id);
        let Some(served) = self.servers.get_mut(&id) else {
            return;
        };
        if served.wanted == WantedTraffic::Overridden {
            served.wanted = WantedTraffic::Active;
        }
        self.set_state(&id, AspState::Active);
    }

    /// Enters ASP-INACTIVE: the peer's ASP Inactive was acknowledged, or, not `by_peer`, another IPSP overrides. This side
    /// does not become active again by itself. An ASP Active that was overridden is settled; the peer is to answer
    /// one that crossed its ASP Inactive.
    pub(crate) fn assume_inactive(&mut self, id: L::AsId, by_peer: bool) {
        let id = Some(id);
        let Some(served) = self.servers.get_mut(&id) else {
            return;
        };
        if served.wanted == WantedTraffic::Active {
            served.wanted = WantedTraffic::Overridden;
        }
        let requested = served.outstanding.map(|outstanding| outstanding.request);
        self.set_state(&id, AspState::Inactive);
        if requested == Some(TrafficRequest::Activate) && !by_peer {
            self.fail_traffic_request(&id, RequestFailure::Superseded);
        }
    }

    /// Returns whether an ASP Down waits for its acknowledgement.
    pub(crate) fn is_going_down(&self) -> bool {
        self.is_outstanding(StateRequest::Down)
    }

    /// Returns whether an ASP Inactive waits for its acknowledgement in an application server of a list, or in any.
    pub(crate) fn is_deactivating(&self, ids: Option<&AsIds<L::AsId>>) -> bool {
        self.servers.iter().any(|(id, served)| {
            let outstanding = served.outstanding.map(|outstanding| outstanding.request);
            let listed = |ids: &AsIds<L::AsId>| id.as_ref().is_none_or(|id| ids.contains(id));
            outstanding == Some(TrafficRequest::Deactivate) && ids.is_none_or(listed)
        })
    }
}
