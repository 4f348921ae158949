//! Routes over an adjacent signalling point: what it reported about destinations, and what was reported to it (Q.704,
//! sections 9 and 13).
//!
//! ```text
//! link set available: TFP and TFR for each destination that is not available here, then TRA ──> peer
//!                     routes over the peer are available <── its TFP and TFR, then its TRA, or T21
//! destination changes here: TFP, TFR or TFA ──> peer
//! message for a prohibited destination <── peer: TFP ──> peer, once in T8
//! TFP or TFR <── peer: the route is not used, RST or RSR ──> peer each T10, until TFA <── peer
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::{PointCode, ProtocolData};

use super::label::LabelFormat;
use super::route_message::RouteMessage;

/// Interval of TFPs about one destination that answer messages.
const T8: Duration = Duration::from_secs(1);
/// Interval of tests of a destination.
const T10: Duration = Duration::from_secs(30);
/// Wait for the TRA of the adjacent signalling point.
const T21: Duration = Duration::from_secs(63);

/// Maximum number of destinations with a state in each direction.
const MAX_DESTINATIONS: usize = 16_384;

/// Identity of a link set for its management messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdjacentPoint {
    pub(crate) format: LabelFormat,
    pub(crate) own: PointCode,
    pub(crate) adjacent: PointCode,
    pub(crate) network_indicator: u8,
}

/// State of the link set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RestartState {
    /// No link is available.
    Isolated,
    /// Routes over the adjacent signalling point wait for its TRA, until T21.
    Restarting(Time),
    Ready,
}

/// Availability of a destination with the time of its next test, or of the last report.
type Timed = (Availability, Time);

/// Routes over an adjacent signalling point.
///
/// Inputs are [`set_available`](Self::set_available), [`handle_message`](Self::handle_message),
/// [`announce`](Self::announce), [`refuse`](Self::refuse) and [`handle_timeout`](Self::handle_timeout). After each drain
/// [`poll_transmit`](Self::poll_transmit), and call `handle_timeout` at [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub(crate) struct AdjacentRoutes {
    point: AdjacentPoint,
    restart: RestartState,
    /// Destinations that the adjacent signalling point reported as prohibited or restricted, with the next test.
    reported: BTreeMap<PointCode, Timed>,
    /// Destinations that were reported to it as prohibited or restricted.
    announced: BTreeMap<PointCode, Timed>,
    transmits: VecDeque<ProtocolData>,
}

impl AdjacentRoutes {
    pub(crate) const fn new(point: AdjacentPoint) -> Self {
        Self {
            point,
            restart: RestartState::Isolated,
            reported: BTreeMap::new(),
            announced: BTreeMap::new(),
            transmits: VecDeque::new(),
        }
    }

    /// Handles a change of the link set. Returns whether it has become available: the destinations are to be announced
    /// then, and [`Self::allow_restart`] is to follow. What was reported before is forgotten.
    pub(crate) fn set_available(&mut self, now: Time, is_available: bool) -> bool {
        if is_available == (self.restart != RestartState::Isolated) {
            return false;
        }
        self.reported.clear();
        self.announced.clear();
        self.transmits.clear();
        self.restart = if is_available {
            RestartState::Restarting(now + T21)
        } else {
            RestartState::Isolated
        };
        is_available
    }

    /// Sends TRA, behind the reports about destinations.
    pub(crate) fn allow_restart(&mut self) {
        self.send(RouteMessage::RestartAllowed);
    }

    /// Returns the message about routes that a message of the adjacent signalling point is.
    pub(crate) fn parse(&self, data: &ProtocolData) -> Option<RouteMessage> {
        let is_own = data.dpc == self.point.own && data.opc == self.point.adjacent;
        is_own
            .then(|| self.point.format.parse_route_message(data))
            .flatten()
    }

    /// Returns whether a message is one of this signalling point about links or routes.
    pub(crate) fn is_own(&self, data: &ProtocolData) -> bool {
        let ends = (data.opc, data.dpc);
        data.si == super::label::NETWORK_MANAGEMENT && ends == (self.point.own, self.point.adjacent)
    }

    /// Handles a message about routes. `own` is the availability of a tested destination here. Returns whether the
    /// availability of a destination over the adjacent signalling point, or of all, may have changed.
    pub(crate) fn handle_message(
        &mut self,
        now: Time,
        message: RouteMessage,
        own: Availability,
    ) -> bool {
        match message {
            RouteMessage::Transfer(code, availability) => self.on_transfer(now, code, availability),
            RouteMessage::Test(code, tested) => {
                if own != tested {
                    self.report(now, code, own);
                }
                false
            }
            RouteMessage::RestartAllowed => {
                let is_waiting = matches!(self.restart, RestartState::Restarting(_));
                if is_waiting {
                    self.restart = RestartState::Ready;
                }
                is_waiting
            }
        }
    }

    fn on_transfer(&mut self, now: Time, code: PointCode, availability: Availability) -> bool {
        // The adjacent signalling point itself is available over its links.
        if code == self.point.adjacent || self.restart == RestartState::Isolated {
            return false;
        }
        let before = self.reported.get(&code).map(|(known, _)| *known);
        if availability == Availability::Available {
            self.reported.remove(&code);
        } else if before.is_some() || self.reported.len() < MAX_DESTINATIONS {
            let timer = (availability, now + T10);
            self.reported.insert(code, timer);
        }
        let after = self.reported.get(&code).map(|(known, _)| *known);
        before != after
    }

    /// Returns the availability of a destination over the adjacent signalling point.
    pub(crate) fn availability(&self, code: PointCode) -> Availability {
        match self.restart {
            RestartState::Isolated => Availability::Unavailable,
            _ if code == self.point.adjacent => Availability::Available,
            RestartState::Restarting(_) => Availability::Unavailable,
            RestartState::Ready => {
                let reported = self.reported.get(&code);
                reported.map_or(Availability::Available, |(availability, _)| *availability)
            }
        }
    }

    /// Returns whether destinations behind the adjacent signalling point are reached, unless it reported them.
    pub(crate) fn is_ready(&self) -> bool {
        self.restart == RestartState::Ready
    }

    /// Returns the destinations that were reported to the adjacent signalling point as prohibited or restricted.
    pub(crate) fn announced(&self) -> impl Iterator<Item = PointCode> + '_ {
        self.announced.keys().copied()
    }

    /// Reports the availability of a destination to the adjacent signalling point, if it is another one than before.
    pub(crate) fn announce(&mut self, now: Time, code: PointCode, availability: Availability) {
        let known = self.announced.get(&code).map(|(known, _)| *known);
        if known.unwrap_or(Availability::Available) != availability {
            self.report(now, code, availability);
        }
    }

    /// Answers a message for a destination that can't be reached with a TFP, once in T8.
    pub(crate) fn refuse(&mut self, now: Time, code: PointCode) {
        let last = self.announced.get(&code);
        if last
            .is_none_or(|(known, at)| *known != Availability::Unavailable || now.since(*at) >= T8)
        {
            self.report(now, code, Availability::Unavailable);
        }
    }

    fn report(&mut self, now: Time, code: PointCode, availability: Availability) {
        if code == self.point.adjacent || self.restart == RestartState::Isolated {
            return;
        }
        if availability == Availability::Available {
            self.announced.remove(&code);
        } else if self.announced.contains_key(&code) || self.announced.len() < MAX_DESTINATIONS {
            self.announced.insert(code, (availability, now));
        } else {
            // What is not recorded could not be taken back.
            return;
        }
        self.send(RouteMessage::Transfer(code, availability));
    }

    fn send(&mut self, message: RouteMessage) {
        let AdjacentPoint {
            format,
            own,
            adjacent,
            network_indicator,
        } = self.point;
        let data = format.route_message([own, adjacent], network_indicator, message);
        self.transmits.push_back(data);
    }

    /// Returns the next message for the link set.
    pub(crate) fn poll_transmit(&mut self) -> Option<ProtocolData> {
        self.transmits.pop_front()
    }

    /// Returns the time at which [`Self::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let restart = match self.restart {
            RestartState::Restarting(until) => Some(until),
            RestartState::Isolated | RestartState::Ready => None,
        };
        let tests = self.reported.values().map(|(_, at)| *at);
        tests.chain(restart).min()
    }

    /// Handles T10 and T21. Returns whether routes over the adjacent signalling point have become available.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        let due = self.reported.iter().filter(|(_, (_, at))| *at <= now);
        let due: Vec<_> = due.map(|(code, (tested, _))| (*code, *tested)).collect();
        for (code, tested) in due {
            self.reported.insert(code, (tested, now + T10));
            self.send(RouteMessage::Test(code, tested));
        }
        let is_over = matches!(self.restart, RestartState::Restarting(until) if until <= now);
        if is_over {
            self.restart = RestartState::Ready;
        }
        is_over
    }
}
