//! Lower layer of SCTP packets: UDP, or DTLS (RFC 8261) by crate `rtc-dtls`.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use rtc_dtls::config::{ClientAuthType, ConfigBuilder, ExtendedMasterSecretType};
use rtc_dtls::crypto::Certificate;
use rtc_dtls::endpoint::{Endpoint, EndpointEvent};
use rtc_dtls::extension::extension_use_srtp::SrtpProtectionProfile;
use rtc_shared::TransportProtocol;

/// Maximum number of packets kept until the handshake is complete.
const MAX_WAITING: usize = 64;

pub(crate) enum LowerLayer {
    Plain(VecDeque<Bytes>),
    Dtls(Box<DtlsSession>),
}

pub(crate) struct DtlsSession {
    endpoint: Endpoint,
    peer: SocketAddr,
    is_open: bool,
    waiting: VecDeque<Bytes>,
}

impl LowerLayer {
    pub(crate) fn plain() -> Self {
        Self::Plain(VecDeque::new())
    }

    /// Creates a session of DTLS with a fresh certificate, which accepts any certificate of the peer.
    pub(crate) fn dtls(local: SocketAddr, peer: SocketAddr, is_client: bool) -> io::Result<Self> {
        let provider = crypto::default_provider().map_err(io::Error::other)?;
        let certificate =
            Certificate::generate_self_signed(vec!["peer".to_owned()], provider.crypto())
                .map_err(io::Error::other)?;
        let config = ConfigBuilder::default()
            .with_crypto_provider(provider)
            .with_certificates(vec![certificate])
            .with_client_auth(ClientAuthType::RequireAnyClientCert)
            .with_extended_master_secret(ExtendedMasterSecretType::Require)
            // As in WebRTC: a ClientHello with use_srtp needs a common profile (RFC 5764, section 4.1.1).
            .with_srtp_protection_profiles(vec![SrtpProtectionProfile::Srtp_Aead_Aes_128_Gcm])
            .with_insecure_skip_verify(true)
            .build(is_client, None)
            .map_err(io::Error::other)?;
        let config = Arc::new(config);
        let server = (!is_client).then(|| Arc::clone(&config));
        let mut endpoint = Endpoint::new(local, TransportProtocol::UDP, server);
        if is_client {
            let connected = endpoint.connect(Instant::now(), peer, config, None);
            connected.map_err(io::Error::other)?;
        }
        Ok(Self::Dtls(Box::new(DtlsSession {
            endpoint,
            peer,
            is_open: false,
            waiting: VecDeque::new(),
        })))
    }

    /// Returns the SCTP packets of a datagram.
    pub(crate) fn open(&mut self, now: Instant, datagram: &[u8]) -> Vec<Bytes> {
        let session = match self {
            Self::Plain(_) => return vec![Bytes::copy_from_slice(datagram)],
            Self::Dtls(session) => session,
        };
        let data = BytesMut::from(datagram);
        let events = match session.endpoint.read(now, session.peer, None, data) {
            Ok(events) => events,
            Err(error) => {
                eprintln!("dtls: {error}");
                return Vec::new();
            }
        };
        let mut packets = Vec::new();
        for event in events {
            match event {
                EndpointEvent::ApplicationData(data) => packets.push(data.freeze()),
                EndpointEvent::HandshakeComplete => {
                    session.is_open = true;
                    for packet in std::mem::take(&mut session.waiting) {
                        session.write(now, &packet);
                    }
                }
                _ => {}
            }
        }
        packets
    }

    /// Queues a packet.
    pub(crate) fn seal(&mut self, now: Instant, packet: Bytes) {
        match self {
            Self::Plain(packets) => packets.push_back(packet),
            Self::Dtls(session) if session.is_open => session.write(now, &packet),
            Self::Dtls(session) => {
                session.waiting.push_back(packet);
                session.waiting.truncate(MAX_WAITING);
            }
        }
    }

    /// Returns the next datagram to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Bytes> {
        match self {
            Self::Plain(packets) => packets.pop_front(),
            Self::Dtls(session) => Some(session.endpoint.poll_transmit()?.message.freeze()),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Self::Dtls(session) = self {
            // Fails before the first packet of the client only.
            let _ = session.endpoint.handle_timeout(session.peer, now);
        }
    }
}

impl DtlsSession {
    fn write(&mut self, now: Instant, packet: &[u8]) {
        if let Err(error) = self.endpoint.write(now, self.peer, packet) {
            eprintln!("dtls: {error}");
        }
    }
}
