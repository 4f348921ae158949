//! `carrick mtp load`: messages at a rate, and the delay of those that are sent back.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use carrick_sigtran::m3ua::ProtocolData;
use carrick_sigtran_net::{Outgoing, Received, SendError, TransferReceiver, TransferSender};
use clap::Args;
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::time::Instant;

use super::connect::{ConnectArguments, close};
use super::message::LabelArguments;
use crate::failure::Failure;
use crate::{runtime, units};

/// Messages that are sent together at most.
const BATCH: u64 = 256;

/// Interval at which messages are sent.
const TICK: Duration = Duration::from_millis(1);

/// Interval of the progress lines.
const PROGRESS: Duration = Duration::from_secs(1);

/// Time without a message after which no more are expected.
const SILENCE: Duration = Duration::from_secs(2);

/// Begin of the data: distinguishes messages of this program. The serial number and the time stamp follow.
const MAGIC: &[u8; 4] = b"CMTP";

/// Length of magic, run, serial number and time stamp.
const HEADER: usize = 24;

/// SLS values used in turn.
const SLS_VALUES: u64 = 16;

/// Send messages with time stamps at a rate, and report rate and delay.
///
/// The delay is that of the messages which `carrick mtp receive --echo` at the destination sends back: the time of
/// both directions, by one clock.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    connect: ConnectArguments,
    #[command(flatten)]
    label: LabelArguments,
    /// Messages per second [default: as fast as possible].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: Option<u64>,
    /// Octets of user data of a message, at least 24.
    #[arg(long, value_name = "OCTETS", default_value_t = 100, value_parser = clap::value_parser!(u16).range(HEADER as i64..=4096))]
    size: u16,
    /// Duration; a number without a unit is in s.
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = units::seconds)]
    time: Duration,
    /// End after this number of messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Results, also of an interval.
#[derive(Debug, Serialize)]
struct Report {
    /// Seconds from the start to the end of the interval.
    seconds: f64,
    sent: u64,
    sent_per_second: f64,
    /// Messages that were sent back.
    received: u64,
    received_per_second: f64,
    delay: Option<Delay>,
}

/// Delays in milliseconds.
#[derive(Debug, Serialize)]
struct Delay {
    #[serde(rename = "p50_ms")]
    p50: f64,
    #[serde(rename = "p90_ms")]
    p90: f64,
    #[serde(rename = "p99_ms")]
    p99: f64,
    #[serde(rename = "max_ms")]
    max: f64,
}

impl Delay {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let ms = |micros: u64| micros as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            p50: ms(histogram.value_at_quantile(0.5)),
            p90: ms(histogram.value_at_quantile(0.9)),
            p99: ms(histogram.value_at_quantile(0.99)),
            max: ms(histogram.max()),
        })
    }
}

/// Counts of a run.
struct Counts {
    start: Instant,
    sent: u64,
    received: u64,
    /// Delays in microseconds.
    delays: Histogram<u64>,
    /// Delays of the current interval, in microseconds.
    interval: Histogram<u64>,
    last_received: Instant,
    /// Time of the last message sent.
    sent_until: Duration,
}

impl Counts {
    fn new() -> Result<Self, Failure> {
        // Up to a minute, with three digits.
        let histogram = || {
            let histogram = Histogram::new_with_bounds(1, 60_000_000, 3);
            histogram.map_err(|error| Failure::Run(error.to_string()))
        };
        let start = Instant::now();
        Ok(Self {
            start,
            sent: 0,
            received: 0,
            delays: histogram()?,
            interval: histogram()?,
            last_received: start,
            sent_until: Duration::ZERO,
        })
    }

    /// Counts a message that was sent back by its time stamp.
    fn count(&mut self, run: u32, message: &Received) {
        let now = Instant::now();
        let data = &message.protocol_data.user_data;
        let Some((header, _)) = data.split_first_chunk::<HEADER>() else {
            return;
        };
        let (magic, rest) = header.split_at(4);
        let (of_run, rest) = rest.split_at(4);
        if magic != MAGIC || of_run != run.to_be_bytes() {
            return;
        }
        let mut stamp = [0; 8];
        stamp.copy_from_slice(&rest[8..16]);
        let elapsed = now.saturating_duration_since(self.start);
        let sent = Duration::from_micros(u64::from_be_bytes(stamp));
        let delay = elapsed.saturating_sub(sent).as_micros() as u64;
        self.received += 1;
        self.last_received = now;
        self.delays.saturating_record(delay.max(1));
        self.interval.saturating_record(delay.max(1));
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let base = arguments.label.message(0)?;
    let mut session = arguments.connect.connect(arguments.label.variant()).await?;
    let counts = RefCell::new(Counts::new()?);
    let run = std::process::id();
    let sender = session.sender.clone();
    let sending = async {
        send_all(arguments, &base, run, &sender, &counts).await?;
        wait_for_rest(&counts).await;
        Ok(())
    };
    let done = tokio::select! {
        done = sending => done,
        done = receive_all(run, &mut session.receiver, &counts) => done,
        never = show_progress(arguments, &counts) => never,
        signal = runtime::signal_received() => {
            eprintln!("carrick: ending after {signal}");
            Ok(())
        }
    };
    close(session).await;
    done?;
    print(arguments, &counts.borrow())
}

/// Sends messages until the time or the number is reached.
async fn send_all(
    arguments: &Arguments,
    base: &ProtocolData,
    run: u32,
    sender: &TransferSender,
    counts: &RefCell<Counts>,
) -> Result<(), Failure> {
    let start = counts.borrow().start;
    let limit = arguments.count.unwrap_or(u64::MAX);
    let mut ticks = tokio::time::interval(TICK);
    let mut messages = VecDeque::new();
    loop {
        let (elapsed, sent) = (start.elapsed(), counts.borrow().sent);
        if elapsed >= arguments.time || sent >= limit {
            return Ok(());
        }
        let due = match arguments.rate {
            Some(rate) => {
                let due = (elapsed.as_secs_f64() * rate as f64) as u64;
                if due <= sent {
                    ticks.tick().await;
                    continue;
                }
                due.min(limit) - sent
            }
            None => limit - sent,
        };
        let batch = sent..sent + due.min(BATCH);
        messages.extend(batch.map(|number| message(arguments, base, run, number, elapsed)));
        loop {
            let left = messages.len();
            let result = sender.send_many(&mut messages).await;
            {
                let mut counts = counts.borrow_mut();
                counts.sent += (left - messages.len()) as u64;
                counts.sent_until = start.elapsed();
            }
            match result {
                Ok(()) => break,
                // Until the ASP is active again, or the time is over.
                Err(SendError::NotActive) if start.elapsed() < arguments.time => {
                    ticks.tick().await;
                }
                Err(SendError::NotActive) => return Ok(()),
                Err(error) => return Err(Failure::Run(format!("cannot send: {error}"))),
            }
        }
        // The receiver has its turn.
        tokio::task::yield_now().await;
    }
}

fn message(
    arguments: &Arguments,
    base: &ProtocolData,
    run: u32,
    number: u64,
    elapsed: Duration,
) -> Outgoing {
    let size = usize::from(arguments.size);
    let mut data = BytesMut::with_capacity(size);
    data.put_slice(MAGIC);
    data.put_u32(run);
    data.put_u64(number);
    data.put_u64(elapsed.as_micros() as u64);
    data.resize(size, 0);
    let user_data: Bytes = data.freeze();
    Outgoing {
        routing_context: arguments.connect.routing_context(),
        protocol_data: ProtocolData {
            sls: (number % SLS_VALUES) as u8,
            user_data,
            ..base.clone()
        },
    }
}

async fn receive_all(
    run: u32,
    receiver: &mut TransferReceiver,
    counts: &RefCell<Counts>,
) -> Result<(), Failure> {
    let mut received = Vec::new();
    while receiver.recv_many(&mut received, BATCH as usize).await > 0 {
        let mut counts = counts.borrow_mut();
        for message in received.drain(..) {
            counts.count(run, &message);
        }
    }
    Err(Failure::Run(SendError::Ended.to_string()))
}

/// Waits until all messages were sent back, or none arrives any more.
async fn wait_for_rest(counts: &RefCell<Counts>) {
    let sent_at = Instant::now();
    loop {
        let (received, sent, last) = {
            let counts = counts.borrow();
            (counts.received, counts.sent, counts.last_received)
        };
        if received == sent || last.max(sent_at).elapsed() >= SILENCE {
            return;
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Shows the rates and delays of each second.
async fn show_progress(arguments: &Arguments, counts: &RefCell<Counts>) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(PROGRESS);
    ticks.tick().await;
    let (mut sent, mut received, mut before) = (0, 0, Duration::ZERO);
    loop {
        ticks.tick().await;
        let mut counts = counts.borrow_mut();
        let elapsed = counts.start.elapsed();
        let seconds = elapsed.saturating_sub(before).as_secs_f64();
        let report = Report {
            seconds: elapsed.as_secs_f64(),
            sent: counts.sent - sent,
            sent_per_second: (counts.sent - sent) as f64 / seconds,
            received: counts.received - received,
            received_per_second: (counts.received - received) as f64 / seconds,
            delay: Delay::of(&counts.interval),
        };
        counts.interval.reset();
        (sent, received, before) = (counts.sent, counts.received, elapsed);
        drop(counts);
        if arguments.json {
            print_json("interval", &report)?;
        } else {
            eprintln!("{}", text(&report));
        }
    }
}

fn print(arguments: &Arguments, counts: &Counts) -> Result<(), Failure> {
    let sending = counts.sent_until.as_secs_f64().max(f64::EPSILON);
    let receiving = counts.last_received - counts.start;
    let receiving = receiving.as_secs_f64().max(sending);
    let report = Report {
        seconds: sending,
        sent: counts.sent,
        sent_per_second: counts.sent as f64 / sending,
        received: counts.received,
        received_per_second: counts.received as f64 / receiving,
        delay: Delay::of(&counts.delays),
    };
    if arguments.json {
        return print_json("result", &report);
    }
    writeln!(stdout(), "{}", text(&report))?;
    Ok(())
}

fn print_json(event: &str, report: &Report) -> Result<(), Failure> {
    let mut value = serde_json::json!(report);
    value["event"] = event.into();
    let mut out = stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()?;
    Ok(())
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{:7.1} s  sent {} ({:.0}/s)  received {} ({:.0}/s)",
        report.seconds,
        report.sent,
        report.sent_per_second,
        report.received,
        report.received_per_second
    );
    if let Some(delay) = &report.delay {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "  delay p50 {:.2} p90 {:.2} p99 {:.2} max {:.2} ms",
            delay.p50, delay.p90, delay.p99, delay.max
        );
    }
    text
}
