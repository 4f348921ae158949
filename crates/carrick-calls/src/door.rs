//! What comes in: TCP connections, and not more than there is room for.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use rsipstack::sip::{Method, SipMessage, Transport};
use rsipstack::transaction::endpoint::{EndpointInner, TransportEventInspector};
use rsipstack::transport::tcp::TcpConnection;
use rsipstack::transport::{SipAddr, SipConnection, TransportEvent};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::checks::begins;

/// Transactions that the library keeps in mind, with those that ended in the last 32 s: so many, and so
/// many more for each call that there may be.
const TRANSACTIONS: usize = 8192;
const TRANSACTIONS_OF_A_CALL: usize = 8;

/// When it could not take a connection: mostly there are no more file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Lets INVITEs for new calls in while there is room to answer them. Others are dropped unread: their
/// senders ask again, and a flood costs nothing but the look at it.
pub(crate) struct Door {
    most: usize,
    pub(crate) endpoint: OnceLock<Weak<EndpointInner>>,
    pub(crate) dropped: AtomicU64,
}

impl Door {
    pub(crate) fn new(max_calls: usize) -> Self {
        let calls = max_calls.saturating_mul(TRANSACTIONS_OF_A_CALL);
        Self {
            most: calls.saturating_add(TRANSACTIONS),
            endpoint: OnceLock::new(),
            dropped: AtomicU64::new(0),
        }
    }

    fn is_full(&self) -> bool {
        let endpoint = self.endpoint.get().and_then(Weak::upgrade);
        endpoint.is_some_and(|endpoint| {
            endpoint.transactions.len() + endpoint.finished_transactions.len() > self.most
        })
    }
}

/// The door as the library wants it.
pub(crate) struct Doorkeeper(pub(crate) Arc<Door>);

impl TransportEventInspector for Doorkeeper {
    fn handle<'a, 'b>(
        &'a self,
        event: TransportEvent,
    ) -> Pin<Box<dyn Future<Output = Option<TransportEvent>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let new = matches!(&event, TransportEvent::Incoming(SipMessage::Request(request), ..)
            if request.method == Method::Invite && begins(request));
        if new && self.0.is_full() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return Box::pin(std::future::ready(None));
        }
        Box::pin(std::future::ready(Some(event)))
    }
}

/// Takes TCP connections until it is told to stop; with more than so many, new ones are closed.
pub(crate) async fn take_connections(
    listener: TcpListener,
    local: SocketAddr,
    most: usize,
    endpoint: Arc<EndpointInner>,
    stop: CancellationToken,
) {
    let local = SipAddr {
        r#type: Some(Transport::Tcp),
        ..SipAddr::from(local)
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if endpoint.transport_layer.connections_count() >= most {
            continue;
        }
        let token = Some(stop.child_token());
        if let Ok(connection) = TcpConnection::from_stream(stream, local.clone(), token) {
            let connection = SipConnection::Tcp(connection);
            endpoint.transport_layer.add_connection(connection);
        }
    }
}
