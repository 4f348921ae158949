//! What handles ask of the endpoint's task.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, AssociationId, PeerAddress, SendOptions, Time};
use tokio::sync::{mpsc, oneshot};

use crate::association::Association;
use crate::endpoint::Stats;
use crate::error::{BindError, ConnectError, OperationError};
use crate::room::Permit;

pub(crate) type Commands = mpsc::UnboundedSender<Command>;

/// A look at the protocol, or a rare change of it.
pub(crate) type Work = Box<dyn FnOnce(&mut carrick_proto::Endpoint, Time) + Send>;

/// A message on its way to the protocol.
pub(crate) struct Outgoing {
    pub(crate) data: Bytes,
    pub(crate) options: SendOptions,
    /// Room in the association's send queue; free again when the protocol has the message.
    pub(crate) permit: Permit,
    /// Where the protocol's answer goes, if only it can judge the message.
    pub(crate) answer: Option<oneshot::Sender<Result<(), carrick_proto::SendError>>>,
}

/// A set-up that was asked for.
pub(crate) struct Connect {
    pub(crate) peers: Vec<PeerAddress>,
    pub(crate) port: u16,
    pub(crate) config: Option<Arc<AssociationConfig>>,
    #[cfg(feature = "dtls")]
    pub(crate) trust: Option<carrick_dtls::Trust>,
    pub(crate) answer: oneshot::Sender<Result<Association, ConnectError>>,
}

/// The association has ended, which its handles know more of.
pub(crate) struct Ended;

pub(crate) enum Command {
    Connect(Connect),
    /// Somebody stopped waiting for a set-up.
    ConnectCancelled,
    Send(AssociationId, Outgoing),
    /// The user took messages: there is room for more.
    Resume(AssociationId),
    Shutdown(AssociationId, oneshot::Sender<Result<(), OperationError>>),
    /// Whoever asks wants to know when the peer has everything; nobody does if it has ended.
    Flush(AssociationId, oneshot::Sender<Result<(), Ended>>),
    Abort(AssociationId, Bytes),
    /// Nobody reads messages any more.
    Discard(AssociationId),
    /// The last handle is gone.
    Release(AssociationId),
    Work(Work),
    Stats(oneshot::Sender<Stats>),
    AddAddress(IpAddr, oneshot::Sender<Result<(), BindError>>),
    RemoveAddress(IpAddr),
    /// No handle of the endpoint is left: no more associations; those that have handles go on.
    StopAccepting,
    /// No more associations; the task ends when those that exist have.
    Close,
}
