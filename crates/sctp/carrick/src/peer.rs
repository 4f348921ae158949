//! Addresses and names of a peer.

use std::net::{IpAddr, SocketAddr};

use crate::error::ConnectError;
use crate::socket::addresses::is_link_local;

/// Addresses or names of one peer, with its SCTP port.
///
/// A peer with several addresses (multi-homing) is given by all of them, or by those that are known: it
/// lists all addresses during the set-up. The first one is tried first. All addresses of a name are used
/// whose family the endpoint is bound to.
///
/// ```
/// # use std::net::{IpAddr, SocketAddr};
/// use carrick::Peer;
///
/// let by_name = Peer::from("server.example:5000");
/// let by_address = Peer::from(SocketAddr::from(([192, 0, 2, 1], 5000)));
/// let addresses: [IpAddr; 2] = [[192, 0, 2, 1].into(), [198, 51, 100, 1].into()];
/// let multi_homed = Peer::from((addresses, 5000));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer(Vec<Host>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Host {
    Address(SocketAddr),
    Name(String, u16),
    /// A name or an address, with a port behind a colon.
    Text(String),
}

impl Peer {
    /// The peer with these names or addresses, without ports, at an SCTP port.
    pub fn new<H: Into<String>>(hosts: impl IntoIterator<Item = H>, port: u16) -> Self {
        let hosts = hosts.into_iter();
        Self(hosts.map(|host| Host::Name(host.into(), port)).collect())
    }

    /// Returns whether [`Self::resolve`] may look up names.
    pub(crate) fn has_names(&self) -> bool {
        let mut hosts = self.0.iter();
        hosts.any(|host| !matches!(host, Host::Address(_)))
    }

    /// Resolves the names. Of a name's addresses, the usable ones are taken.
    pub(crate) async fn resolve(
        self,
        usable: impl Fn(IpAddr) -> bool,
    ) -> Result<(Vec<IpAddr>, u16), ConnectError> {
        let mut found: Vec<SocketAddr> = Vec::new();
        for host in self.0 {
            let (name, looked_up) = match host {
                Host::Address(address) => {
                    add(&mut found, address)?;
                    continue;
                }
                Host::Name(name, port) => {
                    if let Ok(address) = name.parse::<IpAddr>() {
                        add(&mut found, SocketAddr::new(address, port))?;
                        continue;
                    }
                    let addresses = tokio::net::lookup_host((&*name, port)).await;
                    let addresses = addresses.map(Iterator::collect::<Vec<_>>);
                    (name, addresses)
                }
                Host::Text(text) => {
                    if let Ok(address) = text.parse() {
                        add(&mut found, address)?;
                        continue;
                    }
                    let addresses = tokio::net::lookup_host(&*text).await;
                    let addresses = addresses.map(Iterator::collect::<Vec<_>>);
                    (text, addresses)
                }
            };
            let addresses = match looked_up {
                Ok(addresses) => addresses,
                Err(error) => {
                    let reason = error.to_string();
                    return Err(ConnectError::Resolve { name, reason });
                }
            };
            let known = found.len();
            for address in addresses {
                if usable(address.ip()) && !is_link_local(address.ip()) {
                    add(&mut found, address)?;
                }
            }
            if found.len() == known {
                let reason = "it has no address of a family that the endpoint is bound to".into();
                return Err(ConnectError::Resolve { name, reason });
            }
        }
        let port = found.first().ok_or(ConnectError::NoAddress)?.port();
        if found.iter().any(|address| address.port() != port) {
            return Err(ConnectError::DifferentPorts);
        }
        Ok((found.iter().map(SocketAddr::ip).collect(), port))
    }
}

fn add(found: &mut Vec<SocketAddr>, address: SocketAddr) -> Result<(), ConnectError> {
    if is_link_local(address.ip()) {
        return Err(ConnectError::LinkLocal(address));
    }
    if !found.contains(&address) {
        found.push(address);
    }
    Ok(())
}

impl From<&str> for Peer {
    /// A name or an address with the port behind a colon, as in `[2001:db8::1]:5000`.
    fn from(text: &str) -> Self {
        Self(vec![Host::Text(text.into())])
    }
}

impl From<String> for Peer {
    fn from(text: String) -> Self {
        Self(vec![Host::Text(text)])
    }
}

impl From<(&str, u16)> for Peer {
    fn from((name, port): (&str, u16)) -> Self {
        Self::new([name], port)
    }
}

impl From<(String, u16)> for Peer {
    fn from((name, port): (String, u16)) -> Self {
        Self::new([name], port)
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self(vec![Host::Address(address)])
    }
}

impl From<Vec<SocketAddr>> for Peer {
    fn from(addresses: Vec<SocketAddr>) -> Self {
        Self(addresses.into_iter().map(Host::Address).collect())
    }
}

impl From<&[SocketAddr]> for Peer {
    fn from(addresses: &[SocketAddr]) -> Self {
        addresses.to_vec().into()
    }
}

impl<const N: usize> From<[SocketAddr; N]> for Peer {
    fn from(addresses: [SocketAddr; N]) -> Self {
        addresses.to_vec().into()
    }
}

impl From<(IpAddr, u16)> for Peer {
    fn from((address, port): (IpAddr, u16)) -> Self {
        SocketAddr::new(address, port).into()
    }
}

impl From<(&[IpAddr], u16)> for Peer {
    fn from((addresses, port): (&[IpAddr], u16)) -> Self {
        let addresses = addresses.iter();
        let addresses: Vec<SocketAddr> = addresses.map(|a| SocketAddr::new(*a, port)).collect();
        addresses.into()
    }
}

impl From<(Vec<IpAddr>, u16)> for Peer {
    fn from((addresses, port): (Vec<IpAddr>, u16)) -> Self {
        (&addresses[..], port).into()
    }
}

impl From<(&Vec<IpAddr>, u16)> for Peer {
    fn from((addresses, port): (&Vec<IpAddr>, u16)) -> Self {
        (&addresses[..], port).into()
    }
}

impl<const N: usize> From<([IpAddr; N], u16)> for Peer {
    fn from((addresses, port): ([IpAddr; N], u16)) -> Self {
        (&addresses[..], port).into()
    }
}

impl<const N: usize> From<(&[IpAddr; N], u16)> for Peer {
    fn from((addresses, port): (&[IpAddr; N], u16)) -> Self {
        (&addresses[..], port).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn resolved(peer: impl Into<Peer>) -> Result<(Vec<IpAddr>, u16), ConnectError> {
        peer.into().resolve(|address| address.is_ipv4()).await
    }

    #[tokio::test]
    async fn addresses_and_names_give_one_port() {
        let one = IpAddr::from([127, 0, 0, 1]);
        let two = IpAddr::from([127, 0, 0, 2]);
        for peer in [
            Peer::from("127.0.0.1:7"),
            Peer::from(("127.0.0.1", 7)),
            Peer::from((one, 7)),
            Peer::from("localhost:7"),
        ] {
            assert_eq!(resolved(peer).await, Ok((vec![one], 7)));
        }
        assert_eq!(
            resolved(([one, two, one], 7)).await,
            Ok((vec![one, two], 7))
        );
        let ports = [SocketAddr::new(one, 7), SocketAddr::new(two, 8)];
        assert_eq!(resolved(ports).await, Err(ConnectError::DifferentPorts));
        assert_eq!(
            resolved(Peer::new([""; 0], 7)).await,
            Err(ConnectError::NoAddress)
        );
    }

    #[tokio::test]
    async fn link_local_addresses_are_refused_with_scope() {
        let refused = resolved("[fe80::1%2]:7").await.unwrap_err();
        assert!(
            refused.to_string().starts_with("[fe80::1%2]:7"),
            "{refused}"
        );
        let failed = resolved("no port").await;
        assert!(
            matches!(failed, Err(ConnectError::Resolve { .. })),
            "{failed:?}"
        );
    }
}
