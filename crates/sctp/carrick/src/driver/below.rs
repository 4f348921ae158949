//! Layer between the protocol and the sockets: none, or DTLS sessions (RFC 8261).

use std::net::IpAddr;

use bytes::Bytes;
use carrick_proto::{AssociationId, Endpoint as Core, Event, IcmpInput, Route, Time, Transmit};

use crate::command::ConnectRequest;
use crate::config::Config;
use crate::error::{BindError, ConnectError};

#[cfg(feature = "dtls")]
use dtls::Sessions;

/// Without the feature there are no sessions.
#[cfg(not(feature = "dtls"))]
type Sessions = std::convert::Infallible;

/// Passes packets through unchanged unless there are sessions.
pub(crate) struct LowerLayer(Option<Sessions>);

#[cfg_attr(
    not(feature = "dtls"),
    expect(clippy::unnecessary_wraps, reason = "nothing is there to fail")
)]
impl LowerLayer {
    /// Makes the layer of the configuration. With DTLS it takes over the addresses of the protocol.
    pub(crate) fn new(
        config: &mut Config,
        endpoint: &mut carrick_proto::EndpointConfig,
    ) -> Result<Self, BindError> {
        #[cfg(feature = "dtls")]
        if let Some(dtls) = config.dtls.take() {
            return Ok(Self(Some(Sessions::new(dtls, config, endpoint)?)));
        }
        let _ = (config, endpoint);
        Ok(Self(None))
    }

    /// Returns no layer.
    #[cfg(target_os = "linux")]
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Returns whether packets are protected.
    pub(crate) fn is_protected(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn handle_datagrams(
        &mut self,
        now: Time,
        core: &mut Core,
        route: &Route,
        datagrams: &mut dyn Iterator<Item = Bytes>,
    ) {
        match &mut self.0 {
            None => core.handle_datagrams(now, route, datagrams),
            #[cfg(feature = "dtls")]
            Some(sessions) => {
                for datagram in datagrams {
                    sessions.layer.handle_datagram(now, core, route, &datagram);
                }
            }
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    pub(crate) fn handle_icmp(&mut self, now: Time, core: &mut Core, icmp: &IcmpInput<'_>) {
        match &mut self.0 {
            None => core.handle_icmp(now, icmp),
            #[cfg(feature = "dtls")]
            Some(sessions) => sessions.layer.handle_icmp(now, core, icmp),
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        core: &mut Core,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        match &mut self.0 {
            None => core.poll_transmit(now, out),
            #[cfg(feature = "dtls")]
            Some(sessions) => sessions.layer.poll_transmit(now, core, out),
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    pub(crate) fn poll_timeout(&self, core: &Core) -> Option<Time> {
        match &self.0 {
            None => core.poll_timeout(),
            #[cfg(feature = "dtls")]
            Some(sessions) => sessions.layer.poll_timeout(core),
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, core: &mut Core) {
        match &mut self.0 {
            None => core.handle_timeout(now),
            #[cfg(feature = "dtls")]
            Some(sessions) => sessions.layer.handle_timeout(now, core),
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    pub(crate) fn poll_event(
        &mut self,
        now: Time,
        core: &mut Core,
    ) -> Option<(AssociationId, Event)> {
        match &mut self.0 {
            None => {
                let _ = now;
                core.poll_event()
            }
            #[cfg(feature = "dtls")]
            Some(sessions) => sessions.poll_event(now, core),
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    pub(crate) fn connect(
        &mut self,
        now: Time,
        core: &mut Core,
        connect: &ConnectRequest,
    ) -> Result<AssociationId, ConnectError> {
        let config = connect.config.clone();
        let config = config.unwrap_or_else(|| core.default_config());
        match &mut self.0 {
            None => Ok(core.associate(now, &connect.peers, connect.port, config)?),
            #[cfg(feature = "dtls")]
            Some(sessions) => sessions.connect(now, core, connect, (*config).clone()),
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    /// Returns the reason for which the session of an association failed, once.
    pub(crate) fn take_failure(&mut self, id: AssociationId) -> Option<String> {
        match &mut self.0 {
            None => {
                let _ = id;
                None
            }
            #[cfg(feature = "dtls")]
            Some(sessions) => sessions.failures.remove(&id),
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    /// Returns the fingerprint of the certificate of an association's peer.
    #[cfg(feature = "dtls")]
    pub(crate) fn fingerprint(&self, id: AssociationId) -> Option<carrick_dtls::Fingerprint> {
        let layer = &self.0.as_ref()?.layer;
        let identity = layer.identity(layer.session_of(id)?)?;
        identity.try_into().ok().map(carrick_dtls::Fingerprint)
    }

    /// Returns the addresses to which packets are sent.
    pub(crate) fn peer_addresses(&self, addresses: Vec<IpAddr>) -> Vec<IpAddr> {
        match &self.0 {
            None => addresses,
            #[cfg(feature = "dtls")]
            Some(sessions) => {
                let real = |a: &IpAddr| Some(sessions.layer.remote_behind(*a)?.ip());
                addresses.iter().filter_map(real).collect()
            }
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    /// Closes the sessions after the last association has ended.
    pub(crate) fn close(&mut self, now: Time, core: &mut Core) {
        match &mut self.0 {
            None => {
                let _ = (now, core);
            }
            #[cfg(feature = "dtls")]
            Some(sessions) => sessions.layer.close(now, core),
            #[cfg(not(feature = "dtls"))]
            Some(never) => match *never {},
        }
    }

    #[cfg(feature = "dtls")]
    pub(crate) fn stats(&self) -> carrick_proto::sessions::SessionStats {
        let sessions = self.0.as_ref();
        sessions.map_or_else(Default::default, |sessions| sessions.layer.stats())
    }
}

#[cfg(feature = "dtls")]
mod dtls {
    use std::collections::BTreeMap;
    use std::net::SocketAddr;

    use carrick_dtls::{Dtls, DtlsConfig, DtlsLayer, Trust};
    use carrick_proto::sessions::SessionEvent;
    use carrick_proto::{AssociationConfig, EndpointConfig, PeerAddress};

    use crate::error::ConfigError;

    use super::{
        AssociationId, BindError, Config, ConnectError, ConnectRequest, Core, Event, Time,
    };

    /// DTLS sessions, one per peer.
    pub(super) struct Sessions {
        pub(super) layer: DtlsLayer,
        /// Default trust for outgoing connections.
        trust: Trust,
        /// Failures of sessions, by associations that have not ended yet.
        pub(super) failures: BTreeMap<AssociationId, String>,
    }

    impl Sessions {
        pub(super) fn new(
            dtls: DtlsConfig,
            config: &Config,
            endpoint: &mut EndpointConfig,
        ) -> Result<Self, BindError> {
            if config.transport.has_plain_ip() {
                return Err(BindError::Dtls(
                    "it needs UDP alone: bind with Config::udp".into(),
                ));
            }
            if config.auto_addresses {
                let why = "sessions don't move: leave auto_addresses off";
                return Err(BindError::Dtls(why.into()));
            }
            let limits = config.sessions;
            for (name, value) in [
                ("sessions.max_sessions", limits.max_sessions),
                ("sessions.max_handshakes", limits.max_handshakes),
            ] {
                if value == 0 {
                    return Err(ConfigError::new(name, "must be at least 1").into());
                }
            }
            let trust = dtls.trust.clone();
            let dtls = Dtls::new(dtls).map_err(|e| BindError::Dtls(e.to_string()))?;
            Ok(Self {
                layer: DtlsLayer::new(dtls, limits, endpoint),
                trust,
                failures: BTreeMap::new(),
            })
        }

        pub(super) fn connect(
            &mut self,
            now: Time,
            core: &mut Core,
            connect: &ConnectRequest,
            config: AssociationConfig,
        ) -> Result<AssociationId, ConnectError> {
            let &[
                PeerAddress {
                    address,
                    encapsulation: Some(udp),
                },
            ] = &connect.peers[..]
            else {
                let why = "a session has one address: name one";
                return Err(ConnectError::Unprotected(why.into()));
            };
            let trust = connect.trust.clone().unwrap_or_else(|| self.trust.clone());
            let remote = (SocketAddr::new(address, udp), connect.port);
            let refused = |e: carrick_proto::sessions::SessionConnectError| match e {
                carrick_proto::sessions::SessionConnectError::Association(e) => e.into(),
                e => ConnectError::Unprotected(e.to_string()),
            };
            self.layer
                .connect(now, core, remote, trust, config)
                .map_err(refused)
        }

        pub(super) fn poll_event(
            &mut self,
            now: Time,
            core: &mut Core,
        ) -> Option<(AssociationId, Event)> {
            while let Some(event) = self.layer.poll_session_event() {
                let (associations, why) = match event {
                    SessionEvent::Failed(_, error, of) => (of, error.to_string()),
                    SessionEvent::TimedOut(_, of) => {
                        (of, carrick_dtls::DtlsError::TimedOut.to_string())
                    }
                    SessionEvent::Unreachable(_, of) => {
                        (of, carrick_dtls::DtlsError::Unreachable.to_string())
                    }
                    SessionEvent::Established(_)
                    | SessionEvent::Replaced(_)
                    | SessionEvent::Closed(_) => continue,
                };
                // Each association reports its end.
                self.failures
                    .extend(associations.into_iter().map(|id| (id, why.clone())));
            }
            self.layer.poll_event(now, core)
        }
    }
}
