//! Takes requests, and has a task for each call.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rsipstack::dialog::dialog::Dialog;
use rsipstack::dialog::dialog_layer::DialogLayer;
use rsipstack::sip::prelude::HeadersExt as _;
use rsipstack::sip::{Header, Host, Method, Param, Request, StatusCode, Transport, Uri};
use rsipstack::transaction::{Endpoint, EndpointBuilder, Transaction};
use rsipstack::transport::udp::UdpConnection;
use rsipstack::transport::{SipConnection, TransportLayer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use crate::acks::Acks;
use crate::call::{Call, End, uri};
use crate::checks::{Fault, begins, fault};
use crate::config::B2buaConfig;
use crate::door::{Door, Doorkeeper, take_connections};
use crate::holes::Holes;
use crate::legs::{Leg, acknowledged, max_forwards};
use crate::pinholes::Pinholes;
use crate::record::{CallRecord, Records};

/// Seconds after which a caller may try again.
const RETRY_AFTER: &str = "10";

const ALLOWED: &str = "INVITE, ACK, CANCEL, BYE, OPTIONS, INFO, UPDATE, MESSAGE";

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
    Configuration(&'static str),
}

/// What there is and was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Calls that are there, established or not.
    pub calls: u64,
    /// Calls that were offered.
    pub offered: u64,
    /// Calls that were established.
    pub established: u64,
    /// Refusals and silences of the middlebox.
    pub refused_by_middlebox: u64,
    /// Calls that were refused because there were too many.
    pub too_many: u64,
    /// INVITEs that were dropped unread, in a flood.
    pub flooded: u64,
    /// Pinholes that are open.
    pub pinholes: u64,
    /// Established calls that were ended because a pinhole was lost, or a new one refused.
    pub lost: u64,
    /// Established calls that were ended because a side vanished.
    pub vanished: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    calls: AtomicU64,
    offered: AtomicU64,
    established: AtomicU64,
    refused_by_middlebox: AtomicU64,
    too_many: AtomicU64,
    pinholes: AtomicU64,
    lost: AtomicU64,
    vanished: AtomicU64,
}

impl Counters {
    pub(crate) fn ended(&self, why: &End) {
        let count = match why {
            End::PinholeLost | End::Refused(_) => &self.lost,
            End::Vanished => &self.vanished,
            End::HungUp | End::Unusable | End::Stopped => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn established(&self) {
        self.established.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused_by_middlebox(&self) {
        self.refused_by_middlebox.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn opened(&self, count: usize) {
        self.pinholes.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self, count: usize) {
        self.pinholes.fetch_sub(count as u64, Ordering::Relaxed);
    }
}

/// What all calls share.
pub(crate) struct Shared<P> {
    pub(crate) config: B2buaConfig,
    pub(crate) pinholes: P,
    pub(crate) layer: Arc<DialogLayer>,
    pub(crate) counts: Counters,
    pub(crate) acks: Acks,
    pub(crate) door: Arc<Door>,
    pub(crate) records: broadcast::Sender<CallRecord>,
    /// Ends the calls.
    pub(crate) stop: CancellationToken,
}

/// A back-to-back user agent that runs.
pub struct B2bua<P: Pinholes> {
    shared: Arc<Shared<P>>,
    endpoint: Arc<Endpoint>,
    room: Arc<Semaphore>,
}

impl<P: Pinholes> B2bua<P> {
    /// Listens, and takes calls from now on.
    ///
    /// # Errors
    /// When it can't listen, or the configuration is wrong.
    pub async fn start(config: B2buaConfig, pinholes: P) -> Result<Self, B2buaError> {
        let wrong = |text| Err(B2buaError::Configuration(text));
        if config.internal.is_empty() {
            return wrong("no internal network: say which networks are behind the firewall");
        }
        if config.inner.is_none() && config.outer.is_none() {
            return wrong("calls go nowhere: give the inner or the outer SIP server, or both");
        }
        if config.listen.ip().is_unspecified() {
            return wrong("listen at an address that both sides reach: it is told to both");
        }
        let sockets = CancellationToken::new();
        let udp = UdpConnection::create_connection(config.listen, None, Some(sockets.clone()));
        let udp = udp.await.map_err(|error| B2buaError::Listen {
            address: config.listen,
            why: error.to_string(),
        })?;
        let transports = TransportLayer::new(sockets.clone());
        transports.add_transport(udp.into());
        let tcp = TcpListener::bind(config.listen).await;
        let tcp = tcp.map_err(|error| B2buaError::Listen {
            address: config.listen,
            why: error.to_string(),
        })?;
        let door = Arc::new(Door::new(config.max_calls));
        let acks = Acks::default();
        let endpoint = EndpointBuilder::new()
            .with_cancel_token(sockets.clone())
            .with_transport_layer(transports)
            .with_user_agent("carrick")
            .with_inspector(Box::new(acks.clone()))
            .with_transport_inspector(Box::new(Doorkeeper(Arc::clone(&door))))
            .build();
        let endpoint = Arc::new(endpoint);
        // Nobody else sets it.
        let _ = door.endpoint.set(Arc::downgrade(&endpoint.inner));
        tokio::spawn(take_connections(
            tcp,
            config.listen,
            config.max_connections,
            Arc::clone(&endpoint.inner),
            sockets,
        ));
        let room = Arc::new(Semaphore::new(config.max_calls));
        let shared = Arc::new(Shared {
            layer: Arc::new(DialogLayer::new(endpoint.inner.clone())),
            config,
            pinholes,
            counts: Counters::default(),
            acks,
            door,
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
        };
        tokio::spawn(async move {
            while let Some(transaction) = incoming.recv().await {
                taking.take(transaction);
            }
        });
        Ok(Self {
            shared,
            endpoint,
            room,
        })
    }

    /// What there is and was.
    pub fn counts(&self) -> Counts {
        let Counters {
            calls,
            offered,
            established,
            refused_by_middlebox,
            too_many,
            pinholes,
            lost,
            vanished,
        } = &self.shared.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            calls: read(calls),
            offered: read(offered),
            established: read(established),
            refused_by_middlebox: read(refused_by_middlebox),
            too_many: read(too_many),
            flooded: read(&self.shared.door.dropped),
            pinholes: read(pinholes),
            lost: read(lost),
            vanished: read(vanished),
        }
    }

    /// The calls that end from now on.
    pub fn records(&self) -> Records {
        Records(self.shared.records.subscribe())
    }

    /// Ends all calls and closes their pinholes, then stops listening. Takes as long as the peers may
    /// take to answer, but not longer than `patience`.
    pub async fn stop(self, patience: Duration) {
        self.shared.stop.cancel();
        let all = u32::try_from(self.shared.config.max_calls).unwrap_or(u32::MAX);
        let ended = self.room.acquire_many(all);
        // Whoever does not answer is left alone.
        let _ = tokio::time::timeout(patience, ended).await;
        self.endpoint.shutdown();
    }

    fn take(&self, transaction: Transaction) {
        let begins = begins(&transaction.original);
        match transaction.original.method {
            Method::Ack
            | Method::Invite
            | Method::Bye
            | Method::Info
            | Method::Update
            | Method::Message
            | Method::Cancel
            | Method::Options => {}
            _ => {
                let allow = Header::Allow(ALLOWED.into());
                return answer(transaction, StatusCode::MethodNotAllowed, vec![allow]);
            }
        }
        if let Some(Fault { status, headers }) = fault(&transaction.original) {
            return answer(transaction, status, headers);
        }
        match transaction.original.method {
            Method::Invite if begins => self.invite(transaction),
            Method::Options => {
                let headers = vec![
                    Header::Allow(ALLOWED.into()),
                    Header::Accept("application/sdp".into()),
                ];
                answer(transaction, StatusCode::OK, headers);
            }
            _ => self.in_call(transaction),
        }
    }

    /// A request of a call that is there, or was.
    fn in_call(&self, mut transaction: Transaction) {
        match self.shared.layer.match_dialog(&transaction) {
            Some(Dialog::Invite(mut dialog)) => {
                tokio::spawn(async move {
                    let method = transaction.original.method;
                    let hurries = matches!(method, Method::Ack | Method::Bye | Method::Cancel);
                    if !hurries {
                        acknowledged(&dialog).await;
                    }
                    let state = dialog.state();
                    if !hurries && !state.is_confirmed() && !state.is_terminated() {
                        let Fault { status, headers } = Fault::too_early();
                        answer(transaction, status, headers);
                        return None;
                    }
                    // What goes wrong there ends the transaction, and the dialog tells.
                    dialog.handle(&mut transaction).await.ok()
                });
            }
            _ if transaction.original.method == Method::Ack => {}
            _ => answer(
                transaction,
                StatusCode::CallTransactionDoesNotExist,
                Vec::new(),
            ),
        }
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
        counts.offered.fetch_add(1, Ordering::Relaxed);
        if max_forwards(&transaction.original) == 0 {
            return answer(transaction, StatusCode::TooManyHops, Vec::new());
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            counts.too_many.fetch_add(1, Ordering::Relaxed);
            let later = Header::RetryAfter(RETRY_AFTER.into());
            return answer(transaction, StatusCode::ServiceUnavailable, vec![later]);
        };
        let layer = &self.shared.layer;
        let (told, states) = layer.new_dialog_state_channel();
        let contact = self.contact(&transaction);
        let dialog = layer.get_or_create_server_invite(&transaction, told, None, Some(contact));
        let Ok(dialog) = dialog else {
            return answer(transaction, StatusCode::BadRequest, Vec::new());
        };
        counts.calls.fetch_add(1, Ordering::Relaxed);
        let respond = transaction.tu_sender.clone();
        let from = source(&transaction.original);
        let mut handling = dialog.clone();
        tokio::spawn(async move { handling.handle(&mut transaction).await.ok() });
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let call = Call {
                caller: Leg { dialog, states },
                respond,
                from,
                holes: Holes::new(Arc::clone(&shared)),
                shared: Arc::clone(&shared),
            };
            call.run().await;
            shared.counts.calls.fetch_sub(1, Ordering::Relaxed);
            drop(room);
        });
    }
}

/// Where a request came from.
fn source(request: &Request) -> Option<IpAddr> {
    let via = request.via_header().ok()?;
    let (_, from) = SipConnection::parse_target_from_via(via).ok()?;
    match from.host {
        Host::IpAddr(address) => Some(address),
        Host::Domain(_) => None,
    }
}

fn answer(mut transaction: Transaction, status: StatusCode, headers: Vec<Header>) {
    tokio::spawn(async move {
        // A peer that can't be reached asks again.
        let _ = transaction.reply_with(status, headers, None).await;
        // Repeated requests get the same answer, until the transaction is over.
        while transaction.receive().await.is_some() {}
    });
}
