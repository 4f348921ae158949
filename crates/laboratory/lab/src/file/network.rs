//! Parser of `[hosts]`, `[routers]` and `[links]`.

use std::net::{IpAddr, Ipv4Addr};

use carrick_netsim::{
    GilbertElliott, HostRouting, Jitter, LinkConfig, Loss, Queue, QueueLimit, QueueManagement, Red,
    Reorder,
};

use super::error::FileError;
use super::live::Carrier;
use super::model::{Link, Mobility, Node, NodeStack};
use super::reader::{FromItem, Item, Section, keys, names};
use super::settings::Settings;
use crate::live::MultipathTcp;
use carrick_hosts::tcp::{TcpConfig, TcpCongestion};

const MAX: u64 = i64::MAX as u64;

names! {
    TcpCongestion { "reno": Reno, "packets": Packets, "cubic": Cubic }
}

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

/// Returns the index of the node that an item names.
fn node(item: &Item<'_>, nodes: &[Node]) -> Result<usize, FileError> {
    let names = nodes.iter().map(|node| node.name.as_str());
    named(item, "host or router", names)
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
            let agents = [
                ("home", Mobility::HomeAgent),
                ("foreign", Mobility::ForeignAgent),
            ];
            let node = Node {
                name: (*name).into(),
                mobility: section.value_or("agent", None, |item| {
                    item.optional(|item| item.choice(&agents))
                })?,
                addresses: addresses(section, &link_names, &nodes)?,
                ..Node::default()
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
        parts.check_mobility(&hosts, &routers)?;
        Ok(parts)
    }

    /// Checks that agents have an address, and that each mobile node has a home address and a home agent.
    fn check_mobility(
        &self,
        hosts: &[(&str, Section<'_>)],
        routers: &[(&str, Section<'_>)],
    ) -> Result<(), FileError> {
        let sections = hosts.iter().chain(routers).map(|(_, section)| section);
        let has_v4 = |node: &Node| node.addresses.iter().any(|(_, a)| a.is_ipv4());
        let mut homes: Vec<(usize, usize)> = Vec::new();
        for (number, (node, section)) in self.nodes.iter().zip(sections).enumerate() {
            let at_the_other_end = |link: usize, role: Mobility| {
                let other = self.links[link].other_end(number);
                other.filter(|other| self.nodes[*other].mobility == Some(role.clone()))
            };
            let wrong = match &node.mobility {
                None => continue,
                Some(Mobility::HomeAgent | Mobility::ForeignAgent) if has_v4(node) => continue,
                Some(Mobility::HomeAgent | Mobility::ForeignAgent) => {
                    "agent: needs an IPv4 address in addresses"
                }
                Some(Mobility::MobileNode { home, visits, .. }) => {
                    let foreign =
                        |link: &usize| at_the_other_end(*link, Mobility::ForeignAgent).is_some();
                    let own = node.addresses.iter().find(|(link, _)| link == home);
                    let agent = at_the_other_end(*home, Mobility::HomeAgent);
                    let elsewhere = |agent: usize| {
                        let mut others = homes.iter();
                        others.any(|(own, link)| *own == agent && link != home)
                    };
                    match agent {
                        _ if !visits.iter().flatten().all(foreign) => {
                            "mobile.visits: expected links to routers with agent = \"foreign\""
                        }
                        _ if !own.is_some_and(|(_, address)| address.is_ipv4()) => {
                            "mobile.home: expected a link on which the host has an IPv4 address"
                        }
                        None => "mobile.home: expected a link to a router with agent = \"home\"",
                        Some(agent) if elsewhere(agent) => {
                            "mobile.home: a home agent has one link to its mobile nodes"
                        }
                        Some(agent) => {
                            homes.push((agent, *home));
                            continue;
                        }
                    }
                }
            };
            return Err(section.error(wrong));
        }
        Ok(())
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
        node(item, &self.nodes)
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
    let association = section.value("settings", |item| settings.find(item))?;
    let association = association.unwrap_or_else(carrick_proto::AssociationConfig::rfc9260);
    let mut tcp = TcpConfig::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    section.value("tcp", |item| {
        item.table(|section| read_tcp(section, &mut tcp))
    })?;
    let association = Box::new(association);
    let sctp = NodeStack::Sctp(association.clone());
    let mut multipath = MultipathTcp {
        backup: true,
        stale_loss_count: 4,
    };
    section.value("mptcp", |item| {
        item.table(|section| {
            keys!(section, multipath, Item::read; backup, stale_loss_count);
            Ok(())
        })
    })?;
    let live = Carrier::without_simulation(multipath);
    let live = live.map(|carrier| (carrier.suffix(), NodeStack::Live(carrier)));
    let named = [
        ("sctp", sctp.clone()),
        (Carrier::Dtls.suffix(), NodeStack::Dtls(association)),
        ("tcp", NodeStack::Tcp(tcp)),
        ("udp", NodeStack::Udp),
    ];
    let choices: Vec<_> = named.into_iter().chain(live).collect();
    let node = Node {
        name: name.into(),
        kind: section.value_or("stack", sctp, |item| item.choice(&choices))?,
        arguments: section.value_or("arguments", Vec::new(), Item::read)?,
        routing: routing(section)?,
        set_peer_primary: section.value_or("set_peer_primary", false, Item::read)?,
        mobility: section.value_or("mobile", None, |item| {
            item.optional(|item| mobile(item, links))
        })?,
        addresses: addresses(section, links, others)?,
    };
    section.finish()?;
    Ok(node)
}

/// Parses the keys of a host for the selection of the interface of a packet.
fn routing(section: &Section<'_>) -> Result<HostRouting, FileError> {
    let prefers_source = section.value_or("source_routing", false, Item::read)?;
    let by_policy = section.value_or("policy_routing", false, Item::read)?;
    match (prefers_source, by_policy) {
        (true, true) => Err(section.error("a host has either source_routing or policy_routing")),
        (true, false) => Ok(HostRouting::PreferSource),
        (false, true) => Ok(HostRouting::BySource),
        (false, false) => Ok(HostRouting::ByDestination),
    }
}

/// Parses the key `mobile` of a host; `names` are those of all links.
fn mobile(item: &Item<'_>, names: &[&str]) -> Result<Mobility, FileError> {
    let link = |item: &Item<'_>| named(item, "link", names.iter().copied());
    let home = "the name of the link with the home address";
    item.table(|section| {
        Ok(Mobility::MobileNode {
            home: section.needed("home", home, link)?,
            visits: section.value("visits", |item| item.each(link))?,
            reverse_tunnel: section.value_or("reverse_tunnel", true, Item::read)?,
        })
    })
}

fn read_tcp(section: &Section<'_>, tcp: &mut TcpConfig) -> Result<(), FileError> {
    keys!(section, tcp, |item| item.size(1024..=1 << 30); receive_buffer, send_buffer);
    keys!(section, tcp, |item| item.size(576..=65_535); mtu);
    keys!(section, tcp, Item::read; congestion, sack, rto_min, ack_delay, nagle);
    Ok(())
}

fn addresses(
    section: &Section<'_>,
    links: &[&str],
    others: &[Node],
) -> Result<Vec<(usize, IpAddr)>, FileError> {
    let Some(item) = section.get("addresses") else {
        return Ok(Vec::new());
    };
    let mut all: Vec<(usize, IpAddr)> = Vec::new();
    for (name, item) in item.entries()? {
        let Some(link) = links.iter().position(|link| *link == name) else {
            let what = format!("there is no link {name:?}; there are: {}", links.join(", "));
            return Err(item.error(what));
        };
        let address: IpAddr = item.read()?;
        let has = |list: &[(usize, IpAddr)]| list.iter().any(|(_, own)| *own == address);
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
    let ends = [node(a, nodes)?, node(b, nodes)?];
    if ends[0] == ends[1] {
        return Err(between.error("a link needs two different ends"));
    }
    let mut both = LinkConfig::default();
    properties(section, &mut both)?;
    let mut config = [both.clone(), both];
    for (key, config) in ["forward", "backward"].into_iter().zip(&mut config) {
        section.value(key, |item| item.table(|own| properties(own, config)))?;
    }
    let down = section.value_or("state", false, |item| {
        item.choice(&[("up", false), ("down", true)])
    })?;
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
        down,
    })
}

/// Parses link properties; returns true if any other than the loss was given.
pub(super) fn properties(
    section: &Section<'_>,
    config: &mut LinkConfig,
) -> Result<bool, FileError> {
    let before = config.clone();
    let rate = |item: &Item<'_>| Ok(item.optional(Item::rate)?.map(|rate| rate as u64));
    let given = ["rate", "queue", "jitter", "reorder", "mtu"];
    let given = given.map(|key| section.get(key).is_some()).contains(&true);
    keys!(section, config, rate; rate);
    keys!(section, config, queue; queue);
    keys!(section, config, jitter; jitter);
    keys!(section, config, |item| item.optional(reorder); reorder);
    keys!(section, config, |item| item.optional(|item| item.size(68..=65_535)); mtu);
    keys!(section, config, Item::read; tick, delay, jitter_overtakes, mtu_black_hole);
    keys!(section, config, Item::share; duplicate, corrupt);
    let changed = *config != before;
    keys!(section, config, loss; loss);
    Ok(given || changed)
}

fn loss(item: &Item<'_>) -> Result<Loss, FileError> {
    if !item.is_table() {
        return item.share().map(|share| match share {
            0.0 => Loss::None,
            share => Loss::Random(share),
        });
    }
    let expected = "{ every = 10 }, { packets = [3, 4] }, { share = \"1 %\", mean_burst = 4 } or \
                    { p_good_to_bad = \"1 %\", p_bad_to_good = \"25 %\", loss_good = 0, loss_bad = 1 }";
    item.table(|section| {
        let mut model = GilbertElliott {
            p_good_to_bad: 0.0,
            p_bad_to_good: 0.0,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        keys!(section, model, Item::share; p_good_to_bad, p_bad_to_good, loss_good, loss_bad);
        let every = section.value("every", |item| item.whole(1..=MAX))?;
        let packets = section.value("packets", |item| item.each(|item| item.whole(1..=MAX)))?;
        let share = section.value("share", |item| match item.share()? {
            share if share < 1.0 => Ok(share),
            _ => Err(item.wrong("less than 100 % where losses come in bursts")),
        })?;
        let mean_burst = section.value("mean_burst", |item| item.number(1.0..=1e9))?;
        // A wrong key is reported before what is missing.
        section.finish()?;
        match (every, packets, share, mean_burst) {
            (Some(every), None, None, None) => Ok(Loss::Every(every)),
            (None, Some(packets), None, None) => Ok(Loss::List(packets)),
            (None, None, Some(share), Some(burst)) => {
                Ok(Loss::GilbertElliott(GilbertElliott::bursts(share, burst)))
            }
            (None, None, None, None) if model.p_good_to_bad > 0.0 => {
                Ok(Loss::GilbertElliott(model))
            }
            _ => Err(item.wrong(expected)),
        }
    })
}

fn limit(item: &Item<'_>) -> Result<QueueLimit, FileError> {
    let packets = item.packets().map(|n| QueueLimit::Packets(n as usize));
    let bytes = || item.size(1..=MAX).map(QueueLimit::Bytes);
    packets
        .or_else(|_| bytes())
        .map_err(|_| item.wrong("a length such as \"6 packets\" or \"64 kB\""))
}

fn queue(item: &Item<'_>) -> Result<Queue, FileError> {
    let unlimited = |item: &Item<'_>| Ok(item.optional(limit)?.unwrap_or(QueueLimit::Unlimited));
    let mut queue = Queue::default();
    if !item.is_table() {
        queue.limit = unlimited(item)?;
        return Ok(queue);
    }
    item.table(|section| {
        keys!(section, queue, unlimited; limit);
        match (section.get("mark_above"), section.get("red")) {
            (Some(_), Some(red)) => return Err(red.error("a queue has either mark_above or red")),
            (Some(mark), None) => queue.management = QueueManagement::MarkAbove(limit(&mark)?),
            (None, Some(item)) => queue.management = QueueManagement::Red(red(&item)?),
            (None, None) => {}
        }
        Ok(queue)
    })
}

fn red(item: &Item<'_>) -> Result<Red, FileError> {
    let length = |item: &Item<'_>| item.packets().map(|n| n as f64);
    let (minimum, maximum) = (
        "an average length such as \"5 packets\"",
        "an average length such as \"15 packets\"",
    );
    item.table(|section| {
        Ok(Red {
            minimum: section.needed("minimum", minimum, length)?,
            maximum: section.needed("maximum", maximum, length)?,
            max_probability: section.value_or("max_probability", 0.1, Item::share)?,
            weight: section.value_or("weight", 0.002, Item::share)?,
            ecn: section.value_or("ecn", false, Item::read)?,
        })
    })
}

fn jitter(item: &Item<'_>) -> Result<Jitter, FileError> {
    if !item.is_table() {
        let most: Option<_> = item.read()?;
        return Ok(most.map_or(Jitter::None, Jitter::Uniform));
    }
    let expected = "a standard deviation such as \"3 ms\"";
    item.table(|section| {
        Ok(Jitter::Normal {
            standard_deviation: section.needed("standard_deviation", expected, Item::read)?,
        })
    })
}

fn reorder(item: &Item<'_>) -> Result<Reorder, FileError> {
    let (share, time) = ("a share such as \"1 %\"", "a time such as \"10 ms\"");
    item.table(|section| {
        Ok(Reorder {
            probability: section.needed("probability", share, Item::share)?,
            extra_delay: section.needed("extra_delay", time, Item::read)?,
        })
    })
}
