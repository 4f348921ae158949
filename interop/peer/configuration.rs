//! Configuration of Carrick from the command line.

use carrick::dtls::{Certificate, CertificateError, DtlsConfig, Trust};
use carrick::{
    AssociationConfig, ChunkType, Config, ConnectOptions, Extensions, HmacId, PathMtuDiscovery,
    SharedKey, SharedKeyId, StreamScheduler,
};

use crate::extension_options::{ExtensionName, ExtensionOptions, Hmac, Key, Scheduler};
use crate::options::{Options, Role, Transport};

impl Role {
    /// Returns the configuration of the endpoint.
    pub(crate) fn config(&self) -> Result<Config, CertificateError> {
        let options = self.options();
        let local = options.local.iter().flat_map(|list| list.0.iter().copied());
        let config = match options.transport {
            Transport::Udp => Config::udp(local).encapsulation_port(options.encaps_port),
            Transport::Ip => Config::raw(local),
            Transport::Dtls => {
                let dtls = DtlsConfig::new(Certificate::generate()?, Trust::Anyone);
                Config::udp(local)
                    .encapsulation_port(options.encaps_port)
                    .dtls(dtls)
            }
        };
        let port = match self {
            Self::Listen { port, .. } => *port,
            Self::Connect { .. } => options.local_port.unwrap_or(0),
        };
        Ok(config
            .port(port)
            .association(options.association())
            .accept(matches!(self, Self::Listen { .. })))
    }
}

impl Options {
    /// Returns the options of the set-up.
    pub(crate) fn connect(&self) -> ConnectOptions {
        match self.transport {
            Transport::Udp | Transport::Dtls => {
                ConnectOptions::new().encapsulation_port(self.remote_encaps_port)
            }
            Transport::Ip => ConnectOptions::new(),
        }
    }

    fn association(&self) -> AssociationConfig {
        self.extensions.apply(AssociationConfig::modern().with(|c| {
            c.streams.outbound_streams = self.streams;
            c.timers.rto_initial = self.rto_initial.unwrap_or(c.timers.rto_initial);
            c.timers.rto_min = self.rto_min.unwrap_or(c.timers.rto_min);
            c.timers.rto_max = self.rto_max.unwrap_or(c.timers.rto_max);
            c.paths.path_max_retrans = self.path_max_retrans.unwrap_or(c.paths.path_max_retrans);
            c.paths.association_max_retrans = self
                .assoc_max_retrans
                .unwrap_or(c.paths.association_max_retrans);
            c.paths.hb_interval = self.heartbeat.unwrap_or(c.paths.hb_interval);
            c.transmission.nagle = !self.nodelay;
        }))
    }
}

impl ExtensionOptions {
    /// Applies the extensions of the command line to a configuration.
    pub(crate) fn apply(&self, mut config: AssociationConfig) -> AssociationConfig {
        if let Some(names) = &self.extensions {
            let has = |name| names.contains(&name);
            let mut offered = Extensions::NONE;
            offered.partial_reliability = has(ExtensionName::Partial);
            offered.authentication = has(ExtensionName::Authentication);
            offered.dynamic_addresses = has(ExtensionName::Addresses);
            offered.reconfiguration = has(ExtensionName::Reconfiguration);
            offered.interleaving = has(ExtensionName::Interleaving);
            offered.interleaved_partial_reliability =
                offered.partial_reliability && offered.interleaving;
            offered.ecn = has(ExtensionName::Ecn);
            offered.zero_checksum = has(ExtensionName::ZeroChecksum);
            config.extensions = offered;
        }
        let authentication = &mut config.security.authentication;
        authentication.required = self.authenticate.iter().map(|t| ChunkType(*t)).collect();
        if self.hmac == Hmac::Sha1 {
            authentication.algorithms = vec![HmacId::SHA_1];
        }
        if let Some(first) = self.keys.first() {
            authentication.active = SharedKeyId(first.id);
            authentication.keys = self.keys.iter().map(shared_key).collect();
        }
        if self.scheduler == Scheduler::Rr {
            config.streams.scheduler = StreamScheduler::RoundRobin;
        }
        if self.search_mtu {
            config.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default());
        }
        config
    }
}

fn shared_key(key: &Key) -> SharedKey {
    SharedKey {
        id: SharedKeyId(key.id),
        secret: key.secret.clone().into(),
    }
}
