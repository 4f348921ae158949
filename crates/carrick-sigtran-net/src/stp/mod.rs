//! Signal transfer point and signalling gateway: transfers messages between application servers, whose ASPs connect to
//! it, and link sets, in which it is an ASP of other gateways.
//!
//! A message passes these steps:
//!
//! 1. Screening by origin, OPC, DPC and SI.
//! 2. Choice of the target: routing key, else route by DPC, mask, priority and SLS; unavailable targets are passed over.
//! 3. Transfer: in an application server by its traffic mode, in a link set by SLS.
//!
//! Destinations without an available target are reported to the concerned ASPs (DUNA), and again when one is available
//! (DAVA).
//!
//! A mated gateway is both a link set and an application server. Messages from it are not sent back to it, and
//! destinations that are reached only over it are reported to it as unavailable.

mod config;
mod metrics;
mod router;
mod screening;

pub use config::{ConfigError, ListenSettings, StpConfig};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick::{BindError, Endpoint};
use carrick_metrics::{AcceptFailures, serve_metrics};
use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::{AspConfigError, AspIndication, AspRequestError, AspState};
use carrick_sigtran::m3ua::sgp::{
    AsState, AspKey, DestinationEvent, SgpConfig, SgpConfigError, SgpIndication, TransferError,
};
use carrick_sigtran::m3ua::{
    AffectedPointCode, AffectedPointCodes, DestinationState, NetworkAppearance, ProtocolData,
    RoutingContext, RoutingContexts,
};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

use self::config::{LinkSetSettings, ServerSettings};
use self::router::{NoTarget, Router, Target};
use crate::asp_link::LinkKey;
use crate::association::Input;
use crate::event::{Event, EventKind};
use crate::node::{Node, NodeTransfer, Origin};

/// Events that wait for the log; further ones are counted.
const EVENTS: usize = 1024;

/// Time limit of the end.
const STOP: Duration = Duration::from_secs(10);

/// Maximum number of point codes of a DUNA or DAVA.
const MAX_REPORTED: usize = 1024;

/// Error that keeps a signal transfer point from starting.
#[derive(Debug, thiserror::Error)]
pub enum StpError {
    /// The SCTP endpoint can't be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address for metrics can't be opened.
    #[error("cannot listen on {address} for metrics: {source}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Application servers or ASPs are contradictory.
    #[error(transparent)]
    Gateway(#[from] SgpConfigError),
    /// The application server of a link set is contradictory.
    #[error(transparent)]
    LinkSet(#[from] AspConfigError),
    /// The task has ended.
    #[error("the signal transfer point has ended")]
    Ended,
}

/// Reason for which a message was discarded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Discard {
    Screened,
    NoRoute,
    Unavailable,
    Circular,
    BufferFull,
    NoDataStream,
}

impl Discard {
    const fn name(self) -> &'static str {
        match self {
            Self::Screened => "screened",
            Self::NoRoute => "no_route",
            Self::Unavailable => "unavailable",
            Self::Circular => "circular",
            Self::BufferFull => "buffer_full",
            Self::NoDataStream => "no_data_stream",
        }
    }
}

impl From<NoTarget> for Discard {
    fn from(why: NoTarget) -> Self {
        match why {
            NoTarget::NoRoute => Self::NoRoute,
            NoTarget::Unavailable => Self::Unavailable,
            NoTarget::Circular => Self::Circular,
        }
    }
}

impl From<TransferError> for Discard {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::BufferFull => Self::BufferFull,
            TransferError::NoDataStream => Self::NoDataStream,
            TransferError::NoRoutingKey
            | TransferError::UnknownRoutingContext(_)
            | TransferError::NotActive(_) => Self::Unavailable,
        }
    }
}

impl From<AspRequestError> for Discard {
    fn from(error: AspRequestError) -> Self {
        match error {
            AspRequestError::NoDataStream => Self::NoDataStream,
            _ => Self::Unavailable,
        }
    }
}

/// Traffic of a link set or an application server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Traffic {
    received: u64,
    received_octets: u64,
    sent: u64,
    sent_octets: u64,
}

/// Link set or application server in operation.
#[derive(Clone, Debug)]
struct TargetState {
    name: Arc<str>,
    network_appearance: Option<NetworkAppearance>,
    traffic: Traffic,
    /// Links of a link set.
    links: Vec<LinkKey>,
}

/// Network of a destination; any if absent.
type Network = Option<NetworkAppearance>;

/// ASPs that get the same reports: those of an application server that belongs to a link set, to which destinations
/// behind that link set are unavailable, or all others.
type View = Option<RoutingContext>;

/// Request to the task.
enum Control {
    Reload(
        Box<StpConfig>,
        oneshot::Sender<Result<Vec<&'static str>, StpError>>,
    ),
    Status(oneshot::Sender<String>),
    Metrics(oneshot::Sender<String>),
}

/// Running signal transfer point. When it is dropped, all associations are aborted; see [`Self::stop`].
pub struct Stp {
    control: mpsc::Sender<Control>,
    events: mpsc::Receiver<Event>,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
    metrics_task: Option<AbortHandle>,
    port: u16,
    udp_port: Option<u16>,
    metrics: Option<SocketAddr>,
}

impl Drop for Stp {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(task) = &self.metrics_task {
            task.abort();
        }
    }
}

impl Stp {
    /// Opens the sockets and starts.
    ///
    /// # Errors
    /// [`StpError`].
    pub async fn start(config: StpConfig) -> Result<Self, StpError> {
        let listening = Endpoint::bind(config.listen.endpoint())?;
        let (port, udp_port) = (listening.port(), listening.encapsulation_port());
        // Two gateways with link sets to each other would otherwise share one association.
        let mut outgoing = config.listen.endpoint().accept(false).port(0);
        if udp_port.is_some() {
            outgoing = outgoing.encapsulation_port(0);
        }
        let connecting = Endpoint::bind(outgoing)?;
        let listener = match config.metrics {
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                Some(bound.map_err(|source| StpError::Metrics { address, source })?)
            }
            None => None,
        };
        let metrics = listener.as_ref().and_then(|l| l.local_addr().ok());
        let (node, inputs, _) = Node::new(connecting, SgpConfig::default());
        node.accept_on(listening);
        let mut core = StpCore::new(node, config.clone());
        core.apply(config)?;
        let (control, requests) = mpsc::channel(16);
        let (notifications, events) = mpsc::channel(EVENTS);
        let stop = Arc::new(Notify::new());
        let metrics_task = listener.map(|listener| {
            let control = control.clone();
            let collect = move || {
                let control = control.clone();
                async move {
                    let (answer, answered) = oneshot::channel();
                    control.send(Control::Metrics(answer)).await.ok()?;
                    answered.await.ok()
                }
            };
            let failures = AcceptFailures::default();
            tokio::spawn(serve_metrics(listener, failures, collect)).abort_handle()
        });
        let run = core.run(inputs, requests, notifications, Arc::clone(&stop));
        Ok(Self {
            control,
            events,
            stop,
            task: tokio::spawn(run),
            metrics_task,
            port,
            udp_port,
            metrics,
        })
    }

    /// Returns the SCTP port and, with SCTP in UDP, the UDP port.
    pub fn ports(&self) -> (u16, Option<u16>) {
        (self.port, self.udp_port)
    }

    /// Returns the address of the metrics.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Waits for the next event; `None` after the end. Events that are not taken are discarded, at most 1,024 wait.
    pub async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Changes the configuration. Associations of link sets and ASPs that did not change are kept. Returns the keys
    /// whose change needs a restart.
    ///
    /// # Errors
    /// [`StpError`].
    pub async fn reload(&self, config: StpConfig) -> Result<Vec<&'static str>, StpError> {
        let (answer, answered) = oneshot::channel();
        let request = Control::Reload(Box::new(config), answer);
        let sent = self.control.send(request).await;
        sent.map_err(|_| StpError::Ended)?;
        answered.await.map_err(|_| StpError::Ended)?
    }

    /// Returns the states of application servers, ASPs, link sets and destinations as lines.
    ///
    /// # Errors
    /// [`StpError::Ended`].
    pub async fn status(&self) -> Result<String, StpError> {
        let (answer, answered) = oneshot::channel();
        let sent = self.control.send(Control::Status(answer)).await;
        sent.map_err(|_| StpError::Ended)?;
        answered.await.map_err(|_| StpError::Ended)
    }

    /// Begins the end: ASPs are notified of it, links get ASP Inactive and ASP Down, associations are shut down, within
    /// 10 s. [`Self::event`] returns `None` afterwards.
    pub fn stop(&self) {
        self.stop.notify_one();
    }
}

/// State of the task.
struct StpCore {
    node: Node,
    config: StpConfig,
    router: Router,
    targets: BTreeMap<Target, TargetState>,
    /// Link set of each link.
    link_sets: BTreeMap<LinkKey, Arc<str>>,
    /// Key of each ASP by its name.
    asps: BTreeMap<String, AspKey>,
    /// Availability of destinations, as it is reported to a view.
    available: BTreeMap<(View, Network, AffectedPointCode), bool>,
    discarded: BTreeMap<Discard, u64>,
}

impl StpCore {
    /// Core without links and ASPs, until [`Self::apply`].
    fn new(node: Node, config: StpConfig) -> Self {
        Self {
            node,
            config: StpConfig {
                servers: Vec::new(),
                asps: Vec::new(),
                link_sets: Vec::new(),
                routes: Vec::new(),
                screening: Vec::new(),
                ..config
            },
            router: Router::default(),
            targets: BTreeMap::new(),
            link_sets: BTreeMap::new(),
            asps: BTreeMap::new(),
            available: BTreeMap::new(),
            discarded: BTreeMap::new(),
        }
    }

    async fn run(
        mut self,
        mut inputs: mpsc::Receiver<Input>,
        mut requests: mpsc::Receiver<Control>,
        notifications: mpsc::Sender<Event>,
        stop: Arc<Notify>,
    ) {
        let clock = self.node.clock();
        let mut deadline: Option<Time> = None;
        loop {
            self.route_all();
            self.handle_events(&notifications);
            self.node.flush();
            if deadline.is_some_and(|deadline| self.node.is_ended() || deadline <= clock.now()) {
                return;
            }
            // Transfers and events of the flush.
            if !self.node.transfers.is_empty() || !self.node.events.is_empty() {
                continue;
            }
            let timeout = self.node.poll_timeout().into_iter().chain(deadline).min();
            tokio::select! {
                Some(input) = inputs.recv() => self.node.handle(input),
                Some(request) = requests.recv() => self.answer(request),
                () = clock.sleep_until(timeout) => self.node.handle_timeout(),
                () = stop.notified(), if deadline.is_none() => {
                    deadline = Some(clock.now() + STOP);
                    self.node.stop();
                }
            }
        }
    }

    fn answer(&mut self, request: Control) {
        // The requester may have been dropped.
        match request {
            Control::Reload(config, answer) => drop(answer.send(self.apply(*config))),
            Control::Status(answer) => drop(answer.send(self.status())),
            Control::Metrics(answer) => drop(answer.send(self.metrics())),
        }
    }

    /// Changes the configuration:
    ///
    /// 1. End link sets that are gone or changed.
    /// 2. Remove ASPs that are gone or changed, and those of changed application servers.
    /// 3. Remove application servers that are gone or changed.
    /// 4. Add what is new or changed.
    /// 5. Replace routes and screening, and report destinations that changed.
    fn apply(&mut self, config: StpConfig) -> Result<Vec<&'static str>, StpError> {
        let now = self.node.clock().now();
        let mut fixed = Vec::new();
        if config.listen != self.config.listen {
            fixed.push("listen");
        }
        if config.metrics != self.config.metrics {
            fixed.push("metrics");
        }
        let old = std::mem::replace(&mut self.config, config);
        let new = self.config.clone();
        for set in old
            .link_sets
            .iter()
            .filter(|set| !new.link_sets.contains(set))
        {
            self.remove_link_set(set);
        }
        let is_changed = |context: &RoutingContext| {
            let of = |servers: &[ServerSettings]| {
                let mut servers = servers.iter();
                let found = servers.find(|server| server.config.routing_context == *context);
                found.cloned()
            };
            of(&old.servers) != of(&new.servers)
        };
        for asp in &old.asps {
            let changed = asp.application_servers.iter().any(is_changed);
            if (changed || !new.asps.contains(asp))
                && let Some(key) = self.asps.remove(&asp.name)
            {
                self.node.remove_asp(key);
            }
        }
        let gone = |server: &&ServerSettings| !new.servers.contains(server);
        for server in old.servers.iter().filter(gone) {
            let context = server.config.routing_context;
            self.node
                .gateway
                .sgp
                .remove_application_server(now, context)?;
            self.targets.remove(&Target::Server(context));
        }
        let added = |server: &&ServerSettings| !old.servers.contains(server);
        for server in new.servers.iter().filter(added) {
            let sgp = &mut self.node.gateway.sgp;
            sgp.add_application_server(server.config.clone())?;
            let target = Target::Server(server.config.routing_context);
            let network = server.config.network_appearance;
            self.add_target(target, server.name.as_str().into(), network);
        }
        for asp in &new.asps {
            if !self.asps.contains_key(&asp.name) {
                let key = self.node.gateway.add_asp(asp.clone())?;
                self.asps.insert(asp.name.clone(), key);
            }
        }
        for set in new
            .link_sets
            .iter()
            .filter(|set| !old.link_sets.contains(set))
        {
            self.add_link_set(set)?;
        }
        self.router = Router::new(&new.servers, &new.routes);
        self.update_destinations();
        Ok(fixed)
    }

    fn add_target(&mut self, target: Target, name: Arc<str>, network: Option<NetworkAppearance>) {
        let state = TargetState {
            name,
            network_appearance: network,
            traffic: Traffic::default(),
            links: Vec::new(),
        };
        self.targets.insert(target, state);
    }

    fn add_link_set(&mut self, set: &LinkSetSettings) -> Result<(), StpError> {
        let name: Arc<str> = set.name.as_str().into();
        let target = Target::LinkSet(Arc::clone(&name));
        let network = set.server.network_appearance;
        self.add_target(target.clone(), Arc::clone(&name), network);
        for gateway in &set.gateways {
            let key = self.node.add_link(gateway.clone(), set.asp_config())?;
            self.link_sets.insert(key, Arc::clone(&name));
            if let Some(state) = self.targets.get_mut(&target) {
                state.links.push(key);
            }
        }
        Ok(())
    }

    fn remove_link_set(&mut self, set: &LinkSetSettings) {
        let target = Target::LinkSet(set.name.as_str().into());
        let Some(state) = self.targets.remove(&target) else {
            return;
        };
        for key in state.links {
            self.link_sets.remove(&key);
            self.node.remove_link(key);
        }
    }

    fn route_all(&mut self) {
        let mut transfers = std::mem::take(&mut self.node.transfers);
        for transfer in transfers.drain(..) {
            if let Err(why) = self.route(transfer) {
                *self.discarded.entry(why).or_default() += 1;
            }
        }
        // Keeps the allocation.
        self.node.transfers = transfers;
    }

    fn route(&mut self, transfer: NodeTransfer) -> Result<(), Discard> {
        let from = match transfer.origin {
            Origin::Link(key) => {
                // The link set was removed.
                let name = self.link_sets.get(&key).ok_or(Discard::NoRoute)?;
                Target::LinkSet(Arc::clone(name))
            }
            Origin::Asp(_, context) => Target::Server(context),
        };
        let data = transfer.data.protocol_data;
        let octets = data.user_data.len() as u64;
        let origin = self.targets.get_mut(&from).ok_or(Discard::NoRoute)?;
        origin.traffic.received += 1;
        origin.traffic.received_octets += octets;
        let network = transfer.data.network_appearance;
        let network = network.or(origin.network_appearance);
        if !screening::passes(&self.config.screening, &from, &data) {
            return Err(Discard::Screened);
        }
        let destination = AffectedPointCode::single(data.dpc);
        let usable = |target: &Target| self.is_usable(target, destination);
        let back = |target: &Target| self.is_same_peer(&from, target);
        let (target, sls) = self.router.choose(network, &data, back, usable)?;
        self.send(&target, sls, data)?;
        if let Some(state) = self.targets.get_mut(&target) {
            state.traffic.sent += 1;
            state.traffic.sent_octets += octets;
        }
        Ok(())
    }

    fn send(&mut self, target: &Target, sls: u8, data: ProtocolData) -> Result<(), Discard> {
        match target {
            Target::Server(context) => Ok(self.node.transfer_to_server(*context, data)?),
            Target::LinkSet(name) => {
                let state = self.targets.get(target).ok_or(Discard::Unavailable)?;
                let context = self.context_of(name);
                let destination = AffectedPointCode::single(data.dpc);
                let links = &state.links;
                let key = self.node.choose_link(links, context, destination, sls);
                let key = key.ok_or(Discard::Unavailable)?;
                Ok(self.node.transfer_to_link(key, context, data)?)
            }
        }
    }

    fn context_of(&self, name: &str) -> Option<RoutingContext> {
        let mut sets = self.config.link_sets.iter();
        let set = sets.find(|set| set.name == name)?;
        set.server.routing_context
    }

    /// Returns the link set of an application server whose ASPs are gateways of that link set.
    fn link_set_of(&self, context: RoutingContext) -> Option<&LinkSetSettings> {
        let mut sets = self.config.link_sets.iter();
        sets.find(|set| set.peer == Some(context))
    }

    /// Returns whether both are the same link set, or an application server with its link set.
    fn is_same_peer(&self, one: &Target, other: &Target) -> bool {
        match (one, other) {
            (Target::LinkSet(one), Target::LinkSet(other)) => one == other,
            (Target::LinkSet(name), Target::Server(context))
            | (Target::Server(context), Target::LinkSet(name)) => {
                let set = self.link_set_of(*context);
                set.is_some_and(|set| *set.name == **name)
            }
            (Target::Server(one), Target::Server(other)) => {
                one == other && self.link_set_of(*one).is_some()
            }
        }
    }

    /// Returns whether a destination, or a range as a whole, is available to a view; `None` without a route.
    fn is_available(
        &self,
        view: View,
        network: Network,
        destination: AffectedPointCode,
    ) -> Option<bool> {
        let viewer = view.map(Target::Server);
        let usable = |target: &Target| {
            let is_back = viewer
                .as_ref()
                .is_some_and(|v| self.is_same_peer(v, target));
            !is_back && self.is_usable(target, destination)
        };
        self.router.is_available(network, destination, usable)
    }

    /// Returns the view of an application server.
    fn view_of(&self, context: RoutingContext) -> View {
        self.link_set_of(context).map(|_| context)
    }

    /// Returns all views.
    fn views(&self) -> Vec<View> {
        let peers = self.config.link_sets.iter().filter_map(|set| set.peer);
        std::iter::once(None).chain(peers.map(Some)).collect()
    }

    /// Returns whether a target reaches a destination, or a range as a whole.
    fn is_usable(&self, target: &Target, destination: AffectedPointCode) -> bool {
        match target {
            Target::Server(context) => matches!(
                self.node.gateway.sgp.as_state(*context),
                Some(AsState::Active | AsState::Pending)
            ),
            Target::LinkSet(name) => {
                let context = self.context_of(name);
                let state = self.targets.get(target);
                let mut links = state.into_iter().flat_map(|state| &state.links);
                links.any(|key| {
                    let link = self.node.links.get(key);
                    link.is_some_and(|link| link.reaches(context, destination))
                })
            }
        }
    }

    /// Reacts to events of the state machines and passes them on to the log.
    fn handle_events(&mut self, notifications: &mpsc::Sender<Event>) {
        let mut changed = false;
        while let Some(event) = self.node.events.pop_front() {
            let mut is_logged = true;
            match &event.kind {
                EventKind::Asp(
                    AspIndication::MtpPause(state)
                    | AspIndication::MtpResume(state)
                    | AspIndication::Restricted(state),
                ) => {
                    is_logged = false;
                    changed = true;
                    self.report_parts(state);
                }
                EventKind::Asp(AspIndication::AspStatus(..))
                | EventKind::Sgp(SgpIndication::AsStatus(..)) => changed = true,
                EventKind::Sgp(SgpIndication::AspActive(key, context)) => {
                    self.update_destinations();
                    self.report_unavailable(*key, *context);
                }
                EventKind::Sgp(SgpIndication::Audit(key, audit)) => {
                    is_logged = false;
                    self.answer_audit(*key, audit);
                }
                _ => {}
            }
            if is_logged && notifications.try_send(event).is_err() {
                self.node.counters.events_lost += 1;
            }
            if self.node.events.is_empty() && std::mem::take(&mut changed) {
                self.update_destinations();
            }
        }
    }

    /// Reports destinations of routing keys and routes whose availability changed.
    fn update_destinations(&mut self) {
        let mut before = std::mem::take(&mut self.available);
        let mut changes: BTreeMap<(View, Network), Vec<AffectedPointCode>> = BTreeMap::new();
        for view in self.views() {
            for (network, destination) in self.router.destinations() {
                let key = (view, network, destination);
                let is_available = self.is_available(view, network, destination) == Some(true);
                let known = before.remove(&key);
                self.available.insert(key, is_available);
                if known == Some(is_available) {
                    continue;
                }
                changes
                    .entry((view, network))
                    .or_default()
                    .push(destination);
                if view.is_none() && (known.is_some() || is_available) {
                    let text = self.show(destination);
                    self.node.notify_destination(text, is_available);
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
            for run in reports.chunk_by(|(_, a), (_, b)| a == b) {
                self.report(view, network, run);
            }
        }
    }

    /// Returns the availability of destinations, and that of the parts of ranges among them, because a report of a range
    /// is one about its parts. Ranges precede their parts.
    fn with_parts(
        &self,
        view: View,
        network: Network,
        destinations: &[AffectedPointCode],
    ) -> Vec<(AffectedPointCode, bool)> {
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

    /// Sends DUNA or DAVA to the ASPs of a view that are active in the network. All have the same availability.
    fn report(&mut self, view: View, network: Network, reports: &[(AffectedPointCode, bool)]) {
        let concerned: Vec<_> = self
            .config
            .servers
            .iter()
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
                    self.send_report(*asp, context, network, reports);
                }
            }
        }
    }

    /// Sends DUNA or DAVA to one ASP, at most 1,024 point codes in a message.
    fn send_report(
        &mut self,
        asp: AspKey,
        context: RoutingContext,
        network: Network,
        reports: &[(AffectedPointCode, bool)],
    ) {
        for reports in reports.chunks(MAX_REPORTED) {
            let destinations = reports.iter().map(|(destination, _)| *destination);
            let affected = AffectedPointCodes(destinations.collect());
            let concerned = DestinationState {
                network_appearance: network,
                routing_contexts: RoutingContexts::new([context]),
                affected: affected.clone(),
                info: None,
            };
            let event = match reports.first() {
                Some((_, true)) => DestinationEvent::Available(affected),
                _ => DestinationEvent::Unavailable(affected),
            };
            // The ASP may have gone down since.
            let _ = self.node.gateway.sgp.answer_audit(asp, &concerned, &event);
        }
    }

    /// Reports destinations that a gateway reported and that are parts of a route's range.
    fn report_parts(&mut self, state: &DestinationState) {
        let network = state.network_appearance;
        for view in self.views() {
            for affected in &state.affected.0 {
                let is_own = self.available.contains_key(&(view, network, *affected));
                if is_own || affected.mask >= 24 {
                    continue;
                }
                if let Some(is_available) = self.is_available(view, network, *affected) {
                    self.report(view, network, &[(*affected, is_available)]);
                }
            }
        }
    }

    /// Sends a DUNA with the unavailable destinations to an ASP that has become active.
    fn report_unavailable(&mut self, key: AspKey, context: RoutingContext) {
        let target = Target::Server(context);
        let Some(state) = self.targets.get(&target) else {
            return;
        };
        let (view, network) = (self.view_of(context), state.network_appearance);
        let mut unavailable: BTreeMap<Network, Vec<AffectedPointCode>> = BTreeMap::new();
        for ((to, of, destination), is_available) in &self.available {
            if !is_available && *to == view && (of.is_none() || *of == network) {
                unavailable.entry(*of).or_default().push(*destination);
            }
        }
        for (of, destinations) in unavailable {
            let reports = self.with_parts(view, of, &destinations);
            for run in reports.chunk_by(|(_, a), (_, b)| a == b) {
                self.send_report(key, context, network, run);
            }
        }
    }

    /// Answers a DAUD: DUNA or DAVA, or the Error message Destination Status Unknown without a route.
    fn answer_audit(&mut self, key: AspKey, audit: &DestinationState) {
        let network = audit.network_appearance;
        let contexts = audit.routing_contexts.as_ref();
        let context = contexts.and_then(|contexts| contexts.0.first().copied());
        let context = context.or_else(|| {
            let asp = self.node.gateway.asps.get(&key)?;
            asp.settings.application_servers.first().copied()
        });
        let view = context.and_then(|context| self.view_of(context));
        let (mut available, mut unavailable, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for affected in &audit.affected.0 {
            match self.is_available(view, network, *affected) {
                Some(true) => available.push(*affected),
                Some(false) => unavailable.push(*affected),
                None => unknown.push(*affected),
            }
        }
        let sgp = &mut self.node.gateway.sgp;
        // The ASP may have gone down since.
        if !available.is_empty() {
            let event = DestinationEvent::Available(AffectedPointCodes(available));
            let _ = sgp.answer_audit(key, audit, &event);
        }
        if !unavailable.is_empty() {
            let event = DestinationEvent::Unavailable(AffectedPointCodes(unavailable));
            let _ = sgp.answer_audit(key, audit, &event);
        }
        if !unknown.is_empty() {
            let audit = DestinationState {
                affected: AffectedPointCodes(unknown),
                ..audit.clone()
            };
            let _ = sgp.refuse_audit(key, &audit);
        }
    }

    /// Returns a destination or range as text, such as `2-117-0 mask 3`.
    fn show(&self, destination: AffectedPointCode) -> String {
        let code = destination.point_code.display(self.config.format);
        match destination.mask {
            0 => code.to_string(),
            mask => format!("{code} mask {mask}"),
        }
    }

    fn status(&self) -> String {
        let mut text = String::new();
        let sgp = &self.node.gateway.sgp;
        for server in &self.config.servers {
            let context = server.config.routing_context;
            let name = &server.name;
            let state = sgp.as_state(context).unwrap_or(AsState::Down);
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "application server {name}, routing context {}: {state:?}",
                context.0
            );
            for (asp, key) in &self.asps {
                if let Some(state) = sgp.asp_state(*key, context) {
                    let _ = write!(text, ", ASP {asp} {state:?}");
                }
            }
            text.push('\n');
        }
        for (key, name) in &self.link_sets {
            let Some(link) = self.node.links.get(key) else {
                continue;
            };
            let state = match (link.association(), link.is_active(self.context_of(name))) {
                (_, true) => "active",
                (Some(_), false) => "not active",
                (None, false) => "no association",
            };
            let _ = writeln!(text, "link set {name}, gateway {}: {state}", link.name);
        }
        for ((view, _, destination), is_available) in &self.available {
            if view.is_some() {
                continue;
            }
            let state = if *is_available {
                "available"
            } else {
                "unavailable"
            };
            let _ = writeln!(text, "destination {}: {state}", self.show(*destination));
        }
        for state in self.targets.values() {
            let Traffic { received, sent, .. } = state.traffic;
            let name = &state.name;
            let _ = writeln!(text, "traffic of {name}: {received} received, {sent} sent");
        }
        for (reason, count) in self.discards().filter(|(_, count)| *count > 0) {
            let _ = writeln!(text, "discarded, {reason}: {count}");
        }
        text
    }

    /// Returns the number of discarded messages by reason.
    fn discards(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counters = self.node.counters;
        let reasons = [
            Discard::Screened,
            Discard::NoRoute,
            Discard::Unavailable,
            Discard::Circular,
            Discard::BufferFull,
            Discard::NoDataStream,
        ];
        let routed = reasons.map(|reason| {
            let count = self.discarded.get(&reason).copied().unwrap_or_default();
            (reason.name(), count)
        });
        routed.into_iter().chain([
            ("congested", counters.congested),
            ("recovery_expired", counters.recovery_expired),
            ("malformed", counters.malformed),
            ("not_m3ua", counters.not_m3ua),
            ("not_encoded", counters.not_encoded),
        ])
    }
}
