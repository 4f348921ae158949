//! Message stream in both directions on crate `carrick` with its defaults, as stream.py on sockets.
//!
//! `cargo run -p carrick --example stream -- --transport udp connect 10.77.0.2 5000`. Each side sends one message at each interval, with its
//! number, until SIGUSR1, and prints JSON lines: `arrived` with numbers and times, and the states of the paths.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carrick::{
    Association, AssociationConfig, Config, Endpoint, PathStatus, RecvError, SendHalf, SendOptions,
};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval, sleep, sleep_until};

/// Interval at which arrivals are printed and paths are read.
const OUTPUT: Duration = Duration::from_millis(250);
/// Pause between two set-ups, and the time after which the last one has failed.
const RETRY: Duration = Duration::from_millis(200);
const CONNECT_TIME: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, ValueEnum)]
enum Carrier {
    Udp,
    Ip,
}

/// Message stream on crate `carrick`.
#[derive(Parser)]
struct Options {
    #[arg(long)]
    transport: Carrier,
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    Listen {
        port: u16,
        #[command(flatten)]
        stream: StreamOptions,
    },
    Connect {
        address: IpAddr,
        port: u16,
        #[command(flatten)]
        stream: StreamOptions,
    },
}

#[derive(Clone, Copy, Args)]
struct StreamOptions {
    /// Bytes of a message, at least 8.
    #[arg(long, default_value_t = 100)]
    size: usize,
    /// Interval of the messages.
    #[arg(long, default_value_t = 20)]
    interval_ms: u64,
    /// Send nothing.
    #[arg(long)]
    mute: bool,
}

/// Prints an event with its time.
fn emit(event: &str, more: Value) {
    let mut line = json!({ "event": event, "t": seconds() });
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    println!("{line}");
}

/// Returns the time of the host's clock.
fn seconds() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

fn bind(carrier: Carrier, port: u16) -> Result<Endpoint, Box<dyn Error>> {
    let config = match carrier {
        Carrier::Udp => Config::udp([]),
        Carrier::Ip => Config::raw([]),
    };
    // As TCP_NODELAY of the other programs.
    let association = AssociationConfig::modern().with(|c| c.transmission.nagle = false);
    Ok(Endpoint::bind(config.port(port).association(association))?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let (endpoint, association, stream) = match options.role {
        Role::Listen { port, stream } => {
            let endpoint = bind(options.transport, port)?;
            emit("ready", Value::Null);
            let incoming = endpoint.accept().await.ok_or("the endpoint has ended")?;
            (endpoint.clone(), incoming.accept(), stream)
        }
        Role::Connect {
            address,
            port,
            stream,
        } => {
            let endpoint = bind(options.transport, 0)?;
            emit("ready", Value::Null);
            (
                endpoint.clone(),
                connect(&endpoint, address, port).await?,
                stream,
            )
        }
    };
    emit("up", Value::Null);
    let (sent, reason) = run(association, stream).await?;
    emit("end", json!({ "reason": reason, "sent": sent }));
    drop(endpoint);
    Ok(())
}

async fn connect(
    endpoint: &Endpoint,
    address: IpAddr,
    port: u16,
) -> Result<Association, Box<dyn Error>> {
    let limit = Instant::now() + CONNECT_TIME;
    loop {
        match endpoint.connect(([address], port)).await {
            Ok(association) => return Ok(association),
            Err(error) if Instant::now() > limit => return Err(error.into()),
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// Sends and receives until the association ends. Returns the number of sent messages and the reason.
async fn run(association: Association, stream: StreamOptions) -> std::io::Result<(u64, String)> {
    let (sender, mut receiver) = association.split();
    let start = Instant::now();
    let step = Duration::from_millis(stream.interval_ms);
    let mut queue = VecDeque::new();
    let mut stop = signal(SignalKind::user_defined1())?;
    let mut stopped = stream.mute;
    let (mut numbered, mut sent) = (0, 0);
    let (mut arrivals, mut states) = (Vec::new(), Value::Null);
    let mut output = interval(OUTPUT);
    loop {
        let due = start + step * u32::try_from(numbered).unwrap_or(u32::MAX);
        tokio::select! {
            received = receiver.recv() => match received {
                Ok(Some(message)) => {
                    let payload = message.payload.into_bytes();
                    let number = payload.get(..8).and_then(|head| head.try_into().ok());
                    arrivals.push((number.map(u64::from_be_bytes), seconds()));
                }
                ended => {
                    print_arrivals(&mut arrivals);
                    return Ok((sent, reason(ended.err().as_ref())));
                }
            },
            () = sleep_until(due), if !stopped => {
                queue.push_back(message(numbered, stream.size));
                numbered += 1;
            }
            result = send(&sender, queue.front()), if !queue.is_empty() => {
                if let Err(error) = result {
                    print_arrivals(&mut arrivals);
                    return Ok((sent, error));
                }
                queue.pop_front();
                sent += 1;
            }
            _ = stop.recv(), if !stopped => {
                stopped = true;
                emit("stopped", json!({ "count": numbered }));
            }
            _ = output.tick() => {
                print_arrivals(&mut arrivals);
                print_paths(&sender, &mut states).await;
            }
        }
    }
}

fn reason(error: Option<&RecvError>) -> String {
    error.map_or_else(|| "closed by the peer".into(), ToString::to_string)
}

fn message(number: u64, size: usize) -> Vec<u8> {
    let mut message = number.to_be_bytes().to_vec();
    message.resize(size.max(8), 0);
    message
}

async fn send(sender: &SendHalf, message: Option<&Vec<u8>>) -> Result<(), String> {
    let Some(message) = message else {
        return Ok(());
    };
    let sent = sender.send(message.clone(), SendOptions::default()).await;
    sent.map_err(|error| error.to_string())
}

fn print_arrivals(arrivals: &mut Vec<(Option<u64>, f64)>) {
    if !arrivals.is_empty() {
        emit("arrived", json!({ "messages": arrivals }));
        arrivals.clear();
    }
}

/// Prints the states of the paths if they have changed.
async fn print_paths(sender: &SendHalf, last: &mut Value) {
    let Ok(paths) = sender.control().paths().await else {
        return;
    };
    let states: BTreeMap<_, _> = paths
        .iter()
        .map(|path| (path.remote, name(path.status)))
        .collect();
    let states = json!({ "paths": states });
    if states != *last {
        emit("paths", states.clone());
        *last = states;
    }
}

fn name(status: PathStatus) -> &'static str {
    match status {
        PathStatus {
            confirmed: false, ..
        } => "unconfirmed",
        PathStatus { active: false, .. } => "inactive",
        PathStatus {
            potentially_failed: true,
            ..
        } => "potentially-failed",
        _ => "active",
    }
}
