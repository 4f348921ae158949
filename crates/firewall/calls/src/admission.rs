//! Admission control for incoming requests.

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

use crate::call_leg::spawn_polled_once;
use crate::checks::{ImmediateResponse, begins_dialog, capabilities, check_request};
use crate::config::B2buaConfig;
use crate::connections::Connections;
use crate::counts::NotAdmitted;
use crate::sequencer::DialogSequencer;
use crate::sources::SourceQuotas;

/// Transactions that the SIP library may hold, including those that ended in the last 32 s: a base,
/// and a number per possible call.
const TRANSACTIONS: usize = 8192;
const TRANSACTIONS_PER_CALL: usize = 8;

/// Denominator of the share of these transactions that INVITEs from one address may take.
const ADDRESS_SHARE: usize = 8;

/// Maximum number of stateless responses waiting to be sent.
const MAX_ANSWERS: usize = 256;

/// Admits INVITEs for new calls while there is room to answer them, and requests within calls up to
/// twice that number of transactions. Others are dropped unprocessed; their senders retransmit.
/// Requests outside of calls, and INVITEs from an address above its limits, are answered statelessly.
pub(crate) struct Admission {
    pub(crate) config: B2buaConfig,
    max_transactions: usize,
    sequencer: DialogSequencer,
    pub(crate) sources: Arc<SourceQuotas>,
    answers: Arc<Semaphore>,
    /// TCP connections.
    pub(crate) connections: Connections,
    pub(crate) endpoint: OnceLock<Weak<EndpointInner>>,
    dropped: AtomicU64,
    /// INVITEs refused because of the limits per address.
    crowded: AtomicU64,
}

impl Admission {
    pub(crate) fn new(config: B2buaConfig, sequencer: DialogSequencer) -> Self {
        let calls = config.max_calls.saturating_mul(TRANSACTIONS_PER_CALL);
        let max_transactions = calls.saturating_add(TRANSACTIONS).min(usize::MAX / 2);
        Self {
            sources: SourceQuotas::new(config.per_address, max_transactions / ADDRESS_SHARE),
            max_transactions,
            sequencer,
            answers: Arc::new(Semaphore::new(MAX_ANSWERS)),
            connections: Connections::new(&config),
            endpoint: OnceLock::new(),
            dropped: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
            config,
        }
    }

    /// Returns the address whose limits apply to a request, or `None` for a configured SIP server.
    pub(crate) fn limited_address(&self, from: Option<SocketAddr>) -> Option<IpAddr> {
        let address = from.map(|from| from.ip());
        address.filter(|address| !self.config.is_hop(*address))
    }

    /// Returns the number of requests that were not admitted.
    pub(crate) fn not_admitted(&self) -> NotAdmitted {
        NotAdmitted {
            flooded: self.dropped.load(Ordering::Relaxed),
            crowded: self.crowded.load(Ordering::Relaxed),
        }
    }

    /// Counts a call refused because of the limits per address.
    pub(crate) fn count_address_limit(&self) {
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a request is admitted. If not, it has been answered or dropped.
    fn admits(&self, request: &Request, from: &SipConnection, at: &SipAddr) -> bool {
        let Some(endpoint) = self.endpoint.get().and_then(Weak::upgrade) else {
            return true;
        };
        // ACK and CANCEL belong to an existing transaction, or to none.
        if matches!(request.method, Method::Ack | Method::Cancel) {
            return true;
        }
        let key = TransactionKey::from_request(request, TransactionRole::Server);
        let retransmitted = key.is_ok_and(|key| {
            endpoint.transactions.contains_key(&key)
                || endpoint.finished_transactions.contains_key(&key)
        });
        if retransmitted {
            return true;
        }
        let begins = begins_dialog(request);
        if let Some(fault) = self.immediate_response(request, begins) {
            self.answer(&endpoint, request, fault, from.clone(), at.clone());
            return false;
        }
        let most = if begins {
            self.max_transactions
        } else {
            2 * self.max_transactions
        };
        let current = endpoint.transactions.len() + endpoint.finished_transactions.len();
        if current > most {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let source = self
            .limited_address(at.get_socketaddr().ok())
            .filter(|_| begins);
        if source.is_some_and(|from| !self.sources.admits(Instant::now(), from)) {
            self.count_address_limit();
            self.answer(
                &endpoint,
                request,
                ImmediateResponse::busy(),
                from.clone(),
                at.clone(),
            );
            return false;
        }
        true
    }

    /// Returns the response to a request that neither begins a call nor belongs to one.
    fn immediate_response(&self, request: &Request, begins: bool) -> Option<ImmediateResponse> {
        if (begins && request.method == Method::Invite)
            || (!begins && self.sequencer.of_request(request).is_some())
        {
            return None;
        }
        Some(match (check_request(request, begins), request.method) {
            (Some(fault), _) => fault,
            (None, Method::Options) => capabilities(),
            (None, _) => {
                ImmediateResponse::new(StatusCode::CallTransactionDoesNotExist, Vec::new())
            }
        })
    }

    /// Responds as a stateless UAS (RFC 3261, section 8.2.7).
    fn answer(
        &self,
        endpoint: &EndpointInner,
        request: &Request,
        fault: ImmediateResponse,
        connection: SipConnection,
        at: SipAddr,
    ) {
        let Ok(room) = Arc::clone(&self.answers).try_acquire_owned() else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut response = endpoint.make_response(request, fault.status, None);
        if let (true, Ok(to)) = (begins_dialog(request), request.to_header()) {
            let mut tag = DefaultHasher::new();
            // The tag must be the same for each retransmission.
            let via = request.via_header().map(|via| via.value().to_owned());
            via.unwrap_or_default().hash(&mut tag);
            let to = to.clone().with_tag(format!("{:x}", tag.finish()).into());
            response.headers.unique_push(to.into());
        }
        response.headers.extend(fault.headers);
        spawn_polled_once(async move {
            // A peer that can't be reached retransmits.
            let _ = connection
                .send(SipMessage::Response(response), Some(&at))
                .await;
            drop(room);
        });
    }
}

/// Adapter of [`Admission`] to the SIP library.
pub(crate) struct AdmissionInspector(pub(crate) Arc<Admission>);

impl TransportEventInspector for AdmissionInspector {
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
