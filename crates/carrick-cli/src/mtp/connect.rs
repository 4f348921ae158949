//! Options of the ASP and its gateways, and the session.

use std::net::IpAddr;
use std::time::Duration;

use carrick::DEFAULT_ENCAPSULATION_PORT;
use carrick_sigtran::m3ua::asp::{AspApplicationServer, AspConfig, AspIndication, AspState};
use carrick_sigtran::m3ua::{AspIdentifier, NetworkAppearance, PORT, RoutingContext, TrafficMode};
use carrick_sigtran_net::{Event, EventKind, RemoteGateway, Session, endpoint_config, start_asp};
use clap::Args;

use crate::endpoint::{self, AssociationArguments, EndpointArguments, address};
use crate::failure::Failure;
use crate::units;

/// Traffic mode of an application server.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    Override,
    Loadshare,
    Broadcast,
}

/// Options of the ASP.
#[derive(Debug, Args)]
pub(super) struct ConnectArguments {
    /// Gateway: its addresses or names, separated by commas if it is multi-homed; may be given several times.
    #[arg(long, value_name = "ADDRESS", required = true)]
    gateway: Vec<String>,
    /// SCTP port of the gateways.
    #[arg(long, value_name = "N", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Routing context of the application server [default: none, for a gateway with a single one].
    #[arg(long, value_name = "N")]
    routing_context: Option<u32>,
    /// Network appearance.
    #[arg(long, value_name = "N")]
    network_appearance: Option<u32>,
    /// ASP Identifier.
    #[arg(long, value_name = "N")]
    identifier: Option<u32>,
    /// Traffic mode of ASP Active [default: that of the gateway's configuration].
    #[arg(long, value_name = "MODE")]
    traffic_mode: Option<Mode>,
    /// Local address; may be given several times [default: all addresses of the host, or the loopback address if the
    /// gateway is on loopback].
    #[arg(long, value_name = "ADDR", value_parser = address)]
    bind: Vec<IpAddr>,
    /// Local UDP port of the encapsulation [default: that of the daemon if one answers; otherwise chosen by the
    /// system].
    #[arg(long, value_name = "N", conflicts_with = "raw")]
    udp_port: Option<u16>,
    /// UDP port of the gateways' encapsulation.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ENCAPSULATION_PORT, conflicts_with = "raw")]
    peer_udp_port: u16,
    /// Use SCTP directly on IP (protocol 132, needs `CAP_NET_RAW`) instead of in UDP.
    #[arg(long)]
    raw: bool,
    /// Number of streams in each direction; stream 0 is for management.
    #[arg(long, value_name = "N", default_value_t = 17, value_parser = clap::value_parser!(u16).range(2..))]
    streams: u16,
    /// Fail if the ASP is not active at a gateway within this time.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    connect_timeout: Duration,
}

impl ConnectArguments {
    pub(super) fn routing_context(&self) -> Option<RoutingContext> {
        self.routing_context.map(RoutingContext)
    }

    /// Starts the ASP, and waits until it is active at a gateway.
    ///
    /// # Errors
    /// A name is unknown, the endpoint can't be opened, or the ASP is not active in time; the last event is the reason.
    pub(super) async fn connect(&self) -> Result<Session, Failure> {
        let mut gateways = Vec::new();
        for names in &self.gateway {
            gateways.push(RemoteGateway {
                port: self.port,
                udp_port: (!self.raw).then_some(self.peer_udp_port),
                ..RemoteGateway::new(names, endpoint::resolve(names).await?)
            });
        }
        let peers: Vec<_> = gateways.iter().flat_map(|g| g.addresses.clone()).collect();
        let endpoint = EndpointArguments {
            bind: self.bind.clone(),
            udp_port: self.udp_port,
            raw: self.raw,
            and_raw: false,
            association: AssociationArguments::default(),
        };
        let streams = self.streams;
        let change = |config| endpoint_config(config, streams);
        let endpoint = endpoint.open_towards_with(&peers, change)?.endpoint;
        let config = AspConfig {
            identifier: self.identifier.map(AspIdentifier),
            application_servers: vec![AspApplicationServer {
                routing_context: self.routing_context(),
                traffic_mode: self.traffic_mode.map(|mode| match mode {
                    Mode::Override => TrafficMode::OVERRIDE,
                    Mode::Loadshare => TrafficMode::LOADSHARE,
                    Mode::Broadcast => TrafficMode::BROADCAST,
                }),
                network_appearance: self.network_appearance.map(NetworkAppearance),
            }],
            ..AspConfig::default()
        };
        let session = start_asp(endpoint, gateways, &config);
        let mut session = session.map_err(|error| Failure::Run(error.to_string()))?;
        let mut last = None;
        let active = tokio::time::timeout(self.connect_timeout, async {
            while let Some(event) = session.events.recv().await {
                if is_active(&event) {
                    return;
                }
                last = Some(event);
            }
        });
        if active.await.is_err() {
            let why = last.map_or_else(String::new, |event| format!(" ({event})"));
            return Err(Failure::Run(format!(
                "the ASP is not active at {} in {:?}{why}: check the gateway's addresses, routing context and ASPs, or \
                 wait longer (--connect-timeout)",
                self.gateway.join(" or "),
                self.connect_timeout
            )));
        }
        Ok(session)
    }
}

/// Returns whether the ASP has become active.
fn is_active(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Asp(AspIndication::AspStatus(_, AspState::Active))
    )
}

/// Ends a session: messages that were accepted are delivered.
pub(super) async fn close(session: Session) {
    session.close();
    session.ended().await;
}
