//! A program over SCTP: crate `carrick` as everybody uses it.

use std::time::Duration;

use bytes::Bytes;
use carrick::{
    Association, Config, ConnectOptions, Endpoint, Ppid, SendHalf, SendOptions, StreamId,
    TrySendError,
};
use carrick_lab::live::{Reading, Stack};

use crate::alarm::Alarm;
use crate::host::{Ended, Host, PATIENCE, Shared, Trouble};

/// Messages wait in the association's send buffer, whose bound the scenario sets, and little before it.
const SEND_QUEUE: usize = 1 << 14;

pub(crate) async fn run(mut host: Host, shared: &Shared) -> Result<Ended, Trouble> {
    let alarm = Alarm::new()?;
    let mut association = connect(&host, shared).await?;
    verify(&host, shared, &association).await?;
    let streams = association
        .outbound_streams()
        .min(association.inbound_streams());
    host.begin(shared, streams).await?;
    let sender = association.sender();
    let mut waiting: Option<(Bytes, SendOptions)> = None;
    while !host.is_over(shared)? {
        send(&mut host, &sender, &mut waiting)?;
        let reads = host.program.reading() != Reading::Nothing;
        tokio::select! {
            // Given up when something else happens; then the message is not queued.
            sent = resume(&sender, waiting.clone()), if waiting.is_some() => {
                sent?;
                waiting = None;
            }
            message = association.recv(), if reads => {
                let message = message?.ok_or_else(|| Trouble::Failed("it was shut down".into()))?;
                let now = shared.now();
                host.program.handle_message(now, message.stream.0, message.payload.into_bytes());
            }
            slept = host.sleep(shared, &alarm) => slept?,
        }
        host.expire(shared);
    }
    let timeouts = association.stats().await?.counters.t3_expirations;
    host.leave(shared).await?;
    Ok(Ended {
        program: host.program,
        timeouts,
    })
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
            Err(TrySendError::Send(error)) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends what had no room, when there is some.
async fn resume(
    sender: &SendHalf,
    waiting: Option<(Bytes, SendOptions)>,
) -> Result<(), carrick::SendError> {
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
    let addresses = host.addresses.iter().copied();
    let endpoint = if *encapsulated {
        Config::udp(addresses)
    } else {
        Config::raw(addresses)
    };
    let mut endpoint = Config {
        send_queue: SEND_QUEUE,
        ..endpoint.port(*port).association(config.as_ref().clone())
    };
    if host.program.reading() != Reading::All {
        // What is not read stays in the receive buffer, which the peer's window shows.
        endpoint.receive_queue_messages = 1;
    }
    let endpoint = Endpoint::bind(endpoint)?;
    if host.client {
        host.wait_for_server(shared).await?;
        let options = ConnectOptions::to_port(*port);
        return Ok(endpoint.connect(&host.peers, options).await?);
    }
    host.listens(shared);
    loop {
        match tokio::time::timeout(PATIENCE, endpoint.accept()).await {
            Ok(Some(association)) => return Ok(association),
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
