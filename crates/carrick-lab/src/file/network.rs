//! Parser of `[hosts]`, `[routers]` and `[links]`.

use std::time::Duration;

use carrick_netsim::{
    GilbertElliott, Jitter, Limit, LinkConfig, Loss, Management, Queue, Red, Reorder,
};

use super::error::FileError;
use super::model::{Link, Node, NodeStack, TcpSettings};
use super::reader::{Item, Section};
use super::settings::Settings;
use crate::tcp_host::TcpCongestion;

const MAX: u64 = i64::MAX as u64;

/// Nodes and links, which refer to each other.
pub(super) struct Parts {
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
}

/// Returns the index of the part that an item names.
pub(super) fn named<'n>(
    item: &Item<'_>,
    what: &str,
    mut names: impl Iterator<Item = &'n str> + Clone,
) -> Result<usize, FileError> {
    let text = item.text()?;
    let all = names.clone();
    names.position(|name| name == text).ok_or_else(|| {
        let known: Vec<&str> = all.collect();
        item.error(format!(
            "there is no {what} {text:?}; there are: {}",
            known.join(", ")
        ))
    })
}

impl Parts {
    pub(super) fn read(root: &Section<'_>, settings: &Settings) -> Result<Self, FileError> {
        let hosts = root.tables("hosts")?;
        let routers = root.tables("routers")?;
        let links = root.tables("links")?;
        if hosts.len() < 2 {
            return Err(root.error("hosts: expected at least two tables such as [hosts.name]"));
        }
        let link_names: Vec<&str> = links.iter().map(|(name, _)| *name).collect();
        let mut nodes: Vec<Node> = Vec::new();
        for (name, section) in &hosts {
            nodes.push(host(name, section, settings, &link_names, &nodes)?);
        }
        for (name, section) in &routers {
            if nodes.iter().any(|node| node.name == *name) {
                return Err(section.error("a host has the same name"));
            }
            let node = Node {
                name: (*name).into(),
                kind: NodeStack::Router,
                source_routing: false,
                addresses: addresses(section, &link_names, &nodes)?,
            };
            section.finish()?;
            nodes.push(node);
        }
        let links: Result<Vec<Link>, FileError> = links
            .iter()
            .map(|(name, section)| link(name, section, &nodes))
            .collect();
        let parts = Self {
            nodes,
            links: links?,
        };
        parts.check(&hosts)?;
        Ok(parts)
    }

    /// Checks that every address is on a link of its node, and that every host has one.
    fn check(&self, hosts: &[(&str, Section<'_>)]) -> Result<(), FileError> {
        for (number, (_, section)) in hosts.iter().enumerate() {
            let node = &self.nodes[number];
            for (link, address) in &node.addresses {
                if !self.links[*link].ends.contains(&number) {
                    return Err(section.error(format!(
                        "has address {address} on link {:?}, which does not end here",
                        self.links[*link].name
                    )));
                }
            }
            if node.addresses.is_empty() {
                return Err(section
                    .error("addresses: expected at least one, such as { link = \"10.0.0.1\" }"));
            }
        }
        Ok(())
    }

    pub(super) fn node(&self, item: &Item<'_>) -> Result<usize, FileError> {
        named(
            item,
            "host or router",
            self.nodes.iter().map(|n| n.name.as_str()),
        )
    }

    pub(super) fn link(&self, item: &Item<'_>) -> Result<usize, FileError> {
        named(item, "link", self.links.iter().map(|l| l.name.as_str()))
    }
}

fn host(
    name: &str,
    section: &Section<'_>,
    settings: &Settings,
    links: &[&str],
    others: &[Node],
) -> Result<Node, FileError> {
    let association = match section.get("settings") {
        Some(item) => settings.find(&item)?,
        None => carrick_proto::AssociationConfig::rfc9260(),
    };
    let tcp = tcp(section.get("tcp").as_ref())?;
    let sctp = NodeStack::Sctp(Box::new(association));
    let choices = [
        ("sctp", sctp.clone()),
        ("tcp", NodeStack::Tcp(tcp)),
        ("udp", NodeStack::Udp),
    ];
    let kind = match section.get("stack") {
        Some(item) => item.choice(&choices)?,
        None => sctp,
    };
    let mut source_routing = false;
    section.set("source_routing", &mut source_routing, Item::flag)?;
    let addresses = addresses(section, links, others)?;
    section.finish()?;
    Ok(Node {
        name: name.into(),
        kind,
        source_routing,
        addresses,
    })
}

fn tcp(item: Option<&Item<'_>>) -> Result<TcpSettings, FileError> {
    let mut tcp = TcpSettings {
        receive_buffer: 1 << 16,
        send_buffer: 1 << 16,
        congestion: TcpCongestion::Reno,
        ack_delay: Some(Duration::from_millis(200)),
        nagle: true,
        mtu: 1500,
    };
    let Some(item) = item else { return Ok(tcp) };
    let section = item.section()?;
    let buffer = |item: &Item<'_>| item.size(1024..=1 << 30).map(|n| n as usize);
    section.set("receive_buffer", &mut tcp.receive_buffer, buffer)?;
    section.set("send_buffer", &mut tcp.send_buffer, buffer)?;
    section.set("congestion", &mut tcp.congestion, |i| {
        i.choice(&[
            ("reno", TcpCongestion::Reno),
            ("cubic", TcpCongestion::Cubic),
        ])
    })?;
    section.set("ack_delay", &mut tcp.ack_delay, |i| i.optional(Item::time))?;
    section.set("nagle", &mut tcp.nagle, Item::flag)?;
    section.set("mtu", &mut tcp.mtu, |i| {
        i.size(576..=65_535).map(|n| n as usize)
    })?;
    section.finish()?;
    Ok(tcp)
}

fn addresses(
    section: &Section<'_>,
    links: &[&str],
    others: &[Node],
) -> Result<Vec<(usize, std::net::IpAddr)>, FileError> {
    let Some(item) = section.get("addresses") else {
        return Ok(Vec::new());
    };
    let mut all: Vec<(usize, std::net::IpAddr)> = Vec::new();
    for (name, item) in item.entries()? {
        let Some(link) = links.iter().position(|link| *link == name) else {
            let what = format!("there is no link {name:?}; there are: {}", links.join(", "));
            return Err(item.error(what));
        };
        let address = item.address()?;
        let has = |list: &[(usize, std::net::IpAddr)]| list.iter().any(|(_, own)| *own == address);
        if let Some(other) = others.iter().find(|node| has(&node.addresses)) {
            let owner = &other.name;
            return Err(item.error(format!(
                "{address} is an address of {owner:?} already; expected each once"
            )));
        }
        if has(&all) {
            return Err(item.error(format!(
                "{address} is listed already; expected each address once"
            )));
        }
        all.push((link, address));
    }
    Ok(all)
}

fn link(name: &str, section: &Section<'_>, nodes: &[Node]) -> Result<Link, FileError> {
    let between = section.need("between", "two names such as [\"a\", \"b\"]")?;
    let ends = between.list()?;
    let [a, b] = ends.as_slice() else {
        return Err(between.wrong("two names of hosts or routers"));
    };
    let node = |item: &Item<'_>| {
        named(
            item,
            "host or router",
            nodes.iter().map(|n| n.name.as_str()),
        )
    };
    let ends = [node(a)?, node(b)?];
    if ends[0] == ends[1] {
        return Err(between.error("a link needs two different ends"));
    }
    let mut both = LinkConfig::default();
    properties(section, &mut both)?;
    let mut config = [both.clone(), both];
    for (key, config) in ["forward", "backward"].into_iter().zip(&mut config) {
        if let Some(item) = section.get(key) {
            let own = item.section()?;
            properties(&own, config)?;
            own.finish()?;
        }
    }
    section.finish()?;
    for config in &config {
        config
            .validate()
            .map_err(|error| section.error(error.to_string()))?;
    }
    Ok(Link {
        name: name.into(),
        ends,
        config,
    })
}

/// Parses link properties; returns true if any other than the loss was given.
pub(super) fn properties(
    section: &Section<'_>,
    config: &mut LinkConfig,
) -> Result<bool, FileError> {
    let mut other = false;
    if let Some(item) = section.get("rate") {
        config.rate = item.optional(Item::rate)?.map(|rate| rate as u64);
        other = true;
    }
    if let Some(item) = section.get("loss") {
        config.loss = loss(&item)?;
    }
    if let Some(item) = section.get("queue") {
        config.queue = queue(&item)?;
        other = true;
    }
    if let Some(item) = section.get("jitter") {
        config.jitter = jitter(&item)?;
        other = true;
    }
    if let Some(item) = section.get("reorder") {
        config.reorder = item.optional(reorder)?;
        other = true;
    }
    if let Some(item) = section.get("mtu") {
        config.mtu = item.optional(|i| i.size(68..=65_535))?.map(|n| n as usize);
        other = true;
    }
    let before = config.clone();
    section.set("delay", &mut config.delay, Item::time)?;
    section.set("jitter_overtakes", &mut config.jitter_overtakes, Item::flag)?;
    section.set("duplicate", &mut config.duplicate, Item::share)?;
    section.set("corrupt", &mut config.corrupt, Item::share)?;
    section.set("mtu_black_hole", &mut config.mtu_black_hole, Item::flag)?;
    Ok(other || *config != before)
}

fn loss(item: &Item<'_>) -> Result<Loss, FileError> {
    if !item.is_table() {
        let share = item.share()?;
        return Ok(if share > 0.0 {
            Loss::Random(share)
        } else {
            Loss::None
        });
    }
    let section = item.section()?;
    let every = section.get("every");
    let packets = section.get("packets");
    let share = section.get("share");
    let mean_burst = section.get("mean_burst");
    let mut model = GilbertElliott {
        p_good_to_bad: 0.0,
        p_bad_to_good: 0.0,
        loss_good: 0.0,
        loss_bad: 1.0,
    };
    let states: [(&'static str, &mut f64); 4] = [
        ("p_good_to_bad", &mut model.p_good_to_bad),
        ("p_bad_to_good", &mut model.p_bad_to_good),
        ("loss_good", &mut model.loss_good),
        ("loss_bad", &mut model.loss_bad),
    ];
    for (key, field) in states {
        section.set(key, field, Item::share)?;
    }
    section.finish()?;
    let expected = "{ every = 10 }, { packets = [3, 4] }, { share = \"1 %\", mean_burst = 4 } or \
                    { p_good_to_bad = \"1 %\", p_bad_to_good = \"25 %\", loss_good = 0, loss_bad = 1 }";
    match (every, packets, share, mean_burst) {
        (Some(every), None, None, None) => Ok(Loss::Every(every.whole(1..=MAX)?)),
        (None, Some(packets), None, None) => {
            let numbers: Result<Vec<u64>, _> = packets
                .list()?
                .iter()
                .map(|number| number.whole(1..=MAX))
                .collect();
            Ok(Loss::List(numbers?))
        }
        (None, None, Some(share), Some(burst)) => {
            let value = share.share()?;
            if value >= 1.0 {
                return Err(share.wrong("less than 100 % where losses come in bursts"));
            }
            let burst = burst.number(1.0..=1e9)?;
            Ok(Loss::GilbertElliott(GilbertElliott::bursts(value, burst)))
        }
        (None, None, None, None) if model.p_good_to_bad > 0.0 => Ok(Loss::GilbertElliott(model)),
        _ => Err(item.wrong(expected)),
    }
}

fn limit(item: &Item<'_>) -> Result<Limit, FileError> {
    let packets = item.packets().map(|n| Limit::Packets(n as usize));
    let bytes = || item.size(1..=MAX).map(|n| Limit::Bytes(n as usize));
    packets
        .or_else(|_| bytes())
        .map_err(|_| item.wrong("a length such as \"6 packets\" or \"64 kB\""))
}

fn queue(item: &Item<'_>) -> Result<Queue, FileError> {
    let unlimited = |item: &Item<'_>| Ok(item.optional(limit)?.unwrap_or(Limit::Unlimited));
    let mut queue = Queue::default();
    if !item.is_table() {
        queue.limit = unlimited(item)?;
        return Ok(queue);
    }
    let section = item.section()?;
    section.set("limit", &mut queue.limit, unlimited)?;
    let mark = section.get("mark_above");
    let red_item = section.get("red");
    section.finish()?;
    match (mark, red_item) {
        (Some(_), Some(red)) => return Err(red.error("a queue has either mark_above or red")),
        (Some(mark), None) => queue.management = Management::MarkAbove(limit(&mark)?),
        (None, Some(item)) => queue.management = Management::Red(red(&item)?),
        (None, None) => {}
    }
    Ok(queue)
}

fn red(item: &Item<'_>) -> Result<Red, FileError> {
    let section = item.section()?;
    let length = |item: &Item<'_>| item.packets().map(|n| n as f64);
    let mut red = Red {
        minimum: length(&section.need("minimum", "an average length such as \"5 packets\"")?)?,
        maximum: length(&section.need("maximum", "an average length such as \"15 packets\"")?)?,
        max_probability: 0.1,
        weight: 0.002,
        ecn: false,
    };
    section.set("max_probability", &mut red.max_probability, Item::share)?;
    section.set("weight", &mut red.weight, Item::share)?;
    section.set("ecn", &mut red.ecn, Item::flag)?;
    section.finish()?;
    Ok(red)
}

fn jitter(item: &Item<'_>) -> Result<Jitter, FileError> {
    if !item.is_table() {
        let most = item.optional(Item::time)?;
        return Ok(most.map_or(Jitter::None, Jitter::Uniform));
    }
    let section = item.section()?;
    let expected = "a standard deviation such as \"3 ms\"";
    let standard_deviation = section.need("standard_deviation", expected)?.time()?;
    section.finish()?;
    Ok(Jitter::Normal { standard_deviation })
}

fn reorder(item: &Item<'_>) -> Result<Reorder, FileError> {
    let section = item.section()?;
    let reorder = Reorder {
        probability: section
            .need("probability", "a share such as \"1 %\"")?
            .share()?,
        extra_delay: section
            .need("extra_delay", "a time such as \"10 ms\"")?
            .time()?,
    };
    section.finish()?;
    Ok(reorder)
}
