//! Back-to-back user agent: receives requests and runs one task per call.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use carrick_metrics::AcceptFailures;
use futures_util::poll;
use rsipstack::dialog::dialog::Dialog;
use rsipstack::dialog::dialog_layer::DialogLayer;
use rsipstack::dialog::invite_dialog::InviteDialog;
use rsipstack::sip::{Header, Method, Param, StatusCode, Transport, Uri};
use rsipstack::transaction::{Endpoint, EndpointBuilder, Transaction};
use rsipstack::transport::udp::UdpConnection;
use rsipstack::transport::{SipConnection, TransportLayer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use crate::acks::DelayedAcks;
use crate::admission::{Admission, AdmissionInspector};
use crate::call::{Call, uri};
use crate::call_leg::{ACK_TIMEOUT, CallLeg, acknowledged, max_forwards, spawn_polled_once};
use crate::call_pinholes::CallPinholes;
use crate::checks::{ImmediateResponse, begins_dialog, capabilities, check_request};
use crate::config::B2buaConfig;
use crate::connections::accept_connections;
use crate::counts::{CallCounts, Counters, RefusedBy};
use crate::inside_media::{InsideMedia, InsideMediaOfCall};
use crate::loops::LoopDetector;
use crate::pinholes::Pinholes;
use crate::record::{CallRecord, CallRecords};
use crate::sequencer::DialogSequencer;

/// Capacity of the channel of call records.
const RECORDS: usize = 1024;

/// Reason for which the agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum B2buaError {
    /// The address can't be bound.
    #[error(
        "cannot listen on {address} (UDP and TCP): {why}; give an address of this host that both sides reach and a free port"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        why: String,
    },
    /// The configuration is invalid.
    #[error("{0}")]
    Configuration(String),
}

/// State shared by all calls.
pub(crate) struct Shared<P> {
    pub(crate) config: B2buaConfig,
    pub(crate) pinholes: P,
    pub(crate) layer: Arc<DialogLayer>,
    pub(crate) counts: Counters,
    pub(crate) acks: DelayedAcks,
    pub(crate) loops: LoopDetector,
    pub(crate) sequencer: DialogSequencer,
    pub(crate) admission: Arc<Admission>,
    pub(crate) inside_media: Arc<InsideMedia>,
    pub(crate) accept_failures: AcceptFailures,
    pub(crate) records: broadcast::Sender<CallRecord>,
    /// Ends the calls.
    pub(crate) stop: CancellationToken,
}

impl<P> Shared<P> {
    /// Returns the dialog of a request, if the library has it.
    fn invite_dialog(&self, transaction: &Transaction) -> Option<InviteDialog> {
        match self.layer.match_dialog(transaction)? {
            Dialog::Invite(dialog) => Some(dialog),
            _ => None,
        }
    }
}

/// Running back-to-back user agent. Dropping it ends all calls without a BYE and leaves pinholes to
/// expire; use [`Self::stop`] for a graceful end.
pub struct B2bua<P: Pinholes> {
    shared: Arc<Shared<P>>,
    endpoint: Arc<Endpoint>,
    room: Arc<Semaphore>,
    /// Ends all tasks.
    end: CancellationToken,
}

impl<P: Pinholes> Drop for B2bua<P> {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Attempts to find a port that is free for both TCP and UDP.
const PORT_ATTEMPTS: usize = 16;

/// Binds both sockets to one port.
async fn listen(
    address: SocketAddr,
    sockets: &CancellationToken,
) -> Result<(TcpListener, UdpConnection), B2buaError> {
    let failed = |why: String| B2buaError::Listen { address, why };
    let mut choices = if address.port() == 0 {
        PORT_ATTEMPTS
    } else {
        1
    };
    loop {
        choices -= 1;
        let tcp = TcpListener::bind(address).await;
        let tcp = tcp.map_err(|error| failed(error.to_string()))?;
        let chosen = tcp.local_addr();
        let chosen = chosen.map_err(|error| failed(error.to_string()))?;
        match UdpConnection::create_connection(chosen, None, Some(sockets.clone())).await {
            Ok(udp) => return Ok((tcp, udp)),
            Err(error) if choices == 0 => return Err(failed(error.to_string())),
            Err(_) => {}
        }
    }
}

impl<P: Pinholes> B2bua<P> {
    /// Starts to listen and to accept calls.
    ///
    /// 1. Check the configuration and bind the UDP and TCP sockets.
    /// 2. Build the SIP endpoint, with the limits of calls and addresses in front of it.
    /// 3. Start the tasks that accept connections, serve the endpoint and handle transactions.
    ///
    /// # Errors
    /// The address can't be bound, or the configuration is invalid.
    pub async fn start(config: B2buaConfig, pinholes: P) -> Result<Self, B2buaError> {
        config.check().map_err(B2buaError::Configuration)?;
        let end = CancellationToken::new();
        let (tcp, udp) = listen(config.listen, &end).await?;
        let config = B2buaConfig {
            listen: tcp.local_addr().unwrap_or(config.listen),
            ..config
        };
        let transports = TransportLayer::new(end.clone());
        transports.add_transport(udp.into());
        let sequencer = DialogSequencer::default();
        let admission = Arc::new(Admission::new(config.clone(), sequencer.clone()));
        let acks = DelayedAcks::new(sequencer.clone());
        let endpoint = EndpointBuilder::new()
            .with_cancel_token(end.clone())
            .with_transport_layer(transports)
            .with_user_agent("carrick")
            .with_inspector(Box::new(acks.clone()))
            .with_transport_inspector(Box::new(AdmissionInspector(Arc::clone(&admission))))
            .build();
        let endpoint = Arc::new(endpoint);
        // Set only here.
        let _ = admission.endpoint.set(Arc::downgrade(&endpoint.inner));
        let accept_failures = AcceptFailures::default();
        tokio::spawn(accept_connections(
            tcp,
            accept_failures.clone(),
            Arc::clone(&admission),
            Arc::clone(&endpoint.inner),
            end.clone(),
        ));
        let room = Arc::new(Semaphore::new(config.max_calls));
        let shared = Arc::new(Shared {
            layer: Arc::new(DialogLayer::new(endpoint.inner.clone())),
            config,
            pinholes,
            counts: Counters::default(),
            acks,
            loops: LoopDetector::default(),
            sequencer,
            admission,
            inside_media: Arc::default(),
            accept_failures,
            records: broadcast::Sender::new(RECORDS),
            stop: CancellationToken::new(),
        });
        let serving = Arc::clone(&endpoint);
        tokio::spawn(async move { serving.serve().await });
        let incoming = endpoint.incoming_transactions();
        let mut incoming = incoming.map_err(|error| B2buaError::Listen {
            address: shared.config.listen,
            why: error.to_string(),
        })?;
        let handler = Self {
            shared: Arc::clone(&shared),
            endpoint: Arc::clone(&endpoint),
            room: Arc::clone(&room),
            end: end.clone(),
        };
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            while let Some(transaction) = incoming.recv().await {
                handler.handle(transaction);
            }
        }));
        Ok(Self {
            shared,
            endpoint,
            room,
            end,
        })
    }

    /// Returns the listening address, with the port that the host chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.shared.config.listen
    }

    /// Returns a snapshot of the counters.
    pub fn counts(&self) -> CallCounts {
        self.shared
            .counts
            .read(self.shared.admission.not_admitted())
    }

    /// Returns the metrics in the text format of `OpenMetrics`.
    pub fn metrics(&self) -> String {
        let accepts = self.shared.accept_failures.total();
        let not_admitted = self.shared.admission.not_admitted();
        self.shared.counts.metrics(not_admitted, accepts)
    }

    /// Returns the failures to accept connections.
    pub fn accept_failures(&self) -> &AcceptFailures {
        &self.shared.accept_failures
    }

    /// Returns a stream of the records of calls that end from now on.
    pub fn records(&self) -> CallRecords {
        CallRecords(self.shared.records.subscribe())
    }

    /// Ends all calls, closes their pinholes and stops listening. Waits for the peers at most
    /// `patience`.
    pub async fn stop(&self, patience: Duration) {
        self.shared.stop.cancel();
        let all = u32::try_from(self.shared.config.max_calls).unwrap_or(u32::MAX);
        let ended = self.room.acquire_many(all);
        // Peers that do not answer are abandoned.
        let _ = tokio::time::timeout(patience, ended).await;
        self.endpoint.shutdown();
    }

    /// Handles a request that was admitted: an INVITE for a new call or a request within a call.
    fn handle(&self, transaction: Transaction) {
        let request = &transaction.original;
        let begins = begins_dialog(request);
        let is_call = begins && request.method == Method::Invite;
        if is_call {
            self.shared.counts.offered();
        }
        if let Some(ImmediateResponse { status, headers }) = check_request(request, begins) {
            if is_call {
                self.shared.counts.refused(RefusedBy::Agent, status.code());
            }
            return answer(transaction, status, headers);
        }
        match request.method {
            Method::Invite if begins => self.handle_invite(transaction),
            Method::Options => {
                let ImmediateResponse { status, headers } = capabilities();
                answer(transaction, status, headers);
            }
            _ => self.handle_in_dialog(transaction),
        }
    }

    /// Handles a request within a dialog, in the order of arrival. ACK, BYE and CANCEL do not wait for
    /// the requests before them.
    fn handle_in_dialog(&self, mut transaction: Transaction) {
        let method = transaction.original.method;
        let dialog = self.shared.invite_dialog(&transaction);
        let lock = self.shared.sequencer.of_request(&transaction.original);
        let lock = match (&dialog, lock) {
            (Some(_), lock) => lock.unwrap_or_default(),
            (None, _) if method == Method::Ack => return,
            // The callee's 2xx is acknowledged before the library has its dialog.
            (None, Some(lock)) if lock.answered => lock,
            (None, Some(_)) if method != Method::Bye => {
                let ImmediateResponse { status, headers } = ImmediateResponse::too_early();
                return answer(transaction, status, headers);
            }
            (None, _) => return answer_unknown_dialog(transaction),
        };
        let shared = Arc::clone(&self.shared);
        spawn_polled_once(async move {
            let skips_lock = matches!(method, Method::Ack | Method::Bye | Method::Cancel);
            let mut guard = if skips_lock && dialog.is_some() {
                None
            } else {
                Some(lock.lock().await)
            };
            let Some(mut dialog) = dialog.or_else(|| shared.invite_dialog(&transaction)) else {
                return answer_unknown_dialog(transaction);
            };
            if skips_lock {
                guard = None;
            } else {
                acknowledged(&dialog, ACK_TIMEOUT).await;
            }
            let state = dialog.state();
            if !skips_lock && !state.is_confirmed() && !state.is_terminated() {
                let ImmediateResponse { status, headers } = ImmediateResponse::too_early();
                return answer(transaction, status, headers);
            }
            // An error ends the transaction, and the dialog notifies the call.
            let mut handling = pin!(dialog.handle(&mut transaction));
            // The first poll takes the CSeq number.
            if poll!(handling.as_mut()).is_pending() {
                drop(guard);
                let _ = handling.await;
            }
        });
    }

    /// Returns the Contact for a caller, with the transport that it uses.
    fn contact(&self, transaction: &Transaction) -> Uri {
        let mut contact = uri(self.shared.config.listen, None);
        let connection = transaction.connection.as_ref();
        if connection.is_some_and(SipConnection::is_reliable) {
            contact.params.push(Param::Transport(Transport::Tcp));
        }
        contact
    }

    /// Begins a call, or refuses its INVITE.
    fn handle_invite(&self, mut transaction: Transaction) {
        let counts = &self.shared.counts;
        let refuse = |transaction, status: StatusCode, headers| {
            counts.refused(RefusedBy::Agent, status.code());
            answer(transaction, status, headers);
        };
        if max_forwards(&transaction.original) == 0 {
            return refuse(transaction, StatusCode::TooManyHops, Vec::new());
        }
        if self.shared.loops.is_merged(&transaction.original) {
            return refuse(transaction, StatusCode::LoopDetected, Vec::new());
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            counts.too_many();
            let ImmediateResponse { status, headers } = ImmediateResponse::busy();
            return refuse(transaction, status, headers);
        };
        let admission = &self.shared.admission;
        let source = source(&transaction);
        let Some(quota) = admission.sources.begin(admission.limited_address(source)) else {
            admission.count_address_limit();
            let ImmediateResponse { status, headers } = ImmediateResponse::busy();
            return refuse(transaction, status, headers);
        };
        let layer = &self.shared.layer;
        let (reported, states) = layer.new_dialog_state_channel();
        let contact = self.contact(&transaction);
        let known = Some(contact.clone());
        let dialog = layer.get_or_create_server_invite(&transaction, reported, None, known);
        let Ok(dialog) = dialog else {
            return refuse(transaction, StatusCode::BadRequest, Vec::new());
        };
        self.shared.loops.add_received(&transaction.original);
        self.shared.sequencer.begin(&dialog.id());
        counts.calls.inc();
        let respond = transaction.tu_sender.clone();
        let firewall_side = self.shared.config.firewall_side_of(source);
        let mut handling = dialog.clone();
        tokio::spawn(async move { handling.handle(&mut transaction).await.ok() });
        let (shared, end) = (Arc::clone(&self.shared), self.end.clone());
        tokio::spawn(async move {
            let call = Call {
                caller: CallLeg::new(dialog, states),
                respond,
                firewall_side,
                contact,
                begun: Instant::now(),
                refused: OnceLock::new(),
                pinholes: CallPinholes::new(Arc::clone(&shared), quota),
                inside_media: InsideMediaOfCall::new(Arc::clone(&shared.inside_media)),
                shared: Arc::clone(&shared),
            };
            end.run_until_cancelled(call.run()).await;
            shared.counts.calls.dec();
            drop(room);
        });
    }
}

/// Returns the address from which a request was received. Its headers are not used: they may be forged.
fn source(transaction: &Transaction) -> Option<SocketAddr> {
    let remote = transaction.connection.as_ref()?.get_remote_addr()?;
    remote.get_socketaddr().ok()
}

/// Answers a request for a dialog that does not exist (RFC 3261, section 12.2.2).
fn answer_unknown_dialog(transaction: Transaction) {
    answer(
        transaction,
        StatusCode::CallTransactionDoesNotExist,
        Vec::new(),
    );
}

/// Sends a final response in a separate task.
fn answer(mut transaction: Transaction, status: StatusCode, headers: Vec<Header>) {
    tokio::spawn(async move {
        // A peer that can't be reached retransmits.
        let _ = transaction.reply_with(status, headers, None).await;
        // Retransmissions get the same response until the transaction ends.
        while transaction.receive().await.is_some() {}
    });
}
