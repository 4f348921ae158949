//! Media addresses that inside parties have described in present calls.
//!
//! A description from outside may have an internal address only if an inside party described it: a call
//! between two inside parties that an outside server routes back. Otherwise an outsider could make an inside
//! phone send its media to any internal host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{B2buaConfig, FirewallSide};
use crate::media::MisplacedAddress;
use crate::sdp::{SdpError, SessionDescription};

/// Limit of addresses of one call; further ones are not recorded.
const MAX_ADDRESSES: usize = 128;

/// Media addresses of inside parties, with the number of calls in which they were described.
#[derive(Debug, Default)]
pub(crate) struct InsideMedia(Mutex<BTreeMap<SocketAddr, usize>>);

impl InsideMedia {
    fn table(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Media addresses that the inside party of one call has described, until the call ends.
#[derive(Debug)]
pub(crate) struct InsideMediaOfCall {
    all: Arc<InsideMedia>,
    own: Mutex<BTreeSet<SocketAddr>>,
}

impl InsideMediaOfCall {
    pub(crate) fn new(all: Arc<InsideMedia>) -> Self {
        Self {
            all,
            own: Mutex::default(),
        }
    }

    /// Parses a description from this side. Records the addresses of an inside party, and checks those of
    /// an outside party.
    pub(crate) fn parse(
        &self,
        config: &B2buaConfig,
        side: FirewallSide,
        body: &[u8],
    ) -> Result<SessionDescription, SdpError> {
        let description = SessionDescription::parse(body)?;
        let streams = description.streams.iter().flatten();
        let ends = streams.flat_map(|stream| [stream.address, stream.rtcp].into_iter().flatten());
        match side {
            FirewallSide::Inside => {
                let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
                for end in ends {
                    if own.len() < MAX_ADDRESSES && own.insert(end) {
                        *self.all.table().entry(end).or_default() += 1;
                    }
                }
            }
            FirewallSide::Outside => {
                let table = self.all.table();
                for end in ends.filter(|end| !table.contains_key(end)) {
                    if config.is_agents_own(end.ip()) {
                        return Err(SdpError::Agent(end.ip()));
                    }
                    if config.is_internal(end.ip()) {
                        return Err(MisplacedAddress(end).into());
                    }
                }
            }
        }
        Ok(description)
    }
}

impl Drop for InsideMediaOfCall {
    fn drop(&mut self) {
        let own = self.own.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut table = self.all.table();
        for end in own.iter() {
            if let Some(calls) = table.get_mut(end) {
                *calls -= 1;
                if *calls == 0 {
                    table.remove(end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(address: &str, port: u16) -> Vec<u8> {
        let text = format!(
            "v=0\r\no=a 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0\r\n"
        );
        text.into_bytes()
    }

    #[test]
    fn outsiders_name_no_internal_host_or_agent() {
        let listen = "192.0.2.254:5060".parse().unwrap();
        let config = B2buaConfig::new(listen, vec!["10.0.0.0/8".parse().unwrap()]);
        let all = Arc::new(InsideMedia::default());
        let call = InsideMediaOfCall::new(Arc::clone(&all));
        let from = |call: &InsideMediaOfCall, side, address, port| {
            call.parse(&config, side, &body(address, port)).map(|_| ())
        };
        let end = MisplacedAddress("10.0.0.11:6000".parse().unwrap());
        let refused = from(&call, FirewallSide::Outside, "10.0.0.11", 6000);
        assert_eq!(refused, Err(SdpError::Misplaced(end)));
        let refused = from(&call, FirewallSide::Outside, "192.0.2.254", 6000);
        assert_eq!(refused, Err(SdpError::Agent(listen.ip())));
        assert_eq!(
            from(&call, FirewallSide::Outside, "203.0.113.9", 6000),
            Ok(())
        );

        // A call that an outside server routes back has the address of its inside caller.
        let back = InsideMediaOfCall::new(Arc::clone(&all));
        assert_eq!(from(&call, FirewallSide::Inside, "10.0.0.11", 6000), Ok(()));
        assert_eq!(
            from(&back, FirewallSide::Outside, "10.0.0.11", 6000),
            Ok(())
        );
        let other_port = from(&back, FirewallSide::Outside, "10.0.0.11", 6002);
        assert!(matches!(other_port, Err(SdpError::Misplaced(_))));
        drop(call);
        let over = from(&back, FirewallSide::Outside, "10.0.0.11", 6000);
        assert!(matches!(over, Err(SdpError::Misplaced(_))));
        assert!(all.table().is_empty());
    }

    #[test]
    fn recorded_addresses_of_a_call_are_bounded() {
        let config = B2buaConfig::new("10.0.0.1:5060".parse().unwrap(), Vec::new());
        let all = Arc::new(InsideMedia::default());
        let call = InsideMediaOfCall::new(Arc::clone(&all));
        for port in 0..1000 {
            let body = body("10.0.0.11", 2000 + 2 * port);
            call.parse(&config, FirewallSide::Inside, &body).unwrap();
        }
        assert_eq!(all.table().len(), MAX_ADDRESSES);
    }
}
