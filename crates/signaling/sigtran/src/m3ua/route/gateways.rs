//! Routes of the ASPs through several gateways (RFC 4666, section 4.5.2.2).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use carrick_proto::Time;

use super::ranges::{RangeMap, push_joined, split, without_overlap};
use super::{
    Availability, DestinationEvent, DestinationStatus, DestinationTable, MAX_POINT_CODES,
    RouteInput, RouteStateFull, Ss7Layer,
};
use crate::aspm::asp::Asp;
use crate::aspm::{AsIds, AspState, Deadlines};
use crate::m3ua::{
    AffectedPointCode, AffectedPointCodes, CongestionLevel, NetworkAppearance, PointCode,
    RoutingContext, RoutingContexts,
};

/// Key of a gateway, or of the association with an SGP, chosen by the caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GatewayKey(pub u32);

/// Configuration of a [`RouteTable`].
#[derive(Clone, Debug)]
pub struct RouteTableConfig {
    /// Maximum number of destinations and ranges for each gateway and network, 16,384 by default.
    pub max_ranges: usize,
    /// Destinations that are audited when the ASP becomes active at a gateway, none by default. The RFC recommends
    /// single ones (section 3.4.3).
    pub audited: Vec<(Option<NetworkAppearance>, AffectedPointCode)>,
    /// Interval of audits of destinations that a gateway reported as unavailable, restricted or congested, none by default
    /// (section 4.5.3).
    pub audit_interval: Option<Duration>,
}

impl Default for RouteTableConfig {
    fn default() -> Self {
        Self {
            max_ranges: 16_384,
            audited: Vec::new(),
            audit_interval: None,
        }
    }
}

/// DAUD to send by the ASP's `audit`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// Gateway at which the ASP became active, or that reported the destinations.
    pub gateway: GatewayKey,
    /// Routing context of the application server.
    pub routing_context: Option<RoutingContext>,
    /// Destinations.
    pub affected: AffectedPointCodes,
}

/// Routes to the destinations of all networks, through all gateways with which ASPs of this process are connected.
///
/// Input is [`update`](Self::update) with each indication of each [`Asp`]. Then
/// [`poll_indication`](Self::poll_indication) has what the MTP3-User gets, and [`poll_audit`](Self::poll_audit) the
/// audits to send.
///
/// A gateway is a route while the ASP is active in an application server of the network. A destination is available
/// there unless the gateway has reported otherwise since then or shortly before. Without a route all destinations
/// are unavailable.
#[derive(Debug)]
pub struct RouteTable {
    config: RouteTableConfig,
    networks: BTreeMap<Option<NetworkAppearance>, Network>,
    indications: VecDeque<(Option<NetworkAppearance>, DestinationEvent)>,
    audits: VecDeque<Audit>,
    /// Next audits of what gateways reported.
    deadlines: Deadlines<(Option<NetworkAppearance>, GatewayKey)>,
}

/// Routes to the destinations of a network.
#[derive(Debug)]
struct Network {
    gateways: BTreeMap<GatewayKey, Gateway>,
    /// Status over all gateways, as the MTP3-User knows it.
    overall: RangeMap<DestinationStatus>,
}

/// Routes through a gateway.
#[derive(Debug)]
struct Gateway {
    table: DestinationTable,
    /// Application servers in which the ASP is active.
    active: BTreeSet<Option<RoutingContext>>,
    /// Next audit of what the gateway reported.
    next_audit: Option<Time>,
}

/// Status of a part of a range, with what its change means to the MTP3-User.
#[derive(Clone, Copy)]
struct Change {
    status: DestinationStatus,
    changed: bool,
    paused: bool,
    resumed: bool,
    congestion: bool,
}

impl RouteTable {
    /// Table without gateways: all destinations are unavailable.
    pub const fn new(config: RouteTableConfig) -> Self {
        Self {
            config,
            networks: BTreeMap::new(),
            indications: VecDeque::new(),
            audits: VecDeque::new(),
            deadlines: Deadlines::new(),
        }
    }

    /// Handles an indication of the ASP at a gateway: DUNA, DAVA, DRST, SCON, DUPU and changes of its state. The layer is
    /// M3UA or SUA.
    ///
    /// # Errors
    /// [`RouteStateFull`] if the gateway has reported more destinations than the limit; what exceeds it is ignored.
    pub fn update<L: Ss7Layer>(
        &mut self,
        now: Time,
        gateway: GatewayKey,
        asp: &Asp<L>,
        indication: &L::AspIndication,
    ) -> Result<(), RouteStateFull> {
        let (network, contexts, event) = match L::route_input(indication) {
            Some(RouteInput::State(context, AspState::Active)) => {
                let network = asp.served(&context).and_then(L::served_network);
                self.activate(gateway, network, context);
                return Ok(());
            }
            Some(RouteInput::State(context, AspState::Inactive | AspState::Down)) => {
                self.deactivate(gateway, context);
                return Ok(());
            }
            Some(RouteInput::Report(network, contexts, event)) => (network, contexts, event),
            None => return Ok(()),
        };
        let mut result = Ok(());
        for network in concerned_networks(asp, network, contexts) {
            result = result.and(self.record(network, gateway, &event));
            if reports_exception(&event) {
                self.start_audits(now, network, gateway);
            }
        }
        result
    }

    /// Returns the next indication to the MTP3-User, with its network. MTP-PAUSE and MTP-RESUME may repeat the state of
    /// a part of a range.
    pub fn poll_indication(&mut self) -> Option<(Option<NetworkAppearance>, DestinationEvent)> {
        self.indications.pop_front()
    }

    /// Returns the time of the next audit of destinations that are not available.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Audits the destinations that gateways reported as unavailable, restricted or congested, if the interval has passed. A
    /// gateway without such destinations is audited no longer.
    pub fn handle_timeout(&mut self, now: Time) {
        for (network, gateway) in self.deadlines.due(now) {
            self.set_audit(network, gateway, None);
            let routes = self.gateway(network, gateway);
            let context = routes.active.first().copied();
            let exceptions = routes.table.known(|status| {
                status.availability != Availability::Available
                    || status.level() > CongestionLevel::NONE
            });
            let affected = exceptions.iter().flat_map(DestinationEvent::affected);
            // A destination that is restricted and congested is in two events.
            let affected = without_overlap(&affected.copied().collect::<Vec<_>>());
            let Some(routing_context) = context else {
                continue;
            };
            for affected in affected.chunks(MAX_POINT_CODES) {
                self.audits.push_back(Audit {
                    gateway,
                    routing_context,
                    affected: AffectedPointCodes(affected.to_vec()),
                });
            }
            if !affected.is_empty() {
                self.start_audits(now, network, gateway);
            }
        }
    }

    /// Starts the interval of audits, if it does not run.
    fn start_audits(&mut self, now: Time, network: Option<NetworkAppearance>, gateway: GatewayKey) {
        let routes = self.gateway(network, gateway);
        let runs = routes.next_audit.is_some() || routes.active.is_empty();
        if let Some(interval) = self.config.audit_interval.filter(|_| !runs) {
            self.set_audit(network, gateway, Some(now + interval));
        }
    }

    fn set_audit(
        &mut self,
        network: Option<NetworkAppearance>,
        gateway: GatewayKey,
        next: Option<Time>,
    ) {
        let routes = self.gateway(network, gateway);
        let previous = std::mem::replace(&mut routes.next_audit, next);
        self.deadlines
            .reschedule((network, gateway), previous, next);
    }

    /// Returns the next audit to send. It is obsolete if the ASP refuses it.
    pub fn poll_audit(&mut self) -> Option<Audit> {
        self.audits.pop_front()
    }

    /// Returns the status of a destination over all gateways.
    pub fn status(
        &self,
        network: Option<NetworkAppearance>,
        destination: PointCode,
    ) -> DestinationStatus {
        let routes = self.networks.get(&network);
        let range = AffectedPointCode::single(destination);
        routes
            .and_then(|routes| routes.overall.get(range))
            .unwrap_or_default()
    }

    /// Returns the gateways with the best routes to a destination: those where it is available, or those where it
    /// is restricted (RFC 4666, section 3.4.6).
    pub fn gateways(
        &self,
        network: Option<NetworkAppearance>,
        destination: PointCode,
    ) -> impl Iterator<Item = GatewayKey> + '_ {
        let best = self.status(network, destination).availability;
        let range = AffectedPointCode::single(destination);
        let routes = self.networks.get(&network).into_iter();
        routes
            .flat_map(Network::routes)
            .filter(move |(_, gateway)| {
                best != Availability::Unavailable && gateway.status(range).availability == best
            })
            .map(|(key, _)| key)
    }

    /// Records the ASP's activity; a gateway that was no route becomes one, and its destinations are audited.
    fn activate(
        &mut self,
        gateway: GatewayKey,
        network: Option<NetworkAppearance>,
        context: Option<RoutingContext>,
    ) {
        let routes = self.gateway(network, gateway);
        let first = routes.active.is_empty();
        routes.active.insert(context);
        if !first {
            return;
        }
        routes.table.set_default(Some(Availability::Available));
        self.recompute(network, AffectedPointCode::ALL);
        let audited = self.config.audited.iter().filter(|(of, _)| *of == network);
        if let Some(affected) = AffectedPointCodes::new(audited.map(|(_, range)| *range)) {
            self.audits.push_back(Audit {
                gateway,
                routing_context: context,
                affected,
            });
        }
    }

    /// Records the end of the ASP's activity; with the last one, the gateway is no route, and what it reported is
    /// forgotten.
    fn deactivate(&mut self, gateway: GatewayKey, context: Option<RoutingContext>) {
        let mut lost = Vec::new();
        for (network, routes) in &mut self.networks {
            if let Some(routes) = routes.gateways.get_mut(&gateway) {
                let was_active = routes.active.remove(&context);
                if routes.active.is_empty() {
                    routes.table.set_default(None);
                    routes.table.clear();
                    lost.extend(was_active.then_some(*network));
                }
            }
        }
        for network in lost {
            self.set_audit(network, gateway, None);
            self.recompute(network, AffectedPointCode::ALL);
        }
    }

    fn record(
        &mut self,
        network: Option<NetworkAppearance>,
        gateway: GatewayKey,
        event: &DestinationEvent,
    ) -> Result<(), RouteStateFull> {
        let routes = self.gateway(network, gateway);
        let result = routes.table.record(event);
        if routes.active.is_empty() {
            return result;
        }
        if let DestinationEvent::Congested(_, None) | DestinationEvent::UserPartUnavailable(..) =
            event
        {
            self.indications.push_back((network, event.clone()));
        }
        for range in without_overlap(event.affected()) {
            self.recompute(network, range);
        }
        result
    }

    fn gateway(&mut self, network: Option<NetworkAppearance>, gateway: GatewayKey) -> &mut Gateway {
        let routes = self.networks.entry(network).or_insert_with(|| Network {
            gateways: BTreeMap::new(),
            overall: RangeMap::new(Some(DestinationStatus::default())),
        });
        routes.gateways.entry(gateway).or_insert_with(|| Gateway {
            table: DestinationTable::new(self.config.max_ranges),
            active: BTreeSet::new(),
            next_audit: None,
        })
    }

    /// Determines the status of a range over all gateways:
    ///
    /// 1. Split the range into parts in which each gateway has one status.
    /// 2. Compare the best status of each part with the previous one; join parts with the same status.
    /// 3. Record changes, and indicate those that concern the MTP3-User.
    fn recompute(&mut self, network: Option<NetworkAppearance>, range: AffectedPointCode) {
        let Some(routes) = self.networks.get_mut(&network) else {
            return;
        };
        let mut parts = Vec::new();
        let uniform = |part| {
            routes.overall.is_uniform(part)
                && routes
                    .routes()
                    .all(|(_, gateway)| gateway.table.is_uniform(part))
        };
        split(range, &uniform, &mut |part| {
            let change = Change::new(
                routes.overall.get(part).unwrap_or_default(),
                routes.best(part),
            );
            push_joined(&mut parts, part, change, Change::join);
        });
        for (part, change) in &parts {
            if change.changed {
                // The gateways' limits bound the overall status, too.
                routes.overall.set(*part, change.status, usize::MAX);
            }
        }
        let affected = |wanted: &dyn Fn(&Change) -> bool| {
            let parts = parts.iter().filter(|(_, change)| wanted(change));
            AffectedPointCodes::new(parts.map(|(part, _)| *part))
        };
        let paused = affected(&|change| change.paused).map(DestinationEvent::Unavailable);
        let resumed = affected(&|change| change.resumed).map(DestinationEvent::Available);
        let congested = CongestionLevel::ALL.into_iter().filter_map(|level| {
            let wanted = |change: &Change| change.congestion && change.status.level() == level;
            Some(DestinationEvent::Congested(affected(&wanted)?, Some(level)))
        });
        let events = paused.into_iter().chain(resumed).chain(congested);
        self.indications
            .extend(events.map(|event| (network, event)));
    }
}

/// Returns whether an event reports destinations that are not available, or congested.
fn reports_exception(event: &DestinationEvent) -> bool {
    match event {
        DestinationEvent::Unavailable(_) | DestinationEvent::Restricted(_) => true,
        DestinationEvent::Congested(_, level) => *level > Some(CongestionLevel::NONE),
        DestinationEvent::Available(_) | DestinationEvent::UserPartUnavailable(..) => false,
    }
}

/// Returns the networks of an SSNM message: that of its network appearance, or those of its application servers.
/// Networks that the ASP does not serve have no routes.
fn concerned_networks<L: Ss7Layer>(
    asp: &Asp<L>,
    appearance: Option<NetworkAppearance>,
    contexts: Option<RoutingContexts>,
) -> BTreeSet<Option<NetworkAppearance>> {
    let contexts = contexts.and_then(AsIds::from_contexts);
    let served = asp.application_servers().filter(|served| {
        let listed = |list: &AsIds<_>| served.is_none_or(|context| list.contains(&context));
        contexts.as_ref().is_none_or(listed)
    });
    let networks = served.map(|context| asp.served(&context).and_then(L::served_network));
    networks
        .filter(|network| appearance.is_none() || network.is_none() || *network == appearance)
        .collect()
}

impl Network {
    /// Returns the gateways at which the ASP is active.
    fn routes(&self) -> impl Iterator<Item = (GatewayKey, &Gateway)> {
        let gateways = self.gateways.iter();
        gateways
            .filter(|(_, gateway)| !gateway.active.is_empty())
            .map(|(key, gateway)| (*key, gateway))
    }

    /// Returns the best status of a range over all gateways: the best availability, and the least congestion with it.
    fn best(&self, range: AffectedPointCode) -> DestinationStatus {
        let statuses = self.routes().map(|(_, gateway)| gateway.status(range));
        let best = statuses.max_by_key(|status| (status.availability, Reverse(status.level())));
        best.filter(|status| status.availability != Availability::Unavailable)
            .unwrap_or_default()
    }
}

impl Gateway {
    fn status(&self, range: AffectedPointCode) -> DestinationStatus {
        self.table.status_of(range).unwrap_or_default()
    }
}

impl Change {
    fn new(previous: DestinationStatus, status: DestinationStatus) -> Self {
        let reachable =
            |status: DestinationStatus| status.availability != Availability::Unavailable;
        Self {
            status,
            changed: previous != status,
            paused: reachable(previous) && !reachable(status),
            resumed: !reachable(previous) && reachable(status),
            congestion: reachable(status) && previous.level() != status.level(),
        }
    }

    fn join(self, other: Self) -> Option<Self> {
        (self.status == other.status).then_some(Self {
            status: self.status,
            changed: self.changed || other.changed,
            paused: self.paused || other.paused,
            resumed: self.resumed || other.resumed,
            congestion: self.congestion || other.congestion,
        })
    }
}
