//! Parser of `[flows]` and `measure`.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::traffic::DurationDistribution;
use carrick_proto::Reliability;
use carrick_simco::load::Workload;
use carrick_simco::message::Lifetime;

use super::error::FileError;
use super::live::Carrier;
use super::measure::Measure;
use super::model::{Flow, Layer, Node, NodeStack, Pattern, ReceiverSpeed};
use super::network::Parts;
use super::reader::{FromItem, Item, Section, keys, names};

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
    use NodeStack::{Dtls, Live, Sctp, Tcp, Udp};
    let uses = |end: usize| {
        let mut others = before.iter().filter(|other| other.active);
        others.any(|other| other.ends.contains(&end))
    };
    let carries = flow.active
        && before.iter().any(|other| {
            let same = other.ends.iter().all(|end| flow.ends.contains(end));
            other.active && same && (flow.is_simco() || other.is_simco())
        });
    let is_layered = flow.active && flow.layer != Layer::Sctp;
    let wrong = match flow.ends.map(|end| &parts.nodes[end].kind) {
        _ if flow.is_simco() && flow.setup_by_receiver => {
            "setup_by: the agent of SIMCO sets up the association: expected \"from\""
        }
        _ if flow.is_simco() && before.iter().any(Flow::is_simco) => {
            "kind: a file has one flow of SIMCO, because what is measured begins with its preload"
        }
        [Sctp(_), Sctp(_)] if carries => {
            "kind: an association with SIMCO has no other active flow: add hosts"
        }
        [Sctp(_), Sctp(_)] if is_layered && flow.ends.into_iter().any(uses) => {
            "layer: a host with M3UA or M2PA has no other active flow: add hosts"
        }
        [Sctp(_), Sctp(_)] if is_layered && (flow.is_bulk() || flow.response.is_some()) => {
            "layer: M3UA and M2PA have no bulk flows and no responses"
        }
        [Sctp(_), Sctp(_)]
            if flow.layer == Layer::M2paLinks
                && flow.ends.map(|end| parts.nodes[end].addresses.len()) != [2, 2] =>
        {
            "layer: \"m2pa-links\" needs two hosts with two addresses each"
        }
        [Tcp(_), Tcp(_)] | [Udp, Udp] | [Live(_), Live(_)] | [Dtls(_), Dtls(_)] if is_layered => {
            "layer: M3UA and M2PA need hosts with stack \"sctp\""
        }
        [Udp, Udp] | [Live(_), Live(_)] | [Dtls(_), Dtls(_)] if flow.is_simco() => {
            "kind: SIMCO needs hosts with stack \"sctp\" or \"tcp\""
        }
        [Tcp(_), Tcp(_)] if flow.active && flow.ends.into_iter().any(uses) => {
            "a host with TCP supports one flow: add hosts"
        }
        [Tcp(_), Tcp(_)] if !flow.processing.is_zero() && !flow.is_simco() => {
            "processing: expected 0 ms: hosts with TCP respond at once"
        }
        [Udp, Udp] if matches!(flow.pattern, Pattern::Bulk) => {
            "kind: UDP has no congestion control and sends at a rate: expected \"constant\", \"poisson\" or \"on-off\""
        }
        [Udp, Udp] if flow.blocking => "blocking: UDP has no send buffer that could be full",
        [Udp, Udp] if flow.response.is_some() => "response: hosts with UDP send no responses",
        [Udp, Udp] if flow.size as u64 > LARGEST_DATAGRAM => {
            "size: a datagram contains at most 60000 bytes"
        }
        [Sctp(_), Sctp(_)] | [Dtls(_), Dtls(_)] | [Tcp(_), Tcp(_)] | [Udp, Udp] => return Ok(()),
        [Live(Carrier::Program(_)), Live(Carrier::Program(_))] if flow.is_bulk() => {
            "kind: programs of other stacks have messages at a rate: expected \"constant\""
        }
        [Live(one), Live(other)] if one == other => return Ok(()),
        _ => "from and to: expected two hosts with the same stack",
    };
    Err(section.error(wrong))
}

fn flow(name: &str, section: &Section<'_>, parts: &Parts) -> Result<Flow, FileError> {
    let host = |key: &'static str| {
        section.needed(key, "the name of a host", |item| {
            let node = parts.node(item)?;
            match parts.nodes[node].kind {
                NodeStack::Router => Err(item.error("routers have no flows: expected a host")),
                _ => Ok(node),
            }
        })
    };
    let ends = [host("from")?, host("to")?];
    if ends[0] == ends[1] {
        return Err(section.error("from and to: expected two different hosts"));
    }
    let (size, pattern) = match section.needed("kind", KINDS, Item::read)? {
        FlowKind::Simco => {
            if let Some(item) = OF_MESSAGES.iter().find_map(|key| section.get(key)) {
                return Err(item.error("has no effect here: SIMCO determines its messages"));
            }
            (LEAST as usize, Pattern::Simco(workload(section)?))
        }
        kind => {
            let expected = "the bytes of a message, such as \"1000 bytes\"";
            let size = section.needed("size", expected, |item| item.size(LEAST..=LARGEST))?;
            (size, pattern(section, kind, size)?)
        }
    };
    let count = |item: &Item<'_>| item.whole(1..=MAX);
    let mut messages = section.value_or("messages", None, |item| item.optional(count))?;
    if let Some(item) = section.get("bytes") {
        if messages.is_some() {
            return Err(item.error("a flow has either messages or bytes"));
        }
        messages = Some(item.size::<u64>(1..=MAX)?.div_ceil(size as u64));
    }
    let mut flow = Flow {
        name: name.into(),
        active: true,
        ends,
        pattern,
        size,
        messages,
        streams: 1,
        setup_by_receiver: section.value_or("setup_by", false, |item| {
            item.choice(&[("from", false), ("to", true)])
        })?,
        first_address_only: section.value_or("known_addresses", false, |item| {
            item.choice(&[("all", false), ("first", true)])
        })?,
        wait_for_paths: true,
        primary: section.value("primary", |item| {
            let link = parts.link(item)?;
            let addresses = &parts.nodes[ends[1]].addresses;
            if addresses.iter().any(|(own, _)| *own == link) {
                Ok(link)
            } else {
                Err(item.error("the receiver has no address on this link"))
            }
        })?,
        ..Flow::default()
    };
    let response = |item: &Item<'_>| item.optional(|item| item.size(LEAST..=LARGEST));
    keys!(section, flow, Item::read;
        active, processing, unordered, blocking, setup, setup_spread, wait_for_paths, start, settle, stop, layer);
    keys!(section, flow, response; response);
    keys!(section, flow, |item| item.whole(1..=65_535); streams);
    keys!(section, flow, |item| item.whole(0..=65_534); first_stream);
    keys!(section, flow, reliability; reliability);
    keys!(section, flow, |item| reader(item, size); reader);
    check_effect(section, &flow)?;
    section.finish()?;
    Ok(flow)
}

/// Rejects keys that have no effect beside the other keys of a flow.
fn check_effect(section: &Section<'_>, flow: &Flow) -> Result<(), FileError> {
    if let Some(item) = section.get("processing")
        && flow.response.is_none()
        && !flow.is_simco()
    {
        return Err(item.error("has no effect without response"));
    }
    if u32::from(flow.first_stream) + u32::from(flow.streams) > 65_535 {
        return Err(section.error("streams: at most 65535"));
    }
    if let Some(item) = section.get("blocking").filter(|_| flow.blocking)
        && !matches!(flow.pattern, Pattern::Constant { burst: 1, .. })
    {
        return Err(item.error("belongs to kind = \"constant\" without burst"));
    }
    Ok(())
}

/// Parses the speed at which messages of this size are read.
fn reader(item: &Item<'_>, size: usize) -> Result<ReceiverSpeed, FileError> {
    if !item.is_table() {
        let choices = [
            ("at-once", ReceiverSpeed::Fast),
            ("never", ReceiverSpeed::Never),
        ];
        let expected = "\"at-once\", \"never\", or a table with mean_interval or rate";
        return item.choice(&choices).map_err(|_| item.wrong(expected));
    }
    let expected = "expected mean_interval, a time such as \"20 ms\", or rate, such as \"5 kB/s\"";
    item.table(|section| {
        let (mean, rate) = (section.get("mean_interval"), section.get("rate"));
        section.finish()?;
        let mean = match (mean, rate) {
            (Some(mean), None) => positive(&mean),
            (None, Some(rate)) => interval_of(&rate, size),
            _ => Err(item.error(expected)),
        };
        mean.map(ReceiverSpeed::Slow)
    })
}

/// Returns the interval of messages of this size at a rate.
fn interval_of(rate: &Item<'_>, size: usize) -> Result<Duration, FileError> {
    let seconds = size as f64 * 8.0 / rate.rate()?;
    let interval = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if interval.is_zero() || interval > Duration::from_secs(1 << 30) {
        return Err(rate.error("the rate and this message size give an interval out of range"));
    }
    Ok(interval)
}

fn positive(item: &Item<'_>) -> Result<Duration, FileError> {
    let time: Duration = item.read()?;
    if time.is_zero() {
        return Err(item.wrong("a time above 0"));
    }
    Ok(time)
}

/// Kind of a flow.
#[derive(Clone, Copy, PartialEq)]
enum FlowKind {
    Bulk,
    Constant,
    Poisson,
    OnOff,
    Simco,
}

names! {
    Layer {
        "sctp": Sctp,
        "m3ua": M3ua,
        "m2pa": M2pa,
        "m2pa-links": M2paLinks,
    }
}

names! {
    FlowKind {
        "bulk": Bulk,
        "constant": Constant,
        "poisson": Poisson,
        "on-off": OnOff,
        "simco": Simco,
    }
}

const KINDS: &str = "\"bulk\", \"constant\", \"poisson\", \"on-off\" or \"simco\"";
/// Keys of flows whose messages the file determines.
const OF_MESSAGES: [&str; 18] = [
    "layer",
    "size",
    "rate",
    "burst",
    "on",
    "off",
    "messages",
    "bytes",
    "response",
    "streams",
    "first_stream",
    "unordered",
    "reliability",
    "blocking",
    "start",
    "settle",
    "stop",
    "reader",
];

/// Parses the load of SIMCO.
fn workload(section: &Section<'_>) -> Result<Workload, FileError> {
    let expected = "the mean time between two new pinholes, such as \"30 ms\"";
    let mut load = Workload {
        opening_interval: section.needed("interval", expected, positive)?,
        preload: 0,
        ..Workload::default()
    };
    let Some(item) = section.get("pinholes") else {
        return Ok(load);
    };
    item.table(|pinholes| {
        pinholes.set("lifetime", &mut load.holding, positive)?;
        keys!(pinholes, load, positive; refresh);
        // The requested lifetime outlasts a late refresh.
        let seconds = load.refresh.as_secs().max(1).saturating_mul(2);
        load.lifetime = Lifetime(u32::try_from(seconds).unwrap_or(u32::MAX));
        keys!(pinholes, load, |item| item.whole(0..=1_000_000); preload);
        keys!(pinholes, load, |item| item.whole(1..=1_000_000); preload_window);
        Ok(load)
    })
}

/// Parses the times of the messages of any flow without SIMCO.
fn pattern(section: &Section<'_>, kind: FlowKind, size: usize) -> Result<Pattern, FileError> {
    let paced = "\"constant\", \"poisson\" or \"on-off\"";
    for (key, has_effect, kinds) in [
        ("rate", kind != FlowKind::Bulk, paced),
        ("interval", kind != FlowKind::Bulk, paced),
        ("burst", kind == FlowKind::Constant, "\"constant\""),
        ("on", kind == FlowKind::OnOff, "\"on-off\""),
        ("off", kind == FlowKind::OnOff, "\"on-off\""),
    ] {
        if let Some(item) = section.get(key).filter(|_| !has_effect) {
            let what = format!("has no effect here; it belongs to kind = {kinds}");
            return Err(item.error(what));
        }
    }
    let interval = match (section.get("rate"), section.get("interval")) {
        _ if kind == FlowKind::Bulk => Duration::ZERO,
        (Some(rate), None) => interval_of(&rate, size)?,
        (None, Some(interval)) => positive(&interval)?,
        (Some(rate), Some(_)) => return Err(rate.error("a flow has either rate or interval")),
        (None, None) => {
            let what = "rate: missing; expected a rate such as \"30 kB/s\", or interval";
            return Err(section.error(what));
        }
    };
    let times = |key| section.needed(key, "a time such as \"100 ms\"", spread);
    Ok(match kind {
        // SIMCO has its own parser.
        FlowKind::Bulk | FlowKind::Simco => Pattern::Bulk,
        FlowKind::Constant => Pattern::Constant {
            interval,
            burst: section.value_or("burst", 1, |item| item.whole(1..=1_000_000))?,
        },
        FlowKind::Poisson => Pattern::Poisson { interval },
        FlowKind::OnOff => Pattern::OnOff {
            interval,
            on: times("on")?,
            off: times("off")?,
        },
    })
}

/// Parses a constant time or a distribution of times.
fn spread(item: &Item<'_>) -> Result<DurationDistribution, FileError> {
    if !item.is_table() {
        return positive(item).map(DurationDistribution::Fixed);
    }
    let expected = "a time, { exponential = \"100 ms\" } or { pareto = \"100 ms\", shape = 1.5 }";
    item.table(|section| {
        let shape = section.value("shape", |item| item.number(1.001..=100.0))?;
        let exponential = section.value("exponential", positive)?;
        let pareto = section.value("pareto", positive)?;
        // A wrong key is reported before what is missing.
        section.finish()?;
        match (exponential, pareto, shape) {
            (Some(mean), None, None) => Ok(DurationDistribution::Exponential(mean)),
            (None, Some(mean), Some(shape)) => Ok(DurationDistribution::Pareto { mean, shape }),
            _ => Err(item.wrong(expected)),
        }
    })
}

fn reliability(item: &Item<'_>) -> Result<Reliability, FileError> {
    if !item.is_table() {
        let expected =
            "\"full\", { lifetime = \"100 ms\" }, { retransmissions = 2 } or { priority = 1 }";
        let full = item.choice(&[("full", Reliability::Full)]);
        return full.map_err(|_| item.wrong(expected));
    }
    item.table(|section| {
        let lifetime = section.value("lifetime", Item::read)?;
        let retransmissions = section.value("retransmissions", Item::read)?;
        let priority = section.value("priority", Item::read)?;
        section.finish()?;
        match (lifetime, retransmissions, priority) {
            (Some(time), None, None) => Ok(Reliability::Timed(time)),
            (None, Some(count), None) => Ok(Reliability::Retransmissions(count)),
            (None, None, Some(priority)) => Ok(Reliability::Priority(priority)),
            _ => Err(item.wrong("one of lifetime, retransmissions and priority")),
        }
    })
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
