//! What elements of the kernel's sets have counted, read on a socket of its own.

use std::collections::BTreeMap;

use carrick_simco::backend::Traffic;
use nix::errno::Errno;

use crate::entry::Key;
use crate::layout::ALIVE;
use crate::socket::Socket;
use crate::table;

/// Elements of a set that are asked for one by one at most. With more, the set is read once as a
/// whole.
const SINGLY: usize = 256;

/// An element that counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Counter {
    /// Of a set of flows.
    Flow(Key),
    /// What stands for a pattern in the set of those that live.
    Pattern([u8; 4]),
}

impl Counter {
    fn set(&self) -> &'static str {
        match self {
            Self::Flow(key) => key.set.name(),
            Self::Pattern(_) => ALIVE,
        }
    }

    fn octets(&self) -> &[u8] {
        match self {
            Self::Flow(key) => key.octets(),
            Self::Pattern(number) => number,
        }
    }
}

/// What the counters of each rule have counted together. One that is gone has counted nothing.
pub(crate) fn read(
    socket: &mut Socket,
    table: &str,
    rules: &[Vec<Counter>],
) -> Result<Vec<Traffic>, Errno> {
    let mut found: BTreeMap<&str, BTreeMap<&[u8], Traffic>> = BTreeMap::new();
    for counter in rules.iter().flatten() {
        let of_set = found.entry(counter.set()).or_default();
        of_set.insert(counter.octets(), Traffic::default());
    }
    for (set, counters) in &mut found {
        if counters.len() > SINGLY {
            table::counters(socket, table, set, |key, traffic| {
                if let Some(counted) = counters.get_mut(key) {
                    *counted = traffic;
                }
            })?;
            continue;
        }
        for (key, counted) in counters {
            match table::counter(socket, table, set, key) {
                Ok(traffic) => *counted = traffic,
                // It has ended meanwhile.
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    let counted = |counter: &Counter| {
        let of_set = found.get(counter.set());
        let traffic = of_set.and_then(|counters| counters.get(counter.octets()));
        traffic.copied().unwrap_or_default()
    };
    let sum = |rule: &Vec<Counter>| {
        rule.iter()
            .map(counted)
            .fold(Traffic::default(), |a, b| Traffic {
                packets: a.packets + b.packets,
                octets: a.octets + b.octets,
            })
    };
    Ok(rules.iter().map(sum).collect())
}
