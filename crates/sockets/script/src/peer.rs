//! Scripts against another stack by its address: the run has the role of the peer, in the time of its caller.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;

use crate::matching::{Endpoints, Failure, PacketMatcher, SentRoute, missing, window};
use crate::model::{Action, Event, Item, PacketSpec, Position, Script};
use crate::run::ScriptOutcome;
use crate::schema::ItemGroup;

/// Calls of a script that a stack which waits for associations performs without the script.
const SKIPPED_CALLS: [&str; 10] = [
    "socket",
    "bind",
    "listen",
    "accept",
    "fcntl",
    "getsockopt",
    "read",
    "recv",
    "recvfrom",
    "recvmsg",
];

/// Run of a script against another stack, without I/O: the caller sends and receives the packets.
///
/// Call [`Self::next_action`] and do what it returns; pass received packets to [`Self::handle_packet`].
#[derive(Debug)]
pub struct PeerRun<'s> {
    script: &'s Script,
    matcher: PacketMatcher,
    /// Index of the next event.
    next: usize,
    /// Time of the previous event.
    last: Time,
}

/// Next step of the caller of a [`PeerRun`].
#[derive(Debug)]
pub enum PeerAction {
    /// Send this SCTP packet, and ask again.
    Send(Bytes),
    /// Wait for a packet, at most until this time since the beginning.
    WaitUntil(Duration),
    /// The run has ended.
    Finished(Box<ScriptOutcome>),
}

impl<'s> PeerRun<'s> {
    /// Prepares a run against the stack at an address and SCTP port. The script's ports are not used: packets come from
    /// `source_port`. Times may differ by `tolerance`, or by that of the script if it is larger.
    ///
    /// # Errors
    /// The reason why the script cannot be run against another stack: it needs calls of the stack's program, such as
    /// `write`, or more than one address.
    pub fn new(
        script: &'s Script,
        (stack, port): (IpAddr, u16),
        source_port: u16,
        tolerance: Duration,
    ) -> Result<Self, String> {
        let mut listens = false;
        for event in &script.events {
            let line = event.position.line;
            match &event.action {
                Action::Call(call) if SKIPPED_CALLS.contains(&call.name.as_str()) => {
                    listens |= call.name == "listen";
                }
                Action::Call(call) => {
                    return Err(format!(
                        "line {line}: {} is a call of the other program",
                        call.name
                    ));
                }
                Action::Inject(packet) | Action::Expect(packet) if packet.addresses.is_some() => {
                    return Err(format!(
                        "line {line}: the other stack is reached at one address"
                    ));
                }
                Action::Commands(text) => {
                    return Err(format!(
                        "line {line}: `{text}` is a command of the other host"
                    ));
                }
                Action::Inject(packet) | Action::Expect(packet) if packet.udp_ports.is_some() => {
                    return Err(format!(
                        "line {line}: the UDP ports are those of the command line"
                    ));
                }
                Action::Inject(packet) if packet.ecn.is_some() => {
                    return Err(format!("line {line}: packets have no ECN field here"));
                }
                Action::Icmp(_) => {
                    return Err(format!("line {line}: no ICMP messages are sent"));
                }
                Action::Inject(_) | Action::Expect(_) => {}
            }
        }
        if !listens {
            return Err("the script has no listening socket, which the other program has".into());
        }
        let options = &script.options;
        let endpoints = Endpoints {
            local: stack,
            remote: options.remote,
            local_port: port,
            remote_port: source_port,
        };
        let tolerance = tolerance.max(options.tolerance);
        Ok(Self {
            script,
            matcher: PacketMatcher::new(endpoints, tolerance, options),
            next: 0,
            last: Time::ZERO,
        })
    }

    /// Records a packet of the stack. `now` is the time since the beginning.
    pub fn handle_packet(&mut self, now: Duration, bytes: Bytes) {
        let Endpoints { local, remote, .. } = self.matcher.endpoints;
        let route = SentRoute {
            source: local,
            destination: remote,
            below: None,
        };
        self.matcher.record_sent(Time::ZERO + now, route, bytes);
    }

    /// Returns what to do at `now`, the time since the beginning.
    pub fn next_action(&mut self, now: Duration) -> PeerAction {
        let now = Time::ZERO + now;
        loop {
            let Some(event) = self.script.events.get(self.next) else {
                return self.finished(now, None);
            };
            match self.perform(now, event) {
                Ok(Some(action)) => return action,
                Ok(None) => self.next += 1,
                Err(failure) => return self.finished(now, Some(failure)),
            }
        }
    }

    /// Performs an event; returns what the caller has to do for it.
    fn perform(&mut self, now: Time, event: &Event) -> Result<Option<PeerAction>, Box<Failure>> {
        let window = window(event.timing, self.last);
        match &event.action {
            // Its time is that of the events behind it.
            Action::Call(_) | Action::Commands(_) | Action::Icmp(_) => {
                self.last = self.last.max(window.0);
            }
            Action::Expect(packet) => {
                if let Some(time) = self.matcher.expect(event, packet, window)? {
                    self.last = time;
                    return Ok(None);
                }
                let latest = window.1 + self.matcher.tolerance;
                if now > latest {
                    return Err(missing(now, event, window.1));
                }
                let wait = latest.since(Time::ZERO) + Duration::from_millis(1);
                return Ok(Some(PeerAction::WaitUntil(wait)));
            }
            Action::Inject(packet) => {
                if now < window.0 {
                    return Ok(Some(PeerAction::WaitUntil(window.0.since(Time::ZERO))));
                }
                let packet = self.matcher.inject(now, event, packet)?;
                self.last = now;
                self.next += 1;
                return Ok(Some(PeerAction::Send(packet.bytes)));
            }
        }
        Ok(None)
    }

    fn finished(&mut self, now: Time, failure: Option<Box<Failure>>) -> PeerAction {
        let last = self.script.events.last();
        let position = last.map_or_else(Position::default, |event| event.position);
        let unexpected = self.matcher.left_over(position);
        PeerAction::Finished(Box::new(ScriptOutcome {
            unexpected: unexpected.filter(|_| failure.is_none()),
            failure: failure.map(|failure| *failure),
            frames: std::mem::take(&mut self.matcher.frames),
            notes: self.script.notes.clone(),
            duration: now.since(Time::ZERO),
        }))
    }

    /// Returns an ABORT for the association that a script has left.
    pub fn abort(&mut self) -> Option<Bytes> {
        let schema = ItemGroup::Chunk.named("ABORT")?;
        let packet = PacketSpec {
            chunks: vec![Item::new(schema, Position::default())],
            ..PacketSpec::default()
        };
        let event = self.script.events.last()?;
        let packet = self.matcher.inject(self.last, event, &packet).ok()?;
        Some(packet.bytes)
    }
}
