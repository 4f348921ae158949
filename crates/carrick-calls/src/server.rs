//! Takes requests, and has a task for each call.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use carrick_simco::daemon::AcceptFailures;
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

use crate::acks::Acks;
use crate::call::{Call, uri};
use crate::checks::{Fault, begins, capabilities, fault};
use crate::config::B2buaConfig;
use crate::connections::take_connections;
use crate::counts::{By, Counters, Counts};
use crate::door::{Door, Doorkeeper};
use crate::holes::Holes;
use crate::legs::{Leg, acknowledged, max_forwards, spawn_begun};
use crate::loops::Loops;
use crate::pinholes::Pinholes;
use crate::record::{CallRecord, Records};
use crate::turns::Turns;

/// Records of calls that a slow listener may be behind.
const RECORDS: usize = 1024;

/// Why it does not run.
#[derive(Debug, thiserror::Error)]
pub enum B2buaError {
    /// The address can't be had.
    #[error(
        "can't listen at {address} with UDP and TCP: {why}; give an address of this host that both sides reach, and a port that is free"
    )]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        why: String,
    },
    /// The configuration is wrong.
    #[error("{0}")]
    Configuration(String),
}

/// What all calls share.
pub(crate) struct Shared<P> {
    pub(crate) config: B2buaConfig,
    pub(crate) pinholes: P,
    pub(crate) layer: Arc<DialogLayer>,
    pub(crate) counts: Counters,
    pub(crate) acks: Acks,
    pub(crate) loops: Loops,
    pub(crate) turns: Turns,
    pub(crate) door: Arc<Door>,
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

/// A back-to-back user agent that runs. Dropped, it ends at once: nobody is told, and what is open ends
/// by itself; [`Self::stop`] is what says goodbye.
pub struct B2bua<P: Pinholes> {
    shared: Arc<Shared<P>>,
    endpoint: Arc<Endpoint>,
    room: Arc<Semaphore>,
    /// Ends all that runs.
    end: CancellationToken,
}

impl<P: Pinholes> Drop for B2bua<P> {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// How often the host may choose a port for TCP that UDP doesn't have.
const CHOICES: usize = 16;

/// Both sockets, at one port.
async fn listen(
    address: SocketAddr,
    sockets: &CancellationToken,
) -> Result<(TcpListener, UdpConnection), B2buaError> {
    let failed = |why: String| B2buaError::Listen { address, why };
    let mut choices = if address.port() == 0 { CHOICES } else { 1 };
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
    /// Listens, and takes calls from now on.
    ///
    /// # Errors
    /// When it can't listen, or the configuration is wrong.
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
        let turns = Turns::default();
        let door = Arc::new(Door::new(config.clone(), turns.clone()));
        let acks = Acks::new(turns.clone());
        let endpoint = EndpointBuilder::new()
            .with_cancel_token(end.clone())
            .with_transport_layer(transports)
            .with_user_agent("carrick")
            .with_inspector(Box::new(acks.clone()))
            .with_transport_inspector(Box::new(Doorkeeper(Arc::clone(&door))))
            .build();
        let endpoint = Arc::new(endpoint);
        // Nobody else sets it.
        let _ = door.endpoint.set(Arc::downgrade(&endpoint.inner));
        let accept_failures = AcceptFailures::default();
        tokio::spawn(take_connections(
            tcp,
            accept_failures.clone(),
            Arc::clone(&door),
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
            loops: Loops::default(),
            turns,
            door,
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
        let taking = Self {
            shared: Arc::clone(&shared),
            endpoint: Arc::clone(&endpoint),
            room: Arc::clone(&room),
            end: end.clone(),
        };
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            while let Some(transaction) = incoming.recv().await {
                taking.take(transaction);
            }
        }));
        Ok(Self {
            shared,
            endpoint,
            room,
            end,
        })
    }

    /// Where it listens; the port is the host's choice if the configuration has port 0.
    pub fn address(&self) -> SocketAddr {
        self.shared.config.listen
    }

    /// What there is and was.
    pub fn counts(&self) -> Counts {
        self.shared.counts.read(self.shared.door.turned_away())
    }

    /// The same and more in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        let accepts = self.shared.accept_failures.total();
        let turned_away = self.shared.door.turned_away();
        self.shared.counts.metrics(turned_away, accepts)
    }

    /// Returns the failures to accept connections.
    pub fn accept_failures(&self) -> &AcceptFailures {
        &self.shared.accept_failures
    }

    /// The calls that end from now on.
    pub fn records(&self) -> Records {
        Records(self.shared.records.subscribe())
    }

    /// Ends all calls and closes their pinholes, then stops listening. Takes as long as the peers may
    /// take to answer, but not longer than `patience`.
    pub async fn stop(&self, patience: Duration) {
        self.shared.stop.cancel();
        let all = u32::try_from(self.shared.config.max_calls).unwrap_or(u32::MAX);
        let ended = self.room.acquire_many(all);
        // Whoever does not answer is left alone.
        let _ = tokio::time::timeout(patience, ended).await;
        self.endpoint.shutdown();
    }

    fn take(&self, transaction: Transaction) {
        let request = &transaction.original;
        let begins = begins(request);
        let calls = begins && request.method == Method::Invite;
        if calls {
            self.shared.counts.offered();
        }
        if let Some(Fault { status, headers }) = fault(request, begins) {
            if calls {
                self.shared.counts.refused(By::Agent, status.code());
            }
            return answer(transaction, status, headers);
        }
        match request.method {
            Method::Invite if begins => self.invite(transaction),
            Method::Options => {
                let Fault { status, headers } = capabilities();
                answer(transaction, status, headers);
            }
            _ => self.in_call(transaction),
        }
    }

    /// Handles a request within a dialog, in the order of arrival.
    fn in_call(&self, mut transaction: Transaction) {
        let method = transaction.original.method;
        let dialog = self.shared.invite_dialog(&transaction);
        let turn = self.shared.turns.of_request(&transaction.original);
        let turn = match (&dialog, turn) {
            (Some(_), turn) => turn.unwrap_or_default(),
            (None, _) if method == Method::Ack => return,
            // The 2xx of the callee is acknowledged before the library has its dialog.
            (None, Some(turn)) if turn.answered => turn,
            (None, Some(_)) if method != Method::Bye => {
                let Fault { status, headers } = Fault::too_early();
                return answer(transaction, status, headers);
            }
            (None, _) => return unknown(transaction),
        };
        let shared = Arc::clone(&self.shared);
        spawn_begun(async move {
            let hurries = matches!(method, Method::Ack | Method::Bye | Method::Cancel);
            let mut turn = if hurries && dialog.is_some() {
                None
            } else {
                Some(turn.lock().await)
            };
            let Some(mut dialog) = dialog.or_else(|| shared.invite_dialog(&transaction)) else {
                return unknown(transaction);
            };
            if hurries {
                turn = None;
            } else {
                acknowledged(&dialog).await;
            }
            let state = dialog.state();
            if !hurries && !state.is_confirmed() && !state.is_terminated() {
                let Fault { status, headers } = Fault::too_early();
                return answer(transaction, status, headers);
            }
            // What goes wrong there ends the transaction, and the dialog notifies the call.
            let mut handling = pin!(dialog.handle(&mut transaction));
            // In its first step the number is taken.
            if poll!(handling.as_mut()).is_pending() {
                drop(turn);
                let _ = handling.await;
            }
        });
    }

    /// Where a caller's requests are to go: over the transport that it uses.
    fn contact(&self, transaction: &Transaction) -> Uri {
        let mut contact = uri(self.shared.config.listen, None);
        let connection = transaction.connection.as_ref();
        if connection.is_some_and(SipConnection::is_reliable) {
            contact.params.push(Param::Transport(Transport::Tcp));
        }
        contact
    }

    fn invite(&self, mut transaction: Transaction) {
        let counts = &self.shared.counts;
        let refuse = |transaction, status: StatusCode, headers| {
            counts.refused(By::Agent, status.code());
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
            let Fault { status, headers } = Fault::busy();
            return refuse(transaction, status, headers);
        };
        let door = &self.shared.door;
        let source = source(&transaction);
        let Some(share) = door.sources.begin(door.counted(source)) else {
            door.crowd();
            let Fault { status, headers } = Fault::busy();
            return refuse(transaction, status, headers);
        };
        let layer = &self.shared.layer;
        let (told, states) = layer.new_dialog_state_channel();
        let contact = self.contact(&transaction);
        let known = Some(contact.clone());
        let dialog = layer.get_or_create_server_invite(&transaction, told, None, known);
        let Ok(dialog) = dialog else {
            return refuse(transaction, StatusCode::BadRequest, Vec::new());
        };
        self.shared.loops.take(&transaction.original);
        self.shared.turns.begin(&dialog.id());
        counts.calls.fetch_add(1, Ordering::Relaxed);
        let respond = transaction.tu_sender.clone();
        let place = self.shared.config.place_of(source);
        let mut handling = dialog.clone();
        tokio::spawn(async move { handling.handle(&mut transaction).await.ok() });
        let (shared, end) = (Arc::clone(&self.shared), self.end.clone());
        tokio::spawn(async move {
            let call = Call {
                caller: Leg::new(dialog, states),
                respond,
                place,
                contact,
                begun: Instant::now(),
                refused: OnceLock::new(),
                holes: Holes::new(Arc::clone(&shared), share),
                shared: Arc::clone(&shared),
            };
            end.run_until_cancelled(call.run()).await;
            shared.counts.calls.fetch_sub(1, Ordering::Relaxed);
            drop(room);
        });
    }
}

/// Where a request came from: what its sender says of it does not count.
fn source(transaction: &Transaction) -> Option<SocketAddr> {
    let remote = transaction.connection.as_ref()?.get_remote_addr()?;
    remote.get_socketaddr().ok()
}

/// Answers a request for a dialog that does not exist (RFC 3261 section 12.2.2).
fn unknown(transaction: Transaction) {
    answer(
        transaction,
        StatusCode::CallTransactionDoesNotExist,
        Vec::new(),
    );
}

fn answer(mut transaction: Transaction, status: StatusCode, headers: Vec<Header>) {
    tokio::spawn(async move {
        // A peer that can't be reached asks again.
        let _ = transaction.reply_with(status, headers, None).await;
        // Repeated requests get the same answer, until the transaction is over.
        while transaction.receive().await.is_some() {}
    });
}
