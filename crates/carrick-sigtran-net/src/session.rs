//! Sessions: an ASP or a gateway as a program uses it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use carrick::Endpoint;
use carrick_sigtran::m3ua::asp::{AspConfig, AspConfigError, AspRequestError};
use carrick_sigtran::m3ua::ipsp::IpspConfigError;
use carrick_sigtran::m3ua::sgp::{
    ApplicationServerConfig, SgpConfig, SgpConfigError, TransferError,
};
use carrick_sigtran::m3ua::{AffectedPointCode, NetworkAppearance, ProtocolData, RoutingContext};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::association::Input;
use crate::connection::RemoteGateway;
use crate::event::Event;
use crate::node::AspSettings;
use crate::node::{IpspConfig, IpspKey};
use crate::node::{Node, NodeTransfer, Origin};

/// Batches that wait between a session and its user, in each direction.
const BATCHES: usize = 16;

/// Events that wait for the user of a session; further ones are discarded.
const EVENTS: usize = 1024;

/// Time limit of the end of a session.
const STOP: Duration = Duration::from_secs(10);

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

/// Gateway with its application servers and ASPs.
#[derive(Clone, Debug, Default)]
pub struct GatewayConfig {
    /// Timers and limits.
    pub sgp: SgpConfig,
    /// Application servers.
    pub application_servers: Vec<ApplicationServerConfig>,
    /// ASPs.
    pub asps: Vec<AspSettings>,
}

/// ASP or gateway with its associations. When it is dropped, all associations are aborted; see [`Session::close`].
pub struct Session {
    /// Sends messages.
    pub sender: TransferSender,
    /// Receives messages.
    pub receiver: TransferReceiver,
    /// Events. Those that are not received in time are discarded, at most 1,024 wait.
    pub events: mpsc::Receiver<Event>,
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

impl Session {
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

/// Sends messages of a session. Clones are senders of the same session.
#[derive(Clone)]
pub struct TransferSender {
    commands: mpsc::Sender<Command>,
}

impl TransferSender {
    /// Sends messages in their order. Waits while the send queue of an association is more than half full (4,096
    /// messages or 4 MiB). Each message is removed when it is queued. An ASP that is active at several gateways
    /// distributes messages among those that reach the destination, by SLS.
    ///
    /// # Errors
    /// [`SendError`] about the first message that is left; it may be sent again.
    pub async fn send_many(&self, messages: &mut VecDeque<Outgoing>) -> Result<(), SendError> {
        while !messages.is_empty() {
            let batch = messages.drain(..messages.len().min(BATCH)).collect();
            let (answer, answered) = oneshot::channel();
            let command = Command { batch, answer };
            let sent = self.commands.send(command).await;
            sent.map_err(|_| SendError::Ended)?;
            let (left, result) = answered.await.map_err(|_| SendError::Ended)?;
            for message in left.into_iter().rev() {
                messages.push_front(message);
            }
            result?;
        }
        Ok(())
    }
}

/// Receives messages of a session.
pub struct TransferReceiver {
    batches: mpsc::Receiver<Vec<Received>>,
    ready: VecDeque<Received>,
}

impl TransferReceiver {
    /// Waits for a message and appends those that are there, at most `limit`, in the order of each SLS. Returns their
    /// number; 0 after the end of the session. Messages that are not received fill the queues up to the peer, whose
    /// sending stops then.
    ///
    /// Cancel-safe.
    pub async fn recv_many(&mut self, messages: &mut Vec<Received>, limit: usize) -> usize {
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

/// Batch to send; the answer has the messages that were not sent.
struct Command {
    batch: VecDeque<Outgoing>,
    answer: oneshot::Sender<(VecDeque<Outgoing>, Result<(), SendError>)>,
}

/// Starts an ASP on associations with gateways. It connects, reconnects after a loss, and requests ASP Up and ASP Active
/// at each gateway. The endpoint has the parameters of [`crate::endpoint_config`].
///
/// # Errors
/// [`AspConfigError`] if the application servers are contradictory.
pub fn start_asp(
    endpoint: Endpoint,
    gateways: Vec<RemoteGateway>,
    config: &AspConfig,
) -> Result<Session, AspConfigError> {
    let (mut node, inputs, room) = Node::new(endpoint, SgpConfig::default());
    for gateway in gateways {
        node.add_link(gateway, config.clone())?;
    }
    Ok(start(node, inputs, room, SessionSide::Asp))
}

/// Starts a gateway that accepts associations of its ASPs on an endpoint with the parameters of
/// [`crate::endpoint_config`].
///
/// # Errors
/// [`SgpConfigError`] if application servers or ASPs are contradictory.
pub fn start_gateway(endpoint: Endpoint, config: GatewayConfig) -> Result<Session, SgpConfigError> {
    let (mut node, inputs, room) = Node::new(endpoint.clone(), config.sgp);
    node.accept_on(endpoint);
    for server in config.application_servers {
        node.gateway.sgp.add_application_server(server)?;
    }
    for asp in config.asps {
        node.gateway.add_asp(asp)?;
    }
    Ok(start(node, inputs, room, SessionSide::Gateway))
}

/// Starts an IP server process. It sets up the associations with peers that it connects to, and accepts those of the
/// other peers, on an endpoint with the parameters of [`crate::endpoint_config`]. Messages go to the application server
/// of the peers; routing contexts of messages to send are not read.
///
/// # Errors
/// [`IpspConfigError`] if the application servers are contradictory.
pub fn start_ipsp(
    endpoint: Endpoint,
    config: IpspConfig,
    sgp: SgpConfig,
) -> Result<Session, IpspConfigError> {
    let (mut node, inputs, room) = Node::new(endpoint.clone(), SgpConfig::default());
    node.accept_on(endpoint);
    let (key, _) = node.add_ipsp(config, sgp)?;
    Ok(start(node, inputs, room, SessionSide::Ipsp(key)))
}

/// Part of a node that a session uses; it determines where messages go.
#[derive(Clone, Copy)]
enum SessionSide {
    Asp,
    Gateway,
    Ipsp(IpspKey),
}

fn start(
    node: Node,
    inputs: mpsc::Receiver<Input>,
    room: Arc<Notify>,
    side: SessionSide,
) -> Session {
    let (commands, requested) = mpsc::channel(BATCHES);
    let (deliveries, batches) = mpsc::channel(BATCHES);
    let (notifications, events) = mpsc::channel(EVENTS);
    let stop = Arc::new(Notify::new());
    let driver = Driver {
        node,
        inputs,
        room,
        side,
        commands: requested,
        deliveries,
        notifications,
        stop: Arc::clone(&stop),
    };
    Session {
        sender: TransferSender { commands },
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
struct Driver {
    node: Node,
    inputs: mpsc::Receiver<Input>,
    room: Arc<Notify>,
    side: SessionSide,
    commands: mpsc::Receiver<Command>,
    deliveries: mpsc::Sender<Vec<Received>>,
    notifications: mpsc::Sender<Event>,
    stop: Arc<Notify>,
}

impl Driver {
    async fn run(self) {
        let Self {
            mut node,
            mut inputs,
            room,
            side,
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
                        permit.send(batch.into_iter().map(|t| received(&node, t)).collect());
                    }
                }
                Some(command) = commands.recv(), if has_room => send(&mut node, side, command),
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

fn send(node: &mut Node, side: SessionSide, command: Command) {
    let Command { mut batch, answer } = command;
    let mut result = Ok(());
    while let Some(message) = batch.front() {
        // The state machine takes the message, whose data is shared.
        let message = message.clone();
        result = match side {
            SessionSide::Asp => send_to_gateway(node, message),
            SessionSide::Gateway => send_to_server(node, message),
            SessionSide::Ipsp(key) => match node.transfer_to_ipsp(key, message.protocol_data) {
                Err(TransferError::NotActive(_)) => Err(SendError::NotActive),
                result => result.map_err(SendError::Gateway),
            },
        };
        if result.is_err() {
            break;
        }
        batch.pop_front();
    }
    // The sender may have been dropped.
    let _ = answer.send((batch, result));
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
    let key = node.choose_link(&keys, routing_context, destination, protocol_data.sls);
    let key = key.ok_or(SendError::NotActive)?;
    Ok(node.transfer_to_link(key, routing_context, protocol_data)?)
}

fn received(node: &Node, transfer: NodeTransfer) -> Received {
    let peer = match transfer.origin {
        Origin::Link(key) | Origin::Returned(key) => node.name(key),
        Origin::Asp(key, _) => node.gateway.asps.get(&key).map(|asp| Arc::clone(&asp.name)),
    };
    let context = match transfer.origin {
        Origin::Link(_) | Origin::Returned(_) => transfer.data.routing_context,
        Origin::Asp(_, context) => Some(context),
    };
    Received {
        peer: peer.unwrap_or_else(|| "".into()),
        routing_context: context,
        network_appearance: transfer.data.network_appearance,
        protocol_data: transfer.data.protocol_data,
    }
}
