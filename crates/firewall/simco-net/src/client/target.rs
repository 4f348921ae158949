//! Addresses of middleboxes and connecting to them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use carrick::{AssociationConfig, Config, ConnectOptions, Endpoint, EventLog};
use rustls::ClientConfig as TlsConfig;
use tokio::net::TcpStream;

use crate::transport::{MessageLink, sctp, tcp, tls};
use carrick_simco::PORT;

/// Address of a middlebox and its transport.
#[derive(Clone, Debug)]
pub enum ConnectTarget {
    /// SCTP.
    Sctp(Box<SctpTarget>),
    /// TCP.
    Tcp {
        /// Name or address of the host.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// TLS on TCP.
    Tls {
        /// Name or address of the host.
        host: String,
        /// TCP port.
        port: u16,
        /// Name expected in the certificate.
        name: String,
        /// Trusted certificates, see [`tls::client`].
        config: Arc<TlsConfig>,
    },
}

/// Address of a middlebox on SCTP.
#[derive(Clone, Debug)]
pub struct SctpTarget {
    /// Its addresses, tried in order.
    pub addresses: Vec<IpAddr>,
    /// Its SCTP port.
    pub port: u16,
    /// Its UDP port for SCTP in UDP; `None` for SCTP directly over IP.
    pub udp_port: Option<u16>,
    /// Local addresses; empty for all of the host.
    pub local: Vec<IpAddr>,
    /// Local UDP port; 0 lets the system choose.
    pub local_udp_port: u16,
    /// Control socket of the daemon whose UDP port is shared instead ([`Config::daemon`]); Linux only.
    pub daemon: Option<PathBuf>,
    /// Number of stream pairs to request.
    pub streams: u16,
    /// Parameters of the association; `None` for [`sctp::association`].
    pub association: Option<AssociationConfig>,
    /// Log of what the endpoint decides.
    pub event_log: Option<EventLog>,
}

impl ConnectTarget {
    /// Returns a TCP target.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp {
            host: host.into(),
            port,
        }
    }

    /// Returns a target for SCTP in UDP on the assigned ports.
    pub fn sctp(addresses: Vec<IpAddr>, streams: u16) -> Self {
        Self::Sctp(Box::new(SctpTarget {
            addresses,
            port: PORT,
            udp_port: Some(carrick::DEFAULT_ENCAPSULATION_PORT),
            local: Vec::new(),
            local_udp_port: 0,
            daemon: None,
            streams,
            association: None,
            event_log: None,
        }))
    }

    /// Connects. Not bounded in time.
    ///
    /// # Errors
    /// The reason as text.
    pub async fn connect(&self) -> Result<MessageLink, String> {
        match self {
            Self::Sctp(target) => target.connect().await,
            Self::Tcp { host, port } => {
                let stream = open(host, *port).await?;
                tcp::link(stream).map_err(|e| e.to_string())
            }
            Self::Tls {
                host,
                port,
                name,
                config,
            } => {
                let stream = open(host, *port).await?;
                let link = tls::connect(stream, name, Arc::clone(config)).await;
                link.map_err(|e| e.to_string())
            }
        }
    }
}

async fn open(host: &str, port: u16) -> Result<TcpStream, String> {
    let connected = TcpStream::connect((host, port)).await;
    connected.map_err(|e| e.to_string())
}

impl SctpTarget {
    async fn connect(&self) -> Result<MessageLink, String> {
        let local = self.local.iter().copied();
        let config = match (self.udp_port, &self.daemon) {
            #[cfg(target_os = "linux")]
            (Some(_), Some(daemon)) => Config::udp(local).daemon(daemon),
            (Some(_), _) => Config::udp(local).encapsulation_port(self.local_udp_port),
            (None, _) => Config::raw(local),
        };
        let mut config = sctp::endpoint(config, self.streams);
        if let Some(association) = &self.association {
            config.association = association.clone();
        }
        config.accept = false;
        config.event_log.clone_from(&self.event_log);
        let endpoint = Endpoint::bind(config).map_err(|e| e.to_string())?;
        let mut options = ConnectOptions::new();
        if let Some(port) = self.udp_port {
            options = options.encapsulation_port(port);
        }
        let association = endpoint
            .connect_with((&self.addresses, self.port), options)
            .await;
        let association = association.map_err(|e| e.to_string())?;
        Ok(sctp::link(association, Some(endpoint)))
    }
}

impl std::fmt::Display for ConnectTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sctp(target) => {
                let addresses: Vec<String> =
                    target.addresses.iter().map(ToString::to_string).collect();
                write!(f, "sctp {}:{}", addresses.join(","), target.port)
            }
            Self::Tcp { host, port } => write!(f, "tcp {host}:{port}"),
            Self::Tls { host, port, .. } => write!(f, "tls {host}:{port}"),
        }
    }
}
