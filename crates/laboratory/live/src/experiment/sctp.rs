//! Program over SCTP, with the public interface of crate `carrick`.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick::dtls::{Certificate, DtlsConfig, Fingerprint, Trust};
use carrick::{
    AddressEvent, Association, Config, Endpoint, Event, Events, Notification, Ppid, RecvError,
    SendError, SendHalf, SendOptions, StreamId, TrySendError,
};
use carrick_lab::live::{Below, ReadMode, Stack};

use super::participant::{MAX_WAIT, Participant, ParticipantError, ParticipantResult, RunState};
use super::timer::PreciseTimer;

/// Maximum of the endpoint's send queue in bytes, at most a 16th of the association's send buffer:
/// messages wait in that buffer, whose limit the scenario sets, and hardly before it.
const MAX_SEND_QUEUE: usize = 1 << 14;

pub(crate) async fn run(
    mut participant: Participant,
    state: &RunState,
) -> Result<ParticipantResult, ParticipantError> {
    if let Stack::Sctp {
        below: Below::Dtls, ..
    } = participant.stack
    {
        // A session has one address of each side.
        participant.addresses.truncate(1);
        participant.peers.truncate(1);
    }
    let mut association = connect(&participant, state).await?;
    verify(&participant, state, &association).await?;
    let streams = association
        .control()
        .outbound_streams()
        .min(association.control().inbound_streams());
    participant.start(state, streams).await?;
    let ended = run_program(&mut participant, state, &mut association).await;
    participant.accept_loss(state, ended)?;
    let timeouts = match association.control().stats().await {
        Ok(stats) => stats.counters.t3_expirations,
        Err(_) if state.lost().is_some() => 0,
        Err(error) => return Err(error.into()),
    };
    participant.finish(state).await?;
    Ok(ParticipantResult {
        timeouts,
        ..ParticipantResult::new(participant.program)
    })
}

/// Carries messages between the program and the association until the run is over.
async fn run_program(
    participant: &mut Participant,
    state: &RunState,
    association: &mut Association,
) -> Result<(), ParticipantError> {
    let timer = PreciseTimer::new()?;
    let sender = association.sender();
    let mut events = participant
        .roams
        .then(|| association.take_events())
        .flatten();
    let mut waiting: Option<(Bytes, SendOptions)> = None;
    while !participant.is_over(state)? {
        send(participant, state, &sender, &mut waiting)?;
        let reads = participant.program.reading() != ReadMode::Nothing;
        tokio::select! {
            // If another branch completes first, the message is not queued and stays in `waiting`.
            sent = send_waiting(&sender, waiting.clone()), if waiting.is_some() => {
                sent.map_err(send_error)?;
                waiting = None;
            }
            message = association.recv(), if reads => {
                let message = message.map_err(|error| match error {
                    RecvError::Ended(_) => ParticipantError::Lost(error.to_string()),
                    _ => error.into(),
                })?;
                let message = message.ok_or_else(|| ParticipantError::Failed("it was shut down".into()))?;
                let now = state.now();
                participant.program.handle_message(now, message.stream.0, message.payload.into_bytes());
            }
            address = next_address(&mut events) => {
                // Otherwise the peer would use the old address as long as it works.
                sender.control().set_peer_primary(address).await?;
            }
            slept = participant.sleep(state, &timer) => slept?,
        }
        participant.handle_timeout(state);
    }
    Ok(())
}

/// Waits for the next local address that the peer has acknowledged; without end if `events` is `None`.
async fn next_address(events: &mut Option<Events>) -> IpAddr {
    let Some(events) = events else {
        return std::future::pending().await;
    };
    loop {
        match events.next().await {
            Some(Notification::Event(Event::Address(AddressEvent::LocalAdded(address)))) => {
                return address;
            }
            Some(_) => {}
            // `recv` reports the end of the association.
            None => return std::future::pending().await,
        }
    }
}

/// Classifies an error of sending a message.
fn send_error(error: SendError) -> ParticipantError {
    match error {
        SendError::Ended(_) => ParticipantError::Lost(error.to_string()),
        _ => error.into(),
    }
}

/// Sends the program's messages until the send queue is full; the message without room goes to `waiting`.
fn send(
    participant: &mut Participant,
    state: &RunState,
    sender: &SendHalf,
    waiting: &mut Option<(Bytes, SendOptions)>,
) -> Result<(), ParticipantError> {
    while waiting.is_none() {
        let Some(out) = participant.program.poll_transmit(state.now()) else {
            break;
        };
        let options = SendOptions {
            stream: StreamId(out.stream),
            ppid: Ppid(out.ppid),
            ..SendOptions::default()
        };
        match sender.try_send(out.payload, options) {
            Ok(()) => {}
            Err(TrySendError::Full(payload)) => *waiting = Some((payload, options)),
            Err(TrySendError::Send(error)) => return Err(send_error(error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends the waiting message as soon as the send queue has room.
async fn send_waiting(
    sender: &SendHalf,
    waiting: Option<(Bytes, SendOptions)>,
) -> Result<(), SendError> {
    match waiting {
        Some((payload, options)) => sender.send(payload, options).await,
        None => Ok(()),
    }
}

async fn connect(
    participant: &Participant,
    state: &RunState,
) -> Result<Association, ParticipantError> {
    let Stack::Sctp {
        below,
        port,
        config,
    } = &participant.stack
    else {
        return Err(ParticipantError::Failed("the stack is not SCTP".into()));
    };
    // An endpoint without addresses uses all addresses of the host, which change.
    let addresses = participant
        .addresses
        .iter()
        .copied()
        .filter(|_| !participant.roams);
    let endpoint = match below {
        Below::Ip => Config::raw(addresses),
        Below::Udp => Config::udp(addresses),
        Below::Dtls => {
            let certificate = Certificate::generate()?;
            participant.set_certificate(state, certificate.der().to_vec().into());
            let peer = participant.certificate_of_peer(state).await?;
            let trust = Trust::fingerprint(Fingerprint::of(&peer));
            Config::udp(addresses).dtls(DtlsConfig::new(certificate, trust))
        }
    };
    let mut endpoint = endpoint
        .port(*port)
        .association(config.as_ref().clone())
        .auto_addresses(participant.roams);
    endpoint.send_queue = (config.buffers.send_buffer / 16).clamp(1, MAX_SEND_QUEUE);
    if participant.program.reading() != ReadMode::All {
        // Unread messages stay in the receive buffer, so that a_rwnd reflects them.
        endpoint.receive_queue_messages = 1;
    }
    let endpoint = Endpoint::bind(endpoint)?;
    if participant.client {
        participant.wait_for_server(state).await?;
        return Ok(endpoint.connect((&participant.peers, *port)).await?);
    }
    participant.set_listening(state);
    loop {
        match tokio::time::timeout(MAX_WAIT, endpoint.accept()).await {
            Ok(Some(incoming)) => return Ok(incoming.accept()),
            Ok(None) => return Err(ParticipantError::Failed("the endpoint closed".into())),
            Err(_) => state.check()?,
        }
    }
}

/// Waits until every path is confirmed, and makes the first one primary: after the loss of an INIT the
/// association may have been set up over another path.
async fn verify(
    participant: &Participant,
    state: &RunState,
    association: &Association,
) -> Result<(), ParticipantError> {
    loop {
        let paths = association.control().paths().await?;
        let confirmed = paths.iter().filter(|path| path.status.confirmed).count();
        if confirmed == participant.peers.len() {
            // The only path is the primary one.
            if confirmed == 1 {
                return Ok(());
            }
            let first = paths
                .iter()
                .find(|path| Some(&path.remote) == participant.peers.first());
            let first =
                first.ok_or_else(|| ParticipantError::Failed("an address is missing".into()))?;
            return Ok(association.control().set_primary(first.id).await?);
        }
        state.check()?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
