//! Program over QUIC, with crate `quinn` and its default settings. Each message follows its length on a stream.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use carrick_lab::live::{ReadMode, Stack};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::rustls::{self, RootCertStore};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig,
    TokioRuntime,
};
use tokio::sync::mpsc;

use super::host_addresses;
use super::participant::{MAX_WAIT, Participant, ParticipantError, ParticipantResult, RunState};
use super::timer::PreciseTimer;

/// Name in the certificate of the server.
const NAME: &str = "server";
/// Messages that the streams have received and the program has not.
const RECEIVED: usize = 64;
/// Maximum length of a message in bytes.
const MAX_LENGTH: usize = 1 << 20;

pub(crate) async fn run(
    mut participant: Participant,
    state: &RunState,
) -> Result<ParticipantResult, ParticipantError> {
    let Stack::Quic { port, streams } = participant.stack else {
        return Err(ParticipantError::Failed("the stack is not QUIC".into()));
    };
    let no_address = || ParticipantError::Failed("a host has no address".into());
    let own = *participant.addresses.first().ok_or_else(no_address)?;
    let peer = *participant.peers.first().ok_or_else(no_address)?;
    let (endpoint, connection) = if participant.client {
        connect(&participant, state, own, (peer, port).into()).await?
    } else {
        accept(&participant, state, (own, port).into()).await?
    };
    let mut quic = Quic {
        endpoint,
        local: own,
        outbound: Vec::new(),
        received: receive(connection.clone()),
    };
    for _ in 0..streams {
        quic.outbound.push(connection.open_uni().await?);
    }
    participant.start(state, streams).await?;
    let ended = quic.run_program(&mut participant, state).await;
    participant.accept_loss(state, ended)?;
    participant.finish(state).await?;
    Ok(ParticipantResult::new(participant.program))
}

/// Connection with its streams.
struct Quic {
    endpoint: Endpoint,
    /// Address of the socket.
    local: IpAddr,
    outbound: Vec<SendStream>,
    received: mpsc::Receiver<(u16, Bytes)>,
}

impl Quic {
    /// Carries messages between the program and the streams until the run is over.
    async fn run_program(
        &mut self,
        participant: &mut Participant,
        state: &RunState,
    ) -> Result<(), ParticipantError> {
        let lost = |error: quinn::WriteError| ParticipantError::Lost(error.to_string());
        let timer = PreciseTimer::new()?;
        // Stream and rest of a message.
        let mut waiting: Option<(u16, Bytes)> = None;
        while !participant.is_over(state)? {
            if participant.roams {
                self.follow_addresses()?;
            }
            if waiting.is_none() {
                let message = participant.program.poll_transmit(state.now());
                waiting = message.map(|own| (own.stream, framed(&own.payload)));
            }
            let reads = participant.program.reading() != ReadMode::Nothing;
            tokio::select! {
                biased;
                written = write(&mut self.outbound, waiting.as_ref()), if waiting.is_some() => {
                    let written = written.map_err(lost)?;
                    waiting = waiting.filter(|(_, rest)| rest.len() > written);
                    if let Some((_, rest)) = &mut waiting {
                        rest.advance(written);
                    }
                }
                message = self.received.recv(), if reads => {
                    let closed = || ParticipantError::Lost("the connection was closed".into());
                    let (stream, message) = message.ok_or_else(closed)?;
                    participant.program.handle_message(state.now(), stream, message);
                }
                slept = participant.sleep(state, &timer) => slept?,
            }
            participant.handle_timeout(state);
        }
        Ok(())
    }

    /// Migrates the connection to the newest address of the host (RFC 9000, section 9).
    fn follow_addresses(&mut self) -> io::Result<()> {
        let present = host_addresses::current()?;
        if let Some((new, _)) = present.iter().find(|(own, _)| *own != self.local) {
            self.endpoint.rebind(UdpSocket::bind((*new, 0))?)?;
            self.local = *new;
        }
        Ok(())
    }
}

/// Returns a message behind its length.
fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), message].concat().into()
}

/// Writes a part of the rest of a message, and returns its length. Cancel-safe.
async fn write(
    outbound: &mut [SendStream],
    waiting: Option<&(u16, Bytes)>,
) -> Result<usize, quinn::WriteError> {
    let Some((stream, rest)) = waiting else {
        return Ok(0);
    };
    let place = usize::from(*stream) % outbound.len().max(1);
    match outbound.get_mut(place) {
        Some(stream) => stream.write(rest).await,
        None => Err(quinn::WriteError::ClosedStream),
    }
}

/// Receives the messages of all streams of the peer on tasks, which end with the connection.
fn receive(connection: Connection) -> mpsc::Receiver<(u16, Bytes)> {
    let (sender, received) = mpsc::channel(RECEIVED);
    tokio::spawn(async move {
        while let Ok(stream) = connection.accept_uni().await {
            tokio::spawn(receive_stream(stream, sender.clone()));
        }
    });
    received
}

/// Receives the messages of a stream until its end, the end of the connection, or an invalid length.
async fn receive_stream(mut stream: RecvStream, sender: mpsc::Sender<(u16, Bytes)>) {
    let number = stream.id().index() as u16;
    let mut length = [0; 4];
    while stream.read_exact(&mut length).await.is_ok() {
        let length = u32::from_be_bytes(length) as usize;
        let mut message = vec![0; length.min(MAX_LENGTH)];
        let is_read = length <= MAX_LENGTH && stream.read_exact(&mut message).await.is_ok();
        if !is_read || sender.send((number, message.into())).await.is_err() {
            return;
        }
    }
}

fn endpoint(local: SocketAddr, server: Option<ServerConfig>) -> io::Result<Endpoint> {
    let socket = UdpSocket::bind(local)?;
    Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        Arc::new(TokioRuntime),
    )
}

async fn accept(
    participant: &Participant,
    state: &RunState,
    local: SocketAddr,
) -> Result<(Endpoint, Connection), ParticipantError> {
    let made = rcgen::generate_simple_self_signed([NAME.into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = CertificateDer::from(made.cert);
    participant.set_certificate(state, certificate.clone());
    let config = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    let endpoint = endpoint(local, Some(config))?;
    participant.set_listening(state);
    loop {
        match tokio::time::timeout(MAX_WAIT, endpoint.accept()).await {
            Ok(Some(incoming)) => {
                let connection = incoming.await?;
                return Ok((endpoint, connection));
            }
            Ok(None) => return Err(ParticipantError::Failed("the endpoint closed".into())),
            Err(_) => state.check()?,
        }
    }
}

async fn connect(
    participant: &Participant,
    state: &RunState,
    own: IpAddr,
    peer: SocketAddr,
) -> Result<(Endpoint, Connection), ParticipantError> {
    participant.wait_for_server(state).await?;
    let mut roots = RootCertStore::empty();
    roots.add(participant.certificate_of_peer(state).await?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    let endpoint = endpoint((own, 0).into(), None)?;
    let connection = endpoint.connect_with(config, peer, NAME)?.await?;
    Ok((endpoint, connection))
}
