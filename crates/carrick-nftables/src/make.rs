//! The table is made at the start as it should be, whatever is there, and looked at while the
//! middlebox runs: others may change it.

use std::collections::BTreeMap;

use nix::errno::Errno;

use crate::abi::{NFTABLES, chain, generation, msg, netlink, rule, set, table};
use crate::config::NftablesConfig;
use crate::entry::Set;
use crate::error::NftablesError;
use crate::layout::{self, ALIVE, CHAINS, Hook, PROBE};
use crate::socket::{Batch, Socket};
use crate::table::{Rule, delete_set, echoed_rule};

/// The table that was made.
#[derive(Debug)]
pub(crate) struct Made {
    /// Another table of this name has another handle.
    table: u64,
    /// Those in chains at hooks.
    rules: Vec<Rule>,
    /// How often others had changed the rule set when the table was whole.
    others: Option<u32>,
}

/// Makes the table in one batch: on an error it is as it was. Sets that this configuration would make
/// the same stay with their elements. The rules of patterns stay until they are made anew too, so
/// that nothing that is blocked passes meanwhile, unless they hold a set that can't stay.
pub(crate) fn make(socket: &mut Socket, config: &NftablesConfig) -> Result<Made, NftablesError> {
    let wrong = |errno| NftablesError::of("make the table", errno);
    wake(socket, &config.table).map_err(wrong)?;
    let chains = chains(socket, &config.table).map_err(wrong)?;
    let sets = sets(socket, &config.table).map_err(wrong)?;
    let mut patterns_stay = true;
    let rules = loop {
        let (batch, count) = plan(config, &chains, &sets, patterns_stay);
        let mut rules = Vec::with_capacity(count);
        match socket.commit(batch, |echo| rules.extend(echoed_rule(echo))) {
            Ok(()) if rules.len() == count => break rules,
            Ok(()) => return Err(wrong(Errno::ENOBUFS)),
            Err(Errno::EBUSY) if patterns_stay => patterns_stay = false,
            Err(Errno::EBUSY | Errno::EEXIST) => {
                return Err(NftablesError::InUse(config.table.clone()));
            }
            Err(errno) => return Err(wrong(errno)),
        }
    };
    let (table, _) = state(socket, &config.table)
        .map_err(wrong)?
        .ok_or(NftablesError::Missing)?;
    Ok(Made {
        table,
        rules,
        others: None,
    })
}

/// A table that is put to sleep filters nothing. It is woken before anything else, because the
/// kernel takes no chains at hooks in the same batch.
fn wake(socket: &mut Socket, name: &str) -> Result<(), Errno> {
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

/// What is to be done to what is there, and how many rules are made.
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
            // What stands where it should is not removed: packets come to it all the time.
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

/// How often others have changed the kernel's rule set, up to a number that stays: each batch counts.
fn others(socket: &mut Socket) -> Result<u32, Errno> {
    let mut now = 0;
    socket.ask(
        NFTABLES << 8 | msg::GET_GENERATION,
        0,
        |_| (),
        |message| {
            now = message.attributes().number(generation::ID).unwrap_or(now);
        },
    )?;
    Ok(now.wrapping_sub(socket.commits()))
}

impl Made {
    /// Whether the table is as it was made, and `patterns` are all rules of patterns.
    /// It is looked at only when somebody else has changed something since.
    pub(crate) fn is_whole(
        &mut self,
        socket: &mut Socket,
        config: &NftablesConfig,
        patterns: impl Iterator<Item = Rule>,
    ) -> Result<bool, Errno> {
        // Before the look: what is changed during it is seen the next time.
        let others = others(socket)?;
        if self.others == Some(others) {
            return Ok(true);
        }
        match self.look(socket, config, patterns) {
            Ok(true) => self.others = Some(others),
            Ok(false) | Err(Errno::ENOENT) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    fn look(
        &self,
        socket: &mut Socket,
        config: &NftablesConfig,
        patterns: impl Iterator<Item = Rule>,
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
        let mut expected: Vec<Rule> = self.rules.iter().copied().chain(patterns).collect();
        let mut found = rules(socket, &config.table, |chain| {
            wanted.iter().any(|(name, _)| name.as_bytes() == chain)
        })?;
        expected.sort_unstable();
        found.sort_unstable();
        Ok(found == expected)
    }
}

/// The table's handle, and whether it sleeps; `None` if there is none.
fn state(socket: &mut Socket, name: &str) -> Result<Option<(u64, bool)>, Errno> {
    let mut found = None;
    let asked = socket.ask(
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
    match asked {
        Ok(()) => Ok(found),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Where a chain stands that is there.
#[derive(Debug)]
struct FoundHook {
    kind: Vec<u8>,
    number: Option<u32>,
    priority: Option<u32>,
    policy: u32,
}

/// Whether a chain stands where it should, whatever its policy.
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

/// The own chains that are there.
fn chains(
    socket: &mut Socket,
    table: &str,
) -> Result<BTreeMap<&'static str, Option<FoundHook>>, Errno> {
    socket.dump(
        NFTABLES << 8 | msg::GET_CHAIN,
        |_| (),
        |chains: &mut BTreeMap<_, _>, message| {
            let attributes = message.attributes();
            // All tables' chains come.
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

/// The own sets that are there, with how they were made.
fn sets(socket: &mut Socket, table: &str) -> Result<BTreeMap<&'static str, Vec<u8>>, Errno> {
    let own = Set::ALL.map(Set::name).into_iter().chain([ALIVE, PROBE]);
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

/// The rules in some chains.
fn rules(socket: &mut Socket, table: &str, of: impl Fn(&[u8]) -> bool) -> Result<Vec<Rule>, Errno> {
    socket.dump(
        NFTABLES << 8 | msg::GET_RULE,
        |w| w.name(rule::TABLE, table),
        |rules: &mut Vec<Rule>, message| {
            let attributes = message.attributes();
            let asked = attributes.name(rule::TABLE) == Some(table.as_bytes());
            if asked && attributes.name(rule::CHAIN).is_some_and(&of) {
                rules.extend(Rule::of(&attributes));
            }
        },
    )
}
