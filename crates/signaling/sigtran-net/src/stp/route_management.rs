//! Route management over M2PA: TFP, TFR and TFA from and to adjacent signalling points, with DUNA, DRST and DAVA to ASPs.

use carrick_proto::Time;
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::{
    AffectedPointCode, AffectedPointCodes, DestinationState, PointCode, ProtocolData,
};

use super::router::Target;
use super::{Network, StpCore, TargetKind};
use crate::mtp3::{AdjacentRoutes, RouteMessage};
use crate::node::M2paKey;

impl StpCore {
    fn m2pa_of(&self, target: &Target) -> Option<M2paKey> {
        match self.targets.get(target)?.kind {
            TargetKind::M2pa(key) => Some(key),
            _ => None,
        }
    }

    /// Returns the link sets over M2PA with their networks.
    fn m2pa_targets(&self) -> Vec<(Target, M2paKey, Network)> {
        let targets = self.targets.iter();
        let m2pas = targets.filter_map(|(target, state)| match state.kind {
            TargetKind::M2pa(key) => Some((target.clone(), key, state.network_appearance)),
            _ => None,
        });
        m2pas.collect()
    }

    /// Handles a network management message that is for this signalling point or of it. Returns whether it was one about
    /// routes.
    pub(super) fn handle_management(
        &mut self,
        from: &Target,
        network: Network,
        data: &ProtocolData,
    ) -> bool {
        let Some(key) = self.m2pa_of(from) else {
            return false;
        };
        // The indication that a link is available can come behind the first messages over it.
        self.update_link_sets();
        let now = self.node.clock().now();
        let Some(routes) = self.adjacent.get(&key) else {
            return false;
        };
        if routes.is_own(data) {
            // A link set that failed has returned it. It is repeated when the link set is available again.
            return true;
        }
        let Some(message) = routes.parse(data) else {
            return false;
        };
        let own = match message {
            RouteMessage::Transfer(code, _) => {
                let destination = AffectedPointCode::single(code);
                if !self.router.has_route(network, destination, from) {
                    // Nothing depends on it.
                    return true;
                }
                Availability::default()
            }
            RouteMessage::Test(code, _) => self.availability_from(from, network, code),
            RouteMessage::RestartAllowed => Availability::default(),
        };
        let routes = self.adjacent.get_mut(&key);
        if routes.is_some_and(|routes| routes.handle_message(now, message, own)) {
            self.update_destinations();
            if let RouteMessage::Transfer(code, _) = message {
                let affected = AffectedPointCodes(vec![AffectedPointCode::single(code)]);
                self.report_parts(&DestinationState {
                    network_appearance: network,
                    routing_contexts: None,
                    affected,
                    info: None,
                });
                self.announce_destination(now, network, code);
            }
        }
        self.send_route_messages();
        true
    }

    /// Returns the availability of a destination to the adjacent signalling point of a link set: not over that.
    fn availability_from(
        &self,
        viewer: &Target,
        network: Network,
        code: PointCode,
    ) -> Availability {
        let destination = AffectedPointCode::single(code);
        let availability = self.availability_without(Some(viewer), network, destination);
        availability.unwrap_or_default()
    }

    /// Reports a destination to the adjacent signalling points of its network.
    fn announce_destination(&mut self, now: Time, network: Network, code: PointCode) {
        for (target, key, of) in self.m2pa_targets() {
            if network.is_some() && of != network {
                continue;
            }
            let availability = self.availability_from(&target, of, code);
            if let Some(routes) = self.adjacent.get_mut(&key) {
                routes.announce(now, code, availability);
            }
        }
    }

    /// Follows the state of the link sets, and reports to adjacent signalling points which destinations are not
    /// available, or are again: point codes that have a key or route of their own, and others that were reported. A
    /// link set that has become available gets TRA behind them.
    pub(super) fn announce_destinations(&mut self) {
        let now = self.node.clock().now();
        let destinations = self.router.destinations();
        for (target, key, network) in self.m2pa_targets() {
            let Some(routes) = self.adjacent.get_mut(&key) else {
                continue;
            };
            let announced: Vec<_> = routes.announced().collect();
            let single = destinations.iter().filter(|(of, destination)| {
                destination.mask == 0 && (of.is_none() || *of == network)
            });
            let codes = single.map(|(_, destination)| destination.point_code);
            for code in codes.chain(announced) {
                let availability = self.availability_from(&target, network, code);
                if let Some(routes) = self.adjacent.get_mut(&key) {
                    routes.announce(now, code, availability);
                }
            }
            if self.restarted.remove(&key)
                && let Some(routes) = self.adjacent.get_mut(&key)
            {
                routes.allow_restart();
            }
        }
        self.send_route_messages();
    }

    /// Follows the availability of the link sets over M2PA.
    pub(super) fn update_link_sets(&mut self) {
        let now = self.node.clock().now();
        for (key, routes) in &mut self.adjacent {
            let side = self.node.m2pas.get(key);
            let is_available = side.is_some_and(|side| side.set.is_available());
            if routes.set_available(now, is_available) {
                self.restarted.insert(*key);
            }
        }
    }

    /// Answers a message that an adjacent signalling point sent for a destination that can't be reached.
    pub(super) fn refuse_destination(&mut self, from: &Target, code: PointCode) {
        let (key, now) = (self.m2pa_of(from), self.node.clock().now());
        if let Some(routes) = key.and_then(|key| self.adjacent.get_mut(&key)) {
            routes.refuse(now, code);
            self.send_route_messages();
        }
    }

    fn send_route_messages(&mut self) {
        for (key, routes) in &mut self.adjacent {
            while let Some(data) = routes.poll_transmit() {
                // If the link set fails, the reports are repeated when it returns.
                let _ = self.node.transfer_to_m2pa(*key, &data);
            }
        }
    }

    /// Returns the time of the next test or end of a restart.
    pub(super) fn route_timeout(&self) -> Option<Time> {
        let routes = self.adjacent.values();
        routes.filter_map(AdjacentRoutes::poll_timeout).min()
    }

    pub(super) fn expire_routes(&mut self) {
        let now = self.node.clock().now();
        let mut changed = false;
        for routes in self.adjacent.values_mut() {
            changed |= routes.handle_timeout(now);
        }
        if changed {
            self.update_destinations();
        }
        self.send_route_messages();
    }
}
