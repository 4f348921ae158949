//! Layout of the table: sets, chains and rules.
//!
//! ```text
//! table inet carrick {
//!     set out4, in4, out6, in6     flows by protocol . source . port . destination . port
//!     map snat4, dnat4, ...        flows, mapped to an address . port, on a translator only
//!     set alive                    numbers of unexpired patterns
//!     chain site                   the administrator's own; never touched
//!     chain blocks                 a rule and a direction of each PDR: ... @alive drop
//!     chain patterns               the same for wildcards: ... @alive accept
//!     chain forward                jump site, jump blocks, @out4 accept, @in4 accept, ..., jump patterns
//!     chain prerouting, postrouting
//! }
//! ```
//!
//! The comment of a set identifies its layout, so that a start keeps sets of the same layout.

use carrick_simco::backend::{Element, Pattern, PatternSide};
use carrick_simco::message::Direction;

use crate::abi::{chain, datatype, expr, msg, netlink, rule, set, verdict};
use crate::attribute::MessageWriter;
use crate::config::{NftablesConfig, Policy};
use crate::entry::FlowSet;
use crate::expression::{Expressions, IpFields, PacketEnd, V4, V6};
use crate::socket::Batch;
use crate::table::hash;

/// Set of the numbers of unexpired patterns.
pub(crate) const ALIVE: &str = "alive";
/// Set that exists only while the backend is opened.
pub(crate) const PROBE: &str = "probe";
pub(crate) const BLOCKS: &str = "blocks";
pub(crate) const PATTERNS: &str = "patterns";
const SITE: &str = "site";
const FORWARD: &str = "forward";
const PREROUTING: &str = "prerouting";
const POSTROUTING: &str = "postrouting";

/// Chains of the middlebox, in an order in which they can be removed.
pub(crate) const CHAINS: [&str; 5] = [FORWARD, PREROUTING, POSTROUTING, BLOCKS, PATTERNS];

/// Hook of a base chain and its policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hook {
    pub(crate) kind: &'static str,
    pub(crate) number: u32,
    pub(crate) priority: i32,
    pub(crate) policy: u32,
}

/// Returns the chains of the middlebox in this configuration.
pub(crate) fn chains(config: &NftablesConfig) -> Vec<(&'static str, Option<Hook>)> {
    let hook = |kind, number, priority, policy| {
        Some(Hook {
            kind,
            number,
            priority,
            policy,
        })
    };
    let policy = match config.policy {
        Policy::Drop => verdict::DROP,
        Policy::Accept => verdict::ACCEPT,
    };
    let forward = hook("filter", chain::FORWARD, config.priority, policy);
    let mut chains = vec![(BLOCKS, None), (PATTERNS, None), (FORWARD, forward)];
    if !config.translation.is_empty() {
        let accept = verdict::ACCEPT;
        let before = hook("nat", chain::PREROUTING, -100, accept);
        let after = hook("nat", chain::POSTROUTING, 100, accept);
        chains.extend([(PREROUTING, before), (POSTROUTING, after)]);
    }
    chains
}

/// Set in this configuration.
#[derive(Debug)]
pub(crate) struct RequiredSet {
    pub(crate) name: &'static str,
    /// Layout identifier; `nft` shows it as a comment.
    pub(crate) comment: Vec<u8>,
    id: u32,
    /// `None` for the set of patterns.
    flows: Option<FlowSet>,
}

/// Returns the sets of this configuration.
pub(crate) fn sets(config: &NftablesConfig) -> Vec<RequiredSet> {
    let translates = !config.translation.is_empty();
    let flows = (1..).zip(FlowSet::ALL.map(Some));
    let wanted = flows.filter(|(_, which)| which.is_some_and(|w| translates || !w.is_map()));
    let all = wanted.chain([(100, None)]).map(|(id, flows)| {
        let mut set = RequiredSet {
            name: flows.map_or(ALIVE, FlowSet::name),
            comment: Vec::new(),
            id,
            flows,
        };
        let mut plain = Batch::default();
        set.add(&mut plain, config);
        set.comment = comment_of(plain.octets());
        set
    });
    all.collect()
}

impl RequiredSet {
    /// Writes the set.
    pub(crate) fn add(&self, batch: &mut Batch, config: &NftablesConfig) {
        match self.flows {
            Some(which) => add_flow_set(batch, config, which, self.id, &self.comment),
            None => add_commented(batch, &config.table, ALIVE, self.id, true, &self.comment),
        }
    }
}

/// Returns a comment for `nft` that distinguishes layouts.
fn comment_of(octets: &[u8]) -> Vec<u8> {
    let text = format!("carrick layout {:016x}\0", hash(octets));
    let mut out = vec![set::UDATA_COMMENT, text.len() as u8];
    out.extend_from_slice(text.as_bytes());
    out
}

/// Writes a set with one 32-bit key and timeouts.
pub(crate) fn add_number_set(batch: &mut Batch, table: &str, name: &str, id: u32, counts: bool) {
    add_commented(batch, table, name, id, counts, &[]);
}

fn add_comment(w: &mut MessageWriter, comment: &[u8]) {
    if !comment.is_empty() {
        w.value(set::USERDATA, comment);
    }
}

fn add_commented(
    batch: &mut Batch,
    table: &str,
    name: &str,
    id: u32,
    counts: bool,
    comment: &[u8],
) {
    batch.push(msg::NEW_SET, netlink::CREATE, |w| {
        w.name(set::TABLE, table);
        w.name(set::NAME, name);
        let counter = if counts { set::HAS_EXPR } else { 0 };
        w.number(set::FLAGS, set::HAS_TIMEOUT | counter);
        w.number(set::KEY_TYPE, datatype::MARK);
        w.number(set::KEY_LEN, 4);
        w.number(set::ID, id);
        add_comment(w, comment);
        if counts {
            add_counter(w);
        }
    });
}

fn add_counter(w: &mut MessageWriter) {
    w.nest(set::EXPR, |w| {
        w.name(expr::NAME, "counter");
        w.nest(expr::DATA, |_| ());
    });
}

fn add_flow_set(
    batch: &mut Batch,
    config: &NftablesConfig,
    which: FlowSet,
    id: u32,
    comment: &[u8],
) {
    let ip = which.ip();
    let address = if ip == V4 {
        datatype::IPV4_ADDR
    } else {
        datatype::IPV6_ADDR
    };
    let concat = |types: &[u32]| types.iter().fold(0, |all, one| all << 6 | one);
    let key = concat(&[
        datatype::INET_PROTO,
        address,
        datatype::INET_SERVICE,
        address,
        datatype::INET_SERVICE,
    ]);
    batch.push(msg::NEW_SET, netlink::CREATE, |w| {
        w.name(set::TABLE, &config.table);
        w.name(set::NAME, which.name());
        let kind = if which.is_map() {
            set::IS_MAP
        } else {
            set::HAS_EXPR
        };
        let flags = set::HAS_TIMEOUT | set::IS_CONCAT | kind;
        w.number(set::FLAGS, flags);
        w.number(set::KEY_TYPE, key);
        w.number(set::KEY_LEN, which.key_len() as u32);
        if which.is_map() {
            w.number(set::DATA_TYPE, concat(&[address, datatype::INET_SERVICE]));
            w.number(set::DATA_LEN, ip.length + 4);
        }
        w.nest(set::DESC, |w| {
            w.number(set::DESC_SIZE, config.max_elements);
            w.nest(set::DESC_CONCAT, |w| {
                for length in [1, ip.length, 2, ip.length, 2] {
                    w.nest(crate::abi::LIST_ELEM, |w| w.number(set::FIELD_LEN, length));
                }
            });
        });
        w.number(set::ID, id);
        add_comment(w, comment);
        if !which.is_map() {
            add_counter(w);
        }
    });
}

fn add_chain(batch: &mut Batch, table: &str, name: &str, hook: Option<Hook>) {
    batch.push(msg::NEW_CHAIN, netlink::CREATE, |w| {
        w.name(chain::TABLE, table);
        w.name(chain::NAME, name);
        if let Some(hook) = hook {
            w.nest(chain::HOOK, |w| {
                w.number(chain::HOOK_NUMBER, hook.number);
                w.number(chain::HOOK_PRIORITY, hook.priority as u32);
            });
            w.number(chain::POLICY, hook.policy);
            w.name(chain::TYPE, hook.kind);
        }
    });
}

fn add_rule(
    batch: &mut Batch,
    table: &str,
    chain: &str,
    flags: u16,
    build: impl FnOnce(&mut Expressions<'_>),
) {
    let flags = flags | netlink::CREATE | netlink::APPEND;
    batch.push(msg::NEW_RULE, flags, |w| {
        w.name(rule::TABLE, table);
        w.name(rule::CHAIN, chain);
        w.nest(rule::EXPRESSIONS, |w| build(&mut Expressions(w)));
    });
}

/// Writes the table and its chains; existing ones stay, with these policies.
pub(crate) fn add_chains(batch: &mut Batch, config: &NftablesConfig) {
    for (name, hook) in [(SITE, None)].into_iter().chain(chains(config)) {
        add_chain(batch, &config.table, name, hook);
    }
}

/// Writes the rules of the base chains, which the kernel echoes with their handles. Returns their
/// number.
pub(crate) fn add_rules(batch: &mut Batch, config: &NftablesConfig) -> usize {
    let mut rules = 0;
    let mut add = |chain: &str, build: &dyn Fn(&mut Expressions<'_>)| {
        rules += 1;
        add_rule(batch, &config.table, chain, netlink::ECHO, build);
    };
    for chain in [SITE, BLOCKS] {
        add(FORWARD, &|e| e.jump(chain));
    }
    let inside = config.internal_interface.as_deref();
    for (which, end) in [
        (FlowSet::Out4, PacketEnd::Source),
        (FlowSet::In4, PacketEnd::Destination),
        (FlowSet::Out6, PacketEnd::Source),
        (FlowSet::In6, PacketEnd::Destination),
    ] {
        add(FORWARD, &|e| {
            e.version(which.ip());
            if let Some(name) = inside {
                e.interface(end, name);
            }
            e.flow_in(which.ip(), which.name(), false);
            e.accept();
        });
    }
    add(FORWARD, &|e| e.jump(PATTERNS));
    if config.translation.is_empty() {
        return rules;
    }
    for (chain, which, end) in [
        (PREROUTING, FlowSet::Dnat4, PacketEnd::Destination),
        (PREROUTING, FlowSet::Dnat6, PacketEnd::Destination),
        (POSTROUTING, FlowSet::Snat4, PacketEnd::Source),
        (POSTROUTING, FlowSet::Snat6, PacketEnd::Source),
    ] {
        add(chain, &|e| {
            e.version(which.ip());
            e.flow_in(which.ip(), which.name(), true);
            e.translate(which.ip(), end);
        });
    }
    rules
}

/// Writes the rules of a pattern, which the kernel echoes with their handles. Returns their number.
pub(crate) fn add_pattern(
    batch: &mut Batch,
    config: &NftablesConfig,
    element: &Element,
    number: u32,
) -> usize {
    let (pattern, out, inward, chain) = match element {
        Element::Flow(_) => return 0,
        Element::Allow(pattern, direction) => (
            pattern,
            *direction != Direction::Inbound,
            *direction != Direction::Outbound,
            PATTERNS,
        ),
        Element::Block(pattern) => (pattern, true, true, BLOCKS),
    };
    let Some(ip) = version_of(pattern) else {
        return 0;
    };
    let Pattern {
        protocol,
        internal,
        external,
    } = pattern;
    let inside = config.internal_interface.as_deref();
    let directions = [
        (out, internal, external, PacketEnd::Source),
        (inward, external, internal, PacketEnd::Destination),
    ];
    let mut rules = 0;
    for (_, source, destination, end) in directions.into_iter().filter(|way| way.0) {
        rules += 1;
        add_rule(batch, &config.table, chain, netlink::ECHO, |e| {
            e.version(ip);
            if let Some(name) = inside {
                e.interface(end, name);
            }
            if *protocol != 0 {
                e.protocol(*protocol);
            }
            add_side(e, ip, PacketEnd::Source, source);
            add_side(e, ip, PacketEnd::Destination, destination);
            e.number_in(number, ALIVE);
            if chain == BLOCKS {
                e.drop();
            } else {
                e.accept();
            }
        });
    }
    rules
}

/// Returns the chain of a pattern's rules.
pub(crate) fn chain_of(element: &Element) -> &'static str {
    match element {
        Element::Block(_) => BLOCKS,
        Element::Flow(_) | Element::Allow(..) => PATTERNS,
    }
}

/// Returns the IP version of a pattern.
fn version_of(pattern: &Pattern) -> Option<IpFields> {
    let (internal, external) = (pattern.internal.address, pattern.external.address);
    (internal.is_ipv4() == external.is_ipv4()).then_some(if internal.is_ipv4() { V4 } else { V6 })
}

fn add_side(e: &mut Expressions<'_>, ip: IpFields, end: PacketEnd, side: &PatternSide) {
    match side.address {
        std::net::IpAddr::V4(v4) => e.network(ip, end, &v4.octets(), side.prefix),
        std::net::IpAddr::V6(v6) => e.network(ip, end, &v6.octets(), side.prefix),
    }
    e.ports(end, side.first_port, side.last_port);
}
