//! Options of encryption: of the DTLS chunk, which commands with endpoints share, and of DTLS below SCTP (RFC 8261) and of
//! authentication of chunks (RFC 4895), which `cat` and `proxy` have.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "dtls")]
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use carrick::protection::ChunkProtectionOffer;
use carrick::{
    AssociationControl, AuthenticationConfig, ChunkType, Config, Endpoint, SharedKey, SharedKeyId,
};
#[cfg(feature = "dtls")]
use carrick::{AssociationId, Event, ObservedDetail, ObservedEvent, Observer, protection::Time};
use clap::Args;

use crate::endpoint::{self, EndpointArguments};
use crate::failure::Failure;
use crate::units::hex_bytes;

/// Maximum number of shared keys of an association.
const MAX_KEYS: usize = 63;

/// Time between two checks whether the peer has the same shared keys.
const KEY_CHECK: Duration = Duration::from_millis(200);

/// Reason of the end of an association whose sides have different shared keys, which its ABORT states as well.
pub(crate) const DIFFERENT_KEYS: &str =
    "their AUTH chunks have an invalid HMAC or an unknown key (RFC 4895)";

/// Options of encryption, which commands with endpoints share.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Encryption")]
pub(crate) struct EncryptionArguments {
    /// Encrypt and authenticate all packets on all paths by the DTLS chunk; needs --trust or --authority. The peer needs it too.
    #[arg(long)]
    pub(crate) secure: bool,
    /// PEM file with this side's certificate, and with its private key unless --key is given [default: generated for this run, and
    /// its fingerprint printed].
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// PEM file with the private key of the certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Trusted peer: the SHA-256 fingerprint of its certificate, a PEM file with the certificate, or, with --dtls, any; may be given
    /// several times. With any, an attacker on the path can read and change all data.
    #[arg(long, value_name = "FINGERPRINT|FILE|any")]
    trust: Vec<String>,
    /// PEM file with certificates of authorities: peers with a valid chain to one of them are trusted.
    #[arg(
        long,
        value_name = "FILE",
        requires = "secure",
        conflicts_with = "trust"
    )]
    authority: Option<PathBuf>,
    /// DNS name or IP address that the certificate of the peer must have.
    #[arg(long, value_name = "NAME", requires = "authority")]
    peer_name: Option<String>,
    /// They come from a configuration file, where they have the names of its keys.
    #[cfg(feature = "dtls")]
    #[arg(skip)]
    is_file: bool,
    /// Peers without the DTLS chunk are refused.
    #[cfg(feature = "dtls")]
    #[arg(skip = true)]
    required: bool,
}

impl EncryptionArguments {
    /// Returns the change of an endpoint's configuration that the options select.
    ///
    /// # Errors
    /// A file cannot be read, has something else, or an option is missing.
    pub(crate) fn apply(&self, config: Config) -> Result<Config, Failure> {
        #[cfg(feature = "dtls")]
        self.check(config.dtls.is_some())?;
        if !self.secure {
            return Ok(config);
        }
        #[cfg(feature = "dtls")]
        return Ok(config
            .chunk_protection(dtls::chunk(self)?)
            .observer(Arc::new(Refusals::default())));
        #[cfg(not(feature = "dtls"))]
        return Err(crate::missing::failure("--secure", "dtls"));
    }

    /// Checks that options of certificates belong to --secure or --dtls.
    ///
    /// # Errors
    /// One is given without.
    fn check(&self, dtls: bool) -> Result<(), Failure> {
        let given = [
            ("--certificate", self.certificate.is_some()),
            ("--trust", !self.trust.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) if !self.secure && !dtls => Err(Failure::Usage(format!(
                "{option} has no effect without --secure, which encrypts the association"
            ))),
            _ => Ok(()),
        }
    }
}

/// Prints why associations that peers have initiated end before their keys are agreed on: they are not among those that an
/// endpoint accepts.
#[cfg(feature = "dtls")]
#[derive(Debug, Default)]
struct Refusals {
    state: Mutex<RefusalState>,
}

#[cfg(feature = "dtls")]
#[derive(Debug, Default)]
struct RefusalState {
    /// Associations of which the program was notified, or that this side initiates.
    known: BTreeSet<AssociationId>,
    /// Time of the last line, for at most one a second.
    printed: Option<Time>,
}

#[cfg(feature = "dtls")]
impl Observer for Refusals {
    fn observe(&self, association: AssociationId, now: Time, event: &ObservedEvent) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let RefusalState { known, printed } = &mut *state;
        match event {
            ObservedEvent::Begun { accepted, .. } if !accepted => {
                known.insert(association);
            }
            ObservedEvent::Notified(Event::Established { .. }) => {
                known.insert(association);
            }
            ObservedEvent::Notified(Event::Closed(reason))
                if !known.remove(&association)
                    && printed.is_none_or(|at| now.since(at) >= Duration::from_secs(1)) =>
            {
                *printed = Some(now);
                eprintln!("carrick: an association was not established: {reason}");
            }
            _ => {}
        }
    }

    fn detail(&self) -> ObservedDetail {
        ObservedDetail::Association
    }
}

/// Section `[protection]` of a configuration file: the DTLS chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ProtectionFile {
    /// PEM file with this side's certificate chain.
    certificate: PathBuf,
    /// PEM file with the private key; by default that of the certificate.
    key: Option<PathBuf>,
    /// Fingerprints of trusted certificates, or PEM files with them.
    #[serde(default)]
    trust: Vec<String>,
    /// PEM file with certificates of authorities.
    authority: Option<PathBuf>,
    /// DNS name or IP address that the certificate of a peer must have.
    peer_name: Option<String>,
    /// Refuses peers without the DTLS chunk. Default: yes.
    required: Option<bool>,
}

impl ProtectionFile {
    /// Returns the offer of the DTLS chunk. The files of certificates are read once.
    ///
    /// # Errors
    /// A file cannot be read, or has something else.
    #[cfg_attr(
        not(feature = "dtls"),
        expect(clippy::unused_self, reason = "builds without DTLS refuse it")
    )]
    pub(crate) fn offer(&self) -> Result<Arc<dyn ChunkProtectionOffer>, Failure> {
        #[cfg(feature = "dtls")]
        {
            let encryption = EncryptionArguments {
                secure: true,
                certificate: Some(self.certificate.clone()),
                key: self.key.clone(),
                trust: self.trust.clone(),
                authority: self.authority.clone(),
                peer_name: self.peer_name.clone(),
                is_file: true,
                required: self.required.unwrap_or(true),
            };
            if !self.trust.is_empty() && self.authority.is_some() {
                let why = "protection: trust and authority exclude each other";
                return Err(Failure::Run(why.into()));
            }
            match dtls::chunk(&encryption) {
                Ok(chunk) => Ok(chunk),
                Err(Failure::Usage(why)) => Err(Failure::Run(why)),
                Err(failure) => Err(failure),
            }
        }
        #[cfg(not(feature = "dtls"))]
        Err(crate::missing::failure("[protection]", "dtls"))
    }
}

/// Options of DTLS below SCTP and of authentication.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Security")]
pub(crate) struct SecurityArguments {
    /// Use SCTP over DTLS (RFC 8261) in UDP, which has one path; needs --trust.
    #[arg(long, conflicts_with_all = ["raw", "and_raw", "secure"], requires = "trust")]
    pub(crate) dtls: bool,
    /// File with endpoint-pair shared keys (RFC 4895), one ID:HEX a line; the first one authenticates what this side sends, and
    /// the null key is not accepted. The peer needs the same keys.
    #[arg(long, value_name = "FILE")]
    auth_key_file: Option<PathBuf>,
    /// Endpoint-pair shared key; may be given several times. Other users see it in the list of processes, which --auth-key-file
    /// avoids.
    #[arg(long, value_name = "ID:HEX", conflicts_with = "auth_key_file")]
    auth_key: Vec<KeyOption>,
    /// Chunks that the peer has to authenticate, by name or number, separated by commas [default: DATA and I-DATA if there is a
    /// key].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = chunk_type)]
    auth_chunks: Vec<ChunkType>,
}

/// Shared key of the command line or of a file.
#[derive(Debug, Clone)]
struct KeyOption(SharedKey);

impl FromStr for KeyOption {
    type Err = String;

    /// Errors do not repeat the secret.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, secret) = text.split_once(':').ok_or("expected ID:HEX")?;
        let id = id.trim().parse();
        let id = id.map_err(|_| "expected a key identifier from 0 to 65535 before the colon")?;
        let secret = hex_bytes(secret.trim()).map_err(|why| format!("key {id}: {why}"))?;
        if secret.is_empty() {
            return Err(format!("key {id} is empty: write its bytes in hexadecimal"));
        }
        Ok(Self(SharedKey {
            id: SharedKeyId(id),
            secret: secret.into(),
        }))
    }
}

/// Parses the name of a chunk type, such as `heartbeat-ack`, or its number.
fn chunk_type(text: &str) -> Result<ChunkType, String> {
    // RFC 4895, section 3.2.
    const NEVER: [ChunkType; 4] = [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::SHUTDOWN_COMPLETE,
        ChunkType::AUTH,
    ];
    let name = text.trim().replace(' ', "-");
    let is_named = |kind: &ChunkType| {
        let own = kind.to_string().replace(' ', "-");
        own.eq_ignore_ascii_case(&name)
    };
    let named = (0..=u8::MAX).map(ChunkType).find(is_named);
    match named.or_else(|| name.parse().ok().map(ChunkType)) {
        Some(kind) if NEVER.contains(&kind) => Err(format!(
            "{kind} cannot be authenticated (RFC 4895, section 3.2)"
        )),
        Some(kind) => Ok(kind),
        None => Err("expected names or numbers of chunk types, such as data,heartbeat,128".into()),
    }
}

/// Configuration that the options select, with the contents of the files.
#[derive(Debug, Default)]
pub(crate) struct Security {
    authentication: Option<AuthenticationConfig>,
    #[cfg(feature = "dtls")]
    dtls: Option<carrick::dtls::DtlsConfig>,
}

impl SecurityArguments {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or has something else.
    pub(crate) fn load(&self, encryption: &EncryptionArguments) -> Result<Security, Failure> {
        encryption.check(self.dtls)?;
        #[cfg(not(feature = "dtls"))]
        if self.dtls {
            return Err(crate::missing::failure("--dtls", "dtls"));
        }
        Ok(Security {
            authentication: self.authentication()?,
            #[cfg(feature = "dtls")]
            dtls: self.dtls.then(|| dtls::config(encryption)).transpose()?,
        })
    }

    fn authentication(&self) -> Result<Option<AuthenticationConfig>, Failure> {
        let keys = match &self.auth_key_file {
            Some(path) => keys_of_file(path)?,
            None => self.auth_key.clone(),
        };
        if keys.is_empty() && self.auth_chunks.is_empty() {
            return Ok(None);
        }
        if keys.len() > MAX_KEYS {
            return Err(Failure::Usage(format!(
                "{} shared keys: an association has at most {MAX_KEYS}",
                keys.len()
            )));
        }
        let mut config = AuthenticationConfig::default();
        config.required.clone_from(&self.auth_chunks);
        if let Some(KeyOption(first)) = keys.first() {
            config.active = first.id;
            config.null_key = false;
            if config.required.is_empty() {
                config.required = vec![ChunkType::DATA, ChunkType::I_DATA];
            }
        }
        config.keys = keys.into_iter().map(|KeyOption(key)| key).collect();
        Ok(Some(config))
    }
}

/// Reads keys from the lines of a file; empty lines and those that begin with # are skipped.
fn keys_of_file(path: &Path) -> Result<Vec<KeyOption>, Failure> {
    let fault = |why: String| Failure::Usage(format!("--auth-key-file {}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let keys = lines.map(|(line, number)| {
        let key = line.parse();
        key.map_err(|why: String| fault(format!("line {number}: {why}")))
    });
    let keys: Vec<KeyOption> = keys.collect::<Result<_, _>>()?;
    if keys.is_empty() {
        return Err(fault("no key: write ID:HEX".into()));
    }
    Ok(keys)
}

impl Security {
    /// Opens an endpoint that accepts associations on this SCTP port. `report` gets a line about refused certificates of
    /// peers, at most one a second: such a peer has no association that would end with an error.
    ///
    /// # Errors
    /// A parameter is out of its range, or the sockets cannot be opened.
    pub(crate) fn listen(
        &self,
        endpoint: &EndpointArguments,
        port: u16,
        streams: u16,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Endpoint, Failure> {
        let change = self.change(endpoint, streams)?;
        #[cfg(feature = "dtls")]
        let change = |config: Config| {
            let mut config = change(config);
            if let Some(dtls) = &mut config.dtls {
                dtls.trust = dtls::reporting(dtls.trust.clone(), report);
            }
            config
        };
        #[cfg(not(feature = "dtls"))]
        drop(report);
        Ok(endpoint.listen_with(&[], port, change)?.endpoint)
    }

    /// Opens an endpoint that only connects, to peers at these addresses.
    ///
    /// # Errors
    /// A parameter is out of its range, or the sockets cannot be opened.
    pub(crate) fn open_towards(
        &self,
        endpoint: &EndpointArguments,
        peers: &[IpAddr],
        streams: u16,
    ) -> Result<Endpoint, Failure> {
        let change = self.change(endpoint, streams)?;
        Ok(endpoint.open_towards_with(peers, change)?.endpoint)
    }

    /// Returns the change of an endpoint's configuration.
    fn change(
        &self,
        endpoint: &EndpointArguments,
        streams: u16,
    ) -> Result<impl FnOnce(Config) -> Config + use<>, Failure> {
        let mut association = endpoint.association.config(streams)?;
        if let Some(config) = &self.authentication {
            association.extensions.authentication = true;
            association.security.authentication = config.clone();
        }
        #[cfg(feature = "dtls")]
        let dtls = self.dtls.clone();
        Ok(move |config: Config| {
            let config = config.association(association);
            #[cfg(feature = "dtls")]
            let config = match dtls {
                Some(dtls) => config.dtls(dtls),
                None => config,
            };
            config
        })
    }

    /// Waits until the peer turns out to have other shared keys than this side: none of its packets could be verified, and
    /// no message was received. Returns the failure, with which the caller aborts the association, so that the peer is
    /// notified too: it would only repeat its messages.
    pub(crate) async fn different_keys(association: &AssociationControl) -> Failure {
        while association.extensions().authentication {
            let Ok(stats) = association.stats().await else {
                break;
            };
            let counters = stats.authentication;
            let refused = counters.forged_packets + counters.unknown_keys;
            if stats.counters.data_chunks_received > 0 {
                break;
            }
            if refused > 0 {
                return Failure::Run(format!(
                    "{refused} packets of {} were refused, because {}: give both sides the same --auth-key or \
                     --auth-key-file",
                    endpoint::list(association.peer_addresses()),
                    DIFFERENT_KEYS
                ));
            }
            tokio::time::sleep(KEY_CHECK).await;
        }
        std::future::pending().await
    }

    /// Checks an association.
    ///
    /// # Errors
    /// The peer does not authenticate chunks.
    pub(crate) fn check(&self, association: &AssociationControl) -> Result<(), Failure> {
        if self.authentication.is_some() && !association.extensions().authentication {
            return Err(Failure::Run(
                "the peer does not offer authentication of chunks (RFC 4895), which --auth-key and --auth-chunks require".into(),
            ));
        }
        Ok(())
    }
}

/// Returns the line about the peer's certificate; `None` without DTLS, and if no certificate was requested.
#[cfg(feature = "dtls")]
pub(crate) fn peer_identity(association: &AssociationControl) -> Option<String> {
    let fingerprint = association.peer_fingerprint()?;
    Some(format!(
        "the peer's certificate has the SHA-256 fingerprint {fingerprint}"
    ))
}

/// Builds without DTLS have no certificates.
#[cfg(not(feature = "dtls"))]
pub(crate) fn peer_identity(_: &AssociationControl) -> Option<String> {
    None
}

#[cfg(feature = "dtls")]
mod dtls {
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::time::{Duration, Instant};

    use carrick::dtls::{Certificate, Dtls, DtlsConfig, Fingerprint, Trust};
    use carrick::dtls_chunk::{DtlsChunk, DtlsChunkConfig, Identity, Trust as ChunkTrust};
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer};

    use super::{Arc, EncryptionArguments, Failure, Path, fs};

    /// Time between two lines about refused certificates.
    const REPORT_INTERVAL: Duration = Duration::from_secs(1);

    /// Trust in any peer.
    const ANY: &str = "any";

    /// Returns the configuration of sessions, and prints the fingerprint of a generated certificate.
    pub(super) fn config(arguments: &EncryptionArguments) -> Result<DtlsConfig, Failure> {
        let trust = trust("--trust", &arguments.trust)?;
        let config = DtlsConfig::new(certificate_of(arguments)?, trust);
        // The key is read when a session signs.
        Dtls::new(config.clone())
            .map_err(|error| Failure::Usage(format!("--certificate and --key: {error}")))?;
        Ok(config)
    }

    /// Offer of the DTLS chunk, which all endpoints of a command share: they have one certificate.
    static CHUNK: OnceLock<Arc<DtlsChunk>> = OnceLock::new();

    /// Returns the offer of the DTLS chunk, and prints the fingerprint of a generated certificate.
    pub(super) fn chunk(arguments: &EncryptionArguments) -> Result<Arc<DtlsChunk>, Failure> {
        if let Some(chunk) = CHUNK.get() {
            return Ok(Arc::clone(chunk));
        }
        let trust = chunk_trust(arguments)?;
        let (of_certificate, of_key) = (name(arguments, "--certificate"), name(arguments, "--key"));
        let identity = match &arguments.certificate {
            Some(path) => {
                let key = arguments.key.as_deref().unwrap_or(path);
                let file = |option: &str, path: &Path| {
                    fs::read(path).map_err(|error| fault(option, path, error))
                };
                let (chain, secret) = (file(&of_certificate, path)?, file(&of_key, key)?);
                let identity = Identity::from_pem(&chain, &secret);
                identity.map_err(|error| fault(&of_certificate, path, error))?
            }
            None => Identity::try_from(certificate_of(arguments)?)
                .map_err(|error| Failure::Run(error.to_string()))?,
        };
        let mut config = DtlsChunkConfig::tls(identity, trust);
        config.required = arguments.required;
        let chunk = DtlsChunk::new(config);
        let place = if arguments.is_file {
            "protection"
        } else {
            "--secure"
        };
        let chunk = chunk.map_err(|error| Failure::Usage(format!("{place}: {error}")))?;
        Ok(Arc::clone(CHUNK.get_or_init(|| Arc::new(chunk))))
    }

    fn chunk_trust(arguments: &EncryptionArguments) -> Result<ChunkTrust, Failure> {
        if let Some(path) = &arguments.authority {
            let of_authority = name(arguments, "--authority");
            let file = fs::read(path).map_err(|error| fault(&of_authority, path, error))?;
            let trust = ChunkTrust::authorities_from_pem(&file);
            let mut trust = trust.map_err(|error| fault(&of_authority, path, error))?;
            if let ChunkTrust::Authorities { name, .. } = &mut trust {
                name.clone_from(&arguments.peer_name);
            }
            return Ok(trust);
        }
        match trust(&name(arguments, "--trust"), &arguments.trust)? {
            Trust::Fingerprints(known) if known.is_empty() && arguments.is_file => Err(
                Failure::Usage("protection: the peers are missing: give trust or authority".into()),
            ),
            Trust::Fingerprints(known) if known.is_empty() => Err(Failure::Usage(
                "--secure needs the peer: its certificate or fingerprint with --trust, or an authority with --authority".into(),
            )),
            Trust::Fingerprints(known) => Ok(ChunkTrust::Fingerprints(known)),
            _ => Err(Failure::Usage(
                "any peer can't be trusted with the DTLS chunk, in which both sides prove their identity".into(),
            )),
        }
    }

    /// Returns this side's certificate; prints the fingerprint of a generated one.
    fn certificate_of(arguments: &EncryptionArguments) -> Result<Certificate, Failure> {
        Ok(if let Some(path) = &arguments.certificate {
            certificate(path, arguments.key.as_deref().unwrap_or(path))?
        } else {
            let certificate = Certificate::generate();
            let certificate = certificate.map_err(|error| Failure::Run(error.to_string()))?;
            eprintln!(
                "carrick: this side's certificate has the SHA-256 fingerprint {}",
                certificate.fingerprint()
            );
            certificate
        })
    }

    /// Returns the same trust, which reports the certificates that it refuses.
    pub(super) fn reporting(trust: Trust, report: impl Fn(&str) + Send + Sync + 'static) -> Trust {
        let Trust::Fingerprints(known) = trust else {
            return trust;
        };
        let reported = Mutex::new(None::<Instant>);
        Trust::Verifier(Arc::new(move |certificate| {
            let fingerprint = Fingerprint::of(certificate);
            if known.contains(&fingerprint) {
                return Ok(());
            }
            let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
                *reported = Some(Instant::now());
                report(&format!(
                    "a peer was refused, because its certificate {fingerprint} is none of --trust"
                ));
            }
            Err("it is none of --trust".into())
        }))
    }

    fn fault(option: &str, path: &Path, why: impl std::fmt::Display) -> Failure {
        Failure::Usage(format!("{option} {}: {why}", path.display()))
    }

    /// Returns the name of an option as the user wrote it.
    fn name(arguments: &EncryptionArguments, option: &'static str) -> String {
        if arguments.is_file {
            format!("protection.{}:", &option[2..])
        } else {
            option.to_owned()
        }
    }

    fn certificate(path: &Path, key: &Path) -> Result<Certificate, Failure> {
        let file = fs::read(path).map_err(|error| fault("--certificate", path, error))?;
        let own = CertificateDer::from_pem_slice(&file);
        let own = own.map_err(|_| fault("--certificate", path, "no certificate in PEM"))?;
        let file = fs::read(key).map_err(|error| fault("--key", key, error))?;
        let secret = PrivateKeyDer::from_pem_slice(&file);
        let secret = secret.map_err(|_| {
            if key == path {
                let why = "no private key in PEM: give its file with --key";
                fault("--certificate", path, why)
            } else {
                fault("--key", key, "no private key in PEM")
            }
        })?;
        Ok(Certificate::from_der(
            own.to_vec(),
            secret.secret_der().to_vec(),
        ))
    }

    fn trust(option: &str, peers: &[String]) -> Result<Trust, Failure> {
        if peers.iter().any(|peer| peer == ANY) {
            return Ok(Trust::Anyone);
        }
        let mut fingerprints = Vec::with_capacity(peers.len());
        for peer in peers {
            if let Ok(fingerprint) = peer.parse::<Fingerprint>() {
                fingerprints.push(fingerprint);
                continue;
            }
            let path = Path::new(peer);
            let why = "neither a SHA-256 fingerprint (32 pairs of hexadecimal digits with colons), nor any, nor a file";
            let file = fs::read(path).map_err(|error| {
                fault(
                    option,
                    path,
                    format_args!("{why} that can be read: {error}"),
                )
            })?;
            let known = fingerprints.len();
            for certificate in CertificateDer::pem_slice_iter(&file).flatten() {
                fingerprints.push(Fingerprint::of(&certificate));
            }
            if fingerprints.len() == known {
                return Err(fault(option, path, "no certificate in PEM"));
            }
        }
        Ok(Trust::Fingerprints(fingerprints))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_types_have_names_and_numbers() {
        for (text, kind) in [
            ("data", ChunkType::DATA),
            ("I-DATA", ChunkType::I_DATA),
            ("heartbeat-ack", ChunkType::HEARTBEAT_ACK),
            ("heartbeat ack", ChunkType::HEARTBEAT_ACK),
            ("192", ChunkType::FORWARD_TSN),
        ] {
            assert_eq!(chunk_type(text), Ok(kind), "{text}");
        }
        for wrong in ["", "dta", "256", "-1", "init", "15"] {
            assert!(chunk_type(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_identifiers_with_secrets() {
        let KeyOption(key) = "7: 00ff".parse().unwrap();
        assert_eq!(key.id, SharedKeyId(7));
        assert_eq!(key.secret, &[0, 255][..]);
        for wrong in ["00ff", "x:00", "65536:00", "1:", "1:0", "1:secret"] {
            let error = wrong.parse::<KeyOption>().unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[cfg(not(feature = "dtls"))]
    #[test]
    fn builds_without_dtls_name_its_feature() {
        let arguments = SecurityArguments {
            dtls: true,
            ..SecurityArguments::default()
        };
        let refused = arguments.load(&EncryptionArguments::default());
        let names = |line: &str| line.contains("--features dtls");
        assert!(matches!(refused, Err(Failure::Usage(line)) if names(&line)));
    }
}
