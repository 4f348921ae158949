//! The handle of an endpoint.

use std::net::IpAddr;
use std::sync::Arc;

use carrick_proto::{EndpointConfig, EndpointStats, PeerAddress};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::association::Association;
use crate::command::{Command, Commands, Connect};
use crate::config::{Config, ConnectOptions, Transport};
use crate::driver::{Below, Driver, Limits, Watch};
use crate::error::{BindError, ConnectError, OperationError};
use crate::port::Claim;
use crate::socket::{SocketSet, addresses};
use crate::source::HostRoutes;

/// An SCTP endpoint on this host's addresses. Clones are handles of the same endpoint.
///
/// Its task is one of the runtime that [`Self::bind`] is called on, and ends with it: await
/// [`Self::close`] before `main` returns, or messages that were accepted may be lost and peers get an
/// ABORT. See the crate's documentation for this, and for what ends when the last handle is dropped.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    commands: Commands,
    accepted: Mutex<mpsc::Receiver<Association>>,
    port: u16,
    /// With the UDP port that it has.
    transport: Transport,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Without a task nobody is accepted anyway.
        let _ = self.commands.send(Command::StopAccepting);
    }
}

impl Endpoint {
    /// Opens an endpoint and starts its task on the current runtime.
    ///
    /// # Errors
    /// Says what is wrong with the configuration, or why a socket could not be opened.
    pub fn bind(mut config: Config) -> Result<Self, BindError> {
        let runtime = Handle::try_current().map_err(|_| BindError::NoRuntime)?;
        let limits = Limits::new(&config)?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(BindError::Random)?;
        let bound = addresses::resolve(&config.addresses)?;
        let mut sockets = SocketSet::bind(&bound, config.transport, config.socket_buffer)?;
        let transport = sockets.transport();
        let claim = Claim::new(&config, transport.encapsulation_port(), &bound)?;
        let number = claim.port();
        sockets.hold(claim);
        let mut parameters = EndpointConfig {
            accept: config.accept,
            max_associations: config.max_associations,
            max_associations_per_source: config.max_associations_per_source,
            receive_memory: config.receive_memory,
            association: config.association.clone(),
            source_selection: Box::new(HostRoutes::default()),
            ..EndpointConfig::new(number, bound, seed)
        };
        let below = Below::new(&mut config, &mut parameters)?;
        let core = (carrick_proto::Endpoint::new(parameters)?, below);
        let (commands, orders) = mpsc::unbounded_channel();
        let (accepted, to_accept) = mpsc::channel(config.backlog);
        let mut watch = None;
        if config.auto_addresses {
            watch = Some(Watch::new(config.addresses).map_err(BindError::WatchAddresses)?);
        }
        let driver = Driver::new(core, (sockets, watch), limits, &commands, orders, accepted);
        runtime.spawn(driver);
        Ok(Self {
            inner: Arc::new(Inner {
                commands,
                accepted: Mutex::new(to_accept),
                port: number,
                transport,
            }),
        })
    }

    /// Sets up an association with the peer that has these addresses; the first is tried first, and
    /// those that the peer tells are added. Ready when messages can be sent.
    ///
    /// When this future is dropped, the set-up is given up.
    ///
    /// # Errors
    /// Says what is wrong with the arguments, or why the set-up failed.
    pub async fn connect(
        &self,
        peers: &[IpAddr],
        options: ConnectOptions,
    ) -> Result<Association, ConnectError> {
        let transport = self.inner.transport;
        let ways = peers.iter().map(|peer| options.way(*peer, transport));
        let peers = ways.collect::<Result<Vec<PeerAddress>, _>>()?;
        if let Some(config) = &options.association {
            config.validate()?;
        }
        let (answer, answered) = oneshot::channel();
        let connect = Connect {
            peers,
            port: options.port,
            config: options.association.map(Arc::new),
            #[cfg(feature = "dtls")]
            trust: options.trust,
            answer,
        };
        let waiting = Waiting {
            commands: &self.inner.commands,
            done: false,
        };
        self.tell(Command::Connect(connect));
        let result = answered.await.unwrap_or(Err(ConnectError::EndpointClosed));
        waiting.done();
        result
    }

    /// The next association that a peer has set up; `None` after [`Self::close`]. Cancel-safe.
    pub async fn accept(&self) -> Option<Association> {
        let association = self.inner.accepted.lock().await.recv().await?;
        association.accept();
        Some(association)
    }

    /// The endpoint's counters.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub async fn stats(&self) -> Result<Stats, OperationError> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Stats(answer));
        answered.await.map_err(|_| OperationError::EndpointClosed)
    }

    /// The number of associations, those being set up and shut down included.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub async fn associations(&self) -> Result<usize, OperationError> {
        self.look(|core| core.associations().count()).await
    }

    /// The addresses that the endpoint is bound to.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub async fn local_addresses(&self) -> Result<Vec<IpAddr>, OperationError> {
        self.look(|core| core.local_addresses().to_vec()).await
    }

    async fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&mut carrick_proto::Endpoint) -> R + Send + 'static,
    ) -> Result<R, OperationError> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Work(Box::new(|core, _| {
            // Whoever asked may have lost interest.
            let _ = answer.send(look(core));
        })));
        answered.await.map_err(|_| OperationError::EndpointClosed)
    }

    /// Changes the association limits, [`Config::max_associations`] and
    /// [`Config::max_associations_per_source`]. Existing associations are kept even if they exceed them.
    pub fn set_max_associations(&self, most: usize, per_source: Option<usize>) {
        let set = move |core: &mut carrick_proto::Endpoint, _| {
            core.set_max_associations(most, per_source)
        };
        self.tell(Command::Work(Box::new(set)));
    }

    /// The SCTP port.
    pub fn port(&self) -> u16 {
        self.inner.port
    }

    /// The local UDP port; `None` on plain IP.
    pub fn encapsulation_port(&self) -> Option<u16> {
        self.inner.transport.encapsulation_port()
    }

    /// The host has a new address: a socket is opened for it, associations set up from now on use
    /// it, and those with dynamic addresses (RFC 5061) advertise it to their peers. With
    /// [`Config::auto_addresses`] this happens by itself.
    ///
    /// The source address of every path is selected again among the addresses that the peer knows, so
    /// paths return to an address that was removed and is added again (RFC 9260 section 6.4).
    ///
    /// # Errors
    /// It cannot be bound.
    pub async fn local_address_added(&self, address: IpAddr) -> Result<(), BindError> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::AddAddress(address, answer));
        answered.await.unwrap_or(Err(BindError::EndpointClosed))
    }

    /// The host has lost an address: paths from it change to another one, and peers of associations
    /// with dynamic addresses (RFC 5061) learn of it. With [`Config::auto_addresses`] this happens
    /// by itself.
    pub fn local_address_removed(&self, address: IpAddr) {
        self.tell(Command::RemoveAddress(address));
    }

    /// Closes the endpoint: no more associations, those that exist are shut down gracefully. Ready
    /// when the last has ended and the sockets are closed. Peers' messages that nobody receives are
    /// given up after [`Config::linger`].
    ///
    /// To be awaited before the runtime ends: only then every message that [`crate::SendHalf::send`]
    /// accepted is acknowledged by its peer, or reported in [`crate::Event::SendFailed`].
    ///
    /// When this future is dropped, closing goes on.
    pub async fn close(&self) {
        self.tell(Command::Close);
        self.inner.commands.closed().await;
    }

    /// Tells the task something. If the task has ended, whoever waits for an answer finds out.
    fn tell(&self, command: Command) {
        let _ = self.inner.commands.send(command);
    }
}

/// Counters of an endpoint, since it was bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// What the protocol did.
    pub protocol: EndpointStats,
    /// Sends that the system refused: no route, larger than the route's MTU, filtered, or no room
    /// while a neighbour did not answer. The protocol sends again what was lost with them.
    pub unsendable: u64,
    /// What happened below the protocol, where the endpoint uses DTLS.
    #[cfg(feature = "dtls")]
    pub sessions: carrick_proto::protection::SessionStats,
}

/// Tells the task when nobody waits for a set-up any more.
struct Waiting<'a> {
    commands: &'a Commands,
    done: bool,
}

impl Waiting<'_> {
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.done {
            // Without a task there is no set-up.
            let _ = self.commands.send(Command::ConnectCancelled);
        }
    }
}
