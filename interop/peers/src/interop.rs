//! Peer program of `interop/README.md` on a stack without sockets: one association, over UDP or DTLS, on one thread.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use crate::driver::{Config, Stack};
use crate::dtls::LowerLayer;
use crate::extension_options::{AbandonRule, ExtensionName, Operation, PlannedOperation};
use crate::messages::{MessageCheck, MessageSource, UserMessage, index_of, is_unordered};
use crate::options::{self, EndAction, Mode, Options, Role, Transport};
use crate::output::{emit, started};
use crate::summary::{RunOutcome, RunTotals};

/// Exit status for a deficiency of the host, and for an option that the stack does not support.
const ENVIRONMENT: u8 = 3;
const UNSUPPORTED: u8 = 4;

/// Longest wait for a packet.
const WAIT: Duration = Duration::from_millis(5);
/// Maximum number of messages that are passed to the stack between two packets.
const BATCH: usize = 64;
/// Maximum number of packets processed between two answers.
const PACKETS: usize = 32;
/// Position of the checksum in a packet (RFC 9260, section 3.1).
const CHECKSUM: std::ops::Range<usize> = 8..12;
/// Position of the first chunk in a packet, and chunk type of ABORT (RFC 9260, sections 3.1 and 3.3.7).
const FIRST_CHUNK: usize = 12;
const ABORT: u8 = 6;
/// Largest message of the tests.
pub(crate) const MAX_TEST_MESSAGE: usize = 1 << 20;

/// Stack with what the tests need beyond the measurements.
pub(crate) trait InteropStack: Stack {
    /// Extensions that the stack has.
    const EXTENSIONS: &[ExtensionName];
    /// Returns why the stack cannot do what the options request, apart from extensions.
    fn unsupported(_options: &Options) -> Option<&'static str> {
        None
    }
    fn poll_event(&mut self) -> Option<StackEvent>;
    /// Passes a message to the stack, if there is room for it.
    fn send_message(
        &mut self,
        now: Instant,
        message: &UserMessage,
        rule: AbandonRule,
    ) -> Result<bool, String>;
    /// Works on the reset of the outgoing streams below `count`; true when they can be used again.
    fn reset_outgoing(&mut self, now: Instant, count: u16) -> Result<bool, String>;
    fn shutdown(&mut self, now: Instant);
    fn abort(&mut self, now: Instant);
}

/// Event of an association.
pub(crate) enum StackEvent {
    /// The association is established with these numbers of streams.
    Established {
        inbound: u16,
        outbound: u16,
    },
    Restarted,
    Received {
        stream: u16,
        ppid: u32,
        data: Bytes,
    },
    StreamsReset {
        direction: &'static str,
        success: bool,
    },
    /// Ended by the SHUTDOWN procedure, or by an ABORT of the peer.
    ShutDown,
    Lost(String),
}

/// Runs the program of a stack.
pub(crate) fn run<S: InteropStack>(name: &'static str) -> ExitCode {
    started();
    let role = match options::parse() {
        Ok(line) => line.role,
        Err(status) => return status.into(),
    };
    if let Some(what) = unsupported::<S>(role.options()) {
        eprintln!("{name}: not supported: {what}");
        return UNSUPPORTED.into();
    }
    match Node::<S>::new(name, role).and_then(|mut node| node.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{name}: {error}; check the addresses and the UDP ports of this host");
            ENVIRONMENT.into()
        }
    }
}

fn unsupported<S: InteropStack>(options: &Options) -> Option<String> {
    let extensions = &options.extensions;
    let missing = extensions
        .extensions
        .iter()
        .flatten()
        .find(|name| **name != ExtensionName::None && !S::EXTENSIONS.contains(name));
    if let Some(name) = missing {
        return Some(format!("the stack has no extension {name:?}").to_lowercase());
    }
    if options.transport == Transport::Ip {
        return Some("the stack has no sockets; packets are sent in UDP only".into());
    }
    let known =
        |planned: &PlannedOperation| matches!(planned.operation, Operation::ResetOutgoing(None));
    if let Some(planned) = extensions.operations.iter().find(|planned| !known(planned)) {
        return Some(format!("the stack has no operation {}", planned.name));
    }
    S::unsupported(options).map(str::to_owned)
}

fn has_zero_checksum(packet: &[u8]) -> bool {
    packet.get(CHECKSUM) == Some(&[0; 4])
}

struct Node<S> {
    name: &'static str,
    role: Role,
    options: Options,
    socket: UdpSocket,
    local: SocketAddr,
    /// Created with the first packet of a client, whose address it needs.
    stack: Option<(S, LowerLayer)>,
    peer: Option<SocketAddr>,
    packets: Vec<Bytes>,
    stop: Arc<AtomicBool>,
    check: MessageCheck,
    source: Option<MessageSource>,
    queue: VecDeque<UserMessage>,
    operations: VecDeque<PlannedOperation>,
    totals: RunTotals,
    up_since: Option<Instant>,
    progress_due: u64,
    sent_reported: bool,
    ending: bool,
    /// Packets with a checksum of zero (RFC 9653), sent and received.
    zero_checksums: [u64; 2],
    /// An ABORT was received, which some stacks report as any other end.
    abort_received: bool,
    outcome: Option<RunOutcome>,
}

impl<S: InteropStack> Node<S> {
    fn new(name: &'static str, role: Role) -> io::Result<Self> {
        let options = role.options().clone();
        let own = options.local.as_ref().and_then(|list| list.0.first());
        let own = own.copied().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let socket = UdpSocket::bind((own, options.encaps_port))?;
        socket.set_read_timeout(Some(WAIT))?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self {
            name,
            local: socket.local_addr()?,
            socket,
            stack: None,
            peer: None,
            packets: Vec::new(),
            stop,
            check: MessageCheck::new(&options),
            source: None,
            queue: VecDeque::new(),
            operations: options.extensions.operations.clone().into(),
            totals: RunTotals::default(),
            up_since: None,
            progress_due: options.progress,
            sent_reported: false,
            ending: false,
            zero_checksums: [0; 2],
            abort_received: false,
            outcome: None,
            role,
            options,
        })
    }

    /// Carries out the run, and returns whether it succeeded.
    fn run(&mut self) -> io::Result<bool> {
        emit("ready", json!({ "stack": self.name, "port": 5000 }));
        if let Role::Connect { addresses, .. } = &self.role {
            let peer = (addresses.0[0], self.options.remote_encaps_port).into();
            self.create(peer)?;
        }
        let limit = started() + Duration::from_secs(self.options.time_limit);
        while self.outcome.is_none() {
            let now = Instant::now();
            if self.stop.load(Ordering::Relaxed) {
                self.end_early(RunOutcome::FAILED, now);
            } else if now >= limit {
                self.end_early(RunOutcome::TIMEOUT, now);
            } else {
                self.work(now);
            }
            self.exchange()?;
        }
        let ok = self.report();
        let end = Instant::now() + Duration::from_secs(self.options.linger);
        while Instant::now() < end && !self.stop.load(Ordering::Relaxed) {
            self.exchange()?;
        }
        Ok(ok)
    }

    fn create(&mut self, peer: SocketAddr) -> io::Result<()> {
        let config = Config {
            now: Instant::now(),
            local: self.local,
            remote: peer,
            options: Some(self.options.clone()),
        };
        let is_client = matches!(self.role, Role::Connect { .. });
        let lower = match self.options.transport {
            Transport::Dtls => LowerLayer::dtls(self.local, peer, is_client)?,
            _ => LowerLayer::plain(),
        };
        let stack = if is_client {
            S::client(&config)
        } else {
            S::server(&config)
        };
        self.stack = Some((stack, lower));
        self.peer = Some(peer);
        Ok(())
    }

    fn end_early(&mut self, outcome: RunOutcome, now: Instant) {
        if let Some((stack, _)) = &mut self.stack {
            stack.abort(now);
        }
        self.outcome = Some(outcome);
    }

    /// Sends packets, and processes those received within [`WAIT`] or until the next timer.
    fn exchange(&mut self) -> io::Result<()> {
        self.flush()?;
        let mut buffer = [0; 1 << 16];
        for _ in 0..PACKETS {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    if self.stack.is_none() {
                        self.create(from)?;
                    }
                    self.handle(&buffer[..length]);
                    self.socket.set_nonblocking(true)?;
                }
                // Also an ICMP error for a packet sent before the peer was there.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::TimedOut
                            | ErrorKind::Interrupted
                            | ErrorKind::ConnectionRefused
                    ) =>
                {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.socket.set_nonblocking(false)?;
        let now = Instant::now();
        if let Some((stack, lower)) = &mut self.stack {
            lower.handle_timeout(now);
            stack.handle_timeout(now);
        }
        self.process_events();
        self.flush()
    }

    fn handle(&mut self, datagram: &[u8]) {
        if let Some((stack, lower)) = &mut self.stack {
            let now = Instant::now();
            for packet in lower.open(now, datagram) {
                self.zero_checksums[1] += u64::from(has_zero_checksum(&packet));
                self.abort_received |= packet.get(FIRST_CHUNK) == Some(&ABORT);
                stack.handle(now, packet);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let (Some((stack, lower)), Some(peer)) = (&mut self.stack, self.peer) else {
            return Ok(());
        };
        let now = Instant::now();
        stack.transmit(now, &mut self.packets);
        for packet in self.packets.drain(..) {
            self.zero_checksums[0] += u64::from(has_zero_checksum(&packet));
            lower.seal(now, packet);
        }
        while let Some(datagram) = lower.poll_transmit() {
            // A packet that the system does not send is lost, as on the link.
            let _ = self.socket.send_to(&datagram, peer);
        }
        Ok(())
    }

    fn process_events(&mut self) {
        while let Some((stack, _)) = &mut self.stack
            && let Some(event) = stack.poll_event()
        {
            match event {
                StackEvent::Established { inbound, outbound } => {
                    self.established(inbound, outbound)
                }
                StackEvent::Restarted => emit("restart", json!({})),
                StackEvent::Received { stream, ppid, data } => self.received(stream, ppid, data),
                StackEvent::StreamsReset { direction, success } => emit(
                    "streams-reset",
                    json!({ "direction": direction, "success": success }),
                ),
                StackEvent::ShutDown if self.abort_received => {
                    self.outcome.get_or_insert(RunOutcome::by_peer("abort", 0));
                }
                StackEvent::ShutDown => {
                    self.outcome.get_or_insert(if self.ending {
                        RunOutcome::by_self("shutdown")
                    } else {
                        RunOutcome::by_peer("shutdown", 0)
                    });
                }
                StackEvent::Lost(reason) => {
                    eprintln!("{}: {reason}", self.name);
                    self.outcome.get_or_insert(RunOutcome::by_self("lost"));
                }
            }
        }
    }

    fn established(&mut self, inbound: u16, outbound: u16) {
        if self.up_since.is_some() {
            return;
        }
        self.up_since = Some(Instant::now());
        let peer = self.peer.map(|peer| peer.ip());
        emit(
            "up",
            json!({ "streams_in": inbound, "streams_out": outbound, "peer": [peer] }),
        );
        if self.options.mode == Mode::Source {
            self.source = Some(MessageSource::new(&self.options, outbound));
        }
    }

    fn received(&mut self, stream: u16, ppid: u32, data: Bytes) {
        self.totals.received.add(data.len());
        // No stack reports the U bit: it follows from the number of the message.
        let index = match self.options.ppid {
            Some(_) => index_of(stream, &data),
            None => ppid,
        };
        let number = u64::from(index) * u64::from(self.options.streams) + u64::from(stream);
        let message = UserMessage {
            stream,
            ppid,
            unordered: is_unordered(self.options.unordered, number),
            data,
        };
        self.totals.unordered += u64::from(message.unordered);
        if self.options.mode == Mode::Echo {
            self.queue.push_back(message);
        } else {
            self.check.message(&message);
        }
        let (step, received) = (self.options.progress, self.totals.received.bytes);
        if step > 0 && received >= self.progress_due {
            self.progress_due = received - received % step + step;
            emit(
                "progress",
                json!({ "received": received, "sent": self.totals.sent.bytes }),
            );
        }
    }

    /// Carries out operations, sends messages, and ends the association when all is done.
    fn work(&mut self, now: Instant) {
        let Some(up_since) = self.up_since else {
            return;
        };
        let has_operation = self.operate(now);
        if !has_operation && !self.ending {
            self.send(now, up_since);
        }
        let is_passive = self.options.mode != Mode::Source && self.options.expect == 0;
        let is_done = !has_operation
            && self.operations.is_empty()
            && self.queue.is_empty()
            && self.totals.received.bytes >= self.options.expect
            && (self.options.mode != Mode::Source || self.sent_reported);
        if self.ending || !is_done || is_passive || self.options.end == EndAction::Wait {
            return;
        }
        self.ending = true;
        let Some((stack, _)) = &mut self.stack else {
            return;
        };
        if self.options.end == EndAction::Abort {
            stack.abort(now);
            self.outcome = Some(RunOutcome::ABORTED);
        } else {
            stack.shutdown(now);
        }
    }

    /// Works on the next operation; true if it is due and not complete.
    fn operate(&mut self, now: Instant) -> bool {
        let bytes = self.totals.sent.bytes + self.totals.received.bytes;
        let Some((stack, _)) = &mut self.stack else {
            return false;
        };
        let Some(planned) = self.operations.front().filter(|next| next.after <= bytes) else {
            return false;
        };
        let result = match stack.reset_outgoing(now, self.options.streams) {
            Ok(false) => return true,
            Ok(true) => "asked".to_owned(),
            Err(why) => why,
        };
        emit(
            "did",
            json!({ "operation": planned.name, "result": result }),
        );
        self.operations.pop_front();
        false
    }

    fn send(&mut self, now: Instant, up_since: Instant) {
        let options = &self.options;
        let Some((stack, _)) = &mut self.stack else {
            return;
        };
        for _ in 0..BATCH {
            let is_held = options.hold > 0 && self.totals.sent.bytes >= options.hold;
            let due = match options.rate {
                0 => Duration::ZERO,
                rate => Duration::from_secs_f64(self.totals.sent.bytes as f64 / rate as f64),
            };
            let planned = self.operations.front();
            let is_due = planned.is_some_and(|next| {
                self.source.is_some()
                    && next.after <= self.totals.sent.bytes + self.totals.received.bytes
            });
            if is_held || is_due || now < up_since + due {
                return;
            }
            if self.queue.is_empty()
                && let Some(source) = &mut self.source
            {
                match source.next() {
                    Some(message) => self.queue.push_back(message),
                    None if self.sent_reported => {}
                    None => {
                        self.sent_reported = true;
                        let sent = self.totals.sent;
                        emit(
                            "sent",
                            json!({ "messages": sent.messages, "bytes": sent.bytes }),
                        );
                    }
                }
            }
            let Some(message) = self.queue.front() else {
                return;
            };
            match stack.send_message(now, message, options.extensions.reliability) {
                Ok(true) => self.totals.sent.add(message.data.len()),
                Ok(false) => return,
                Err(why) => {
                    let length = message.data.len();
                    self.check.fail(&format!("sending {length} bytes: {why}"));
                }
            }
            self.queue.pop_front();
        }
    }

    /// Prints the summary. Returns whether the run succeeded.
    fn report(&mut self) -> bool {
        let outcome = self.outcome.unwrap_or(RunOutcome::FAILED);
        let options = &self.options;
        let is_checked = options.mode != Mode::Echo && !options.extensions.gaps;
        if outcome.ended == "shutdown" && is_checked {
            self.check.complete();
        }
        let [sent, received] = self.zero_checksums;
        let counts = json!({ "sent": sent, "received": received });
        let facts = ("zero_checksums", counts);
        self.totals
            .report(&self.options, outcome, self.check.errors, facts)
    }
}
