//! What is asked of the kernel's table and told it.

use std::net::SocketAddr;
use std::time::Duration;

use carrick_simco::backend::Traffic;
use nix::errno::Errno;

use crate::abi::{
    CONNTRACK, LIST_ELEM, NFTABLES, conntrack, counter, data, element, expr, msg, netlink, rule,
    set, table,
};
use crate::attribute::{Attributes, Message, Writer};
use crate::config::NftablesConfig;
use crate::entry::{Key, Set, from_map_data, map_data};
use crate::error::NftablesError;
use crate::layout::{ALIVE, BLOCKS, PATTERNS, PROBE, add_number_set, create};
use crate::socket::{Batch, Socket};

/// Makes the table, if it isn't there as this configuration makes it.
pub(crate) fn prepare(socket: &mut Socket, config: &NftablesConfig) -> Result<(), NftablesError> {
    let wrong = |errno| NftablesError::of("make the table", errno);
    let layout = layout_of(create(config, &[]).octets());
    let found = userdata(socket, &config.table).map_err(wrong)?;
    if found.as_deref() == Some(&layout) {
        return Ok(());
    }
    if found.is_some() {
        remove(socket, &config.table)?;
    }
    socket
        .commit(create(config, &layout), |_| ())
        .map_err(wrong)
}

/// A comment as `nft` shows it, which tells tables of different make apart.
fn layout_of(octets: &[u8]) -> Vec<u8> {
    // FNV-1a: any hash will do, it guards against no one.
    let hash = octets
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
        });
    let text = format!("carrick layout {hash:016x}\0");
    let mut out = vec![0, text.len() as u8];
    out.extend_from_slice(text.as_bytes());
    out
}

/// The comment of a table; `None` if there is no such table.
fn userdata(socket: &mut Socket, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    let mut found = None;
    let asked = socket.ask(
        NFTABLES << 8 | msg::GET_TABLE,
        0,
        |w| w.name(table::NAME, name),
        |message| {
            let comment = message.attributes().find(table::USERDATA);
            found = Some(comment.unwrap_or_default().to_vec());
        },
    );
    match asked {
        Ok(()) => Ok(found),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Removes a table with all that it has; it need not be there.
pub(crate) fn remove(socket: &mut Socket, name: &str) -> Result<(), NftablesError> {
    let mut batch = Batch::default();
    batch.push(msg::DEL_TABLE, 0, |w| w.name(table::NAME, name));
    match socket.commit(batch, |_| ()) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(NftablesError::of("remove the table", errno)),
    }
}

/// Whether the kernel changes the timeout of an element that is there.
pub(crate) fn can_update(socket: &mut Socket, table: &str) -> Result<bool, NftablesError> {
    let wrong = |errno| NftablesError::of("try the sets of the table", errno);
    let key = [1, 0, 0, 0];
    let [short, long] = [100, 10_000].map(Duration::from_secs);
    let mut batch = Batch::default();
    add_number_set(&mut batch, table, PROBE, 1, false);
    add_element(&mut batch, table, PROBE, &key, None, short);
    socket.commit(batch, |_| ()).map_err(wrong)?;
    let mut batch = Batch::default();
    update_element(&mut batch, table, PROBE, &key, None, long);
    socket.commit(batch, |_| ()).map_err(wrong)?;
    let mut left = Duration::ZERO;
    dump(socket, table, PROBE, |element| {
        left = expiration(&element);
    })
    .map_err(wrong)?;
    let mut batch = Batch::default();
    batch.push(msg::DEL_SET, 0, |w| {
        w.name(set::TABLE, table);
        w.name(set::NAME, PROBE);
    });
    socket.commit(batch, |_| ()).map_err(wrong)?;
    Ok(left > short)
}

fn write_element(
    batch: &mut Batch,
    kind: u16,
    table: &str,
    set: &str,
    build: impl FnOnce(&mut Writer),
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

fn write_key(w: &mut Writer, key: &[u8], value: Option<SocketAddr>) {
    w.nest(element::KEY, |w| w.value(data::VALUE, key));
    if let Some(end) = value {
        w.nest(element::DATA, |w| w.value(data::VALUE, &map_data(end)));
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Adds an element that ends by itself.
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

/// Moves the end of an element.
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

/// Removes an element.
pub(crate) fn delete_element(batch: &mut Batch, table: &str, set: &str, key: &[u8]) {
    write_element(batch, msg::DEL_ELEMENT, table, set, |w| {
        write_key(w, key, None);
    });
}

/// Removes rules of patterns by their handles.
pub(crate) fn delete_rules(batch: &mut Batch, table: &str, chain: &str, handles: &[u64]) {
    for handle in handles {
        batch.push(msg::DEL_RULE, 0, |w| {
            w.name(rule::TABLE, table);
            w.name(rule::CHAIN, chain);
            w.long(rule::HANDLE, *handle);
        });
    }
}

/// Removes all patterns.
pub(crate) fn empty_patterns(batch: &mut Batch, table: &str) {
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

/// The handle of a rule that the kernel echoes.
pub(crate) fn rule_handle(message: &Message<'_>) -> Option<u64> {
    if message.kind != NFTABLES << 8 | msg::NEW_RULE {
        return None;
    }
    message.attributes().long(rule::HANDLE)
}

/// Hands over each element of a set.
fn dump(
    socket: &mut Socket,
    table: &str,
    set: &str,
    mut each: impl FnMut(Attributes<'_>),
) -> Result<(), Errno> {
    socket.ask(
        NFTABLES << 8 | msg::GET_ELEMENT,
        netlink::DUMP,
        |w| {
            w.name(element::LIST_TABLE, table);
            w.name(element::LIST_SET, set);
        },
        |message| elements_in(message, &mut each),
    )
}

fn elements_in(message: &Message<'_>, each: &mut impl FnMut(Attributes<'_>)) {
    let list = message.attributes().inner(element::LIST);
    for (_, element) in list.unwrap_or(Attributes(&[])) {
        each(Attributes(element));
    }
}

fn expiration(element: &Attributes<'_>) -> Duration {
    let millis = element.long(element::EXPIRATION);
    Duration::from_millis(millis.unwrap_or(0))
}

/// Hands over each element of a set of flows, with what a map holds, and the time that is left.
pub(crate) fn elements(
    socket: &mut Socket,
    table: &str,
    which: Set,
    mut each: impl FnMut(Key, Option<SocketAddr>, Duration),
) -> Result<(), Errno> {
    dump(socket, table, which.name(), |found| {
        let value = |kind| found.inner(kind).and_then(|inner| inner.find(data::VALUE));
        let key = value(element::KEY).and_then(|key| Key::from_octets(which, key));
        if let Some(key) = key {
            let to = value(element::DATA).and_then(from_map_data);
            each(key, to, expiration(&found));
        }
    })
}

/// What an element has counted.
pub(crate) fn counter(
    socket: &mut Socket,
    table: &str,
    set: &str,
    key: &[u8],
) -> Result<Traffic, Errno> {
    let mut traffic = Traffic::default();
    socket.ask(
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
            elements_in(message, &mut |found| {
                let counted = found.inner(element::EXPR);
                if let Some(counted) = counted.and_then(|expr| expr.inner(expr::DATA)) {
                    traffic.packets += counted.long(counter::PACKETS).unwrap_or(0);
                    traffic.octets += counted.long(counter::BYTES).unwrap_or(0);
                }
            });
        },
    )?;
    Ok(traffic)
}

/// Lets the kernel forget the connection that began with a packet from and to these ends.
pub(crate) fn forget_connection(socket: &mut Socket, key: &Key) -> Result<(), Errno> {
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
    socket.ask_family(
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
