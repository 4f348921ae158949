//! State of the destinations, and its reports to ASPs (RFC 4666, section 4.5).

use std::collections::{BTreeMap, BTreeSet};

use carrick_sigtran::m3ua::asp::AspState;
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::sgp::{AspKey, DestinationEvent};
use carrick_sigtran::m3ua::{
    AffectedPointCode, AffectedPointCodes, DestinationState, RoutingContext, RoutingContexts,
};

use super::congestion::{ONSET, congestion};
use super::router::Target;
use super::{Network, StpCore, View};

/// Maximum number of point codes of a report.
const MAX_REPORTED: usize = 1024;

impl StpCore {
    /// Returns the availability of a destination, or of a range as a whole, to a view; `None` without a route.
    fn availability_to(
        &self,
        view: View,
        network: Network,
        destination: AffectedPointCode,
    ) -> Option<Availability> {
        self.availability_without(view.map(Target::Server).as_ref(), network, destination)
    }

    /// Returns the availability of a destination, or of a range as a whole, without the targets that are the same peer as
    /// the viewer; `None` without a route.
    pub(super) fn availability_without(
        &self,
        viewer: Option<&Target>,
        network: Network,
        destination: AffectedPointCode,
    ) -> Option<Availability> {
        self.router.availability(network, destination, |target| {
            let is_back = |viewer| self.is_same_peer(viewer, target);
            if viewer.is_some_and(is_back) {
                Availability::Unavailable
            } else {
                self.availability(target, destination)
            }
        })
    }

    /// Returns the view of an application server.
    pub(super) fn view_of(&self, context: RoutingContext) -> View {
        self.link_set_of(context).map(|_| context)
    }

    /// Returns all views.
    pub(super) fn views(&self) -> Vec<View> {
        let peers = self.config.link_sets.iter().filter_map(|set| set.peer);
        std::iter::once(None).chain(peers.map(Some)).collect()
    }

    /// Reports destinations of routing keys and routes whose availability changed.
    pub(super) fn update_destinations(&mut self) {
        let mut before = std::mem::take(&mut self.available);
        let mut changes: BTreeMap<(View, Network), Vec<AffectedPointCode>> = BTreeMap::new();
        for view in self.views() {
            for (network, destination) in self.router.destinations() {
                let key = (view, network, destination);
                let availability = self.availability_to(view, network, destination);
                let availability = availability.unwrap_or_default();
                let known = before.remove(&key);
                self.available.insert(key, availability);
                if known == Some(availability) {
                    continue;
                }
                changes
                    .entry((view, network))
                    .or_default()
                    .push(destination);
                let is_new = known.is_none() && availability == Availability::Unavailable;
                if view.is_none() && !is_new {
                    let text = self.show(destination);
                    self.node.notify_destination(text, availability);
                }
            }
        }
        // Destinations without a route any more.
        for (view, network, destination) in before.into_keys() {
            changes
                .entry((view, network))
                .or_default()
                .push(destination);
        }
        for ((view, network), changed) in changes {
            let reports = self.with_parts(view, network, &changed);
            let ranges: Vec<_> = changed.into_iter().filter(|of| of.mask > 0).collect();
            for (destinations, event) in runs(&reports) {
                self.report_behind(&ranges, view, network, &destinations, &event);
            }
        }
        self.announce_destinations();
    }

    /// Returns the availability of destinations, and that of the parts of ranges among them, because a report of a range
    /// is one about its parts. Ranges precede their parts.
    pub(super) fn with_parts(
        &self,
        view: View,
        network: Network,
        destinations: &[AffectedPointCode],
    ) -> Vec<(AffectedPointCode, Availability)> {
        let known = |destination| {
            let available = self.available.get(&(view, network, destination));
            available.copied().unwrap_or_default()
        };
        let all = self.available.keys();
        let own = all.filter(|(to, of, _)| (*to, *of) == (view, network));
        let mut listed: BTreeSet<_> = destinations.iter().copied().collect();
        listed.extend(own.map(|(.., destination)| *destination).filter(|part| {
            let contains = |range: &AffectedPointCode| {
                range.mask > part.mask && range.contains(part.point_code)
            };
            destinations.iter().any(contains)
        }));
        // In the order of masks.
        let listed = listed.into_iter().rev();
        listed
            .map(|destination| (destination, known(destination)))
            .collect()
    }

    /// Sends an event to the ASPs of a view that are active in the network.
    pub(super) fn report(
        &mut self,
        view: View,
        network: Network,
        destinations: &[AffectedPointCode],
        event: &dyn Fn(AffectedPointCodes) -> DestinationEvent,
    ) {
        self.report_behind(&[], view, network, destinations, event);
    }

    /// Returns the destinations of a report that concern an ASP: not the point codes of application servers of which it is a member, unless
    /// they are in ranges that precede.
    fn concerning(
        &self,
        asp: AspKey,
        ranges: &[AffectedPointCode],
        network: Network,
        destinations: &[AffectedPointCode],
    ) -> Vec<AffectedPointCode> {
        let sgp = &self.node.gateway.sgp;
        let is_own = |of: &AffectedPointCode| {
            let mut servers = self.router.servers_of(network, of.point_code);
            of.mask == 0 && servers.any(|(_, context)| sgp.asp_state(asp, context).is_some())
        };
        let is_behind = |of: &AffectedPointCode| ranges.iter().any(|r| r.contains(of.point_code));
        let destinations = destinations.iter().copied();
        destinations
            .filter(|of| !is_own(of) || is_behind(of))
            .collect()
    }

    /// Sends an event to the ASPs of a view that are active in the network, behind reports of ranges.
    fn report_behind(
        &mut self,
        ranges: &[AffectedPointCode],
        view: View,
        network: Network,
        destinations: &[AffectedPointCode],
        event: &dyn Fn(AffectedPointCodes) -> DestinationEvent,
    ) {
        let concerned: Vec<_> = self
            .servers()
            .map(|server| {
                (
                    server.config.routing_context,
                    server.config.network_appearance,
                )
            })
            // A destination without a network appearance concerns all networks.
            .filter(|(_, of)| network.is_none() || *of == network)
            .filter(|(context, _)| self.view_of(*context) == view)
            .collect();
        let asps: Vec<_> = self.asps.values().copied().collect();
        for (context, network) in concerned {
            for asp in &asps {
                let state = self.node.gateway.sgp.asp_state(*asp, context);
                if state == Some(AspState::Active) {
                    let destinations = self.concerning(*asp, ranges, network, destinations);
                    self.send_report(*asp, context, network, &destinations, event);
                }
            }
        }
    }

    /// Sends an event to one ASP, at most 1,024 point codes in a message.
    pub(super) fn send_report(
        &mut self,
        asp: AspKey,
        context: RoutingContext,
        network: Network,
        destinations: &[AffectedPointCode],
        event: &dyn Fn(AffectedPointCodes) -> DestinationEvent,
    ) {
        for destinations in destinations.chunks(MAX_REPORTED) {
            let affected = AffectedPointCodes(destinations.to_vec());
            let concerned = DestinationState {
                network_appearance: network,
                routing_contexts: RoutingContexts::new([context]),
                affected: affected.clone(),
                info: None,
            };
            let event = event(affected);
            // The ASP may have gone down since.
            let _ = self.node.gateway.sgp.answer_audit(asp, &concerned, &event);
        }
    }

    /// Reports destinations that a gateway reported and that are parts of a route's range.
    pub(super) fn report_parts(&mut self, state: &DestinationState) {
        let network = state.network_appearance;
        for view in self.views() {
            for affected in &state.affected.0 {
                let is_own = self.available.contains_key(&(view, network, *affected));
                if is_own || affected.mask >= 24 {
                    continue;
                }
                if let Some(availability) = self.availability_to(view, network, *affected) {
                    self.report(view, network, &[*affected], &event_of(availability));
                }
            }
        }
    }

    /// Sends DUNA, DRST and SCON with the destinations that are not available, or congested, to an ASP that has become
    /// active.
    pub(super) fn report_exceptions(&mut self, key: AspKey, context: RoutingContext) {
        let target = Target::Server(context);
        let Some(state) = self.targets.get(&target) else {
            return;
        };
        let (view, network) = (self.view_of(context), state.network_appearance);
        let mut unavailable: BTreeMap<Network, Vec<AffectedPointCode>> = BTreeMap::new();
        for ((to, of, destination), availability) in &self.available {
            let is_exception = *availability != Availability::Available;
            if is_exception && *to == view && (of.is_none() || *of == network) {
                unavailable.entry(*of).or_default().push(*destination);
            }
        }
        for (of, destinations) in unavailable {
            let reports = self.with_parts(view, of, &destinations);
            let ranges: Vec<_> = destinations.into_iter().filter(|of| of.mask > 0).collect();
            for (destinations, event) in runs(&reports) {
                let destinations = self.concerning(key, &ranges, network, &destinations);
                self.send_report(key, context, network, &destinations, &event);
            }
        }
        let congested = self.targets.iter().filter(|(_, state)| state.is_congested);
        let congested: Vec<_> = congested.map(|(target, _)| target.clone()).collect();
        for target in congested {
            for (of, destinations) in self.destinations_over(view, &target) {
                if of.is_none() || of == network {
                    let destinations = self.concerning(key, &[], network, &destinations);
                    self.send_report(key, context, network, &destinations, &congestion(ONSET));
                }
            }
        }
    }

    /// Answers a DAUD: SCON if the destination is congested, then DUNA, DAVA or DRST; DUNA without a route (RFC 4666,
    /// section 4.5.3).
    pub(super) fn answer_audit(&mut self, key: AspKey, audit: &DestinationState) {
        let network = audit.network_appearance;
        let contexts = audit.routing_contexts.as_ref();
        let context = contexts.and_then(|contexts| contexts.0.first().copied());
        let context = context.or_else(|| {
            let asp = self.node.gateway.asps.get(&key)?;
            asp.settings.application_servers.first().copied()
        });
        let view = context.and_then(|context| self.view_of(context));
        let mut known: BTreeMap<Availability, Vec<AffectedPointCode>> = BTreeMap::new();
        let mut congested = Vec::new();
        for affected in &audit.affected.0 {
            let availability = self.availability_to(view, network, *affected);
            let availability = availability.unwrap_or_default();
            known.entry(availability).or_default().push(*affected);
            let usable = |target: &Target| self.is_usable(target, *affected);
            let mut current = self.router.current(network, *affected, usable).into_iter();
            if current.any(|target| self.targets.get(&target).is_some_and(|s| s.is_congested)) {
                congested.push(*affected);
            }
        }
        let sgp = &mut self.node.gateway.sgp;
        // The ASP may have gone down since.
        if !congested.is_empty() {
            let _ = sgp.answer_audit(
                key,
                audit,
                &congestion(ONSET)(AffectedPointCodes(congested)),
            );
        }
        for (availability, destinations) in known {
            let event = event_of(availability)(AffectedPointCodes(destinations));
            let _ = sgp.answer_audit(key, audit, &event);
        }
    }
}

/// Returns runs of destinations with the same availability, and the event that reports it.
fn runs(
    reports: &[(AffectedPointCode, Availability)],
) -> impl Iterator<
    Item = (
        Vec<AffectedPointCode>,
        fn(AffectedPointCodes) -> DestinationEvent,
    ),
> {
    let runs = reports.chunk_by(|(_, a), (_, b)| a == b);
    runs.filter_map(|run| {
        let destinations = run.iter().map(|(destination, _)| *destination);
        Some((destinations.collect(), event_of(run.first()?.1)))
    })
}

/// Returns the event that reports an availability: DAVA, DRST or DUNA.
fn event_of(availability: Availability) -> fn(AffectedPointCodes) -> DestinationEvent {
    match availability {
        Availability::Available => DestinationEvent::Available,
        Availability::Restricted => DestinationEvent::Restricted,
        Availability::Unavailable => DestinationEvent::Unavailable,
    }
}
