//! Counters of elements, read on a separate socket.

use std::collections::BTreeMap;

use carrick_simco::backend::Traffic;
use nix::errno::Errno;

use crate::entry::SetKey;
use crate::layout::ALIVE;
use crate::socket::NetlinkSocket;
use crate::table;

/// Maximum number of elements of a set that are queried one by one. With more, the whole set is dumped
/// once.
const MAX_SINGLE: usize = 256;

/// Element with a counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum CountedElement {
    /// Element of a set of flows.
    Flow(SetKey),
    /// Element of a pattern in the set of unexpired patterns.
    Pattern([u8; 4]),
}

impl CountedElement {
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

/// Returns the sum of the counters of each rule. A missing element counts nothing.
pub(crate) fn read(
    socket: &mut NetlinkSocket,
    table: &str,
    rules: &[Vec<CountedElement>],
) -> Result<Vec<Traffic>, Errno> {
    let mut found: BTreeMap<&str, BTreeMap<&[u8], Traffic>> = BTreeMap::new();
    for counter in rules.iter().flatten() {
        let of_set = found.entry(counter.set()).or_default();
        of_set.insert(counter.octets(), Traffic::default());
    }
    for (set, counters) in &mut found {
        if counters.len() > MAX_SINGLE {
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
                // The element has expired meanwhile.
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    let counted = |counter: &CountedElement| {
        let of_set = found.get(counter.set());
        let traffic = of_set.and_then(|counters| counters.get(counter.octets()));
        traffic.copied().unwrap_or_default()
    };
    let sum = |rule: &Vec<CountedElement>| {
        rule.iter()
            .map(counted)
            .fold(Traffic::default(), |a, b| Traffic {
                packets: a.packets + b.packets,
                octets: a.octets + b.octets,
            })
    };
    Ok(rules.iter().map(sum).collect())
}
