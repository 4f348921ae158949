//! Messages about elements and rules of patterns.

use std::net::SocketAddr;
use std::time::Duration;

use carrick_simco::backend::Traffic;
use nix::errno::Errno;

use crate::abi::{
    CONNTRACK, LIST_ELEM, NFTABLES, conntrack, counter, data, element, expr, msg, netlink, rule,
    set, table,
};
use crate::attribute::{Attributes, MessageWriter, NetlinkMessage};
use crate::entry::{FlowSet, SetKey, from_map_data, map_data};
use crate::error::NftablesError;
use crate::layout::{ALIVE, BLOCKS, PATTERNS, PROBE, add_number_set};
use crate::socket::{Batch, NetlinkSocket};

pub(crate) fn delete_set(batch: &mut Batch, table: &str, name: &str) {
    batch.push(msg::DEL_SET, 0, |w| {
        w.name(set::TABLE, table);
        w.name(set::NAME, name);
    });
}

/// Removes a table and its contents, if it exists.
pub(crate) fn remove(socket: &mut NetlinkSocket, name: &str) -> Result<(), NftablesError> {
    let mut batch = Batch::default();
    batch.push(msg::DEL_TABLE, 0, |w| w.name(table::NAME, name));
    match socket.commit(batch, |_| ()) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(NftablesError::of("remove the table", errno)),
    }
}

/// Returns whether the kernel can change the timeout of an existing element.
pub(crate) fn can_update(socket: &mut NetlinkSocket, table: &str) -> Result<bool, NftablesError> {
    let failed = |errno| NftablesError::of("check the sets of the table", errno);
    let key = [1, 0, 0, 0];
    let [short, long] = [100, 10_000].map(Duration::from_secs);
    let mut batch = Batch::default();
    add_number_set(&mut batch, table, PROBE, 1, false);
    add_element(&mut batch, table, PROBE, &key, None, short);
    socket.commit(batch, |_| ()).map_err(failed)?;
    let mut batch = Batch::default();
    update_element(&mut batch, table, PROBE, &key, None, long);
    socket.commit(batch, |_| ()).map_err(failed)?;
    let left = dump(socket, table, PROBE, |left, element| {
        *left = expiration(&element);
    });
    let left: Duration = left.map_err(failed)?;
    let mut batch = Batch::default();
    delete_set(&mut batch, table, PROBE);
    socket.commit(batch, |_| ()).map_err(failed)?;
    Ok(left > short)
}

fn write_element(
    batch: &mut Batch,
    kind: u16,
    table: &str,
    set: &str,
    build: impl FnOnce(&mut MessageWriter),
) {
    let flags = if kind == msg::NEW_ELEMENT {
        netlink::CREATE
    } else {
        0
    };
    batch.push(kind, flags, |w| {
        w.name(element::LIST_TABLE, table);
        w.name(element::LIST_SET, set);
        w.nest(element::LIST, |w| w.nest(LIST_ELEM, build));
    });
}

fn write_key(w: &mut MessageWriter, key: &[u8], value: Option<SocketAddr>) {
    w.nest(element::KEY, |w| w.value(data::VALUE, key));
    if let Some(end) = value {
        w.nest(element::DATA, |w| w.value(data::VALUE, &map_data(end)));
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Writes an element with a timeout.
pub(crate) fn add_element(
    batch: &mut Batch,
    table: &str,
    set: &str,
    key: &[u8],
    value: Option<SocketAddr>,
    timeout: Duration,
) {
    write_element(batch, msg::NEW_ELEMENT, table, set, |w| {
        write_key(w, key, value);
        w.long(element::TIMEOUT, millis(timeout));
    });
}

/// Writes a change of an element's timeout.
pub(crate) fn update_element(
    batch: &mut Batch,
    table: &str,
    set: &str,
    key: &[u8],
    value: Option<SocketAddr>,
    timeout: Duration,
) {
    write_element(batch, msg::NEW_ELEMENT, table, set, |w| {
        write_key(w, key, value);
        w.long(element::TIMEOUT, millis(timeout));
        w.long(element::EXPIRATION, millis(timeout));
    });
}

/// Writes the removal of an element.
pub(crate) fn delete_element(batch: &mut Batch, table: &str, set: &str, key: &[u8]) {
    write_element(batch, msg::DEL_ELEMENT, table, set, |w| {
        write_key(w, key, None);
    });
}

/// Rule in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct KernelRule {
    handle: u64,
    /// Hash of its expressions: a replaced rule keeps its handle.
    expressions: u64,
}

impl KernelRule {
    pub(crate) fn of(rule: &Attributes<'_>) -> Option<Self> {
        Some(Self {
            handle: rule.long(rule::HANDLE)?,
            expressions: hash(rule.find(rule::EXPRESSIONS).unwrap_or(&[])),
        })
    }
}

/// FNV-1a hash. Need not resist attacks.
pub(crate) fn hash(octets: &[u8]) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325_u64;
    octets.iter().fold(begin, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Writes the removal of rules of patterns.
pub(crate) fn delete_rules(batch: &mut Batch, table: &str, chain: &str, rules: &[KernelRule]) {
    for rule in rules {
        batch.push(msg::DEL_RULE, 0, |w| {
            w.name(rule::TABLE, table);
            w.name(rule::CHAIN, chain);
            w.long(rule::HANDLE, rule.handle);
        });
    }
}

/// Writes the removal of all patterns.
pub(crate) fn delete_all_patterns(batch: &mut Batch, table: &str) {
    for chain in [BLOCKS, PATTERNS] {
        batch.push(msg::DEL_RULE, 0, |w| {
            w.name(rule::TABLE, table);
            w.name(rule::CHAIN, chain);
        });
    }
    batch.push(msg::DEL_ELEMENT, 0, |w| {
        w.name(element::LIST_TABLE, table);
        w.name(element::LIST_SET, ALIVE);
    });
}

/// Returns a rule that the kernel echoes.
pub(crate) fn echoed_rule(message: &NetlinkMessage<'_>) -> Option<KernelRule> {
    if message.kind != NFTABLES << 8 | msg::NEW_RULE {
        return None;
    }
    KernelRule::of(&message.attributes())
}

/// Dumps the elements of a set.
fn dump<T: Default>(
    socket: &mut NetlinkSocket,
    table: &str,
    set: &str,
    mut each: impl FnMut(&mut T, Attributes<'_>),
) -> Result<T, Errno> {
    socket.dump(
        NFTABLES << 8 | msg::GET_ELEMENT,
        |w| {
            w.name(element::LIST_TABLE, table);
            w.name(element::LIST_SET, set);
        },
        |all: &mut T, message| elements_in(message, &mut |found| each(all, found)),
    )
}

fn elements_in(message: &NetlinkMessage<'_>, each: &mut impl FnMut(Attributes<'_>)) {
    let list = message.attributes().inner(element::LIST);
    for (_, element) in list.unwrap_or(Attributes(&[])) {
        each(Attributes(element));
    }
}

fn expiration(element: &Attributes<'_>) -> Duration {
    let millis = element.long(element::EXPIRATION);
    Duration::from_millis(millis.unwrap_or(0))
}

/// Returns the elements of a set of flows with map data and remaining time.
pub(crate) fn elements(
    socket: &mut NetlinkSocket,
    table: &str,
    which: FlowSet,
) -> Result<Vec<(SetKey, Option<SocketAddr>, Duration)>, Errno> {
    dump(socket, table, which.name(), |all: &mut Vec<_>, found| {
        let value = |kind| found.inner(kind).and_then(|inner| inner.find(data::VALUE));
        let key = value(element::KEY).and_then(|key| SetKey::from_octets(which, key));
        if let Some(key) = key {
            let to = value(element::DATA).and_then(from_map_data);
            all.push((key, to, expiration(&found)));
        }
    })
}

fn counted(element: &Attributes<'_>) -> Traffic {
    let counted = element.inner(element::EXPR);
    let counted = counted.and_then(|expr| expr.inner(expr::DATA));
    let long = |kind| counted.as_ref().and_then(|c| c.long(kind)).unwrap_or(0);
    Traffic {
        packets: long(counter::PACKETS),
        octets: long(counter::BYTES),
    }
}

/// Passes on the key and counter of each element of a set. Elements added or removed meanwhile may be
/// missing.
pub(crate) fn counters(
    socket: &mut NetlinkSocket,
    table: &str,
    set: &str,
    mut each: impl FnMut(&[u8], Traffic),
) -> Result<(), Errno> {
    let outcome = socket.query(
        NFTABLES << 8 | msg::GET_ELEMENT,
        netlink::DUMP,
        |w| {
            w.name(element::LIST_TABLE, table);
            w.name(element::LIST_SET, set);
        },
        |message| {
            elements_in(message, &mut |found| {
                let key = found.inner(element::KEY);
                if let Some(key) = key.and_then(|key| key.find(data::VALUE)) {
                    each(key, counted(&found));
                }
            });
        },
    );
    match outcome {
        Err(Errno::EINTR) => Ok(()),
        outcome => outcome,
    }
}

/// Returns the counter of an element.
pub(crate) fn counter(
    socket: &mut NetlinkSocket,
    table: &str,
    set: &str,
    key: &[u8],
) -> Result<Traffic, Errno> {
    let mut traffic = Traffic::default();
    socket.query(
        NFTABLES << 8 | msg::GET_ELEMENT,
        0,
        |w| {
            w.name(element::LIST_TABLE, table);
            w.name(element::LIST_SET, set);
            w.nest(element::LIST, |w| {
                w.nest(LIST_ELEM, |w| write_key(w, key, None));
            });
        },
        |message| {
            elements_in(message, &mut |found| traffic = counted(&found));
        },
    )?;
    Ok(traffic)
}

/// Removes the tracked connection that began with a packet between these ends.
pub(crate) fn delete_connection(socket: &mut NetlinkSocket, key: &SetKey) -> Result<(), Errno> {
    let v4 = key.set.ip().length == 4;
    let length = key.set.ip().length as usize;
    let octets = key.octets();
    let end = |at: usize| {
        let address = octets.get(at..at + length).unwrap_or_default();
        let port = octets.get(at + length..at + length + 2).unwrap_or_default();
        (address, port)
    };
    let (source, destination) = (end(4), end(8 + length));
    let [from, to] = if v4 {
        [conntrack::V4_SRC, conntrack::V4_DST]
    } else {
        [conntrack::V6_SRC, conntrack::V6_DST]
    };
    socket.query_family(
        key.set.ip().family,
        CONNTRACK << 8 | msg::DEL_CONNTRACK,
        0,
        |w| {
            w.nest(conntrack::TUPLE_ORIG, |w| {
                w.nest(conntrack::TUPLE_IP, |w| {
                    w.value(from, source.0);
                    w.value(to, destination.0);
                });
                w.nest(conntrack::TUPLE_PROTO, |w| {
                    w.value(conntrack::NUMBER, &octets[..1]);
                    w.value(conntrack::SRC_PORT, source.1);
                    w.value(conntrack::DST_PORT, destination.1);
                });
            });
        },
        |_| (),
    )
}
