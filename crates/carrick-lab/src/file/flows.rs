//! Parser of `[flows]` and `measure`.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::traffic::Spread;
use carrick_proto::Reliability;

use super::error::FileError;
use super::measure::Measure;
use super::model::{Flow, Node, NodeStack, Pattern};
use super::network::Parts;
use super::reader::{Item, Section};

const MAX: u64 = i64::MAX as u64;
/// Minimum message size: messages contain their number.
const LEAST: u64 = 8;
/// Maximum message size of SCTP and TCP, and maximum size of a datagram.
const LARGEST: u64 = 1 << 20;
const LARGEST_DATAGRAM: u64 = 60_000;

pub(super) fn read(root: &Section<'_>, parts: &Parts) -> Result<Vec<Flow>, FileError> {
    let tables = root.tables("flows")?;
    if tables.is_empty() {
        return Err(root.error("flows: expected at least one table such as [flows.name]"));
    }
    let mut flows: Vec<Flow> = Vec::new();
    for (name, section) in &tables {
        let flow = flow(name, section, parts)?;
        check(&flow, section, parts, &flows)?;
        families(&flow, section, parts)?;
        flows.push(flow);
    }
    Ok(flows)
}

/// Returns the first address of `to` that is of an IP version which no address of `from` has. SCTP
/// uses all addresses, TCP and UDP the first.
fn unreachable(from: &Node, to: &Node) -> Option<IpAddr> {
    let most = match to.kind {
        NodeStack::Sctp(_) => usize::MAX,
        _ => 1,
    };
    let own = from.addresses.iter().take(most);
    let mut others = to.addresses.iter().take(most).map(|(_, a)| *a);
    others.find(|other| own.clone().all(|(_, own)| own.is_ipv4() != other.is_ipv4()))
}

/// Checks that both ends have addresses of the IP versions that they need to reach each other.
fn families<'p>(flow: &Flow, section: &Section<'_>, parts: &'p Parts) -> Result<(), FileError> {
    let [from, to] = flow.ends.map(|end| &parts.nodes[end]);
    let [opener, peer] = if flow.setup_by_receiver {
        [to, from]
    } else {
        [from, to]
    };
    let missing = |own: &'p Node, other: &'p Node| {
        unreachable(own, other).map(|address| (address, &own.name, &other.name))
    };
    // The sender may be the server of the association and still wait for the confirmation of the
    // client's paths.
    let waits = || missing(from, to).filter(|_| flow.wait_for_paths);
    let Some((address, own, other)) = missing(opener, peer).or_else(waits) else {
        return Ok(());
    };
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    Err(section.error(format!(
        "from and to: {own:?} has no {family} address for {address} of {other:?}; expected addresses of one family at both ends"
    )))
}

/// Checks the restrictions of the stacks.
fn check(
    flow: &Flow,
    section: &Section<'_>,
    parts: &Parts,
    before: &[Flow],
) -> Result<(), FileError> {
    let kinds = flow.ends.map(|end| &parts.nodes[end].kind);
    let uses = |end: usize| before.iter().any(|other| other.ends.contains(&end));
    match kinds {
        [NodeStack::Tcp(_), NodeStack::Tcp(_)] if flow.ends.into_iter().any(uses) => {
            Err(section.error("a host with TCP supports one flow: add hosts"))
        }
        [NodeStack::Tcp(_), NodeStack::Tcp(_)] if !flow.processing.is_zero() => {
            Err(section.error("processing: expected 0 ms: hosts with TCP respond at once"))
        }
        [NodeStack::Udp, NodeStack::Udp] if matches!(flow.pattern, Pattern::Bulk) => {
            Err(section.error("kind: UDP has no congestion control and sends at a rate: expected \"constant\", \"poisson\" or \"on-off\""))
        }
        [NodeStack::Udp, NodeStack::Udp] if flow.blocking => {
            Err(section.error("blocking: UDP has no send buffer that could be full"))
        }
        [NodeStack::Udp, NodeStack::Udp] if flow.response.is_some() => {
            Err(section.error("response: hosts with UDP send no responses"))
        }
        [NodeStack::Udp, NodeStack::Udp] if flow.size as u64 > LARGEST_DATAGRAM => {
            Err(section.error("size: a datagram contains at most 60000 bytes"))
        }
        [NodeStack::Sctp(_), NodeStack::Sctp(_)] | [NodeStack::Tcp(_), NodeStack::Tcp(_)] | [NodeStack::Udp, NodeStack::Udp] => Ok(()),
        _ => Err(section.error("from and to: expected two hosts with the same stack")),
    }
}

fn flow(name: &str, section: &Section<'_>, parts: &Parts) -> Result<Flow, FileError> {
    let host = |key: &'static str| {
        let item = section.need(key, "the name of a host")?;
        let node = parts.node(&item)?;
        match parts.nodes[node].kind {
            NodeStack::Router => Err(item.error("routers have no flows: expected a host")),
            _ => Ok(node),
        }
    };
    let ends = [host("from")?, host("to")?];
    if ends[0] == ends[1] {
        return Err(section.error("from and to: expected two different hosts"));
    }
    let size_item = section.need("size", "the bytes of a message, such as \"1000 bytes\"")?;
    let size = size_item.size(LEAST..=LARGEST)? as usize;
    let pattern = pattern(section, size)?;
    let count = |item: &Item<'_>| item.whole(1..=MAX);
    let mut messages = section
        .get("messages")
        .map(|i| i.optional(count))
        .transpose()?
        .flatten();
    if let Some(item) = section.get("bytes") {
        if messages.is_some() {
            return Err(item.error("a flow has either messages or bytes"));
        }
        messages = Some(item.size(1..=MAX)?.div_ceil(size as u64));
    }
    let mut flow = Flow {
        name: name.into(),
        ends,
        pattern,
        size,
        messages,
        response: None,
        processing: Duration::ZERO,
        streams: 1,
        first_stream: 0,
        unordered: false,
        blocking: false,
        reliability: Reliability::Full,
        setup: Duration::ZERO,
        setup_spread: Duration::ZERO,
        setup_by_receiver: false,
        wait_for_paths: true,
        start: Duration::ZERO,
        settle: Duration::ZERO,
        stop: None,
        primary: None,
        reader: None,
    };
    messages_of(section, &mut flow)?;
    times(section, &mut flow)?;
    if let Some(item) = section.get("primary") {
        let link = parts.link(&item)?;
        let reached = parts.nodes[ends[1]]
            .addresses
            .iter()
            .any(|(l, _)| *l == link);
        if !reached {
            return Err(item.error("the receiver has no address on this link"));
        }
        flow.primary = Some(link);
    }
    section.finish()?;
    Ok(flow)
}

fn messages_of(section: &Section<'_>, flow: &mut Flow) -> Result<(), FileError> {
    if let Some(item) = section.get("response") {
        flow.response = item
            .optional(|i| i.size(LEAST..=LARGEST))?
            .map(|n| n as usize);
    }
    if let Some(item) = section.get("processing") {
        flow.processing = item.time()?;
        if flow.response.is_none() {
            return Err(item.error("has no effect without response"));
        }
    }
    section.set("streams", &mut flow.streams, |i| {
        i.whole(1..=65_535).map(|n| n as u16)
    })?;
    section.set("first_stream", &mut flow.first_stream, |i| {
        i.whole(0..=65_534).map(|n| n as u16)
    })?;
    if u32::from(flow.first_stream) + u32::from(flow.streams) > 65_535 {
        return Err(section.error("streams: at most 65535"));
    }
    section.set("unordered", &mut flow.unordered, Item::flag)?;
    if let Some(item) = section.get("blocking") {
        flow.blocking = item.flag()?;
        if flow.blocking && !matches!(flow.pattern, Pattern::Constant { burst: 1, .. }) {
            return Err(item.error("belongs to kind = \"constant\" without burst"));
        }
    }
    section.set("reliability", &mut flow.reliability, reliability)?;
    if let Some(item) = section.get("reader") {
        let reader = item.section()?;
        let expected = "a mean time between two messages such as \"20 ms\"";
        let mean = reader.need("mean_interval", expected)?;
        flow.reader = Some(positive(&mean)?);
        reader.finish()?;
    }
    Ok(())
}

fn times(section: &Section<'_>, flow: &mut Flow) -> Result<(), FileError> {
    let all: [(&'static str, &mut Duration); 4] = [
        ("setup", &mut flow.setup),
        ("setup_spread", &mut flow.setup_spread),
        ("start", &mut flow.start),
        ("settle", &mut flow.settle),
    ];
    for (key, field) in all {
        section.set(key, field, Item::time)?;
    }
    section.set("stop", &mut flow.stop, |i| i.optional(Item::time))?;
    section.set("wait_for_paths", &mut flow.wait_for_paths, Item::flag)?;
    section.set("setup_by", &mut flow.setup_by_receiver, |i| {
        i.choice(&[("from", false), ("to", true)])
    })
}

fn positive(item: &Item<'_>) -> Result<Duration, FileError> {
    let time = item.time()?;
    if time.is_zero() {
        return Err(item.wrong("a time above 0"));
    }
    Ok(time)
}

fn pattern(section: &Section<'_>, size: usize) -> Result<Pattern, FileError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Name {
        Bulk,
        Constant,
        Poisson,
        OnOff,
    }
    let kind = section.need("kind", "\"bulk\", \"constant\", \"poisson\" or \"on-off\"")?;
    let kind = kind.choice(&[
        ("bulk", Name::Bulk),
        ("constant", Name::Constant),
        ("poisson", Name::Poisson),
        ("on-off", Name::OnOff),
    ])?;
    let (rate, interval) = (section.get("rate"), section.get("interval"));
    let (burst, on, off) = (section.get("burst"), section.get("on"), section.get("off"));
    let only = |item: &Option<Item<'_>>, wanted: &[Name], what: &str| match item {
        Some(item) if !wanted.contains(&kind) => {
            Err(item.error(format!("has no effect here; it belongs to kind = {what}")))
        }
        _ => Ok(()),
    };
    let paced = [Name::Constant, Name::Poisson, Name::OnOff];
    only(&rate, &paced, "\"constant\", \"poisson\" or \"on-off\"")?;
    only(&interval, &paced, "\"constant\", \"poisson\" or \"on-off\"")?;
    only(&burst, &[Name::Constant], "\"constant\"")?;
    only(&on, &[Name::OnOff], "\"on-off\"")?;
    only(&off, &[Name::OnOff], "\"on-off\"")?;
    let interval = match (rate, interval) {
        _ if kind == Name::Bulk => Duration::ZERO,
        (Some(rate), None) => {
            let seconds = size as f64 * 8.0 / rate.rate()?;
            let interval = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            if interval.is_zero() || interval > Duration::from_secs(1 << 30) {
                return Err(
                    rate.error("the rate and this message size give an interval out of range")
                );
            }
            interval
        }
        (None, Some(interval)) => positive(&interval)?,
        (Some(rate), Some(_)) => return Err(rate.error("a flow has either rate or interval")),
        (None, None) => {
            return Err(
                section.error("rate: missing; expected a rate such as \"30 kB/s\", or interval")
            );
        }
    };
    Ok(match kind {
        Name::Bulk => Pattern::Bulk,
        Name::Constant => Pattern::Constant {
            interval,
            burst: burst.map_or(Ok(1), |i| i.whole(1..=1_000_000))? as u32,
        },
        Name::Poisson => Pattern::Poisson { interval },
        Name::OnOff => {
            let times = |item: Option<Item<'_>>, key| {
                let missing = || {
                    section.error(format!(
                        "{key}: missing; expected a time such as \"100 ms\""
                    ))
                };
                spread(&item.ok_or_else(missing)?)
            };
            Pattern::OnOff {
                interval,
                on: times(on, "on")?,
                off: times(off, "off")?,
            }
        }
    })
}

/// Parses a constant time or a distribution of times.
fn spread(item: &Item<'_>) -> Result<Spread, FileError> {
    if !item.is_table() {
        return positive(item).map(Spread::Fixed);
    }
    let section = item.section()?;
    let exponential = section.get("exponential");
    let pareto = section.get("pareto");
    let shape = section.get("shape");
    section.finish()?;
    match (exponential, pareto, shape) {
        (Some(mean), None, None) => positive(&mean).map(Spread::Exponential),
        (None, Some(mean), Some(shape)) => Ok(Spread::Pareto {
            mean: positive(&mean)?,
            shape: shape.number(1.001..=100.0)?,
        }),
        _ => Err(item
            .wrong("a time, { exponential = \"100 ms\" } or { pareto = \"100 ms\", shape = 1.5 }")),
    }
}

fn reliability(item: &Item<'_>) -> Result<Reliability, FileError> {
    if !item.is_table() {
        return item
            .choice(&[("full", Reliability::Full)])
            .map_err(|mut error| {
                error.what.push_str(
                    ", { lifetime = \"100 ms\" }, { retransmissions = 2 } or { priority = 1 }",
                );
                error
            });
    }
    let section = item.section()?;
    let (lifetime, retransmissions, priority) = (
        section.get("lifetime"),
        section.get("retransmissions"),
        section.get("priority"),
    );
    section.finish()?;
    let number = |item: Item<'_>| item.whole(0..=u64::from(u32::MAX)).map(|n| n as u32);
    match (lifetime, retransmissions, priority) {
        (Some(time), None, None) => time.time().map(Reliability::Timed),
        (None, Some(count), None) => number(count).map(Reliability::Retransmissions),
        (None, None, Some(priority)) => number(priority).map(Reliability::Priority),
        _ => Err(item.wrong("one of lifetime, retransmissions and priority")),
    }
}

/// Parses `measure`.
pub(super) fn measures(root: &Section<'_>, parts: &Parts) -> Result<Vec<Measure>, FileError> {
    let Some(item) = root.get("measure") else {
        return Ok(Measure::usual());
    };
    let mut all = Vec::new();
    for item in item.list()? {
        let text = item.text()?;
        let links = parts.links.iter().map(|link| link.name.as_str());
        let measure = Measure::named(text, links).ok_or_else(|| {
            let names = Measure::names().join(", ");
            item.error(format!(
                "{text:?} is not a measure; expected one of {names}"
            ))
        })?;
        if all.contains(&measure) {
            return Err(item.error(format!("{text:?} is listed already")));
        }
        all.push(measure);
    }
    if all.is_empty() {
        return Err(item.wrong("at least one name"));
    }
    Ok(all)
}
