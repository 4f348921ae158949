//! Packets of a run: those to the stack, those that it sent, and the comparison of these with the script.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{Ecn, Route, Time};
use carrick_wire::Packet;

use crate::codec::build_packet;
use crate::compare::{Difference, compare, describe};
use crate::learned::Learned;
use crate::model::{EcnSpec, Event, IcmpSpec, PacketSpec, Position, ScriptOptions, Timing, Value};

/// Limit of the time that `*` waits for a packet.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Packet of a run.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Virtual time since the beginning of the script.
    pub time: Duration,
    /// The stack sent the packet; the script sent it otherwise.
    pub is_sent: bool,
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
    route: SentRoute,
    bytes: Bytes,
    /// Index of its frame.
    frame: usize,
}

/// Header of a packet of the stack below SCTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentRoute {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// UDP port of the peer, and ECN field; `None` if they are not known.
    pub(crate) below: Option<(Option<u16>, Ecn)>,
}

/// Addresses and ports of a run, where packets of the script have none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoints {
    /// Address of the stack.
    pub(crate) local: IpAddr,
    /// Address of its peer.
    pub(crate) remote: IpAddr,
    /// Port of the stack until it has sent a packet.
    pub(crate) local_port: u16,
    /// Port of its peer.
    pub(crate) remote_port: u16,
}

/// Packet to the stack.
#[derive(Debug)]
pub(crate) struct InjectedPacket {
    pub(crate) route: Route,
    pub(crate) bytes: Bytes,
}

/// Packets of a run, and what it has learned from them.
#[derive(Debug)]
pub(crate) struct PacketMatcher {
    pub(crate) endpoints: Endpoints,
    pub(crate) tolerance: Duration,
    /// Parameters of INIT and INIT ACK are compared in the order of the script.
    has_ordered_parameters: bool,
    pub(crate) frames: Vec<Frame>,
    learned: Learned,
    sent: VecDeque<SentPacket>,
}

type Matched<T> = Result<T, Box<Failure>>;

impl PacketMatcher {
    pub(crate) fn new(endpoints: Endpoints, tolerance: Duration, options: &ScriptOptions) -> Self {
        Self {
            endpoints,
            tolerance,
            has_ordered_parameters: options.has_ordered_parameters,
            frames: Vec::new(),
            learned: Learned::default(),
            sent: VecDeque::new(),
        }
    }

    /// Records a packet of the stack.
    pub(crate) fn record_sent(&mut self, time: Time, route: SentRoute, bytes: Bytes) {
        self.sent.push_back(SentPacket {
            time,
            route,
            bytes: bytes.clone(),
            frame: self.frames.len(),
        });
        self.frames.push(Frame {
            time: time.since(Time::ZERO),
            is_sent: true,
            source: route.source,
            destination: route.destination,
            bytes,
            comment: None,
        });
    }

    /// Returns the number of packets that wait for their events.
    pub(crate) fn waiting(&self) -> usize {
        self.sent.len()
    }

    /// Returns the failure by the first packet that no event expects.
    pub(crate) fn left_over(&self, position: Position) -> Option<Failure> {
        let packet = self.sent.front()?;
        let message = "the stack sent a packet that is not expected after the last event";
        let mut failure = failure(position, packet.time, message);
        let text = Packet::parse(&packet.bytes)
            .map_or_else(|e| e.to_string(), |p| describe(&p, None, &self.learned));
        let time = seconds(packet.time);
        let SentRoute {
            source,
            destination,
            ..
        } = packet.route;
        failure.actual = Some(format!("{time} > {source} > {destination}: {text}"));
        Some(failure)
    }

    /// Builds a packet to the stack, and learns from it.
    pub(crate) fn inject(
        &mut self,
        now: Time,
        event: &Event,
        spec: &PacketSpec,
    ) -> Matched<InjectedPacket> {
        let Endpoints {
            local,
            remote,
            local_port,
            remote_port,
        } = self.endpoints;
        let port = self.learned.port.unwrap_or(local_port);
        let bytes = build_packet(spec, (remote_port, port), &self.learned);
        let bytes = bytes.map_err(|(position, message)| {
            let is_known = position != Position::default();
            let position = if is_known { position } else { event.position };
            Box::new(failure(position, now, message))
        })?;
        if let Ok(packet) = Packet::parse(&bytes) {
            self.learned.injected(&packet);
        }
        let bytes = Bytes::from(bytes);
        let (source, destination) = spec.addresses.unwrap_or((remote, local));
        self.frames.push(Frame {
            time: now.since(Time::ZERO),
            is_sent: false,
            source,
            destination,
            bytes: bytes.clone(),
            comment: Some(comment(event)),
        });
        let route = Route {
            local: Some(destination),
            remote: source,
            encapsulation: spec.udp_ports.map(|(source, _)| source),
            ecn: match spec.ecn {
                Some(EcnSpec::Is(ecn)) => ecn,
                _ => Ecn::NotCapable,
            },
        };
        Ok(InjectedPacket { route, bytes })
    }

    /// Compares the first packet with the one that an event expects between two times; returns its time, `None` if
    /// there is no packet.
    pub(crate) fn expect(
        &mut self,
        event: &Event,
        spec: &PacketSpec,
        (from, to): (Time, Time),
    ) -> Matched<Option<Time>> {
        let Some(sent) = self.sent.pop_front() else {
            return Ok(None);
        };
        self.frames[sent.frame].comment = Some(comment(event));
        let difference = self.compare_sent(&sent, spec);
        let is_early = sent.time + self.tolerance < from;
        let is_late = sent.time > to + self.tolerance;
        let Some(difference) = difference.or_else(|| {
            let expected = if from == to {
                seconds(from)
            } else {
                format!("{} to {}", seconds(from), seconds(to))
            };
            (is_early || is_late).then(|| Difference {
                field: "time".into(),
                expected,
                actual: seconds(sent.time),
            })
        }) else {
            return Ok(Some(sent.time));
        };
        let message = format!(
            "{} differs: expected {}, sent {}",
            difference.field, difference.expected, difference.actual
        );
        let mut failure = Box::new(failure(event.position, sent.time, message));
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
            Some(_) => format!("{} > {}: ", sent.route.source, sent.route.destination),
            None => String::new(),
        };
        failure.actual = Some(format!("{} > {addresses}{text}", seconds(sent.time)));
        failure.difference = Some(difference);
        Err(failure)
    }

    fn compare_sent(&mut self, sent: &SentPacket, spec: &PacketSpec) -> Option<Difference> {
        let Endpoints {
            local,
            remote,
            remote_port,
            ..
        } = self.endpoints;
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
        let ports = (port, remote_port);
        let is_ordered = self.has_ordered_parameters;
        let difference = compare(spec, ports, &packet, is_ordered, &mut self.learned);
        self.learned.sent(&packet);
        let (source, destination) = spec.addresses.unwrap_or((local, remote));
        let addresses = [
            ("source address", source, sent.route.source),
            ("destination address", destination, sent.route.destination),
        ];
        difference.or_else(|| {
            let mut addresses = addresses.into_iter();
            match addresses.find(|(_, a, b)| a != b) {
                Some((field, a, b)) => Some(Difference::new(field, a, b)),
                None => compare_below(spec, &sent.route),
            }
        })
    }

    /// Returns the first bytes of a packet of the stack, as an ICMP message quotes it, and its destination.
    pub(crate) fn quoted(&self, icmp: &IcmpSpec) -> Result<(IpAddr, [u8; 8]), String> {
        let learned = &self.learned;
        let tag = match &icmp.tag {
            Some(Value::Number(tag)) => *tag as u32,
            Some(Value::Variable(name)) => match learned.variable(name) {
                Some(Value::Number(tag)) => *tag as u32,
                _ => return Err(format!("${name} has no number yet")),
            },
            _ => learned.association_tag(),
        };
        let port = learned.port.unwrap_or(self.endpoints.local_port);
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.endpoints.remote_port.to_be_bytes());
        bytes[4..].copy_from_slice(&tag.to_be_bytes());
        let remote = icmp
            .addresses
            .map_or(self.endpoints.remote, |(source, _)| source);
        Ok((remote, bytes))
    }
}

/// Compares UDP port and ECN field, which are only known without a network.
fn compare_below(spec: &PacketSpec, route: &SentRoute) -> Option<Difference> {
    let (port, ecn) = route.below?;
    let name = |port: Option<u16>| port.map_or("none".into(), |port| port.to_string());
    let expected = spec.udp_ports.map(|(_, destination)| destination);
    if expected != port {
        return Some(Difference::new("UDP port", name(expected), name(port)));
    }
    let is_same = match spec.ecn {
        None => true,
        Some(EcnSpec::Is(expected)) => expected == ecn,
        Some(EcnSpec::Capable) => matches!(ecn, Ecn::Capable0 | Ecn::Capable1),
    };
    let expected = match spec.ecn {
        Some(EcnSpec::Is(expected)) => format!("{expected:?}"),
        _ => "Capable0 or Capable1".into(),
    };
    (!is_same).then(|| Difference::new("ECN field", expected, format!("{ecn:?}")))
}

/// Returns the failure of a packet that was not sent.
pub(crate) fn missing(now: Time, event: &Event, to: Time) -> Box<Failure> {
    let until = match event.timing {
        Timing::Any => "by any timer".to_owned(),
        _ => format!("until {}", seconds(to)),
    };
    let message = format!("the stack sent no packet {until}");
    let mut failure = Box::new(failure(event.position, now, message));
    failure.expected = Some(event.text.clone());
    failure
}

/// Returns the comment of the packet of an event.
fn comment(event: &Event) -> String {
    format!("line {}: {}", event.position.line, event.text)
}

/// Returns a failure without packets.
pub(crate) fn failure(position: Position, time: Time, message: impl Into<String>) -> Failure {
    Failure {
        position,
        message: message.into(),
        time: time.since(Time::ZERO),
        expected: None,
        actual: None,
        difference: None,
    }
}

/// Formats a time as scripts have it.
pub(crate) fn seconds(time: Time) -> String {
    let text = format!("{:.9}", time.as_secs_f64());
    let short = text.trim_end_matches('0');
    let decimals = short.len() - short.find('.').unwrap_or(0) - 1;
    format!("{short}{}", "0".repeat(3_usize.saturating_sub(decimals)))
}

/// Returns the earliest and the latest time of an event.
pub(crate) fn window(timing: Timing, last: Time) -> (Time, Time) {
    match timing {
        Timing::Any => (Time::ZERO, last + LONGEST_WAIT),
        Timing::Absolute(from, to) => (Time::ZERO + from, Time::ZERO + to),
        Timing::Relative(from, to) => (last + from, last + to),
    }
}
