//! Endpoints of data streams on the command line: `10.0.0.1:5000`, `192.0.2.0/24`, `any`.

use std::net::IpAddr;

use carrick_simco::message::{AddressTuple, IpVersion, Location, Scope};

/// One end of a data stream: its hosts and its first port, 0 for any port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataStreamEnd {
    host: Option<(IpAddr, u8)>,
    port: u16,
}

/// Parses `ADDR[/PREFIX][:PORT]` (an IPv6 address with a port in brackets) or `any`.
pub(super) fn end(text: &str) -> Result<DataStreamEnd, String> {
    let form = "expected ADDR[/PREFIX][:PORT] (an IPv6 address with a port in brackets) or any";
    if text == "any" {
        return Ok(DataStreamEnd {
            host: None,
            port: 0,
        });
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(form)?;
            let (prefix, port) = match rest.split_once(':') {
                Some((prefix, port)) => (prefix, Some(port)),
                None => (rest, None),
            };
            (format!("{host}{prefix}"), port)
        }
        None if text.matches(':').count() == 1 => {
            let (host, port) = text.split_once(':').ok_or(form)?;
            (host.to_owned(), Some(port))
        }
        None => (text.to_owned(), None),
    };
    let port = match port {
        None => 0,
        Some(port) => port
            .parse()
            .map_err(|_| format!("invalid port {port:?}: give a number from 0 to 65535"))?,
    };
    let (address, prefix) = match host.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (&*host, None),
    };
    let address: IpAddr = address.parse().map_err(|_| form.to_owned())?;
    let bits = IpVersion::of(address).bits();
    let prefix = match prefix {
        None => bits,
        Some(prefix) => match prefix.parse() {
            Ok(prefix) if prefix <= bits => prefix,
            _ => {
                return Err(format!(
                    "invalid prefix length {prefix:?}: give a number from 0 to {bits}"
                ));
            }
        },
    };
    Ok(DataStreamEnd {
        host: Some((address, prefix)),
        port,
    })
}

impl DataStreamEnd {
    pub(super) fn version(&self) -> Option<IpVersion> {
        self.host.map(|(address, _)| IpVersion::of(address))
    }

    /// Returns whether a port is given.
    pub(super) fn has_port(&self) -> bool {
        self.port != 0
    }

    /// Returns this end with a port.
    pub(super) fn with_port(self) -> Self {
        Self { port: 1, ..self }
    }

    /// Returns whether it covers more than one host or port.
    pub(super) fn is_wildcard(&self) -> bool {
        let one = |(address, prefix)| prefix == IpVersion::of(address).bits();
        self.port == 0 || !self.host.is_some_and(one)
    }

    /// Converts to an address tuple attribute. `version` applies if this end is `any`.
    pub(super) fn tuple(
        self,
        location: Location,
        protocol: u8,
        ports: u16,
        version: IpVersion,
    ) -> AddressTuple {
        let scope = match self.host {
            None => Scope::ProtocolsOnly(version),
            Some((address, prefix)) => Scope::Full {
                address,
                prefix,
                port: self.port,
                ports,
            },
        };
        AddressTuple {
            location,
            protocol,
            scope,
        }
    }
}

/// Parses a transport protocol by name or number.
pub(super) fn protocol(text: &str) -> Result<u8, String> {
    match text {
        "any" => Ok(0),
        "icmp" => Ok(1),
        "tcp" => Ok(6),
        "udp" => Ok(17),
        "dccp" => Ok(33),
        "sctp" => Ok(132),
        number => number.parse().map_err(|_| {
            "expected udp, tcp, sctp, dccp, icmp, any or a number from 0 to 255".into()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_displayed_as_they_were_parsed() {
        for text in [
            "10.0.0.1:5000",
            "192.0.2.0/24",
            "192.0.2.0/24:80",
            "2001:db8::1",
            "[2001:db8::1]:5000",
            "2001:db8::/32",
            "[2001:db8::]/32:53",
            "any",
        ] {
            let tuple = end(text)
                .unwrap()
                .tuple(Location::Internal, 17, 1, IpVersion::V4);
            assert_eq!(tuple.to_string(), text);
        }
        for wrong in [
            "",
            "10.0.0.1:x",
            "10.0.0.1/33",
            "host:5",
            "[::1",
            "10.0.0.1:70000",
        ] {
            assert!(end(wrong).is_err(), "{wrong}");
        }
        assert_eq!(protocol("sctp"), Ok(132));
        assert!(protocol("256").is_err());
    }
}
