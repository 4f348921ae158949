//! Commands of the handles to the endpoint's task.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, AssociationId, PeerAddress, SendOptions, Time};
use tokio::sync::{mpsc, oneshot};

use crate::association::Association;
use crate::endpoint::Stats;
use crate::error::{BindError, ConnectError};
#[cfg(target_os = "linux")]
use crate::handover::{HandOverError, Handover};
use crate::send_credit::CreditPermit;
use crate::socket::Socket;

pub(crate) type Commands = mpsc::UnboundedSender<Command>;

/// Function that the task runs on the protocol.
pub(crate) type EndpointCall = Box<dyn FnOnce(&mut carrick_proto::Endpoint, Time) + Send>;

#[cfg(target_os = "linux")]
pub(crate) type HandOverAnswer = oneshot::Sender<Result<Handover, HandOverError>>;

/// Message for the protocol.
pub(crate) struct OutgoingMessage {
    pub(crate) data: Bytes,
    pub(crate) options: SendOptions,
    /// Room in the association's send queue; free again when the protocol has the message.
    pub(crate) permit: CreditPermit,
    /// Receives the protocol's answer, if only the protocol can check the message.
    pub(crate) answer: Option<oneshot::Sender<Result<(), carrick_proto::SendError>>>,
}

/// Requested set-up.
pub(crate) struct ConnectRequest {
    pub(crate) peers: Vec<PeerAddress>,
    pub(crate) port: u16,
    pub(crate) config: Option<Arc<AssociationConfig>>,
    #[cfg(feature = "dtls")]
    pub(crate) trust: Option<carrick_dtls::Trust>,
    pub(crate) answer: oneshot::Sender<Result<Association, ConnectError>>,
}

/// End of the association; its handles have the reason.
pub(crate) struct AssociationEnded;

pub(crate) enum Command {
    Connect(ConnectRequest),
    /// The future of a set-up was dropped.
    ConnectCancelled,
    Send(AssociationId, OutgoingMessage),
    /// Several messages of one sender, in their order.
    SendMany(AssociationId, Vec<OutgoingMessage>),
    /// The user has read messages, so the receive buffer has room.
    Resume(AssociationId),
    /// Answers when the association has ended.
    Shutdown(AssociationId, oneshot::Sender<()>),
    /// Answers when the association has ended.
    AwaitEnd(AssociationId, oneshot::Sender<()>),
    /// Answers when the peer has acknowledged everything.
    Flush(AssociationId, oneshot::Sender<Result<(), AssociationEnded>>),
    Abort(AssociationId, Bytes),
    /// Discards received messages from now on.
    Discard(AssociationId),
    /// The last handle was dropped.
    Release(AssociationId),
    Work(EndpointCall),
    Stats(oneshot::Sender<Stats>),
    AddAddress(IpAddr, oneshot::Sender<Result<(), BindError>>),
    RemoveAddress(IpAddr),
    /// The first shard has opened this socket of a local address for another one.
    AddSocket(Box<Socket>),
    /// Stops the task without an end of the associations; answers with their state and the sockets.
    #[cfg(target_os = "linux")]
    HandOver(HandOverAnswer),
    /// No handle of the endpoint is left: no more associations are accepted; those with handles continue.
    StopAccepting,
    /// No more associations; the task ends when those that exist have. They are aborted after this time.
    Close(Option<Duration>),
}
