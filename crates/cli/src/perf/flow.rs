//! Flows: series of messages in one direction of an association, and their specification on the command line.

use std::time::Duration;

use carrick::Reliability;
use serde::{Deserialize, Serialize};

use super::delay::{MAX_STAMPED, STAMP};
use super::distribution::Distribution;
use crate::units;

/// Maximum number of flows of an association.
pub(super) const MAX_FLOWS: usize = 64;

/// Maximum length of a specification.
const MAX_SPEC: usize = 200;

/// Maximum interval and length of phases.
const MAX_TIME: f64 = 3600.0;

/// Maximum number of means after which the next message of a random schedule is overdue.
const LONG_PAUSE: f64 = 20.0;

/// Direction of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FlowDirection {
    ToServer,
    ToClient,
}

impl FlowDirection {
    /// Returns the name of the receiving side.
    pub(super) fn receiver(self) -> &'static str {
        match self {
            Self::ToServer => "server",
            Self::ToClient => "client",
        }
    }
}

/// Times at which the messages of a flow are sent.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Spacing {
    /// As fast as congestion control and receive window permit.
    Unlimited,
    /// At this rate in bit/s of user data.
    Rate(u64),
    /// With this time in seconds between two messages.
    Interval(Distribution),
    /// A request after the response to the previous one.
    Responses,
}

/// Phases of a flow that pauses, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct OnOff {
    pub(super) on: f64,
    pub(super) off: f64,
}

/// Partial reliability of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FlowReliability {
    #[default]
    Full,
    /// Seconds after which a message is abandoned (RFC 3758, section 4.1).
    Lifetime(f64),
    /// Number of retransmissions after which a message is abandoned (RFC 7496, section 3.1).
    Retransmissions(u32),
}

/// Flow of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Flow {
    /// Specification on the command line; empty for the flows of the other options.
    pub(super) spec: String,
    pub(super) direction: FlowDirection,
    /// First stream.
    pub(super) stream: u16,
    /// Number of streams, which the messages use one after the other.
    pub(super) streams: u16,
    /// Length of messages in bytes.
    pub(super) size: Distribution,
    pub(super) spacing: Spacing,
    pub(super) on_off: Option<OnOff>,
    /// Number of messages after which the flow ends.
    pub(super) messages: Option<u64>,
    /// Share of unordered messages, 0 to 1.
    pub(super) unordered: f64,
    pub(super) reliability: FlowReliability,
    /// Length of the response to each message.
    pub(super) respond: Option<u32>,
}

impl Flow {
    /// Parses a specification, e.g. `stream=1,size=100,interval=20ms`.
    pub(super) fn parse(spec: &str) -> Result<Self, String> {
        if spec.len() > MAX_SPEC {
            return Err(format!("must be at most {MAX_SPEC} characters"));
        }
        let mut keys = FlowKeys::default();
        for part in spec.split(',') {
            let (key, value) = part
                .split_once('=')
                .map_or((part, None), |(k, v)| (k, Some(v)));
            keys.set(key, value).map_err(|e| format!("{key}: {e}"))?;
        }
        let flow = keys.flow(spec)?;
        flow.check()?;
        Ok(flow)
    }

    /// Checks the limits. Errors begin with the key.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_given = !self.spec.is_empty();
        if self.spec.len() > MAX_SPEC {
            return Err(format!("a flow must be at most {MAX_SPEC} characters"));
        }
        if self.stream == 0 || self.streams == 0 || self.stream == u16::MAX {
            return Err("stream: must be 1 to 65534".into());
        }
        self.size.check().map_err(|e| format!("size: {e}"))?;
        let (min, max) = (self.size.min_given(), self.size.max_given());
        if is_given && (min < STAMP as f64 || max > MAX_STAMPED as f64) {
            return Err("size: must be 8 bytes to 1 MiB".into());
        }
        if let Spacing::Interval(interval) = &self.spacing {
            interval.check().map_err(|e| format!("interval: {e}"))?;
            if interval.mean() <= 0.0 || interval.max_given() > MAX_TIME {
                return Err("interval: must be above 0 and at most 1 h".into());
            }
        }
        if let Some(OnOff { on, off }) = self.on_off {
            let fits = |time: f64| (0.001..=MAX_TIME).contains(&time);
            if !fits(on) || !fits(off) {
                return Err("on, off: must be 1 ms to 1 h".into());
            }
        }
        if !(0.0..=1.0).contains(&self.unordered) {
            return Err("unordered: must be 0% to 100%".into());
        }
        if let FlowReliability::Lifetime(lifetime) = self.reliability
            && !(0.001..=MAX_TIME).contains(&lifetime)
        {
            return Err("lifetime: must be 1 ms to 1 h".into());
        }
        self.check_responses()
    }

    fn check_responses(&self) -> Result<(), String> {
        let Some(size) = self.respond else {
            return match self.spacing {
                Spacing::Responses => Err("respond: must be given".into()),
                _ => Ok(()),
            };
        };
        if (size as usize) < STAMP || size as usize > MAX_STAMPED {
            return Err("respond: must be 8 bytes to 1 MiB".into());
        }
        if self.spacing == Spacing::Responses && self.reliability != FlowReliability::Full {
            return Err(
                "respond: without interval or rate, each request waits for the previous response, and an abandoned \
                 one has none: give interval or rate, or leave lifetime and retransmissions out"
                    .into(),
            );
        }
        Ok(())
    }

    /// Returns the number of the last stream.
    pub(super) fn last_stream(&self) -> u16 {
        self.stream.saturating_add(self.streams - 1)
    }

    /// Returns the maximum length of a message.
    pub(super) fn max_size(&self) -> u32 {
        match self.size {
            Distribution::Constant(size) => size as u32,
            Distribution::Uniform { max, .. } => max as u32,
            Distribution::Exponential { .. } | Distribution::Pareto { .. } => MAX_STAMPED as u32,
        }
    }

    /// Returns whether messages may be abandoned.
    pub(super) fn is_partially_reliable(&self) -> bool {
        self.reliability != FlowReliability::Full
    }

    pub(super) fn reliability(&self) -> Reliability {
        match self.reliability {
            FlowReliability::Full => Reliability::Full,
            FlowReliability::Lifetime(seconds) => {
                Reliability::Timed(Duration::from_secs_f64(seconds))
            }
            FlowReliability::Retransmissions(number) => Reliability::Retransmissions(number),
        }
    }

    /// Returns a time within which a message is sent, as far as the flow determines it.
    pub(super) fn longest_pause(&self) -> Duration {
        let between = match self.spacing {
            Spacing::Unlimited | Spacing::Responses => 0.0,
            Spacing::Rate(rate) => self.size.max_given() * 8.0 / rate.max(1) as f64,
            Spacing::Interval(Distribution::Constant(seconds)) => seconds,
            Spacing::Interval(interval) => interval.mean() * LONG_PAUSE,
        };
        let off = self.on_off.map_or(0.0, |phases| phases.off);
        Duration::try_from_secs_f64(between + off).unwrap_or(Duration::MAX)
    }
}

/// Values of the keys of a specification.
#[derive(Debug, Default)]
struct FlowKeys {
    stream: Option<u16>,
    size: Option<Distribution>,
    interval: Option<Distribution>,
    rate: Option<u64>,
    on: Option<f64>,
    off: Option<f64>,
    messages: Option<u64>,
    unordered: Option<f64>,
    lifetime: Option<f64>,
    retransmissions: Option<u32>,
    respond: Option<u32>,
    reverse: Option<()>,
}

/// Sets the value of a key.
fn set<T>(key: &mut Option<T>, value: T) -> Result<(), String> {
    match key.replace(value) {
        None => Ok(()),
        Some(_) => Err("is given twice".into()),
    }
}

impl FlowKeys {
    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), String> {
        if key == "reverse" {
            let alone = value.is_none().then_some(());
            return set(&mut self.reverse, alone.ok_or("takes no value")?);
        }
        let given = || value.ok_or_else(|| format!("needs a value: write {key}=VALUE"));
        match key {
            "stream" => set(&mut self.stream, stream(given()?)?),
            "size" => set(&mut self.size, Distribution::parse(given()?, bytes)?),
            "interval" => set(&mut self.interval, Distribution::parse(given()?, seconds)?),
            "rate" => set(&mut self.rate, units::rate(given()?)?),
            "on" => set(&mut self.on, seconds(given()?)?),
            "off" => set(&mut self.off, seconds(given()?)?),
            "messages" => set(&mut self.messages, count(given()?)?),
            "unordered" => set(&mut self.unordered, value.map_or(Ok(1.0), share)?),
            "lifetime" => set(&mut self.lifetime, seconds(given()?)?),
            "retransmissions" => set(&mut self.retransmissions, number(given()?)?),
            "respond" => set(&mut self.respond, bytes(given()?)? as u32),
            _ => Err(
                "unknown key; the keys are stream, size, interval, rate, on, off, messages, unordered, lifetime, \
                 retransmissions, reverse and respond"
                    .into(),
            ),
        }
    }

    fn flow(self, spec: &str) -> Result<Flow, String> {
        let spacing = match (self.interval, self.rate) {
            (Some(_), Some(_)) => {
                return Err("interval, rate: give one of them".into());
            }
            (Some(interval), None) => Spacing::Interval(interval),
            (None, Some(rate)) => Spacing::Rate(rate),
            (None, None) if self.respond.is_some() => Spacing::Responses,
            (None, None) => Spacing::Unlimited,
        };
        let size = self.size.unwrap_or(Distribution::Constant(1000.0));
        if let (Spacing::Rate(_), None) = (spacing, size.constant()) {
            return Err("rate: needs a constant size; give an interval instead".into());
        }
        let on_off = match (self.on, self.off) {
            (None, None) => None,
            (Some(on), Some(off)) => Some(OnOff { on, off }),
            (Some(_), None) => return Err("on: needs off, e.g. on=1s,off=2s".into()),
            (None, Some(_)) => return Err("off: needs on, e.g. on=1s,off=2s".into()),
        };
        let reliability = match (self.lifetime, self.retransmissions) {
            (None, None) => FlowReliability::Full,
            (Some(lifetime), None) => FlowReliability::Lifetime(lifetime),
            (None, Some(number)) => FlowReliability::Retransmissions(number),
            (Some(_), Some(_)) => {
                return Err("lifetime, retransmissions: give one of them".into());
            }
        };
        Ok(Flow {
            spec: spec.to_owned(),
            direction: match self.reverse {
                Some(()) => FlowDirection::ToClient,
                None => FlowDirection::ToServer,
            },
            stream: self.stream.unwrap_or(1),
            streams: 1,
            size,
            spacing,
            on_off,
            messages: self.messages,
            unordered: self.unordered.unwrap_or(0.0),
            reliability,
            respond: self.respond,
        })
    }
}

fn stream(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|n| (1..=65_534).contains(n));
    number.ok_or_else(|| "must be 1 to 65534".into())
}

fn number(text: &str) -> Result<u32, String> {
    let wrong = |_| format!("{text:?} is not a number");
    text.parse().map_err(wrong)
}

fn count(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| "must be a number of at least 1".into())
}

fn bytes(text: &str) -> Result<f64, String> {
    Ok(units::length(text)? as f64)
}

fn seconds(text: &str) -> Result<f64, String> {
    Ok(units::duration(text)?.as_secs_f64())
}

/// Parses a share in percent.
fn share(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|own| own.parse::<f64>().ok());
    let percent = percent.filter(|own| (0.0..=100.0).contains(own));
    let percent = percent.ok_or("must be 0% to 100%, e.g. 30%")?;
    Ok(percent / 100.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn a_specification_sets_each_key() {
        let flow = Flow::parse(
            "stream=7,size=uniform:100:1400,interval=exponential:20ms,on=1s,off=2s,messages=50,unordered=30%,\
             lifetime=100ms,reverse,respond=64",
        );
        let flow = flow.unwrap();
        assert_eq!((flow.stream, flow.last_stream()), (7, 7));
        assert_eq!(flow.direction, FlowDirection::ToClient);
        assert_eq!(
            flow.size,
            Distribution::Uniform {
                min: 100.0,
                max: 1400.0
            }
        );
        let interval = Distribution::Exponential { mean: 0.02 };
        assert_eq!(flow.spacing, Spacing::Interval(interval));
        assert_eq!(flow.on_off, Some(OnOff { on: 1.0, off: 2.0 }));
        assert_eq!((flow.messages, flow.respond), (Some(50), Some(64)));
        assert!((flow.unordered - 0.3).abs() < 1e-9);
        let lifetime = Duration::from_millis(100);
        assert_eq!(flow.reliability(), Reliability::Timed(lifetime));
        assert_eq!(flow.max_size(), 1400);
    }

    #[test]
    fn keys_have_defaults() {
        let flow = Flow::parse("stream=2").unwrap();
        assert_eq!(flow.direction, FlowDirection::ToServer);
        assert_eq!(flow.size, Distribution::Constant(1000.0));
        assert_eq!(flow.spacing, Spacing::Unlimited);
        assert_eq!(flow.reliability(), Reliability::Full);
        let flow = Flow::parse("retransmissions=0,rate=8k,unordered").unwrap();
        assert_eq!(flow.reliability(), Reliability::Retransmissions(0));
        assert_eq!(flow.spacing, Spacing::Rate(8000));
        assert!((flow.unordered - 1.0).abs() < 1e-9);
        let flow = Flow::parse("respond=100").unwrap();
        assert_eq!(flow.spacing, Spacing::Responses);
    }

    #[test]
    fn errors_begin_with_the_key() {
        for (spec, error) in [
            ("", "unknown key; the keys are stream, size"),
            ("speed=1", "speed: unknown key"),
            ("stream", "stream: needs a value: write stream=VALUE"),
            ("stream=0", "stream: must be 1 to 65534"),
            ("stream=65535", "stream: must be 1 to 65534"),
            ("stream=1,stream=2", "stream: is given twice"),
            ("size=7", "size: must be 8 bytes to 1 MiB"),
            ("size=2M", "size: must be 8 bytes to 1 MiB"),
            ("size=uniform:1:100", "size: must be 8 bytes to 1 MiB"),
            ("size=uniform:100:2M", "size: must be 8 bytes to 1 MiB"),
            ("size=big", "size: expected a number of bytes"),
            ("size=uniform:9:8", "size: MIN of uniform exceeds MAX"),
            ("size=gauss:9:8", "size: expected VALUE, constant:VALUE"),
            ("size=pareto:0.5:100", "size: SHAPE of pareto must exceed 1"),
            ("interval=20", "interval: a time needs its unit: write 20ms"),
            ("interval=0", "interval: must be above 0 and at most 1 h"),
            ("interval=2h", "interval: must be above 0 and at most 1 h"),
            ("interval=1s,rate=1M", "interval, rate: give one of them"),
            ("rate=fast", "rate: expected a rate such as"),
            ("rate=1M,size=exponential:99", "rate: needs a constant size"),
            ("on=1s", "on: needs off, e.g. on=1s,off=2s"),
            ("off=1s", "off: needs on, e.g. on=1s,off=2s"),
            ("on=1us,off=1s", "on, off: must be 1 ms to 1 h"),
            ("messages=0", "messages: must be a number of at least 1"),
            ("unordered=30", "unordered: must be 0% to 100%, e.g. 30%"),
            ("unordered=101%", "unordered: must be 0% to 100%"),
            ("lifetime=0", "lifetime: must be 1 ms to 1 h"),
            (
                "retransmissions=-1",
                "retransmissions: \"-1\" is not a number",
            ),
            (
                "lifetime=1s,retransmissions=1",
                "lifetime, retransmissions: give one",
            ),
            ("reverse=yes", "reverse: takes no value"),
            ("respond=7", "respond: must be 8 bytes to 1 MiB"),
            ("respond=2M", "respond: must be 8 bytes to 1 MiB"),
            (
                "respond=64,lifetime=1s",
                "respond: without interval or rate",
            ),
        ] {
            let refused = Flow::parse(spec).unwrap_err();
            assert!(refused.contains(error), "{spec}: {refused}");
        }
        let long = format!("size=1000,{}", "x".repeat(MAX_SPEC));
        assert!(Flow::parse(&long).unwrap_err().contains("200 characters"));
    }

    /// A peer that has not parsed its values with this code.
    #[test]
    fn impossible_values_of_a_peer_are_refused() {
        let flow = || Flow::parse("stream=1,respond=64").unwrap();
        let interval = |seconds| Spacing::Interval(Distribution::Constant(seconds));
        for wrong in [
            Flow {
                stream: 0,
                ..flow()
            },
            Flow {
                streams: 0,
                ..flow()
            },
            Flow {
                size: Distribution::Constant(-5.0),
                ..flow()
            },
            Flow {
                size: Distribution::Constant(1e30),
                ..flow()
            },
            Flow {
                spacing: interval(-1.0),
                ..flow()
            },
            Flow {
                spacing: interval(1e30),
                ..flow()
            },
            Flow {
                on_off: Some(OnOff { on: 0.0, off: 0.0 }),
                ..flow()
            },
            Flow {
                on_off: Some(OnOff {
                    on: 1e300,
                    off: 1.0,
                }),
                ..flow()
            },
            Flow {
                unordered: -1.0,
                ..flow()
            },
            Flow {
                reliability: FlowReliability::Lifetime(-1.0),
                ..flow()
            },
            Flow {
                respond: Some(7),
                ..flow()
            },
            Flow {
                respond: None,
                ..flow()
            },
            Flow {
                spec: "x".repeat(MAX_SPEC + 1),
                ..flow()
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
