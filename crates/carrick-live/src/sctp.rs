//! A program over SCTP: crate `carrick` as everybody uses it.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick::{
    AddressEvent, Association, Config, Endpoint, Event, Events, Notification, Ppid, RecvError,
    SendError, SendHalf, SendOptions, StreamId, TrySendError,
};
use carrick_lab::live::{ReadMode, Stack};

use crate::alarm::Alarm;
use crate::host::{Ended, Host, PATIENCE, Shared, Trouble};

/// Messages wait in the association's send buffer, whose bound the scenario sets, and little before it.
const SEND_QUEUE: usize = 1 << 14;

pub(crate) async fn run(mut host: Host, shared: &Shared) -> Result<Ended, Trouble> {
    let mut association = connect(&host, shared).await?;
    verify(&host, shared, &association).await?;
    let streams = association
        .outbound_streams()
        .min(association.inbound_streams());
    host.begin(shared, streams).await?;
    let ended = converse(&mut host, shared, &mut association).await;
    host.conclude(shared, ended)?;
    let timeouts = match association.stats().await {
        Ok(stats) => stats.counters.t3_expirations,
        Err(_) if shared.lost().is_some() => 0,
        Err(error) => return Err(error.into()),
    };
    host.leave(shared).await?;
    Ok(Ended {
        program: host.program,
        timeouts,
    })
}

/// Carries messages between the program and the association until the run is over.
async fn converse(
    host: &mut Host,
    shared: &Shared,
    association: &mut Association,
) -> Result<(), Trouble> {
    let alarm = Alarm::new()?;
    let sender = association.sender();
    let mut events = host.roams.then(|| association.take_events()).flatten();
    let mut waiting: Option<(Bytes, SendOptions)> = None;
    while !host.is_over(shared)? {
        send(host, &sender, &mut waiting)?;
        let reads = host.program.reading() != ReadMode::Nothing;
        tokio::select! {
            // Given up when something else happens; then the message is not queued.
            sent = resume(&sender, waiting.clone()), if waiting.is_some() => {
                sent.map_err(refused)?;
                waiting = None;
            }
            message = association.recv(), if reads => {
                let message = message.map_err(|error| match error {
                    RecvError::Ended(_) => Trouble::Lost(error.to_string()),
                    _ => error.into(),
                })?;
                let message = message.ok_or_else(|| Trouble::Failed("it was shut down".into()))?;
                let now = shared.now();
                host.program.handle_message(now, message.stream.0, message.payload.into_bytes());
            }
            address = next_address(&mut events) => {
                // Advice; without it the old one would stay in use for as long as it works.
                sender.set_peer_primary(address).await?;
            }
            slept = host.sleep(shared, &alarm) => slept?,
        }
        host.expire(shared);
    }
    Ok(())
}

/// The next own address that the peer has taken note of; for ever where none is awaited.
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
            // Whoever receives hears of the end.
            None => return std::future::pending().await,
        }
    }
}

/// What it means that a message is not taken.
fn refused(error: SendError) -> Trouble {
    match error {
        SendError::Ended(_) => Trouble::Lost(error.to_string()),
        _ => error.into(),
    }
}

/// Sends what the program wants to send, up to what finds no room: that waits.
fn send(
    host: &mut Host,
    sender: &SendHalf,
    waiting: &mut Option<(Bytes, SendOptions)>,
) -> Result<(), Trouble> {
    while waiting.is_none() {
        let Some(out) = host.program.poll_transmit() else {
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
            Err(TrySendError::Send(error)) => return Err(refused(error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends what had no room, when there is some.
async fn resume(sender: &SendHalf, waiting: Option<(Bytes, SendOptions)>) -> Result<(), SendError> {
    match waiting {
        Some((payload, options)) => sender.send(payload, options).await,
        None => Ok(()),
    }
}

async fn connect(host: &Host, shared: &Shared) -> Result<Association, Trouble> {
    let Stack::Sctp {
        encapsulated,
        port,
        config,
    } = &host.stack
    else {
        return Err(Trouble::Failed("the stack is not SCTP".into()));
    };
    // None are all that the host has, whichever these are.
    let addresses = host.addresses.iter().copied().filter(|_| !host.roams);
    let endpoint = if *encapsulated {
        Config::udp(addresses)
    } else {
        Config::raw(addresses)
    };
    let mut endpoint = endpoint
        .port(*port)
        .association(config.as_ref().clone())
        .auto_addresses(host.roams);
    endpoint.send_queue = SEND_QUEUE;
    if host.program.reading() != ReadMode::All {
        // What is not read stays in the receive buffer, which the peer's window shows.
        endpoint.receive_queue_messages = 1;
    }
    let endpoint = Endpoint::bind(endpoint)?;
    if host.client {
        host.wait_for_server(shared).await?;
        return Ok(endpoint.connect((&host.peers, *port)).await?);
    }
    host.listens(shared);
    loop {
        match tokio::time::timeout(PATIENCE, endpoint.accept()).await {
            Ok(Some(incoming)) => return Ok(incoming.accept()),
            Ok(None) => return Err(Trouble::Failed("the endpoint closed".into())),
            Err(_) => shared.go_on()?,
        }
    }
}

/// Waits until every path is verified, and makes the first one primary: a lost INIT may have set the
/// association up over another one.
async fn verify(host: &Host, shared: &Shared, association: &Association) -> Result<(), Trouble> {
    loop {
        let paths = association.paths().await?;
        let confirmed = paths.iter().filter(|path| path.status.confirmed).count();
        if confirmed == host.peers.len() {
            let first = paths
                .iter()
                .find(|path| Some(&path.remote) == host.peers.first());
            let first = first.ok_or_else(|| Trouble::Failed("an address is missing".into()))?;
            return Ok(association.set_primary(first.id).await?);
        }
        shared.go_on()?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
