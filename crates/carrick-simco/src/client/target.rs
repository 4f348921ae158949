//! Where a middlebox is, and how to get there.

use std::net::IpAddr;
use std::sync::Arc;

use carrick::{AssociationConfig, Config, ConnectOptions, Endpoint};
use rustls::ClientConfig as TlsConfig;
use tokio::net::TcpStream;

use crate::PORT;
use crate::transport::{Link, sctp, tcp, tls};

/// A middlebox on one of the transports.
#[derive(Clone, Debug)]
pub enum Target {
    /// SCTP.
    Sctp(Box<SctpTarget>),
    /// TCP.
    Tcp {
        /// Its name or address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// TLS on TCP.
    Tls {
        /// Its name or address.
        host: String,
        /// Its port.
        port: u16,
        /// The name that its certificate must have.
        name: String,
        /// Whom to trust, see [`tls::client`].
        config: Arc<TlsConfig>,
    },
}

/// A middlebox on SCTP.
#[derive(Clone, Debug)]
pub struct SctpTarget {
    /// Its addresses; the first is tried first.
    pub addresses: Vec<IpAddr>,
    /// Its SCTP port.
    pub port: u16,
    /// The UDP port that carries SCTP there; `None` for SCTP directly on IP.
    pub udp_port: Option<u16>,
    /// The local addresses; none for all of the host.
    pub local: Vec<IpAddr>,
    /// The local UDP port; 0 lets the system choose.
    pub local_udp_port: u16,
    /// Stream pairs that are asked for.
    pub streams: u16,
    /// Parameters of the association; `None` for [`sctp::association`].
    pub association: Option<AssociationConfig>,
}

impl Target {
    /// TCP to this host.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp {
            host: host.into(),
            port,
        }
    }

    /// SCTP in UDP to these addresses, on the assigned ports, with so many stream pairs.
    pub fn sctp(addresses: Vec<IpAddr>, streams: u16) -> Self {
        Self::Sctp(Box::new(SctpTarget {
            addresses,
            port: PORT,
            udp_port: Some(carrick::DEFAULT_ENCAPSULATION_PORT),
            local: Vec::new(),
            local_udp_port: 0,
            streams,
            association: None,
        }))
    }

    /// Connects.
    ///
    /// # Errors
    /// Says in words why not. May take as long as the transport wants: to be bounded by the caller.
    pub async fn connect(&self) -> Result<Link, String> {
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
    async fn connect(&self) -> Result<Link, String> {
        let local = self.local.iter().copied();
        let config = match self.udp_port {
            Some(_) => Config::udp(local).encapsulation_port(self.local_udp_port),
            None => Config::raw(local),
        };
        let mut config = sctp::endpoint(config, self.streams);
        if let Some(association) = &self.association {
            config.association = association.clone();
        }
        config.accept = false;
        let endpoint = Endpoint::bind(config).map_err(|e| e.to_string())?;
        let mut options = ConnectOptions::to_port(self.port);
        if let Some(port) = self.udp_port {
            options = options.encapsulation_port(port);
        }
        let association = endpoint.connect(&self.addresses, options).await;
        let association = association.map_err(|e| e.to_string())?;
        Ok(sctp::link(association, Some(endpoint)))
    }
}

impl std::fmt::Display for Target {
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
