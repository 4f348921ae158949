//! Reading `[[schedule]]`.

use std::time::Duration;

use carrick_netsim::LinkConfig;

use super::error::FileError;
use super::model::{Change, What};
use super::network::{Parts, properties};
use super::reader::{Item, Section};

/// What says when, where and to whom, but not what.
const ABOUT: [&str; 5] = ["at", "spread", "link", "direction", "node"];

/// Reads `[[schedule]]` in the order of its times; a run takes `length`.
pub(super) fn read(
    root: &Section<'_>,
    parts: &Parts,
    length: Duration,
) -> Result<Vec<Change>, FileError> {
    let Some(item) = root.get("schedule") else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    for item in item.list()? {
        let section = item.section()?;
        let item = section.need("at", "a time such as \"8 s\"")?;
        let at = item.time()?;
        if at >= length {
            return Err(item.wrong("a time before the end of the run, which duration says"));
        }
        if let Some(spread) = section.get("spread")
            && at.saturating_add(spread.time()?) > length
        {
            return Err(spread.wrong("so much that every repetition has it before its end"));
        }
        entries.push((at, section));
    }
    entries.sort_by_key(|(at, _)| *at);
    // What a link's directions are like at that time.
    let mut current: Vec<[LinkConfig; 2]> = parts.links.iter().map(|l| l.config.clone()).collect();
    let mut all = Vec::new();
    for (at, section) in &entries {
        change(*at, section, parts, &mut current, &mut all)?;
    }
    Ok(all)
}

fn change(
    at: Duration,
    section: &Section<'_>,
    parts: &Parts,
    current: &mut [[LinkConfig; 2]],
    all: &mut Vec<Change>,
) -> Result<(), FileError> {
    let mut spread = Duration::ZERO;
    section.set("spread", &mut spread, Item::time)?;
    let link = parts.link(&section.need("link", "the name of a link")?)?;
    let mut push = |what| {
        all.push(Change {
            at,
            spread,
            link,
            what,
        });
    };
    if let Some(item) = section.get("state") {
        push(item.choice(&[("down", What::Down), ("up", What::Up)])?);
    }
    let mut directions = [true; 2];
    section.set("direction", &mut directions, |i| {
        i.choice(&[
            ("both", [true; 2]),
            ("forward", [true, false]),
            ("backward", [false, true]),
        ])
    })?;
    let node = section.get("node");
    for (key, present) in [("remove_address", false), ("add_address", true)] {
        if let Some(item) = section.get(key) {
            let Some(node) = &node else {
                return Err(item.error("expected beside it: node, the name of a host"));
            };
            let node = parts.node(node)?;
            if !parts.links[link].ends.contains(&node) {
                return Err(item.error(format!(
                    "link {:?} does not end there",
                    parts.links[link].name
                )));
            }
            push(What::Address {
                node,
                address: item.address()?,
                present,
            });
        }
    }
    for (direction, wanted) in directions.into_iter().enumerate() {
        let config = &mut current[link][direction];
        let before = config.clone();
        // A direction that isn't meant is read too, so that its keys are known.
        let mut new = before.clone();
        let other = properties(section, &mut new)?;
        if !wanted || new == before {
            continue;
        }
        new.validate()
            .map_err(|error| section.error(error.to_string()))?;
        push(if other {
            What::Config(direction, Box::new(new.clone()))
        } else {
            What::Loss(direction, new.loss.clone())
        });
        *config = new;
    }
    section.finish()?;
    // What sets a value to what it is already is a change all the same: a sweep may come to it.
    if section.keys().all(|key| ABOUT.contains(&key)) {
        return Err(section.error(
            "changes nothing: expected state, remove_address, add_address, or what a link has such as loss",
        ));
    }
    Ok(())
}
