//! Addresses of the sides of a proxy: `PROTOCOL:ADDRESS`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest path of a socket in bytes: `sun_path` of unix(7) without the zero at its end.
const MAX_SOCKET_PATH: usize = 107;

/// Side of a proxy, as it was typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProxyAddress {
    typed: String,
    pub(super) protocol: ProxyProtocol,
}

/// Protocol of a side, and its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ProxyProtocol {
    /// Hosts separated by commas, empty for all addresses of this host, and the SCTP port.
    Sctp(String, u16),
    Tcp(String, u16),
    Udp(String, u16),
    /// Socket with a byte stream.
    Unix(PathBuf),
    /// Socket with messages.
    UnixSeqpacket(PathBuf),
    /// Standard input and output.
    Stdio,
}

impl ProxyAddress {
    pub(super) fn is_sctp(&self) -> bool {
        matches!(self.protocol, ProxyProtocol::Sctp(..))
    }

    /// Returns whether another side can connect to this address.
    pub(super) fn can_be_target(&self) -> bool {
        match &self.protocol {
            ProxyProtocol::Sctp(host, _) => !host.is_empty(),
            ProxyProtocol::Tcp(_, port) | ProxyProtocol::Udp(_, port) => *port != 0,
            _ => true,
        }
    }

    /// Returns whether the side keeps the boundaries of messages.
    pub(super) fn has_datagrams(&self) -> bool {
        let protocol = &self.protocol;
        matches!(
            protocol,
            ProxyProtocol::Udp(..) | ProxyProtocol::UnixSeqpacket(_)
        )
    }
}

impl fmt::Display for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl FromStr for ProxyAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (protocol, address) = text.split_once(':').unwrap_or((text, ""));
        let protocol = match protocol {
            "sctp" if !address.contains(':') => ProxyProtocol::Sctp(String::new(), port(address)?),
            "sctp" => {
                let (hosts, number) = host_and_port(address)?;
                ProxyProtocol::Sctp(hosts, port(number)?)
            }
            "tcp" | "udp" => {
                let (host, number) = host_and_port(address)?;
                // A listening side may let the system choose the port.
                let port = if number == "0" { 0 } else { port(number)? };
                if host.contains(',') {
                    return Err(format!("{protocol} has one address, not {host}"));
                }
                let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
                let host = inner.map_or(host.clone(), str::to_owned);
                match protocol {
                    "tcp" => ProxyProtocol::Tcp(host, port),
                    _ => ProxyProtocol::Udp(host, port),
                }
            }
            "unix" => ProxyProtocol::Unix(path(address)?),
            "unix-seqpacket" => ProxyProtocol::UnixSeqpacket(path(address)?),
            "stdio" if address.is_empty() => ProxyProtocol::Stdio,
            _ => {
                return Err(
                    "expected sctp:PORT, sctp:HOST[,HOST...]:PORT, tcp:HOST:PORT, udp:HOST:PORT, unix:PATH, unix-seqpacket:PATH or stdio"
                        .into(),
                );
            }
        };
        Ok(Self {
            typed: text.to_owned(),
            protocol,
        })
    }
}

fn port(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|port| *port != 0);
    number.ok_or_else(|| format!("{text:?} is not a port: give a number from 1 to 65535"))
}

/// Splits hosts from the port behind them. IPv6 addresses are in brackets.
fn host_and_port(text: &str) -> Result<(String, &str), String> {
    let (hosts, number) = text.rsplit_once(':').ok_or(
        "give an address and a port, such as 127.0.0.1:9000, or 0.0.0.0:9000 for all addresses",
    )?;
    for host in hosts.split(',') {
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() {
            return Err(format!("{hosts:?} has an empty address"));
        }
        if host.contains(':') && !is_bracketed {
            return Err(format!("write IPv6 addresses in brackets: [{host}]"));
        }
    }
    Ok((hosts.to_owned(), number))
}

fn path(text: &str) -> Result<PathBuf, String> {
    match text.len() {
        0 => Err("give the path of a socket, such as unix:/run/peer.socket".into()),
        length if length > MAX_SOCKET_PATH => Err(format!(
            "the path has {length} bytes, and paths of sockets have at most {MAX_SOCKET_PATH}"
        )),
        _ => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_protocol() {
        let host = |host: &str| host.to_owned();
        for (text, protocol) in [
            ("sctp:7", ProxyProtocol::Sctp(host(""), 7)),
            (
                "sctp:192.0.2.1,[::1]:7",
                ProxyProtocol::Sctp(host("192.0.2.1,[::1]"), 7),
            ),
            (
                "tcp:localhost:80",
                ProxyProtocol::Tcp(host("localhost"), 80),
            ),
            ("tcp:[::1]:80", ProxyProtocol::Tcp(host("::1"), 80)),
            ("udp:127.0.0.1:9", ProxyProtocol::Udp(host("127.0.0.1"), 9)),
            ("unix:a:b", ProxyProtocol::Unix("a:b".into())),
            (
                "unix-seqpacket:/a",
                ProxyProtocol::UnixSeqpacket("/a".into()),
            ),
            ("stdio", ProxyProtocol::Stdio),
        ] {
            let address: ProxyAddress = text.parse().unwrap();
            assert_eq!(address.protocol, protocol);
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn errors_of_addresses_have_the_remedy() {
        for (text, words) in [
            ("", "expected sctp:PORT"),
            ("sctp", "not a port"),
            ("sctp:0", "from 1 to 65535"),
            ("sctp:a,:7", "empty address"),
            ("tcp:80", "give an address and a port"),
            ("tcp:::1:80", "in brackets: [::1]"),
            ("tcp:a,b:80", "tcp has one address"),
            ("http:a:80", "expected sctp:PORT"),
            ("stdio:a", "expected sctp:PORT"),
            ("unix:", "give the path"),
        ] {
            let error = text.parse::<ProxyAddress>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
