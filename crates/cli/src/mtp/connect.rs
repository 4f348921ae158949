//! Options of the ASP or IPSP and its peers, and the session.

use std::net::IpAddr;
use std::time::Duration;

use carrick::{Config, DEFAULT_ENCAPSULATION_PORT, Endpoint, Preset};
use carrick_sigtran::m3ua::asp::{AspApplicationServer, AspConfig, AspIndication, AspState};
use carrick_sigtran::m3ua::ipsp::IpspExchange;
use carrick_sigtran::m3ua::sgp::{ApplicationServerConfig, AsState, SgpConfig, SgpIndication};
use carrick_sigtran::m3ua::{
    AspIdentifier, LocalRoutingKeyIdentifier, NetworkAppearance, PORT, RoutingContext, RoutingKey,
    RoutingKeyDestination, TrafficMode,
};
use carrick_sigtran_net::{
    EventKind, IpspConfig, IpspPeer, RemoteGateway, Session, endpoint_config, start_asp, start_ipsp,
};
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

use super::message::Variant;
use crate::capture_file::CaptureOption;
use crate::endpoint::{self, AssociationArguments, EndpointArguments, address};
use crate::event_log::EventLogArguments;
use crate::failure::Failure;
use crate::parameters::preset;
use crate::security::EncryptionArguments;
use crate::{runtime, units};

/// Traffic mode of an application server.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    Override,
    Loadshare,
    Broadcast,
}

impl Mode {
    const fn traffic_mode(self) -> TrafficMode {
        match self {
            Self::Override => TrafficMode::OVERRIDE,
            Self::Loadshare => TrafficMode::LOADSHARE,
            Self::Broadcast => TrafficMode::BROADCAST,
        }
    }
}

/// Exchange of ASPSM and ASPTM messages between IPSPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Exchange {
    Single,
    Double,
    DoubleWithSingleAspsm,
}

impl Exchange {
    const fn model(self) -> IpspExchange {
        match self {
            Self::Single => IpspExchange::Single,
            Self::Double => IpspExchange::Double,
            Self::DoubleWithSingleAspsm => IpspExchange::DoubleWithSingleAspsm,
        }
    }
}

/// Options of the ASP or IPSP.
#[derive(Debug, Args)]
pub(super) struct ConnectArguments {
    /// Gateway or IPSP: its addresses or names, separated by commas if it is multi-homed; may be given several times.
    #[arg(long, value_name = "ADDRESS", required = true)]
    gateway: Vec<String>,
    /// SCTP port of the gateways; with --accept, that of this IPSP.
    #[arg(long, value_name = "N", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Routing context of the application server [default: none, for a gateway with a single one].
    #[arg(long, value_name = "N")]
    routing_context: Option<u32>,
    /// Connect as an IPSP to IPSPs, with this exchange of ASPSM and ASPTM messages; needs --routing-context, that of the
    /// peers' application server.
    #[arg(long, value_name = "MODEL", requires = "routing_context")]
    ipsp: Option<Exchange>,
    /// Accept the associations of the IPSPs, from the addresses of --gateway, and set none up.
    #[arg(long, requires = "ipsp")]
    accept: bool,
    /// Routing context of this IPSP's application server [default: that of --routing-context].
    #[arg(long, value_name = "N", requires = "ipsp")]
    local_routing_context: Option<u32>,
    /// Register the routing key of this destination point code, or of CODE/SI,SI for these service indicators, in place of
    /// a configured routing context; may be given several times.
    #[arg(long, value_name = "CODE", conflicts_with_all = ["routing_context", "ipsp"])]
    register: Vec<String>,
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
    /// Local UDP port of the encapsulation [default: that of the daemon if one answers; otherwise 9899 with --accept, and
    /// chosen by the system without].
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
    /// Parameters of the associations: recommended; signaling, for private networks with round trips below
    /// 50 ms; rfc9260, without extensions.
    #[arg(long, value_name = "NAME", value_parser = preset, default_value_t)]
    preset: Preset,
    #[command(flatten)]
    event_log: EventLogArguments,
    /// Write the packets that the ASP sends and receives to this file for Wireshark (pcapng), at most 1 GiB.
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().map(CaptureOption::new))]
    capture: Option<CaptureOption>,
    #[command(flatten)]
    encryption: EncryptionArguments,
    /// Fail if the ASP is not active at a gateway within this time; a number without a unit is in s.
    #[arg(long, value_name = "TIME", value_parser = units::seconds, default_value = "10s")]
    connect_timeout: Duration,
}

impl ConnectArguments {
    pub(super) fn routing_context(&self) -> Option<RoutingContext> {
        self.routing_context.map(RoutingContext)
    }

    /// Returns the routing keys to register.
    fn routing_keys(&self, variant: Variant) -> Result<Vec<RoutingKey>, Failure> {
        let keys = (1..).zip(&self.register).map(|(number, text)| {
            let (code, indicators) = text.split_once('/').unwrap_or((text, ""));
            let indicators = indicators.split(',').filter(|text| !text.is_empty());
            let indicators = indicators.map(|si| match si.parse() {
                Ok(si) if si < 16 => Ok(si),
                _ => Err(Failure::Usage(format!(
                    "{si:?} is no service indicator: give 0 to 15"
                ))),
            });
            let destination = RoutingKeyDestination {
                service_indicators: indicators.collect::<Result<_, _>>()?,
                ..RoutingKeyDestination::all(variant.parse(code)?)
            };
            Ok(RoutingKey {
                local_id: LocalRoutingKeyIdentifier(number),
                routing_context: None,
                traffic_mode: self.traffic_mode.map(Mode::traffic_mode),
                network_appearance: self.network_appearance.map(NetworkAppearance),
                destinations: vec![destination],
            })
        });
        keys.collect()
    }

    /// Starts the ASP or IPSP.
    fn start(&self, endpoint: Endpoint, gateways: Vec<RemoteGateway>) -> Result<Session, Failure> {
        let identifier = self.identifier.map(AspIdentifier);
        let network_appearance = self.network_appearance.map(NetworkAppearance);
        let traffic_mode = self.traffic_mode.map(Mode::traffic_mode);
        let server = |routing_context| AspApplicationServer {
            routing_context,
            traffic_mode,
            network_appearance,
        };
        let failed = |error: &dyn std::error::Error| Failure::Run(error.to_string());
        let (Some(exchange), Some(remote)) = (self.ipsp, self.routing_context()) else {
            let config = AspConfig {
                identifier,
                application_servers: match self.register[..] {
                    [] => vec![server(self.routing_context())],
                    _ => Vec::new(),
                },
                ..AspConfig::default()
            };
            return start_asp(endpoint, gateways, &config).map_err(|error| failed(&error));
        };
        let local = self.local_routing_context.map_or(remote, RoutingContext);
        let config = IpspConfig {
            exchange: exchange.model(),
            remote: ApplicationServerConfig {
                network_appearance,
                traffic_mode,
                ..ApplicationServerConfig::new(remote, Vec::new())
            },
            local: server(Some(local)),
            identifier,
            peers: gateways
                .into_iter()
                .map(|remote| IpspPeer {
                    remote,
                    connects: !self.accept,
                })
                .collect(),
        };
        start_ipsp(endpoint, config, SgpConfig::default()).map_err(|error| failed(&error))
    }

    /// Starts the ASP or IPSP, and waits until it is active at a gateway, an IPSP until its peers are active, too.
    ///
    /// # Errors
    /// A name is unknown, the endpoint can't be opened, a signal arrives, or the ASP is not active in time; the last event is
    /// the reason. The session has ended gracefully then.
    pub(super) async fn connect(&self, variant: Variant) -> Result<Session, Failure> {
        let routing_keys = self.routing_keys(variant)?;
        let mut gateways = Vec::new();
        for names in &self.gateway {
            gateways.push(RemoteGateway {
                port: self.port,
                udp_port: (!self.raw).then_some(self.peer_udp_port),
                routing_keys: routing_keys.clone(),
                ..RemoteGateway::new(names, endpoint::resolve(names).await?)
            });
        }
        let peers: Vec<_> = gateways.iter().flat_map(|g| g.addresses.clone()).collect();
        let endpoint = EndpointArguments {
            bind: self.bind.clone(),
            udp_port: self.udp_port,
            raw: self.raw,
            and_raw: false,
            event_log: self.event_log.clone(),
            capture: self.capture.clone(),
            association: AssociationArguments::default(),
            encryption: self.encryption.clone(),
        };
        let streams = self.streams;
        let preset = self.preset;
        let change = |config: Config| endpoint_config(config.association(preset.config()), streams);
        let endpoint = if self.accept {
            let listening = endpoint.listen_with(&peers, self.port, change)?.endpoint;
            let ports = endpoint::ports(listening.port(), listening.encapsulation_port());
            eprintln!("carrick: {ports}");
            listening
        } else {
            endpoint.open_towards_with(&peers, change)?.endpoint
        };
        let mut session = self.start(endpoint, gateways)?;
        let mut waiting = Waiting {
            own: true,
            peers: self.ipsp.is_some(),
        };
        let mut last = None;
        let active = async {
            while let Some(event) = session.events.recv().await {
                waiting.update(&event.kind);
                if !waiting.own && !waiting.peers {
                    return;
                }
                last = Some(event);
            }
        };
        let signal = tokio::select! {
            () = active => return Ok(session),
            () = tokio::time::sleep(self.connect_timeout) => None,
            signal = runtime::signal_received() => Some(signal),
        };
        // An ASP that is up is to be down before its association ends.
        close(session).await;
        if let Some(signal) = signal {
            return Err(runtime::interrupted(signal));
        }
        let why = last.map_or_else(String::new, |event| {
            format!(" ({})", event.display(variant.format()))
        });
        Err(Failure::Run(format!(
            "the ASP is not active at {} in {:?}{why}: check the gateway's addresses, routing context and ASPs, or \
                 wait longer (--connect-timeout)",
            self.gateway.join(" or "),
            self.connect_timeout
        )))
    }
}

/// Application servers that are not active yet.
struct Waiting {
    own: bool,
    peers: bool,
}

impl Waiting {
    fn update(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Asp(AspIndication::AspStatus(_, state)) => {
                self.own = *state != AspState::Active;
            }
            EventKind::Sgp(SgpIndication::AsStatus(_, state)) => {
                self.peers = *state != AsState::Active;
            }
            _ => {}
        }
    }
}

/// Ends a session: messages that were accepted are delivered.
pub(super) async fn close(session: Session) {
    session.close();
    session.ended().await;
}
