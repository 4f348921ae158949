//! Connection with a peer: set-up with back-off, or accepted from the peer.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carrick::{Association, ConnectOptions, Endpoint};
use carrick_proto::Time;
use carrick_sigtran::m3ua::{PORT, RoutingKey};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::association::{AssociationId, Input};
use crate::layer::SocketLayer;

/// Peer with which associations are set up, such as a gateway of an ASP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteGateway {
    /// Name in events.
    pub name: String,
    /// Addresses, the first one is tried first.
    pub addresses: Vec<IpAddr>,
    /// SCTP port.
    pub port: u16,
    /// UDP port of the encapsulation; that of the endpoint if absent.
    pub udp_port: Option<u16>,
    /// Time until the second attempt of a set-up, 500 ms by default. It doubles with each further one.
    pub min_backoff: Duration,
    /// Longest time between attempts, 30 s by default.
    pub max_backoff: Duration,
    /// Routing keys that an ASP of M3UA registers before it becomes active, none by default. It leaves their application servers
    /// at its end.
    pub routing_keys: Vec<RoutingKey>,
}

impl RemoteGateway {
    /// Gateway of a layer with these addresses, on the port of the layer.
    pub fn of<L: SocketLayer>(name: impl Into<String>, addresses: Vec<IpAddr>) -> Self {
        Self {
            port: L::PORT,
            ..Self::new(name, addresses)
        }
    }

    /// Gateway of M3UA with these addresses, on port 2905.
    pub fn new(name: impl Into<String>, addresses: Vec<IpAddr>) -> Self {
        Self {
            name: name.into(),
            addresses,
            port: PORT,
            udp_port: None,
            min_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
            routing_keys: Vec::new(),
        }
    }
}

/// Key of a connection with a configured peer, unique in a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkKey(pub(crate) u32);

/// Result of a set-up.
pub(crate) type Connected = Result<Association, String>;

enum ConnectionState {
    Idle,
    Connecting(AbortHandle),
    Open(AssociationId),
}

/// Connection with a configured peer.
pub(crate) struct PeerConnection {
    pub(crate) peer: RemoteGateway,
    pub(crate) name: Arc<str>,
    /// This end sets the association up; otherwise the peer does.
    connects: bool,
    state: ConnectionState,
    /// Time before the next attempt.
    backoff: Duration,
    /// Time of the next set-up or request.
    retry: Option<Time>,
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl PeerConnection {
    pub(crate) fn new(peer: RemoteGateway, connects: bool) -> Self {
        Self {
            name: peer.name.as_str().into(),
            connects,
            state: ConnectionState::Idle,
            backoff: peer.min_backoff,
            retry: None,
            peer,
        }
    }

    pub(crate) fn association(&self) -> Option<AssociationId> {
        match self.state {
            ConnectionState::Open(id) => Some(id),
            ConnectionState::Idle | ConnectionState::Connecting(_) => None,
        }
    }

    /// Returns whether an association from this address is accepted as that of the peer.
    pub(crate) fn accepts(&self, address: &IpAddr) -> bool {
        !self.connects && self.peer.addresses.contains(address)
    }

    /// Begins to set up the association, if that is this end's matter.
    pub(crate) fn connect(
        &mut self,
        key: LinkKey,
        endpoint: &Endpoint,
        inputs: &mpsc::Sender<Input>,
    ) {
        if !self.connects {
            return;
        }
        let (endpoint, inputs) = (endpoint.clone(), inputs.clone());
        let peer = (self.peer.addresses.clone(), self.peer.port);
        let mut options = ConnectOptions::new();
        if let Some(port) = self.peer.udp_port {
            options = options.encapsulation_port(port);
        }
        let connecting = tokio::spawn(async move {
            let connected = endpoint.connect_with(peer, options).await;
            let connected = connected.map_err(|error| error.to_string());
            // If the receiver is dropped, the program ends.
            let _ = inputs.send(Input::Connected(key, connected)).await;
        });
        self.state = ConnectionState::Connecting(connecting.abort_handle());
    }

    /// The association is established.
    pub(crate) fn on_opened(&mut self, id: AssociationId) {
        self.state = ConnectionState::Open(id);
        self.retry = None;
    }

    /// No association, or it has ended: schedules the next attempt. Returns the time until then.
    pub(crate) fn on_closed(&mut self, now: Time) -> Duration {
        self.state = ConnectionState::Idle;
        self.schedule(now)
    }

    /// Ends a set-up that is not complete.
    pub(crate) fn cancel(&mut self) {
        if let ConnectionState::Connecting(task) = &self.state {
            task.abort();
            self.state = ConnectionState::Idle;
        }
    }

    /// Schedules the next set-up or request after a failure.
    pub(crate) fn schedule(&mut self, now: Time) -> Duration {
        let wait = self.backoff;
        self.retry = Some(now + wait);
        self.backoff = (wait * 2).min(self.peer.max_backoff);
        wait
    }

    /// The peer works: the next failure is followed by the shortest wait.
    pub(crate) const fn reset_backoff(&mut self) {
        self.backoff = self.peer.min_backoff;
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Time> {
        self.retry
    }

    /// Returns whether a scheduled attempt is due, once.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        self.retry.take_if(|retry| *retry <= now).is_some()
    }

    /// Returns whether there is no association and none is being set up.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.state, ConnectionState::Idle)
    }
}
