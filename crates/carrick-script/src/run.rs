//! Interpreter: runs a script in virtual time against the sockets layer.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::pcapng::PacketDirection;
use carrick_proto::{AssociationConfig, Route, Time};
use carrick_sockets::{Config, SocketId, Sockets};
use carrick_wire::Packet;

use crate::calls::CallOutcome;
use crate::codec::build_packet;
use crate::compare::{Difference, compare, describe};
use crate::learned::Learned;
use crate::model::{Action, Call, Event, PacketSpec, Position, Profile, Script, Timing};

/// Limit of the time that `*` waits for a packet.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Limit of timeouts at one moment; more mean that the stack makes no progress.
const MAX_TIMEOUTS: usize = 10_000;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct ScriptOutcome {
    /// First failure, `None` if the stack did as the script expects.
    pub failure: Option<Failure>,
    /// Packets in both directions, in their order.
    pub frames: Vec<Frame>,
    /// Virtual time from the beginning to the last event.
    pub duration: Duration,
}

/// Packet of a run.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Virtual time since the beginning of the script.
    pub time: Duration,
    /// Outbound packets are those of the stack.
    pub direction: PacketDirection,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// SCTP packet.
    pub bytes: Bytes,
    /// Expected packet and its line; for a packet to the stack, the line of the script.
    pub comment: Option<String>,
}

/// Event at which a script fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Place of the event.
    pub position: Position,
    /// Reason in one line.
    pub message: String,
    /// Time of the failure since the beginning of the script.
    pub time: Duration,
    /// Event of the script, or packet that it expects.
    pub expected: Option<String>,
    /// Packet or result of the stack.
    pub actual: Option<String>,
    /// First difference of the two.
    pub difference: Option<Difference>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, "\n  expected: {expected}")?;
        }
        if let Some(actual) = &self.actual {
            write!(f, "\n  actual:   {actual}")?;
        }
        Ok(())
    }
}

/// Packet of the stack that no event has matched yet.
#[derive(Debug)]
struct SentPacket {
    time: Time,
    source: IpAddr,
    destination: IpAddr,
    bytes: Bytes,
    /// Index of its frame.
    frame: usize,
}

/// Call that blocks.
#[derive(Clone, Debug)]
struct BlockedCall<'s> {
    event: &'s Event,
    call: &'s Call,
    /// Times between which it ends.
    window: (Time, Time),
}

/// Descriptor of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub(crate) socket: SocketId,
    pub(crate) is_non_blocking: bool,
}

pub(crate) struct Runner<'s> {
    pub(crate) script: &'s Script,
    pub(crate) sockets: Sockets,
    pub(crate) now: Time,
    pub(crate) descriptors: BTreeMap<i64, Descriptor>,
    learned: Learned,
    sent: VecDeque<SentPacket>,
    blocked: Vec<BlockedCall<'s>>,
    frames: Vec<Frame>,
}

type Step = Result<(), Box<Failure>>;

impl Script {
    /// Runs the script against a new set of sockets.
    pub fn run(&self) -> ScriptOutcome {
        let first = self.events[0].position;
        let sockets = match Sockets::new(self.config()) {
            Ok(sockets) => sockets,
            Err(error) => {
                return ScriptOutcome {
                    failure: Some(failure(first, Duration::ZERO, error.to_string())),
                    frames: Vec::new(),
                    duration: Duration::ZERO,
                };
            }
        };
        let mut runner = Runner {
            script: self,
            sockets,
            now: Time::ZERO,
            descriptors: BTreeMap::new(),
            learned: Learned::default(),
            sent: VecDeque::new(),
            blocked: Vec::new(),
            frames: Vec::new(),
        };
        let result = runner.run();
        ScriptOutcome {
            failure: result.err().map(|failure| *failure),
            duration: runner.now.since(Time::ZERO),
            frames: runner.frames,
        }
    }

    fn config(&self) -> Config {
        let options = &self.options;
        let mut config = Config::new(options.local.clone(), [options.seed; 32]);
        if options.profile == Profile::Rfc9260 {
            config.association = AssociationConfig::rfc9260();
        }
        if let Some(mtu) = options.mtu {
            config.association.mtu.path_mtu = mtu;
        }
        config
    }
}

fn failure(position: Position, time: Duration, message: impl Into<String>) -> Failure {
    Failure {
        position,
        message: message.into(),
        time,
        expected: None,
        actual: None,
        difference: None,
    }
}

/// Formats a time as scripts have it.
fn seconds(time: Time) -> String {
    let text = format!("{:.9}", time.as_secs_f64());
    let short = text.trim_end_matches('0');
    let decimals = short.len() - short.find('.').unwrap_or(0) - 1;
    format!("{short}{}", "0".repeat(3_usize.saturating_sub(decimals)))
}

impl<'s> Runner<'s> {
    fn run(&mut self) -> Step {
        let mut last = Time::ZERO;
        for event in &self.script.events {
            last = self.perform(event, last)?;
            self.check_blocked()?;
        }
        self.finish()
    }

    fn fail(&self, position: Position, message: impl Into<String>) -> Box<Failure> {
        Box::new(failure(position, self.now.since(Time::ZERO), message))
    }

    /// Performs an event and returns its time. `last` is that of the previous one.
    fn perform(&mut self, event: &'s Event, last: Time) -> Result<Time, Box<Failure>> {
        let window = window(event.timing, last);
        match &event.action {
            Action::Expect(packet) => self.expect(event, packet, window)?,
            Action::Inject(packet) => {
                self.advance_to(event, window.0)?;
                self.inject(event, packet)?;
            }
            Action::Call(call) => {
                self.advance_to(event, window.0)?;
                self.begin_call(event, call)?;
            }
        }
        Ok(self.now)
    }

    /// Runs the stack up to the time of an event of the script.
    fn advance_to(&mut self, event: &'s Event, time: Time) -> Step {
        if time < self.now {
            let now = seconds(self.now);
            return Err(self.fail(
                event.position,
                format!("its time precedes that of the event before, {now}"),
            ));
        }
        while self.sockets.poll_timeout().is_some_and(|next| next <= time) {
            self.timeout()?;
        }
        self.now = time;
        match self.sent.front() {
            Some(packet) if packet.time + self.script.options.tolerance < time => {
                Err(self.unexpected(event.position))
            }
            _ => Ok(()),
        }
    }

    /// Runs the timers that expire next.
    fn timeout(&mut self) -> Step {
        let Some(next) = self.sockets.poll_timeout() else {
            return Ok(());
        };
        self.now = self.now.max(next);
        for _ in 0..MAX_TIMEOUTS {
            self.sockets.handle_timeout(self.now);
            self.settle()?;
            if self
                .sockets
                .poll_timeout()
                .is_none_or(|next| next > self.now)
            {
                return Ok(());
            }
        }
        let position = self
            .script
            .events
            .last()
            .map_or_else(Position::default, |e| e.position);
        Err(self.fail(position, "the timers of the stack expire without end"))
    }

    /// Takes the packets of the stack, and continues calls that block.
    fn settle(&mut self) -> Step {
        self.drain();
        self.continue_calls()?;
        self.drain();
        Ok(())
    }

    fn drain(&mut self) {
        let mut buffer = Vec::new();
        while let Some(transmit) = self.sockets.poll_transmit(self.now, &mut buffer) {
            let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
            for segment in buffer.chunks(size) {
                let bytes = Bytes::copy_from_slice(segment);
                let destination = transmit.route.remote;
                let is_family = |ip: &&IpAddr| ip.is_ipv4() == destination.is_ipv4();
                let host = self.script.options.local.iter().find(is_family).copied();
                let source = transmit.route.local.or(host).unwrap_or(destination);
                self.sent.push_back(SentPacket {
                    time: self.now,
                    source,
                    destination,
                    bytes: bytes.clone(),
                    frame: self.frames.len(),
                });
                self.frames.push(Frame {
                    time: self.now.since(Time::ZERO),
                    direction: PacketDirection::Outbound,
                    source,
                    destination,
                    bytes,
                    comment: None,
                });
            }
            buffer.clear();
        }
        // Nothing polls the readiness but the calls that block, which try again.
        while self.sockets.poll_readiness().is_some() {}
    }

    /// Returns the failure by the first packet that no event expects.
    fn unexpected(&self, position: Position) -> Box<Failure> {
        let mut failure = self.fail(
            position,
            "the stack sent a packet that is not expected here",
        );
        if let Some(packet) = self.sent.front() {
            failure.time = packet.time.since(Time::ZERO);
            let text = Packet::parse(&packet.bytes)
                .map_or_else(|e| e.to_string(), |p| describe(&p, None, &self.learned));
            let time = seconds(packet.time);
            let (source, destination) = (packet.source, packet.destination);
            failure.actual = Some(format!("{time} > {source} > {destination}: {text}"));
        }
        failure
    }

    fn inject(&mut self, event: &'s Event, spec: &PacketSpec) -> Step {
        let options = &self.script.options;
        let port = self.learned.port.unwrap_or(options.bind_port);
        let bytes = build_packet(spec, (options.connect_port, port), &self.learned);
        let bytes = bytes.map_err(|(position, message)| {
            let is_known = position != Position::default();
            self.fail(if is_known { position } else { event.position }, message)
        })?;
        if let Ok(packet) = Packet::parse(&bytes) {
            self.learned.injected(&packet);
        }
        let bytes = Bytes::from(bytes);
        let (source, destination) = spec.addresses.unwrap_or((options.remote, options.local[0]));
        self.frames.push(Frame {
            time: self.now.since(Time::ZERO),
            direction: PacketDirection::Inbound,
            source,
            destination,
            bytes: bytes.clone(),
            comment: Some(format!("line {}: {}", event.position.line, event.text)),
        });
        let route = Route::plain(destination, source);
        self.sockets.handle_datagram(self.now, &route, bytes);
        self.settle()
    }

    fn expect(&mut self, event: &'s Event, spec: &PacketSpec, (from, to): (Time, Time)) -> Step {
        let tolerance = self.script.options.tolerance;
        let latest = to + tolerance;
        while self.sent.is_empty() {
            if self.sockets.poll_timeout().is_none_or(|next| next > latest) {
                let until = if event.timing == Timing::Any {
                    "by any timer".to_owned()
                } else {
                    format!("until {}", seconds(to))
                };
                self.now = self.now.max(if event.timing == Timing::Any {
                    self.now
                } else {
                    to
                });
                let mut failure =
                    self.fail(event.position, format!("the stack sent no packet {until}"));
                failure.expected = Some(event.text.clone());
                return Err(failure);
            }
            self.timeout()?;
        }
        let Some(sent) = self.sent.pop_front() else {
            return Ok(());
        };
        self.frames[sent.frame].comment =
            Some(format!("line {}: {}", event.position.line, event.text));
        let difference = self.compare_sent(&sent, spec);
        let is_early = sent.time + tolerance < from;
        let Some(difference) = difference.or_else(|| {
            let expected = if from == to {
                seconds(from)
            } else {
                format!("{} to {}", seconds(from), seconds(to))
            };
            let is_wrong = is_early || sent.time > latest;
            is_wrong.then(|| Difference {
                field: "time".into(),
                expected,
                actual: seconds(sent.time),
            })
        }) else {
            self.now = self.now.max(sent.time);
            return Ok(());
        };
        let message = format!(
            "{} differs: expected {}, sent {}",
            difference.field, difference.expected, difference.actual
        );
        let mut failure = self.fail(event.position, message);
        failure.time = sent.time.since(Time::ZERO);
        let text = Packet::parse(&sent.bytes).map_or_else(
            |error| error.to_string(),
            |packet| describe(&packet, Some(spec), &self.learned),
        );
        let expected = match event.timing {
            Timing::Any => "*".to_owned(),
            _ if from == to => seconds(from),
            _ => format!("{}~{}", seconds(from), seconds(to)),
        };
        failure.expected = Some(format!("{expected} > {spec}"));
        let addresses = match spec.addresses {
            Some(_) => format!("{} > {}: ", sent.source, sent.destination),
            None => String::new(),
        };
        failure.actual = Some(format!("{} > {addresses}{text}", seconds(sent.time)));
        failure.difference = Some(difference);
        Err(failure)
    }

    fn compare_sent(&mut self, sent: &SentPacket, spec: &PacketSpec) -> Option<Difference> {
        let options = &self.script.options;
        let packet = match Packet::parse(&sent.bytes) {
            Ok(packet) => packet,
            Err(error) => {
                return Some(Difference {
                    field: "packet".into(),
                    expected: "a packet".into(),
                    actual: error.to_string(),
                });
            }
        };
        let port = self.learned.port.unwrap_or(packet.header().source_port);
        let ports = (port, options.connect_port);
        let difference = compare(spec, ports, &packet, &mut self.learned);
        self.learned.sent(&packet);
        let (source, destination) = spec.addresses.unwrap_or((options.local[0], options.remote));
        let addresses = [
            ("source address", source, sent.source),
            ("destination address", destination, sent.destination),
        ];
        difference.or_else(|| {
            let mut addresses = addresses.into_iter();
            let (field, expected, actual) = addresses.find(|(_, a, b)| a != b)?;
            Some(Difference {
                field: field.into(),
                expected: expected.to_string(),
                actual: actual.to_string(),
            })
        })
    }

    fn begin_call(&mut self, event: &'s Event, call: &'s Call) -> Step {
        let outcome = self.call(call);
        self.drain();
        if let Ok(CallOutcome::Blocks) = outcome {
            let Some(end) = event.end else {
                return Err(self.fail(
                    event.position,
                    format!(
                        "{} blocks: write START...END as its time, or set O_NONBLOCK",
                        call.name
                    ),
                ));
            };
            let window = window(end, self.now);
            self.blocked.push(BlockedCall {
                event,
                call,
                window,
            });
            return Ok(());
        }
        self.check_result(event, call, outcome)?;
        self.settle()
    }

    fn check_result(
        &mut self,
        event: &'s Event,
        call: &'s Call,
        outcome: Result<CallOutcome, (Position, String)>,
    ) -> Step {
        let (result, difference) = match outcome {
            Ok(CallOutcome::Done(result, difference)) => (result, difference),
            Ok(CallOutcome::Blocks) => return Ok(()),
            Err((position, message)) => return Err(self.fail(position, message)),
        };
        let difference = call.result.compare(result).or(difference);
        let Some(difference) = difference else {
            return Ok(());
        };
        let message = format!(
            "{} of {} differs: expected {}, returned {}",
            difference.field, call.name, difference.expected, difference.actual
        );
        let mut failure = self.fail(event.position, message);
        failure.expected = Some(event.text.clone());
        failure.difference = Some(difference);
        Err(failure)
    }

    /// Tries the calls that block once more.
    fn continue_calls(&mut self) -> Step {
        for blocked in std::mem::take(&mut self.blocked) {
            let outcome = self.call(blocked.call);
            if let Ok(CallOutcome::Blocks) = outcome {
                self.blocked.push(blocked);
                continue;
            }
            self.check_result(blocked.event, blocked.call, outcome)?;
            let (from, to) = blocked.window;
            let tolerance = self.script.options.tolerance;
            if self.now + tolerance < from || self.now > to + tolerance {
                let now = seconds(self.now);
                let name = &blocked.call.name;
                let expected = seconds(from);
                let message = format!(
                    "time of {name} differs: expected its end at {expected}, it ended at {now}"
                );
                return Err(self.fail(blocked.event.position, message));
            }
        }
        Ok(())
    }

    fn check_blocked(&self) -> Step {
        let tolerance = self.script.options.tolerance;
        let late = self
            .blocked
            .iter()
            .find(|b| b.window.1 + tolerance < self.now);
        match late {
            None => Ok(()),
            Some(late) => {
                let message = format!(
                    "{} has not ended until {}",
                    late.call.name,
                    seconds(late.window.1)
                );
                Err(self.fail(late.event.position, message))
            }
        }
    }

    /// Checks that nothing remains behind the last event.
    fn finish(&mut self) -> Step {
        while let Some(end) = self.blocked.iter().map(|b| b.window.1).max() {
            let Some(next) = self.sockets.poll_timeout().filter(|next| *next <= end) else {
                self.now = end + self.script.options.tolerance + Duration::from_nanos(1);
                break;
            };
            let _ = next;
            self.timeout()?;
        }
        self.check_blocked()?;
        if self.sent.is_empty() {
            return Ok(());
        }
        let position = self
            .script
            .events
            .last()
            .map_or_else(Position::default, |e| e.position);
        let mut failure = self.unexpected(position);
        failure.message =
            "the stack sent a packet that is not expected after the last event".into();
        Err(failure)
    }
}

/// Returns the earliest and the latest time of an event.
fn window(timing: Timing, last: Time) -> (Time, Time) {
    match timing {
        Timing::Any => (Time::ZERO, last + LONGEST_WAIT),
        Timing::Absolute(from, to) => (Time::ZERO + from, Time::ZERO + to),
        Timing::Relative(from, to) => (last + from, last + to),
    }
}
