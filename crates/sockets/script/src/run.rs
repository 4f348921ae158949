//! Interpreter: runs a script in virtual time against the sockets layer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{AssociationConfig, IcmpInput, Time};
use carrick_sockets::{Config, SocketId, Sockets};

use crate::calls::CallOutcome;
use crate::commands::{Command, SettingEffect, apply, commands};
use crate::matching::{
    Endpoints, Failure, Frame, PacketMatcher, SentRoute, failure, missing, seconds, window,
};
use crate::model::{Action, Call, Event, IcmpSpec, Note, PacketSpec, Position, Script, Timing};

/// Limit of timeouts at one moment; more mean that the stack makes no progress.
const MAX_TIMEOUTS: usize = 10_000;
/// Limit of the moments of a run at which timers expire.
const MAX_MOMENTS: usize = 200_000;
/// Limit of the packets of the stack that wait for their events.
const MAX_WAITING: usize = 50_000;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct ScriptOutcome {
    /// First failure, `None` if the stack did as the script expects.
    pub failure: Option<Failure>,
    /// First packet that the stack sent up to the time of the last event, and that no event expects. The script passes
    /// nevertheless, as with packetdrill.
    pub unexpected: Option<Failure>,
    /// Packets in both directions, in their order.
    pub frames: Vec<Frame>,
    /// Options and commands of the script that had no effect.
    pub notes: Vec<Note>,
    /// Virtual time from the beginning to the last event.
    pub duration: Duration,
}

/// Call that blocks.
#[derive(Clone, Debug)]
struct BlockedCall<'s> {
    event: &'s Event,
    call: &'s Call,
    /// Times between which it ends.
    window: (Time, Time),
    /// Time at which its timeout expires.
    expires: Option<Time>,
}

/// Attempt at a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallAttempt {
    First,
    /// The call has been waiting.
    Repeated,
    /// The timeout of the call has expired.
    Last,
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
    matcher: PacketMatcher,
    blocked: Vec<BlockedCall<'s>>,
    /// Attempt at the call that is performed.
    pub(crate) attempt: CallAttempt,
    /// Parameters of future associations that the script has set.
    association: AssociationConfig,
    notes: Vec<Note>,
    /// Number of moments at which timers expired.
    moments: usize,
}

type Step = Result<(), Box<Failure>>;

impl Script {
    /// Runs the script against a new set of sockets.
    pub fn run(&self) -> ScriptOutcome {
        let first = self.events[0].position;
        let config = self.config();
        let association = config.association.clone();
        let sockets = match Sockets::new(config) {
            Ok(sockets) => sockets,
            Err(error) => {
                return ScriptOutcome {
                    failure: Some(failure(first, Time::ZERO, error.to_string())),
                    unexpected: None,
                    frames: Vec::new(),
                    notes: Vec::new(),
                    duration: Duration::ZERO,
                };
            }
        };
        let options = &self.options;
        let endpoints = Endpoints {
            local: options.local[0],
            remote: options.remote,
            local_port: options.bind_port,
            remote_port: options.connect_port,
        };
        let mut runner = Runner {
            script: self,
            sockets,
            now: Time::ZERO,
            descriptors: BTreeMap::new(),
            matcher: PacketMatcher::new(endpoints, options.tolerance, options),
            blocked: Vec::new(),
            attempt: CallAttempt::First,
            association,
            notes: self.notes.clone(),
            moments: 0,
        };
        let result = runner.run();
        let unexpected = runner.matcher.left_over(runner.last_position());
        ScriptOutcome {
            unexpected: unexpected.filter(|_| result.is_ok()),
            failure: result.err().map(|failure| *failure),
            duration: runner.now.since(Time::ZERO),
            frames: runner.matcher.frames,
            notes: runner.notes,
        }
    }

    fn config(&self) -> Config {
        let options = &self.options;
        let mut config = Config::new(options.local.clone(), [options.seed; 32]);
        config.association = Config::for_programs(options.preset.config());
        if let Some(mtu) = options.mtu {
            config.association.mtu.path_mtu = mtu;
        }
        config
    }
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
        Box::new(failure(position, self.now, message))
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
            Action::Icmp(icmp) => {
                self.advance_to(event, window.0)?;
                self.inject_icmp(event, icmp)?;
            }
            Action::Commands(text) => {
                self.advance_to(event, window.0)?;
                self.perform_commands(event, text)?;
            }
        }
        Ok(self.now)
    }

    /// Changes the parameters that commands set, and notes all other commands.
    fn perform_commands(&mut self, event: &Event, text: &str) -> Step {
        let position = event.position;
        for command in commands(text) {
            let note = match command {
                Command::Other(command) => format!("not run: `{command}`"),
                Command::Setting(name, value) => match self.set_parameter(name, value) {
                    Ok(None) => continue,
                    Ok(Some(note)) => note,
                    Err(error) => return Err(self.fail(position, error)),
                },
            };
            self.notes.push(Note {
                position,
                text: note,
            });
        }
        Ok(())
    }

    /// Applies a setting; returns the reason if it has no effect.
    fn set_parameter(&mut self, name: &str, value: &str) -> Result<Option<String>, String> {
        match apply(&mut self.association, name, value) {
            SettingEffect::Set => {}
            SettingEffect::NoParameter => {
                return Ok(Some(format!("{name}: no parameter of this stack")));
            }
            SettingEffect::WrongValue => {
                return Err(format!("{name}={value}: expected a number"));
            }
        }
        // A later setting may complete this one.
        let association = self.association.clone();
        let result = self.sockets.set_default_association(association);
        Ok(result
            .err()
            .map(|error| format!("{name}={value} is not in force: {error}")))
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
        while self.next_timeout().is_some_and(|next| next <= time) {
            self.timeout()?;
        }
        self.now = time;
        Ok(())
    }

    /// Returns when the next timer of the stack, or the timeout of a call, expires.
    fn next_timeout(&self) -> Option<Time> {
        let calls = self.blocked.iter().filter_map(|blocked| blocked.expires);
        calls.chain(self.sockets.poll_timeout()).min()
    }

    /// Runs the timers that expire next.
    fn timeout(&mut self) -> Step {
        let Some(next) = self.next_timeout() else {
            return Ok(());
        };
        self.now = self.now.max(next);
        self.moments += 1;
        if self.moments > MAX_MOMENTS || self.matcher.waiting() > MAX_WAITING {
            let error = format!(
                "more than {MAX_MOMENTS} timers or {MAX_WAITING} packets of the stack between the events"
            );
            return Err(self.fail(self.last_position(), error));
        }
        for _ in 0..MAX_TIMEOUTS {
            self.sockets.handle_timeout(self.now);
            self.settle()?;
            if self.next_timeout().is_none_or(|next| next > self.now) {
                return Ok(());
            }
        }
        Err(self.fail(
            self.last_position(),
            "the timers of the stack expire without end",
        ))
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
                let route = SentRoute {
                    source,
                    destination,
                    below: Some((transmit.route.encapsulation, transmit.route.ecn)),
                };
                self.matcher.record_sent(self.now, route, bytes);
            }
            buffer.clear();
        }
        // Nothing polls the readiness but the calls that block, which try again.
        while self.sockets.poll_readiness().is_some() {}
    }

    fn inject(&mut self, event: &'s Event, spec: &PacketSpec) -> Step {
        let packet = self.matcher.inject(self.now, event, spec)?;
        self.sockets
            .handle_datagram(self.now, &packet.route, packet.bytes);
        self.settle()
    }

    fn inject_icmp(&mut self, event: &'s Event, icmp: &IcmpSpec) -> Step {
        let quoted = self.matcher.quoted(icmp);
        let (remote, quoted) = quoted.map_err(|error| self.fail(event.position, error))?;
        let input = IcmpInput {
            kind: icmp.kind,
            remote,
            encapsulation: icmp.udp_ports.map(|(_, destination)| destination),
            quoted: &quoted,
        };
        self.sockets.handle_icmp(self.now, &input);
        self.settle()
    }

    fn expect(&mut self, event: &'s Event, spec: &PacketSpec, window: (Time, Time)) -> Step {
        let latest = window.1 + self.matcher.tolerance;
        while self.matcher.waiting() == 0 {
            if self.next_timeout().is_none_or(|next| next > latest) {
                if event.timing != Timing::Any {
                    self.now = self.now.max(window.1);
                }
                return Err(missing(self.now, event, window.1));
            }
            self.timeout()?;
        }
        if let Some(time) = self.matcher.expect(event, spec, window)? {
            self.now = self.now.max(time);
        }
        Ok(())
    }

    fn begin_call(&mut self, event: &'s Event, call: &'s Call) -> Step {
        let outcome = self.call(call);
        self.drain();
        if let Ok(CallOutcome::Blocks { timeout }) = outcome {
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
                expires: timeout.map(|timeout| self.now + timeout),
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
            Ok(CallOutcome::Blocks { .. }) => return Ok(()),
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
            let is_over = blocked.expires.is_some_and(|at| at <= self.now);
            self.attempt = if is_over {
                CallAttempt::Last
            } else {
                CallAttempt::Repeated
            };
            let outcome = self.call(blocked.call);
            self.attempt = CallAttempt::First;
            if let Ok(CallOutcome::Blocks { .. }) = outcome {
                self.blocked.push(blocked);
                continue;
            }
            self.check_result(blocked.event, blocked.call, outcome)?;
            let (from, to) = blocked.window;
            let tolerance = self.matcher.tolerance;
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
        let tolerance = self.matcher.tolerance;
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
            let Some(next) = self.next_timeout().filter(|next| *next <= end) else {
                self.now = end + self.matcher.tolerance + Duration::from_nanos(1);
                break;
            };
            let _ = next;
            self.timeout()?;
        }
        self.check_blocked()
    }

    fn last_position(&self) -> Position {
        let last = self.script.events.last();
        last.map_or_else(Position::default, |event| event.position)
    }
}
