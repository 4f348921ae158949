//! Options that select the middlebox and the agent's identity, shared by `agent`, `b2bua` and `load`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use carrick::Preset;
use carrick_simco::PORT;
use carrick_simco::agent::{AgentSettings, Credentials};
use carrick_simco::session::Identity;
use carrick_simco_net::client::{ConnectTarget, SctpTarget};
use carrick_simco_net::daemon::read_key_file;
use carrick_simco_net::transport::tls;
use clap::Args;

use crate::endpoint::{address, resolve, running_daemon, shared_port};
use crate::event_log::EventLogArguments;
use crate::failure::Failure;
use crate::parameters::preset;
use crate::units;

/// Address of the middlebox and parameters of the session.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Session")]
pub(super) struct ConnectArguments {
    /// Middlebox: `sctp://ADDR[,ADDR][:PORT]`, `tcp://HOST[:PORT]` or `tls://HOST[:PORT]`.
    #[arg(long, value_name = "URL", value_parser = middlebox_url, global = true)]
    middlebox: Option<MiddleboxUrl>,
    /// Agent name for authentication [default: none, the middlebox must accept anonymous agents].
    #[arg(long, value_name = "NAME", requires = "key_file", global = true)]
    name: Option<String>,
    /// File with the agent's key in hexadecimal.
    #[arg(long, value_name = "FILE", requires = "name", global = true)]
    key_file: Option<PathBuf>,
    /// Name under which the middlebox must authenticate itself [default: any name].
    #[arg(long, value_name = "NAME", requires = "name", global = true)]
    middlebox_name: Option<String>,
    /// Time to wait for a reply; a number without a unit is in s.
    #[arg(long, value_name = "TIME", value_parser = units::seconds, default_value = "10s", global = true)]
    timeout: Duration,
    /// SCTP: number of stream pairs to request.
    #[arg(long, value_name = "N", default_value_t = 8, global = true)]
    streams: u16,
    /// SCTP: local address; may be repeated.
    #[arg(long, value_name = "ADDR", value_parser = address, global = true)]
    bind: Vec<IpAddr>,
    /// SCTP: UDP port of the middlebox.
    #[arg(long, value_name = "N", default_value_t = carrick::DEFAULT_ENCAPSULATION_PORT, global = true)]
    udp_port: u16,
    /// SCTP: send directly over IP instead of UDP (needs `CAP_NET_RAW`).
    #[arg(long, global = true)]
    raw: bool,
    /// SCTP: parameters of the association: recommended; signaling, for private networks with round trips
    /// below 50 ms; rfc9260, without extensions.
    #[arg(long, value_name = "NAME", value_parser = preset, default_value_t, global = true)]
    preset: Preset,
    /// SCTP: minimum retransmission timeout (RTO.Min).
    #[arg(long, value_name = "TIME", value_parser = units::duration, global = true)]
    rto_min: Option<Duration>,
    /// SCTP: consecutive timeouts after which a path is inactive (Path.Max.Retrans).
    #[arg(long, value_name = "N", global = true)]
    path_max_retrans: Option<u32>,
    #[command(flatten)]
    event_log: EventLogArguments,
    /// TLS: file with trusted certificates in PEM format.
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// TLS: name expected in the certificate [default: the host].
    #[arg(long, value_name = "NAME", global = true)]
    tls_name: Option<String>,
}

/// Parsed URL of a middlebox.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MiddleboxUrl {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Sctp,
    Tcp,
    Tls,
}

fn middlebox_url(text: &str) -> Result<MiddleboxUrl, String> {
    let form = "expected sctp://ADDR[,ADDR][:PORT], tcp://HOST[:PORT] or tls://HOST[:PORT]";
    let (scheme, rest) = text.split_once("://").ok_or(form)?;
    let scheme = match scheme {
        "sctp" => Scheme::Sctp,
        "tcp" => Scheme::Tcp,
        "tls" => Scheme::Tls,
        _ => return Err(form.into()),
    };
    // A colon within brackets belongs to an IPv6 address, and so does one of several without them.
    let bracket = rest.rfind(']').map_or(0, |at| at + 1);
    let colon = rest[bracket..].find(':').map(|at| bracket + at);
    let last = rest.rfind(':');
    let (host, port) = match colon {
        Some(at) if Some(at) == last => {
            let port = rest[at + 1..].parse();
            let port = port.map_err(|_| {
                format!(
                    "invalid port {:?}: give a number from 1 to 65535",
                    &rest[at + 1..]
                )
            })?;
            (&rest[..at], port)
        }
        _ => (rest, PORT),
    };
    let host = host.replace(['[', ']'], "");
    if host.is_empty() || port == 0 {
        return Err(form.into());
    }
    Ok(MiddleboxUrl { scheme, host, port })
}

impl ConnectArguments {
    /// Returns the address of the middlebox and the transport to it.
    pub(super) async fn target(&self) -> Result<ConnectTarget, Failure> {
        let url = self.middlebox.clone();
        let url = url.ok_or_else(|| Failure::Usage("--middlebox URL is missing".into()))?;
        let MiddleboxUrl { scheme, host, port } = url;
        Ok(match scheme {
            Scheme::Tcp => ConnectTarget::tcp(host, port),
            Scheme::Tls => {
                let missing = || Failure::Usage("tls:// needs --ca FILE".into());
                let roots = self.ca.as_ref().ok_or_else(missing)?;
                let config = tls::client(roots).map_err(|e| Failure::Run(e.to_string()))?;
                ConnectTarget::Tls {
                    name: self.tls_name.clone().unwrap_or_else(|| host.clone()),
                    host,
                    port,
                    config,
                }
            }
            Scheme::Sctp => {
                let addresses = resolve(&host).await?;
                ConnectTarget::Sctp(Box::new(self.sctp(addresses, port)?))
            }
        })
    }

    fn sctp(&self, addresses: Vec<IpAddr>, port: u16) -> Result<SctpTarget, Failure> {
        let mut association =
            carrick_simco_net::transport::sctp::association(self.preset.config(), self.streams);
        if let Some(rto_min) = self.rto_min {
            association.timers.rto_min = rto_min;
            association.timers.rto_initial = association.timers.rto_initial.max(rto_min);
        }
        if let Some(threshold) = self.path_max_retrans {
            association.paths.path_max_retrans = threshold;
        }
        // Other hosts can't reply to a loopback address, and a peer on loopback needs no other address.
        let loopback = addresses.iter().all(IpAddr::is_loopback) && self.bind.is_empty();
        let local = if loopback {
            addresses.iter().take(1).copied().collect()
        } else {
            self.bind.clone()
        };
        let daemon = (!self.raw).then(running_daemon).flatten();
        if let Some(daemon) = &daemon {
            eprintln!("carrick: {}", shared_port(daemon));
        }
        Ok(SctpTarget {
            addresses,
            port,
            udp_port: (!self.raw).then_some(self.udp_port),
            local,
            local_udp_port: 0,
            daemon,
            streams: self.streams,
            association: Some(association),
            event_log: self.event_log.open(None)?,
        })
    }

    /// Returns the identity of the agent and the reply timeout.
    pub(super) fn settings(&self) -> Result<AgentSettings, Failure> {
        let mut settings = AgentSettings {
            timeout: self.timeout,
            ..AgentSettings::default()
        };
        let identity = |name: &str| {
            let wrong =
                || Failure::Usage(format!("invalid name {name:?}: must have 1 to 255 octets"));
            Identity::new(name).ok_or_else(wrong)
        };
        if let (Some(name), Some(path)) = (&self.name, &self.key_file) {
            let key = read_key_file(path).map_err(|e| Failure::Run(e.to_string()))?;
            let middlebox = self.middlebox_name.as_deref().map(identity).transpose()?;
            settings.credentials = Some(Credentials {
                agent: identity(name)?,
                key,
                middlebox,
            });
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_a_transport_addresses_and_a_port() {
        let of = |text| {
            let MiddleboxUrl { scheme, host, port } = middlebox_url(text).unwrap();
            (scheme, host, port)
        };
        let [sctp, tcp, tls] = [Scheme::Sctp, Scheme::Tcp, Scheme::Tls];
        assert_eq!(of("tcp://fw1"), (tcp, "fw1".into(), PORT));
        assert_eq!(of("tls://fw1:99"), (tls, "fw1".into(), 99));
        let two = "192.0.2.1,198.51.100.1".to_owned();
        assert_eq!(of("sctp://192.0.2.1,198.51.100.1:7"), (sctp, two, 7));
        assert_eq!(of("tcp://[::1]:99"), (tcp, "::1".into(), 99));
        assert_eq!(of("tcp://[::1]"), (tcp, "::1".into(), PORT));
        assert_eq!(of("tcp://2001:db8::1"), (tcp, "2001:db8::1".into(), PORT));
        for wrong in [
            "fw1",
            "udp://fw1",
            "tcp://",
            "tcp://a:0",
            "tcp://a:x",
            "tcp://:7",
        ] {
            assert!(middlebox_url(wrong).is_err(), "{wrong}");
        }
    }
}
