//! Listeners. All are opened before any is served, and each passes connections to the core.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use carrick::{Config, Endpoint};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::config::{DaemonSettings, SctpListen};
use super::core::CoreInput;
use super::scrape::Scraper;
use super::{DaemonError, ListenEntry};
use crate::transport::{sctp, tcp, tls};
use carrick_metrics::{AcceptFailures, serve_metrics};
use carrick_simco::middlebox::{Limits, SourceNetwork};

/// Associations in addition to those with a session, e.g. being set up or shut down.
const SPARE_ASSOCIATIONS: usize = 64;

/// Server configuration of new TLS connections, replaced at a reload.
pub(super) type TlsConfig = Arc<Mutex<Arc<ServerConfig>>>;

/// Addresses on which a middlebox listens.
#[derive(Clone, Default)]
pub struct BoundAddresses {
    /// SCTP port, and the UDP port for SCTP in UDP.
    pub sctp: Option<(u16, Option<u16>)>,
    /// TCP.
    pub tcp: Vec<SocketAddr>,
    /// TLS over TCP.
    pub tls: Vec<SocketAddr>,
    /// Metrics over HTTP.
    pub metrics: Option<SocketAddr>,
    tasks: Vec<AbortHandle>,
}

/// State shared with the core, so that a reload reaches the listeners.
pub(super) struct ListenerState {
    pub(super) tls: Option<TlsConfig>,
    pub(super) limits: watch::Sender<Limits>,
}

impl BoundAddresses {
    pub(super) fn stop(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// TCP listeners with their addresses.
type Tcp = Vec<(TcpListener, SocketAddr)>;

/// Open listeners of a middlebox. Connections wait until [`Daemon::start_on`](super::Daemon::start_on)
/// serves them; dropping closes all.
pub struct Listeners {
    sctp: Option<Endpoint>,
    tcp: Tcp,
    tls: Tcp,
    metrics: Tcp,
    shared: ListenerState,
}

impl Listeners {
    /// Opens all listeners of the configuration on the current runtime.
    ///
    /// # Errors
    /// The address that can't be bound, or the error of the configuration or the certificate.
    pub async fn open(settings: &DaemonSettings) -> Result<Self, DaemonError> {
        let limits = settings.middlebox()?.limits;
        let ListenEntry { sctp, tcp, tls } = &settings.listen;
        let config = match tls {
            Some(listen) => Some(tls::server(&listen.certificate, &listen.key)?),
            None => None,
        };
        let secure = tls.iter().flat_map(|listen| &listen.addresses);
        let secure: Vec<_> = secure.copied().collect();
        Ok(Self {
            sctp: match sctp {
                Some(listen) => Some(bind_sctp(listen, &limits)?),
                None => None,
            },
            tcp: bind_tcp("tcp", tcp).await?,
            tls: bind_tcp("tls", &secure).await?,
            metrics: bind_tcp("metrics", settings.metrics.as_slice()).await?,
            shared: ListenerState {
                tls: config.map(|config| Arc::new(Mutex::new(config))),
                limits: watch::Sender::new(limits),
            },
        })
    }

    /// Starts passing connections to the core.
    pub(super) fn serve(
        self,
        core: &mpsc::Sender<CoreInput>,
        scraper: &Scraper,
        failures: &AcceptFailures,
    ) -> (BoundAddresses, ListenerState) {
        let shared = self.shared;
        let mut bound = BoundAddresses::default();
        for (listener, address) in self.metrics {
            bound.metrics = Some(address);
            let scraper = scraper.clone();
            let collect = move || {
                let scraper = scraper.clone();
                async move { scraper.text_in_time().await }
            };
            let task = tokio::spawn(serve_metrics(listener, failures.clone(), collect));
            bound.tasks.push(task.abort_handle());
        }
        if let Some(endpoint) = self.sctp {
            bound.sctp = Some((endpoint.port(), endpoint.encapsulation_port()));
            let limits = shared.limits.subscribe();
            let task = tokio::spawn(serve_sctp(endpoint, limits, core.clone()));
            bound.tasks.push(task.abort_handle());
        }
        for (listener, address) in self.tcp {
            bound.tcp.push(address);
            let task = tokio::spawn(serve_tcp(listener, failures.clone(), core.clone()));
            bound.tasks.push(task.abort_handle());
        }
        for (listener, address) in self.tls {
            let Some(config) = shared.tls.clone() else {
                break;
            };
            let limits = shared.limits.subscribe();
            bound.tls.push(address);
            let task = tokio::spawn(serve_tls(
                listener,
                failures.clone(),
                config,
                limits,
                core.clone(),
            ));
            bound.tasks.push(task.abort_handle());
        }
        (bound, shared)
    }
}

/// Maximum number of associations of the endpoint.
fn associations(limits: &Limits) -> usize {
    limits.open_sessions + limits.half_open + SPARE_ASSOCIATIONS
}

/// Maximum number of associations set up from one address: all sessions, and half of the room for
/// half-open ones, so that the other half is left to other addresses.
fn associations_per_source(limits: &Limits) -> usize {
    limits.open_sessions + limits.half_open / 2
}

fn bind_sctp(listen: &SctpListen, limits: &Limits) -> Result<Endpoint, DaemonError> {
    let addresses = listen.addresses.iter().copied();
    let config = match (listen.raw, listen.udp_port, &listen.daemon) {
        (true, None, _) => Config::raw(addresses),
        (true, Some(port), _) => Config::udp(addresses)
            .encapsulation_port(port)
            .and_plain_ip(),
        (false, Some(port), _) => Config::udp(addresses).encapsulation_port(port),
        #[cfg(target_os = "linux")]
        (false, None, Some(daemon)) => Config::udp(addresses).daemon(daemon),
        (false, None, _) => Config::udp(addresses),
    };
    let config = config.association(listen.preset.config());
    let mut config = sctp::endpoint(config.port(listen.port), listen.streams);
    config.max_associations = associations(limits);
    config.max_associations_per_source = Some(associations_per_source(limits));
    // Associations that wait to be accepted are bounded by the limits above.
    config.backlog = associations(limits);
    config.event_log.clone_from(&listen.event_log);
    Endpoint::bind(config).map_err(|error| DaemonError::Listen {
        place: format!("sctp port {}", listen.port),
        why: error.to_string(),
    })
}

async fn bind_tcp(kind: &str, addresses: &[SocketAddr]) -> Result<Tcp, DaemonError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let failed = |error: std::io::Error| DaemonError::Listen {
            place: format!("{kind} {address}"),
            why: error.to_string(),
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listeners.push((listener, address));
    }
    Ok(listeners)
}

async fn serve_sctp(
    endpoint: Endpoint,
    mut limits: watch::Receiver<Limits>,
    core: mpsc::Sender<CoreInput>,
) {
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            Ok(()) = limits.changed() => {
                let limits = *limits.borrow_and_update();
                let per_source = associations_per_source(&limits);
                endpoint.set_max_associations(associations(&limits), Some(per_source));
                continue;
            }
        };
        let Some(incoming) = incoming else {
            return;
        };
        let link = sctp::link(incoming.accept(), None);
        if core.send(CoreInput::Connected(link)).await.is_err() {
            return;
        }
    }
}

async fn serve_tcp(listener: TcpListener, failures: AcceptFailures, core: mpsc::Sender<CoreInput>) {
    loop {
        let (stream, _) = failures.accept(&listener).await;
        // The connection has ended already.
        let Ok(link) = tcp::link(stream) else {
            continue;
        };
        if core.send(CoreInput::Connected(link)).await.is_err() {
            return;
        }
    }
}

/// Performs TLS handshakes concurrently. Beyond the limit per address or in total, the oldest is
/// aborted.
async fn serve_tls(
    listener: TcpListener,
    failures: AcceptFailures,
    config: TlsConfig,
    limits: watch::Receiver<Limits>,
    core: mpsc::Sender<CoreInput>,
) {
    let mut handshakes: VecDeque<(Option<SourceNetwork>, AbortHandle)> = VecDeque::new();
    loop {
        let (stream, _) = failures.accept(&listener).await;
        let limits = *limits.borrow();
        let timeout = limits.establishment;
        let source = stream
            .peer_addr()
            .ok()
            .map(|peer| SourceNetwork::of(peer.ip()));
        handshakes.retain(|(_, task)| !task.is_finished());
        let of_source = handshakes.iter().filter(|(other, _)| *other == source);
        let most = limits.half_open_per_address.max(1);
        let to_abort = if of_source.count() >= most {
            handshakes.iter().position(|(other, _)| *other == source)
        } else {
            (handshakes.len() >= limits.half_open.max(1)).then_some(0)
        };
        if let Some((_, oldest)) = to_abort.and_then(|index| handshakes.remove(index)) {
            oldest.abort();
        }
        let config = match config.lock() {
            Ok(config) => Arc::clone(&config),
            Err(poisoned) => Arc::clone(&poisoned.into_inner()),
        };
        let core = core.clone();
        let task = tokio::spawn(async move {
            // A failed handshake concerns the peer only.
            if let Ok(Ok(link)) = tokio::time::timeout(timeout, tls::accept(stream, config)).await {
                let _ = core.send(CoreInput::Connected(link)).await;
            }
        });
        handshakes.push_back((source, task.abort_handle()));
    }
}
