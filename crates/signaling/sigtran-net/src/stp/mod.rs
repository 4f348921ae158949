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
//! (DAVA, or DRST if only a target of lower priority is). So are congested targets (SCON). The sender of a message for a
//! destination that is unavailable or congested gets the report again, and one about unavailable user parts (DUPU). Over M2PA, adjacent signalling points report destinations, and get reports, with TFP, TFR
//! and TFA.
//!
//! A mated gateway is both a link set and an application server. Messages from it are not sent back to it, and
//! destinations that are reached only over it are reported to it as unavailable.

mod config;
mod congestion;
mod destinations;
mod discard;
mod event_limits;
mod metrics;
mod reload;
mod responses;
mod route_management;
mod router;
mod screening;
mod status;
mod transfer;

pub use config::{ConfigError, ListenSettings, StpConfig};

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick::{BindError, Endpoint};
use carrick_metrics::{AcceptFailures, serve_metrics};
use carrick_proto::Time;
use carrick_sigtran::m2pa::link::LinkConfigError;
use carrick_sigtran::m3ua::asp::{AspConfigError, AspIndication};
use carrick_sigtran::m3ua::ipsp::IpspConfigError;
use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::sgp::{AspKey, SgpConfig, SgpConfigError, SgpIndication};
use carrick_sigtran::m3ua::{AffectedPointCode, NetworkAppearance, RoutingContext};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

use self::config::ServerSettings;
use self::discard::Discard;
use self::event_limits::EventLimits;
use self::responses::ResponseLimiter;
use self::router::{Router, Target};
use crate::association::{Input, LINGER};
use crate::connection::LinkKey;
use crate::event::{Event, EventKind};
use crate::mtp3::AdjacentRoutes;
use crate::node::{IpspKey, M2paKey, Node};

/// Events that wait for the log; further ones are counted.
const EVENTS: usize = 1024;

/// Time limit of the end.
const STOP: Duration = LINGER.saturating_add(Duration::from_secs(5));

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
    /// The application servers of a link set to IPSPs are contradictory.
    #[error(transparent)]
    Ipsp(#[from] IpspConfigError),
    /// The parameters of a link over M2PA are contradictory.
    #[error(transparent)]
    Link(#[from] LinkConfigError),
    /// The task has ended.
    #[error("the signal transfer point has ended")]
    Ended,
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
    kind: TargetKind,
    is_congested: bool,
    /// Messages sent when the congestion was examined last.
    checked: u64,
}

/// Kind of a target, with its links.
#[derive(Clone, Debug)]
enum TargetKind {
    /// Application server, whose ASPs connect.
    Server,
    /// Links to gateways, as ASP with this routing context.
    Asp(Option<RoutingContext>, Vec<LinkKey>),
    /// Peers of an IP server process.
    Ipsp(IpspKey),
    /// Links over M2PA.
    M2pa(M2paKey),
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
        let sgp = SgpConfig {
            registration: config.registration,
            ..SgpConfig::default()
        };
        let (node, inputs, room) = Node::new(connecting, sgp);
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
        let run = core.run(inputs, room, requests, notifications, Arc::clone(&stop));
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
    available: BTreeMap<(View, Network, AffectedPointCode), Availability>,
    discarded: BTreeMap<Discard, u64>,
    /// Application servers that registrations have created.
    registered: Vec<ServerSettings>,
    /// Reports that answered messages.
    responses: ResponseLimiter,
    event_limits: EventLimits,
    /// Routes over the adjacent signalling points of link sets over M2PA.
    adjacent: BTreeMap<M2paKey, AdjacentRoutes>,
    /// Link sets over M2PA that have become available: TRA is still to be sent.
    restarted: BTreeSet<M2paKey>,
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
            registered: Vec::new(),
            responses: ResponseLimiter::default(),
            event_limits: EventLimits::new(),
            adjacent: BTreeMap::new(),
            restarted: BTreeSet::new(),
        }
    }

    async fn run(
        mut self,
        mut inputs: mpsc::Receiver<Input>,
        room: Arc<Notify>,
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
            if self.update_congestion() {
                self.node.flush();
            }
            if deadline.is_some_and(|deadline| self.node.is_ended() || deadline <= clock.now()) {
                return;
            }
            // Transfers and events of the flush.
            if !self.node.transfers.is_empty() || !self.node.events.is_empty() {
                continue;
            }
            let timeouts = self.node.poll_timeout().into_iter();
            let timeouts = timeouts.chain(self.event_limits.poll_timeout());
            let timeout = timeouts.chain(deadline).chain(self.route_timeout()).min();
            let is_congested = self.targets.values().any(|target| target.is_congested);
            tokio::select! {
                Some(input) = inputs.recv() => self.node.handle(input),
                Some(request) = requests.recv() => self.answer(request),
                () = clock.sleep_until(timeout) => {
                    self.node.handle_timeout();
                    self.expire_routes();
                }
                // The end of the congestion is reported.
                () = room.notified(), if is_congested => {}
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

    /// Reacts to events of the state machines and passes them on to the log.
    fn handle_events(&mut self, notifications: &mpsc::Sender<Event>) {
        let now = self.node.clock().now();
        for report in self.event_limits.take_due(now) {
            self.node.counters.events_lost += u64::from(notifications.try_send(report).is_err());
        }
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
                EventKind::Asp(
                    indication @ (AspIndication::Congestion(_)
                    | AspIndication::UserPartUnavailable(_)),
                ) => {
                    is_logged = false;
                    self.pass_on(&event.peer, indication);
                }
                EventKind::Link(_) => {
                    self.update_link_sets();
                    changed = true;
                }
                EventKind::Asp(AspIndication::AspStatus(..))
                | EventKind::Sgp(SgpIndication::AsStatus(..)) => changed = true,
                EventKind::Sgp(
                    SgpIndication::Registered(_, context) | SgpIndication::Deregistered(_, context),
                ) => {
                    self.update_registered(*context);
                    changed = true;
                }
                EventKind::Sgp(SgpIndication::AspActive(key, context)) => {
                    self.update_destinations();
                    if self.is_asp(&event.peer, *key) {
                        self.report_exceptions(*key, *context);
                    }
                }
                EventKind::Sgp(SgpIndication::Audit(key, audit))
                    if self.is_asp(&event.peer, *key) =>
                {
                    is_logged = false;
                    self.answer_audit(*key, audit);
                }
                _ => {}
            }
            if is_logged && self.event_limits.admit(now, &event) {
                let is_lost = notifications.try_send(event).is_err();
                self.node.counters.events_lost += u64::from(is_lost);
            }
            if self.node.events.is_empty() && std::mem::take(&mut changed) {
                self.update_destinations();
            }
        }
    }

    /// Returns whether the key is that of an ASP of the signal transfer point. IPSPs have keys of their own, which may
    /// be the same; they get no SSNM messages.
    fn is_asp(&self, peer: &Arc<str>, key: AspKey) -> bool {
        let asp = self.node.gateway.asps.get(&key);
        asp.is_some_and(|asp| Arc::ptr_eq(&asp.name, peer))
    }
}
