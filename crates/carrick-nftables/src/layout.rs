//! The table: its sets, chains and rules.
//!
//! ```text
//! table inet carrick {
//!     set out4, in4, out6, in6     flows by protocol . source . port . destination . port
//!     map snat4, dnat4, ...        the same to an address . port, on a translator only
//!     set alive                    numbers of patterns whose life is not over
//!     chain site                   the administrator's own; never touched
//!     chain blocks                 a rule and a direction of each PDR: ... @alive drop
//!     chain patterns               the same for wildcards: ... @alive accept
//!     chain forward                jump site, jump blocks, @out4 accept, @in4 accept, ..., jump patterns
//!     chain prerouting, postrouting
//! }
//! ```

use carrick_simco::backend::{Element, Pattern, PatternSide};
use carrick_simco::message::Direction;

use crate::abi::{chain, datatype, expr, msg, netlink, rule, set, table, verdict};
use crate::attribute::Writer;
use crate::config::{NftablesConfig, Policy};
use crate::entry::Set;
use crate::expression::{End, Expressions, Ip, V4, V6};
use crate::socket::Batch;

/// Numbers of patterns that live.
pub(crate) const ALIVE: &str = "alive";
/// Exists only while the backend is opened.
pub(crate) const PROBE: &str = "probe";
pub(crate) const BLOCKS: &str = "blocks";
pub(crate) const PATTERNS: &str = "patterns";
const SITE: &str = "site";
const FORWARD: &str = "forward";

/// The set with one key of 32 bits and timeouts.
pub(crate) fn add_number_set(batch: &mut Batch, table: &str, name: &str, id: u32, counts: bool) {
    batch.push(msg::NEW_SET, netlink::CREATE, |w| {
        w.name(set::TABLE, table);
        w.name(set::NAME, name);
        let counter = if counts { set::HAS_EXPR } else { 0 };
        w.number(set::FLAGS, set::HAS_TIMEOUT | counter);
        w.number(set::KEY_TYPE, datatype::MARK);
        w.number(set::KEY_LEN, 4);
        w.number(set::ID, id);
        if counts {
            add_counter(w);
        }
    });
}

fn add_counter(w: &mut Writer) {
    w.nest(set::EXPR, |w| {
        w.name(expr::NAME, "counter");
        w.nest(expr::DATA, |_| ());
    });
}

fn add_flow_set(batch: &mut Batch, config: &NftablesConfig, which: Set, id: u32) {
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
        if !which.is_map() {
            add_counter(w);
        }
    });
}

fn add_chain(batch: &mut Batch, table: &str, name: &str, base: Option<(&str, u32, i32, u32)>) {
    batch.push(msg::NEW_CHAIN, netlink::CREATE, |w| {
        w.name(chain::TABLE, table);
        w.name(chain::NAME, name);
        if let Some((kind, hook, priority, policy)) = base {
            w.nest(chain::HOOK, |w| {
                w.number(chain::HOOK_NUMBER, hook);
                w.number(chain::HOOK_PRIORITY, priority as u32);
            });
            w.number(chain::POLICY, policy);
            w.name(chain::TYPE, kind);
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

/// Everything but the elements, for a table that isn't there.
pub(crate) fn create(config: &NftablesConfig, userdata: &[u8]) -> Batch {
    let mut batch = Batch::default();
    let table = &*config.table;
    batch.push(msg::NEW_TABLE, netlink::CREATE, |w| {
        w.name(table::NAME, table);
        w.value(table::USERDATA, userdata);
    });
    let translates = !config.translation.is_empty();
    for (id, which) in (1..).zip(Set::ALL) {
        if translates || !which.is_map() {
            add_flow_set(&mut batch, config, which, id);
        }
    }
    add_number_set(&mut batch, table, ALIVE, 100, true);
    for name in [SITE, BLOCKS, PATTERNS] {
        add_chain(&mut batch, table, name, None);
    }
    let policy = match config.policy {
        Policy::Drop => verdict::DROP,
        Policy::Accept => verdict::ACCEPT,
    };
    let base = ("filter", chain::FORWARD, config.priority, policy);
    add_chain(&mut batch, table, FORWARD, Some(base));
    for chain in [SITE, BLOCKS] {
        add_rule(&mut batch, table, FORWARD, 0, |e| e.jump(chain));
    }
    let inside = config.internal_interface.as_deref();
    for (which, end) in [
        (Set::Out4, End::Source),
        (Set::In4, End::Destination),
        (Set::Out6, End::Source),
        (Set::In6, End::Destination),
    ] {
        add_rule(&mut batch, table, FORWARD, 0, |e| {
            e.version(which.ip());
            if let Some(name) = inside {
                e.interface(end, name);
            }
            e.flow_in(which.ip(), which.name(), false);
            e.accept();
        });
    }
    add_rule(&mut batch, table, FORWARD, 0, |e| e.jump(PATTERNS));
    if translates {
        add_translation(&mut batch, config);
    }
    batch
}

fn add_translation(batch: &mut Batch, config: &NftablesConfig) {
    let table = &*config.table;
    let accept = verdict::ACCEPT;
    for (name, hook, priority, end, sets) in [
        (
            "prerouting",
            chain::PREROUTING,
            -100,
            End::Destination,
            [Set::Dnat4, Set::Dnat6],
        ),
        (
            "postrouting",
            chain::POSTROUTING,
            100,
            End::Source,
            [Set::Snat4, Set::Snat6],
        ),
    ] {
        let base = Some(("nat", hook, priority, accept));
        add_chain(batch, table, name, base);
        for which in sets {
            add_rule(batch, table, name, 0, |e| {
                e.version(which.ip());
                e.flow_in(which.ip(), which.name(), true);
                e.translate(which.ip(), end);
            });
        }
    }
}

/// The rules of an element that is a pattern, each of which the kernel echoes with its handle.
/// Returns how many.
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
    let ways = [
        (out, internal, external, End::Source),
        (inward, external, internal, End::Destination),
    ];
    let mut rules = 0;
    for (_, source, destination, end) in ways.into_iter().filter(|way| way.0) {
        rules += 1;
        add_rule(batch, &config.table, chain, netlink::ECHO, |e| {
            e.version(ip);
            if let Some(name) = inside {
                e.interface(end, name);
            }
            if *protocol != 0 {
                e.protocol(*protocol);
            }
            add_side(e, ip, End::Source, source);
            add_side(e, ip, End::Destination, destination);
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

/// The chain with the rules of an element that is a pattern.
pub(crate) fn chain_of(element: &Element) -> &'static str {
    match element {
        Element::Block(_) => BLOCKS,
        Element::Flow(_) | Element::Allow(..) => PATTERNS,
    }
}

/// The IP version of a pattern; no packet is of two.
fn version_of(pattern: &Pattern) -> Option<Ip> {
    let (internal, external) = (pattern.internal.address, pattern.external.address);
    (internal.is_ipv4() == external.is_ipv4()).then_some(if internal.is_ipv4() { V4 } else { V6 })
}

fn add_side(e: &mut Expressions<'_>, ip: Ip, end: End, side: &PatternSide) {
    match side.address {
        std::net::IpAddr::V4(v4) => e.network(ip, end, &v4.octets(), side.prefix),
        std::net::IpAddr::V6(v6) => e.network(ip, end, &v6.octets(), side.prefix),
    }
    e.ports(end, side.first_port, side.last_port);
}
