//! Creation of the table at the start, and checks of it at run time, since other programs may change
//! it.

use std::collections::BTreeMap;

use nix::errno::Errno;

use crate::abi::{NFTABLES, chain, generation, msg, netlink, rule, set, table};
use crate::config::NftablesConfig;
use crate::entry::FlowSet;
use crate::error::NftablesError;
use crate::layout::{self, ALIVE, CHAINS, Hook, PROBE};
use crate::socket::{Batch, NetlinkSocket};
use crate::table::{KernelRule, delete_set, echoed_rule};

/// Created table.
#[derive(Debug)]
pub(crate) struct CreatedTable {
    /// Handle of the table, which changes if it is recreated.
    table: u64,
    /// Rules of the base chains.
    rules: Vec<KernelRule>,
    /// Number of changes of the rule set by other programs when the table was last intact.
    foreign_changes: Option<u32>,
}

/// Creates the table in one batch: after an error it is unchanged. Sets of the same layout keep their
/// elements. Rules of patterns stay until they are recreated, so that blocked packets do not pass
/// meanwhile, unless they use a set that has to be replaced.
pub(crate) fn create(
    socket: &mut NetlinkSocket,
    config: &NftablesConfig,
) -> Result<CreatedTable, NftablesError> {
    let failed = |errno| NftablesError::of("create the table", errno);
    activate(socket, &config.table).map_err(failed)?;
    let chains = chains(socket, &config.table).map_err(failed)?;
    let sets = sets(socket, &config.table).map_err(failed)?;
    let mut patterns_stay = true;
    let rules = loop {
        let (batch, count) = plan(config, &chains, &sets, patterns_stay);
        let mut rules = Vec::with_capacity(count);
        match socket.commit(batch, |echo| rules.extend(echoed_rule(echo))) {
            Ok(()) if rules.len() == count => break rules,
            Ok(()) => return Err(failed(Errno::ENOBUFS)),
            Err(Errno::EBUSY) if patterns_stay => patterns_stay = false,
            Err(Errno::EBUSY | Errno::EEXIST) => {
                return Err(NftablesError::InUse(config.table.clone()));
            }
            Err(errno) => return Err(failed(errno)),
        }
    };
    let (table, _) = state(socket, &config.table)
        .map_err(failed)?
        .ok_or(NftablesError::Missing)?;
    Ok(CreatedTable {
        table,
        rules,
        foreign_changes: None,
    })
}

/// Activates a dormant table, which filters nothing. Done first, because the kernel accepts no base
/// chains in the same batch.
fn activate(socket: &mut NetlinkSocket, name: &str) -> Result<(), Errno> {
    if state(socket, name)?.is_none_or(|(_, dormant)| !dormant) {
        return Ok(());
    }
    let mut batch = Batch::default();
    batch.push(msg::NEW_TABLE, 0, |w| {
        w.name(table::NAME, name);
        w.number(table::FLAGS, 0);
    });
    socket.commit(batch, |_| ())
}

/// Plans the changes of an existing table. Returns the number of rules created.
fn plan(
    config: &NftablesConfig,
    chains: &BTreeMap<&'static str, Option<FoundHook>>,
    sets: &BTreeMap<&'static str, Vec<u8>>,
    patterns_stay: bool,
) -> (Batch, usize) {
    let mut batch = Batch::default();
    let wanted = layout::chains(config);
    for (name, there) in CHAINS.iter().filter_map(|name| chains.get_key_value(name)) {
        let as_wanted = wanted.iter().find(|(wanted, _)| wanted == name);
        match as_wanted {
            // Chains at the right hook are kept: packets pass them all the time.
            Some((_, hook)) if is_at(there.as_ref(), hook.as_ref()) => {
                if hook.is_some() || !patterns_stay {
                    batch.push(msg::DEL_RULE, 0, |w| {
                        w.name(rule::TABLE, &config.table);
                        w.name(rule::CHAIN, name);
                    });
                }
            }
            _ => batch.push(msg::DEL_CHAIN, 0, |w| {
                w.name(chain::TABLE, &config.table);
                w.name(chain::NAME, name);
            }),
        }
    }
    let wanted = layout::sets(config);
    let stays = |name: &str| {
        let wanted = wanted.iter().find(|wanted| wanted.name == name);
        wanted.is_some_and(|wanted| sets.get(name) == Some(&wanted.comment))
    };
    for name in sets.keys().filter(|name| !stays(name)) {
        delete_set(&mut batch, &config.table, name);
    }
    batch.push(msg::NEW_TABLE, netlink::CREATE, |w| {
        w.name(table::NAME, &config.table);
    });
    for set in wanted.iter().filter(|set| !stays(set.name)) {
        set.add(&mut batch, config);
    }
    layout::add_chains(&mut batch, config);
    let rules = layout::add_rules(&mut batch, config);
    (batch, rules)
}

/// Returns the number of changes of the kernel's rule set by other programs, plus a constant: each batch
/// counts.
fn foreign_changes(socket: &mut NetlinkSocket) -> Result<u32, Errno> {
    let mut now = 0;
    socket.query(
        NFTABLES << 8 | msg::GET_GENERATION,
        0,
        |_| (),
        |message| {
            now = message.attributes().number(generation::ID).unwrap_or(now);
        },
    )?;
    Ok(now.wrapping_sub(socket.commits()))
}

impl CreatedTable {
    /// Returns whether the table is intact and `patterns` are all rules of patterns. Examined only if
    /// another program has changed the rule set since.
    pub(crate) fn is_intact(
        &mut self,
        socket: &mut NetlinkSocket,
        config: &NftablesConfig,
        patterns: impl Iterator<Item = KernelRule>,
    ) -> Result<bool, Errno> {
        // Read first: later changes are detected next time.
        let foreign_changes = foreign_changes(socket)?;
        if self.foreign_changes == Some(foreign_changes) {
            return Ok(true);
        }
        match self.examine(socket, config, patterns) {
            Ok(true) => self.foreign_changes = Some(foreign_changes),
            Ok(false) | Err(Errno::ENOENT) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    fn examine(
        &self,
        socket: &mut NetlinkSocket,
        config: &NftablesConfig,
        patterns: impl Iterator<Item = KernelRule>,
    ) -> Result<bool, Errno> {
        if state(socket, &config.table)? != Some((self.table, false)) {
            return Ok(false);
        }
        let there = chains(socket, &config.table)?;
        let wanted = layout::chains(config);
        let as_wanted = wanted.iter().all(|(name, hook)| {
            let there = there.get(name);
            there.is_some_and(|there| {
                let policy = |hook: &FoundHook| Some(hook.policy);
                is_at(there.as_ref(), hook.as_ref())
                    && there.as_ref().and_then(policy) == hook.map(|hook| hook.policy)
            })
        });
        if !as_wanted {
            return Ok(false);
        }
        let mut expected: Vec<KernelRule> = self.rules.iter().copied().chain(patterns).collect();
        let mut found = rules(socket, &config.table, |chain| {
            wanted.iter().any(|(name, _)| name.as_bytes() == chain)
        })?;
        expected.sort_unstable();
        found.sort_unstable();
        Ok(found == expected)
    }
}

/// Returns the handle of the table and whether it is dormant; `None` if it does not exist.
fn state(socket: &mut NetlinkSocket, name: &str) -> Result<Option<(u64, bool)>, Errno> {
    let mut found = None;
    let answer = socket.query(
        NFTABLES << 8 | msg::GET_TABLE,
        0,
        |w| w.name(table::NAME, name),
        |message| {
            let attributes = message.attributes();
            let flags = attributes.number(table::FLAGS).unwrap_or(0);
            let handle = attributes.long(table::HANDLE);
            found = handle.map(|handle| (handle, flags & table::DORMANT != 0));
        },
    );
    match answer {
        Ok(()) => Ok(found),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Hook of an existing chain.
#[derive(Debug)]
struct FoundHook {
    kind: Vec<u8>,
    number: Option<u32>,
    priority: Option<u32>,
    policy: u32,
}

/// Returns whether a chain has the right hook, whatever its policy.
fn is_at(found: Option<&FoundHook>, wanted: Option<&Hook>) -> bool {
    match (found, wanted) {
        (None, None) => true,
        (Some(found), Some(wanted)) => {
            found.kind == wanted.kind.as_bytes()
                && found.number == Some(wanted.number)
                && found.priority == Some(wanted.priority as u32)
        }
        _ => false,
    }
}

/// Returns the existing chains of the middlebox.
fn chains(
    socket: &mut NetlinkSocket,
    table: &str,
) -> Result<BTreeMap<&'static str, Option<FoundHook>>, Errno> {
    socket.dump(
        NFTABLES << 8 | msg::GET_CHAIN,
        |_| (),
        |chains: &mut BTreeMap<_, _>, message| {
            let attributes = message.attributes();
            // The dump contains the chains of all tables.
            if attributes.name(chain::TABLE) != Some(table.as_bytes()) {
                return;
            }
            let name = attributes.name(chain::NAME);
            let own = CHAINS.into_iter().find(|c| name == Some(c.as_bytes()));
            let hook = attributes.inner(chain::HOOK).map(|hook| FoundHook {
                kind: attributes.name(chain::TYPE).unwrap_or(&[]).to_vec(),
                number: hook.number(chain::HOOK_NUMBER),
                priority: hook.number(chain::HOOK_PRIORITY),
                policy: attributes.number(chain::POLICY).unwrap_or(u32::MAX),
            });
            chains.extend(own.map(|own| (own, hook)));
        },
    )
}

/// Returns the existing sets of the middlebox with their layout.
fn sets(socket: &mut NetlinkSocket, table: &str) -> Result<BTreeMap<&'static str, Vec<u8>>, Errno> {
    let own = FlowSet::ALL
        .map(FlowSet::name)
        .into_iter()
        .chain([ALIVE, PROBE]);
    socket.dump(
        NFTABLES << 8 | msg::GET_SET,
        |_| (),
        |sets: &mut BTreeMap<_, _>, message| {
            let attributes = message.attributes();
            if attributes.name(set::TABLE) == Some(table.as_bytes()) {
                let name = attributes.name(set::NAME);
                let comment = attributes.find(set::USERDATA).unwrap_or(&[]).to_vec();
                let own = own.clone().find(|own| name == Some(own.as_bytes()));
                sets.extend(own.map(|own| (own, comment)));
            }
        },
    )
}

/// Returns the rules of some chains.
fn rules(
    socket: &mut NetlinkSocket,
    table: &str,
    of: impl Fn(&[u8]) -> bool,
) -> Result<Vec<KernelRule>, Errno> {
    socket.dump(
        NFTABLES << 8 | msg::GET_RULE,
        |w| w.name(rule::TABLE, table),
        |rules: &mut Vec<KernelRule>, message| {
            let attributes = message.attributes();
            let of_table = attributes.name(rule::TABLE) == Some(table.as_bytes());
            if of_table && attributes.name(rule::CHAIN).is_some_and(&of) {
                rules.extend(KernelRule::of(&attributes));
            }
        },
    )
}
