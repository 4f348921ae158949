//! The SCTP port of an endpoint that asks for none.
//!
//! Peers know an association by address and SCTP port, also in UDP, so two endpoints of a host must
//! not have the same one. A UDP port that the system chose is unique already, and its number serves
//! as the SCTP port. Otherwise endpoints claim their ports with a name that only one socket of a
//! network namespace can have; other programs' ports on plain IP are not seen.

use std::io;
use std::os::unix::net::UnixDatagram;

use crate::config::Config;
use crate::error::BindError;

/// The ports to choose from (RFC 6335).
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Ports that may turn out to be taken before one is used anyway.
const TRIES: usize = 256;

/// A port, and what keeps others from choosing it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    claim: Option<UnixDatagram>,
}

/// Keeps others from choosing a port while it exists.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "held, not used")] Option<UnixDatagram>);

impl Port {
    /// The configured port, that of UDP if the system chose it, or a free one.
    pub(crate) fn new(config: &Config, encapsulation: Option<u16>) -> Result<Self, BindError> {
        let chosen = config.transport.encapsulation_port() == Some(0);
        match (config.port, encapsulation) {
            (0, Some(port)) if chosen => Ok(Self::fixed(port)),
            (0, _) => Self::choose(random),
            (port, _) => Ok(Self::fixed(port)),
        }
    }

    /// Whoever else has it: that is the caller's choice.
    fn fixed(number: u16) -> Self {
        let claim = claim(number).ok();
        Self { number, claim }
    }

    fn choose(mut next: impl FnMut() -> Result<u16, BindError>) -> Result<Self, BindError> {
        for _ in 0..TRIES {
            let number = next()?;
            match claim(number) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
                claim => {
                    let claim = claim.ok();
                    return Ok(Self { number, claim });
                }
            }
        }
        Ok(Self::fixed(next()?))
    }

    pub(crate) fn into_claim(self) -> Claim {
        Claim(self.claim)
    }
}

#[cfg(target_os = "linux")]
fn claim(port: u16) -> io::Result<UnixDatagram> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    let name = format!("carrick/sctp/{port}");
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Other systems have no such names.
#[cfg(not(target_os = "linux"))]
fn claim(_: u16) -> io::Result<UnixDatagram> {
    Err(io::ErrorKind::Unsupported.into())
}

fn random() -> Result<u16, BindError> {
    let random = getrandom::u32().map_err(BindError::Random)?;
    let span = u32::from(DYNAMIC_PORTS.end() - DYNAMIC_PORTS.start()) + 1;
    // The span is a power of two: no port is likelier than another.
    Ok(DYNAMIC_PORTS.start() + (random % span) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_port_that_another_endpoint_has_is_not_chosen() {
        let first = Port::choose(random).unwrap();
        let taken = first.number;
        let mut numbers = [taken, taken, taken ^ 1].into_iter();
        let second = Port::choose(|| Ok(numbers.next().unwrap())).unwrap();
        assert_eq!(second.number, taken ^ 1);
        drop(first.into_claim());
        assert_eq!(Port::choose(|| Ok(taken)).unwrap().number, taken);
        assert!(DYNAMIC_PORTS.contains(&taken));
    }
}
