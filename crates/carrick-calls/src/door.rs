//! What comes in, and not more than there is room for.

use std::future::Future;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use rsipstack::sip::prelude::HeadersExt as _;
use rsipstack::sip::{Method, Request, SipMessage, StatusCode};
use rsipstack::transaction::endpoint::{EndpointInner, TransportEventInspector};
use rsipstack::transaction::key::{TransactionKey, TransactionRole};
use rsipstack::transport::{SipAddr, SipConnection, TransportEvent};
use tokio::sync::Semaphore;

use crate::checks::{Fault, begins, capabilities, fault};
use crate::config::B2buaConfig;
use crate::connections::Connections;
use crate::counts::TurnedAway;
use crate::legs::spawn_begun;
use crate::sources::Sources;
use crate::turns::Turns;

/// Transactions that the library keeps in mind, with those that ended in the last 32 s: so many, and so
/// many more for each call that there may be.
const TRANSACTIONS: usize = 8192;
const TRANSACTIONS_OF_A_CALL: usize = 8;

/// One of so many parts of that is for the INVITEs of one address.
const PARTS: usize = 8;

/// Answers that wait for a connection that takes nothing.
const MAX_ANSWERS: usize = 256;

/// Lets INVITEs for new calls in while there is room to answer them, and requests in calls while there
/// is twice as much. Others are dropped unread: their senders ask again, and a flood costs nothing but
/// the look at it. What belongs to no call is answered here, and nothing of it is kept; so are INVITEs
/// from an address that has too many, which leaves the room to others.
pub(crate) struct Door {
    pub(crate) config: B2buaConfig,
    most: usize,
    turns: Turns,
    pub(crate) sources: Arc<Sources>,
    answers: Arc<Semaphore>,
    /// Who is connected.
    pub(crate) connections: Connections,
    pub(crate) endpoint: OnceLock<Weak<EndpointInner>>,
    dropped: AtomicU64,
    /// INVITEs that were refused because there were too many from their address.
    crowded: AtomicU64,
}

impl Door {
    pub(crate) fn new(config: B2buaConfig, turns: Turns) -> Self {
        let calls = config.max_calls.saturating_mul(TRANSACTIONS_OF_A_CALL);
        let most = calls.saturating_add(TRANSACTIONS).min(usize::MAX / 2);
        Self {
            sources: Sources::new(config.per_address, most / PARTS),
            most,
            turns,
            answers: Arc::new(Semaphore::new(MAX_ANSWERS)),
            connections: Connections::new(&config),
            endpoint: OnceLock::new(),
            dropped: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
            config,
        }
    }

    /// The address that a request counts for; none if it is from a SIP server.
    pub(crate) fn counted(&self, from: Option<SocketAddr>) -> Option<IpAddr> {
        let address = from.map(|from| from.ip());
        address.filter(|address| !self.config.is_hop(*address))
    }

    /// What was not let in.
    pub(crate) fn turned_away(&self) -> TurnedAway {
        TurnedAway {
            flooded: self.dropped.load(Ordering::Relaxed),
            crowded: self.crowded.load(Ordering::Relaxed),
        }
    }

    /// A call is refused because there is too much from its address.
    pub(crate) fn crowd(&self) {
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a request may come in; if not, it is answered, or dropped.
    fn admits(&self, request: &Request, from: &SipConnection, at: &SipAddr) -> bool {
        let Some(endpoint) = self.endpoint.get().and_then(Weak::upgrade) else {
            return true;
        };
        // It ends something, and is for a transaction that is there or for none.
        if matches!(request.method, Method::Ack | Method::Cancel) {
            return true;
        }
        let key = TransactionKey::from_request(request, TransactionRole::Server);
        let repeated = key.is_ok_and(|key| {
            endpoint.transactions.contains_key(&key)
                || endpoint.finished_transactions.contains_key(&key)
        });
        if repeated {
            return true;
        }
        let begins = begins(request);
        if let Some(fault) = self.at_once(request, begins) {
            self.answer(&endpoint, request, fault, from.clone(), at.clone());
            return false;
        }
        let most = if begins { self.most } else { 2 * self.most };
        let kept = endpoint.transactions.len() + endpoint.finished_transactions.len();
        if kept > most {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let source = self.counted(at.get_socketaddr().ok()).filter(|_| begins);
        if source.is_some_and(|from| !self.sources.admits(Instant::now(), from)) {
            self.crowd();
            self.answer(&endpoint, request, Fault::busy(), from.clone(), at.clone());
            return false;
        }
        true
    }

    /// The answer to a request that neither begins a call nor is of one.
    fn at_once(&self, request: &Request, begins: bool) -> Option<Fault> {
        if (begins && request.method == Method::Invite)
            || (!begins && self.turns.of_request(request).is_some())
        {
            return None;
        }
        Some(match (fault(request, begins), request.method) {
            (Some(fault), _) => fault,
            (None, Method::Options) => capabilities(),
            (None, _) => Fault::new(StatusCode::CallTransactionDoesNotExist, Vec::new()),
        })
    }

    /// Answers as a server without state (RFC 3261 section 8.2.7).
    fn answer(
        &self,
        endpoint: &EndpointInner,
        request: &Request,
        fault: Fault,
        connection: SipConnection,
        at: SipAddr,
    ) {
        let Ok(room) = Arc::clone(&self.answers).try_acquire_owned() else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut response = endpoint.make_response(request, fault.status, None);
        if let (true, Ok(to)) = (begins(request), request.to_header()) {
            let mut tag = DefaultHasher::new();
            // The same for each repetition.
            let via = request.via_header().map(|via| via.value().to_owned());
            via.unwrap_or_default().hash(&mut tag);
            let to = to.clone().with_tag(format!("{:x}", tag.finish()).into());
            response.headers.unique_push(to.into());
        }
        response.headers.extend(fault.headers);
        spawn_begun(async move {
            // Who can't be reached asks again.
            let _ = connection
                .send(SipMessage::Response(response), Some(&at))
                .await;
            drop(room);
        });
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
        let refused = match &event {
            TransportEvent::Incoming(SipMessage::Request(request), from, at) => {
                !self.0.admits(request, from, at)
            }
            TransportEvent::Closed(connection) => {
                let end = connection.get_remote_addr();
                if let Some(end) = end.and_then(|end| end.get_socketaddr().ok()) {
                    self.0.connections.remove(end);
                }
                false
            }
            TransportEvent::Incoming(..) | TransportEvent::New(_) => false,
        };
        Box::pin(std::future::ready((!refused).then_some(event)))
    }
}
