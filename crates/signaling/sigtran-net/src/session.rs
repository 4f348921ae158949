//! Sessions: an ASP or a gateway of any layer, or an IP server process, as a program uses it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use carrick::Endpoint;
use carrick_sigtran::aspm::asp::{AspConfig, AspConfigError};
use carrick_sigtran::aspm::ipsp::{IpspConfigError, IpspLayer};
use carrick_sigtran::aspm::sgp::{
    DeliveryError, GatewayConfig as GatewayMachineConfig, GatewayConfigError,
};
use carrick_sigtran::m3ua::asp::AspRequestError;
use carrick_sigtran::m3ua::sgp::TransferError;
use carrick_sigtran::m3ua::{
    AffectedPointCode, M3ua, NetworkAppearance, ProtocolData, RoutingContext,
};
use carrick_sigtran::sua::Sua;
use carrick_sigtran::sua::connection::ConnectionTableConfig;
use carrick_sigtran::sua::translation::TranslationTable;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::association::{Input, LINGER};
use crate::connection::RemoteGateway;
use crate::event::Event;
use crate::layer::{SocketLayer, SuaUser};
use crate::node::AspSettings;
use crate::node::Node;
use crate::node::{IpspConfig, IpspKey};
use crate::request::Ended;

/// Batches that wait between a session and its user, in each direction.
const BATCHES: usize = 16;

/// Events that wait for the user of a session; further ones are discarded.
const EVENTS: usize = 1024;

/// Time limit of the end of a session.
const STOP: Duration = LINGER.saturating_add(Duration::from_secs(5));

/// Maximum number of messages of a batch to send.
const BATCH: usize = 256;

/// MTP-TRANSFER request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Routing context of the application server; `None` at an ASP that has only one without a context.
    pub routing_context: Option<RoutingContext>,
    /// Message with its routing label.
    pub protocol_data: ProtocolData,
}

/// MTP-TRANSFER indication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// Name of the gateway or the ASP that sent the message.
    pub peer: Arc<str>,
    /// Routing context.
    pub routing_context: Option<RoutingContext>,
    /// Network appearance.
    pub network_appearance: Option<NetworkAppearance>,
    /// Message with its routing label.
    pub protocol_data: ProtocolData,
}

/// Reason for which a message was not sent. It is the first one of those that are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The ASP is not active at any gateway at which the destination is available, or no peer of the IPSP is active.
    #[error(
        "the ASP is not active at a gateway that reaches the destination, or no IPSP is active"
    )]
    NotActive,
    /// The state machine of the ASP refused the message.
    #[error(transparent)]
    Asp(#[from] AspRequestError),
    /// The state machine of the gateway refused the message.
    #[error(transparent)]
    Gateway(#[from] TransferError),
    /// A gateway sends to routing contexts only.
    #[error("a gateway needs a routing context: give that of the application server")]
    RoutingContextMissing,
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

impl From<Ended> for SendError {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

/// Gateway with its application servers and ASPs; an application server is an interface in M2UA and IUA.
#[derive(Clone, Debug)]
pub struct GatewayConfig<L: SocketLayer = M3ua> {
    /// Timers and limits.
    pub sgp: GatewayMachineConfig<L>,
    /// Application servers.
    pub application_servers: Vec<L::Server>,
    /// ASPs.
    pub asps: Vec<AspSettings<L::AsId>>,
}

impl<L: SocketLayer> Default for GatewayConfig<L> {
    fn default() -> Self {
        Self {
            sgp: GatewayMachineConfig::default(),
            application_servers: Vec::new(),
            asps: Vec::new(),
        }
    }
}

/// ASP or gateway with its associations. When it is dropped, all associations are aborted; see [`Session::close`].
pub struct Session<L: SocketLayer = M3ua> {
    /// Sends messages and makes requests.
    pub sender: TransferSender<L>,
    /// Receives messages and other indications to the user.
    pub receiver: TransferReceiver<L>,
    /// Events of associations and of layer management. Those that are not received in time are discarded, at most 1,024
    /// wait.
    pub events: mpsc::Receiver<Event<L>>,
    stop: Arc<Notify>,
    task: OwnedTask,
}

/// Task that is cancelled when its handle is dropped.
struct OwnedTask(JoinHandle<()>);

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<L: SocketLayer> Session<L> {
    /// Ends the session: ASP Inactive, ASP Down and SHUTDOWN on each association, within 10 s. Messages that were
    /// accepted are delivered. Those that arrive meanwhile are received first: call this beside
    /// [`TransferReceiver::recv_many`] until that returns 0, or drop the receiver.
    pub fn close(&self) {
        self.stop.notify_one();
    }

    /// Waits for the end of the session.
    pub async fn ended(mut self) {
        // The receiver is dropped, so that the task does not wait for it.
        drop(self.receiver);
        // The task is not cancelled and does not panic.
        let _ = (&mut self.task.0).await;
    }
}

/// Request to the task of a session.
type Command<L> = Box<dyn FnOnce(&mut Node<L>) + Send>;

/// Sends messages of a session and makes requests. Clones are senders of the same session.
#[derive(Clone)]
pub struct TransferSender<L: SocketLayer = M3ua> {
    commands: mpsc::Sender<Command<L>>,
    pub(crate) side: SessionSide,
}

impl TransferSender {
    /// Sends messages in their order. Waits while the send queue of an association is more than half full (4,096
    /// messages or 4 MiB). Each message is removed when it is queued. An ASP that is active at several gateways
    /// distributes messages among those that reach the destination, by SLS.
    ///
    /// # Errors
    /// [`SendError`] about the first message that is left; it may be sent again.
    pub async fn send_many(&self, messages: &mut VecDeque<Outgoing>) -> Result<(), SendError> {
        self.send_each(messages, send).await
    }
}

impl<L: SocketLayer> TransferSender<L> {
    /// Runs a request in the task of the session, when the send queues have room.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Node<L>) -> R + Send + 'static,
    ) -> Result<R, Ended> {
        let (answer, answered) = oneshot::channel();
        let command: Command<L> = Box::new(move |node| {
            // The caller may have been dropped.
            let _ = answer.send(request(node));
        });
        self.commands.send(command).await.map_err(|_| Ended)?;
        answered.await.map_err(|_| Ended)
    }

    /// Sends messages in their order, until one is refused.
    pub(crate) async fn send_each<M, E>(
        &self,
        messages: &mut VecDeque<M>,
        send: fn(&mut Node<L>, SessionSide, M) -> Result<(), E>,
    ) -> Result<(), E>
    where
        M: Clone + Send + 'static,
        E: From<Ended> + Send + 'static,
    {
        let side = self.side;
        while !messages.is_empty() {
            let mut batch: VecDeque<M> = messages.drain(..messages.len().min(BATCH)).collect();
            let sending = self.run(move |node| {
                while let Some(message) = batch.front() {
                    // The state machine takes the message, whose data is shared.
                    let result = send(node, side, message.clone());
                    if result.is_err() {
                        return (batch, result);
                    }
                    batch.pop_front();
                }
                (batch, Ok(()))
            });
            let (left, result) = sending.await?;
            for message in left.into_iter().rev() {
                messages.push_front(message);
            }
            result?;
        }
        Ok(())
    }
}

/// Receives messages of a session: [`Received`] in M3UA. In the other layers the indications to the user are [`Event`]s,
/// such as CLDT and DUNA, data and states of links, and indications of connections.
pub struct TransferReceiver<L: SocketLayer = M3ua> {
    batches: mpsc::Receiver<Vec<L::Received>>,
    ready: VecDeque<L::Received>,
}

impl<L: SocketLayer> TransferReceiver<L> {
    /// Waits for a message and appends those that are there, at most `limit`, in the order of each SLS. Returns their
    /// number; 0 after the end of the session. Messages that are not received fill the queues up to the peer, whose
    /// sending stops then.
    ///
    /// Cancel-safe.
    pub async fn recv_many(&mut self, messages: &mut Vec<L::Received>, limit: usize) -> usize {
        if self.ready.is_empty() {
            match self.batches.recv().await {
                Some(batch) => self.ready = batch.into(),
                None => return 0,
            }
        }
        let count = self.ready.len().min(limit);
        messages.extend(self.ready.drain(..count));
        count
    }
}

/// Starts an ASP on associations with gateways. It connects, reconnects after a loss, and requests ASP Up and ASP Active
/// at each gateway. The endpoint has the parameters of [`endpoint_config`](crate::endpoint_config).
///
/// # Errors
/// [`AspConfigError`] if the application servers are contradictory.
pub fn start_asp<L: SocketLayer>(
    endpoint: Endpoint,
    gateways: Vec<RemoteGateway>,
    config: &AspConfig<L>,
) -> Result<Session<L>, AspConfigError<L::AsId>> {
    start_asp_with(endpoint, gateways, config, L::NodeUser::default())
}

/// Starts an ASP of SUA that keeps connections: connection-oriented messages become their indications. Otherwise it is as
/// [`start_asp`] has it.
///
/// # Errors
/// [`AspConfigError`] if the application servers are contradictory.
pub fn start_sua_asp(
    endpoint: Endpoint,
    gateways: Vec<RemoteGateway>,
    config: &AspConfig<Sua>,
    connections: ConnectionTableConfig,
) -> Result<Session<Sua>, AspConfigError<RoutingContext>> {
    let user = SuaUser::new(Some(connections), None);
    start_asp_with(endpoint, gateways, config, user)
}

fn start_asp_with<L: SocketLayer>(
    endpoint: Endpoint,
    gateways: Vec<RemoteGateway>,
    config: &AspConfig<L>,
    user: L::NodeUser,
) -> Result<Session<L>, AspConfigError<L::AsId>> {
    let (mut node, inputs, room) = Node::new(endpoint, GatewayMachineConfig::default());
    node.user = user;
    for gateway in gateways {
        node.add_link(gateway, config.clone())?;
    }
    Ok(start(node, inputs, room, SessionSide::Asp))
}

/// Starts a gateway that accepts associations of its ASPs on an endpoint with the parameters of
/// [`endpoint_config`](crate::endpoint_config).
///
/// # Errors
/// [`GatewayConfigError`] if application servers or ASPs are contradictory.
pub fn start_gateway<L: SocketLayer>(
    endpoint: Endpoint,
    config: GatewayConfig<L>,
) -> Result<Session<L>, GatewayConfigError<L::AsId>> {
    start_gateway_with(endpoint, config, L::NodeUser::default())
}

/// Starts a gateway of SUA with functions that [`start_gateway`] does not have:
///
/// - With `connections` it is the other end of its ASPs' connections: connection-oriented messages become their indications.
/// - With `translations`, also an empty table, it relays CLDT, CLDR and CORE between its ASPs (RFC 3868, sections 1.4.6
///   and 1.5.3): to the application server of their destination address, or of the rule for their global title. The
///   receiver returns messages for the network, with the translated address. A message that is not relayed is an event
///   [`EventKind::NotRelayed`](crate::EventKind::NotRelayed), and its CLDR or COREF goes to the ASP.
///   [`TransferSender::translations`] changes the rules.
///
/// With both, a connection between two application servers has a connection section to each, which the gateway couples, and
/// a CORE for the network is one of the gateway. With `translations` alone, messages about the connection that follow a
/// relayed CORE have no address: the receiver returns them.
///
/// # Errors
/// [`GatewayConfigError`] if application servers or ASPs are contradictory.
pub fn start_sua_gateway(
    endpoint: Endpoint,
    config: GatewayConfig<Sua>,
    connections: Option<ConnectionTableConfig>,
    translations: Option<TranslationTable>,
) -> Result<Session<Sua>, GatewayConfigError<RoutingContext>> {
    let user = SuaUser::new(connections, translations);
    start_gateway_with(endpoint, config, user)
}

fn start_gateway_with<L: SocketLayer>(
    endpoint: Endpoint,
    config: GatewayConfig<L>,
    user: L::NodeUser,
) -> Result<Session<L>, GatewayConfigError<L::AsId>> {
    let (mut node, inputs, room) = Node::new(endpoint.clone(), config.sgp);
    node.user = user;
    node.accept_on(endpoint);
    for server in config.application_servers {
        node.gateway.sgp.add_application_server(server)?;
    }
    for asp in config.asps {
        node.gateway.add_asp(asp)?;
    }
    Ok(start(node, inputs, room, SessionSide::Gateway))
}

/// Starts an IP server process of M3UA or SUA. It sets up the associations with peers that it connects to, and accepts those of the
/// other peers, on an endpoint with the parameters of [`endpoint_config`](crate::endpoint_config). Messages go to the application server
/// of the peers; routing contexts of messages to send are not read.
///
/// # Errors
/// [`IpspConfigError`] if the application servers are contradictory.
pub fn start_ipsp<L: SocketLayer + IpspLayer>(
    endpoint: Endpoint,
    config: IpspConfig<L>,
    sgp: GatewayMachineConfig<L>,
) -> Result<Session<L>, IpspConfigError<L::AsId>> {
    start_ipsp_with(endpoint, config, sgp, L::NodeUser::default())
}

/// Starts an IP server process of SUA that keeps connections: as [`start_ipsp`], but connection-oriented messages become the
/// indications of its connections.
///
/// # Errors
/// [`IpspConfigError`] if the application servers are contradictory.
pub fn start_sua_ipsp(
    endpoint: Endpoint,
    config: IpspConfig<Sua>,
    sgp: GatewayMachineConfig<Sua>,
    connections: ConnectionTableConfig,
) -> Result<Session<Sua>, IpspConfigError<RoutingContext>> {
    let user = SuaUser::new(Some(connections), None);
    start_ipsp_with(endpoint, config, sgp, user)
}

fn start_ipsp_with<L: SocketLayer + IpspLayer>(
    endpoint: Endpoint,
    config: IpspConfig<L>,
    sgp: GatewayMachineConfig<L>,
    user: L::NodeUser,
) -> Result<Session<L>, IpspConfigError<L::AsId>> {
    let (mut node, inputs, room) = Node::new(endpoint.clone(), GatewayMachineConfig::default());
    node.user = user;
    node.accept_on(endpoint);
    let (key, _) = node.add_ipsp(config, sgp)?;
    Ok(start(node, inputs, room, SessionSide::Ipsp(key)))
}

/// Part of a node that a session uses; it determines where messages go.
#[derive(Clone, Copy)]
pub(crate) enum SessionSide {
    Asp,
    Gateway,
    Ipsp(IpspKey),
}

fn start<L: SocketLayer>(
    node: Node<L>,
    inputs: mpsc::Receiver<Input>,
    room: Arc<Notify>,
    side: SessionSide,
) -> Session<L> {
    let (commands, requested) = mpsc::channel(BATCHES);
    let (deliveries, batches) = mpsc::channel(BATCHES);
    let (notifications, events) = mpsc::channel(EVENTS);
    let stop = Arc::new(Notify::new());
    let driver = Driver {
        node,
        inputs,
        room,
        commands: requested,
        deliveries,
        notifications,
        stop: Arc::clone(&stop),
    };
    Session {
        sender: TransferSender { commands, side },
        receiver: TransferReceiver {
            batches,
            ready: VecDeque::new(),
        },
        events,
        stop,
        task: OwnedTask(tokio::spawn(driver.run())),
    }
}

/// Task of a session.
struct Driver<L: SocketLayer> {
    node: Node<L>,
    inputs: mpsc::Receiver<Input>,
    room: Arc<Notify>,
    commands: mpsc::Receiver<Command<L>>,
    deliveries: mpsc::Sender<Vec<L::Received>>,
    notifications: mpsc::Sender<Event<L>>,
    stop: Arc<Notify>,
}

impl<L: SocketLayer> Driver<L> {
    async fn run(self) {
        let Self {
            mut node,
            mut inputs,
            room,
            mut commands,
            deliveries,
            notifications,
            stop,
        } = self;
        let clock = node.clock();
        let mut deadline = None;
        loop {
            node.flush();
            while let Some(event) = node.events.pop_front() {
                // A user that does not read the events loses them.
                let _ = notifications.try_send(event);
            }
            if deadline.is_some_and(|deadline| node.is_ended() || deadline <= clock.now()) {
                break;
            }
            let has_room = node.has_room();
            let timeout = node.poll_timeout().into_iter().chain(deadline).min();
            tokio::select! {
                Some(input) = inputs.recv(), if node.transfers.is_empty() => node.handle(input),
                permit = deliveries.reserve(), if !node.transfers.is_empty() => {
                    let batch = std::mem::take(&mut node.transfers);
                    // Without a receiver, messages are discarded.
                    if let Ok(permit) = permit {
                        permit.send(batch.into_iter().map(|t| L::received(&node, t)).collect());
                    }
                }
                Some(command) = commands.recv(), if has_room => command(&mut node),
                () = room.notified(), if !has_room => {}
                () = clock.sleep_until(timeout) => node.handle_timeout(),
                () = stop.notified(), if deadline.is_none() => {
                    deadline = Some(clock.now() + STOP);
                    node.stop();
                }
            }
        }
    }
}

fn send(node: &mut Node, side: SessionSide, message: Outgoing) -> Result<(), SendError> {
    match side {
        SessionSide::Asp => send_to_gateway(node, message),
        SessionSide::Gateway => send_to_server(node, message),
        SessionSide::Ipsp(key) => {
            let now = node.now();
            let side = node.ipsps.get_mut(&key).ok_or(SendError::NotActive)?;
            match side.transfer(now, message.protocol_data) {
                Err(DeliveryError::NotActive(_)) => Err(SendError::NotActive),
                result => result.map_err(|error| SendError::Gateway(error.into())),
            }
        }
    }
}

fn send_to_server(node: &mut Node, message: Outgoing) -> Result<(), SendError> {
    let context = message.routing_context;
    let context = context.ok_or(SendError::RoutingContextMissing)?;
    Ok(node.transfer_to_server(context, message.protocol_data)?)
}

fn send_to_gateway(node: &mut Node, message: Outgoing) -> Result<(), SendError> {
    let Outgoing {
        routing_context,
        protocol_data,
    } = message;
    let destination = AffectedPointCode::single(protocol_data.dpc);
    let keys: Vec<_> = node.links.keys().copied().collect();
    let sls = protocol_data.sls.into();
    let key = node.choose_link(&keys, routing_context.as_ref(), Some(destination), sls);
    let key = key.ok_or(SendError::NotActive)?;
    Ok(node.transfer_to_link(key, routing_context, protocol_data)?)
}
