//! Parser of `[[schedule]]`.

use std::time::Duration;

use carrick_netsim::LinkConfig;

use super::error::FileError;
use super::model::{Change, ChangeAction};
use super::network::{Parts, properties};
use super::reader::{Item, Section};

/// Keys that select time and place of a change.
const ABOUT: [&str; 5] = ["at", "spread", "link", "direction", "node"];

/// Parses `[[schedule]]` in the order of its times; `length` is the duration of a run.
pub(super) fn read(
    root: &Section<'_>,
    parts: &Parts,
    length: Duration,
) -> Result<Vec<Change>, FileError> {
    let spread = root.value_or("spread", Duration::ZERO, Item::read)?;
    let Some(item) = root.get("schedule") else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    for item in item.list()? {
        let section = item.section()?;
        let item = section.need("at", "a time such as \"8 s\"")?;
        let at: Duration = item.read()?;
        if at >= length {
            return Err(item.wrong("a time before the end of the run (see duration)"));
        }
        let spread = section.value_or("spread", spread, Item::read)?;
        if at.saturating_add(spread) > length {
            let own = section.get("spread").or_else(|| root.get("spread"));
            let own = own.unwrap_or(item);
            return Err(own.wrong("an interval in which every repetition ends after the change"));
        }
        entries.push((at, spread, section));
    }
    entries.sort_by_key(|(at, ..)| *at);
    // Configuration of the links' directions at the current time.
    let mut current: Vec<[LinkConfig; 2]> = parts.links.iter().map(|l| l.config.clone()).collect();
    let mut all = Vec::new();
    for (at, spread, section) in &entries {
        change((*at, *spread), section, parts, &mut current, &mut all)?;
    }
    Ok(all)
}

fn change(
    (at, spread): (Duration, Duration),
    section: &Section<'_>,
    parts: &Parts,
    current: &mut [[LinkConfig; 2]],
    all: &mut Vec<Change>,
) -> Result<(), FileError> {
    let link = section.needed("link", "the name of a link", |item| parts.link(item))?;
    let mut push = |what| {
        all.push(Change {
            at,
            spread,
            link,
            what,
        });
    };
    if let Some(item) = section.get("state") {
        push(item.choice(&[("down", ChangeAction::Down), ("up", ChangeAction::Up)])?);
    }
    let choices = [
        ("both", [true; 2]),
        ("forward", [true, false]),
        ("backward", [false, true]),
    ];
    let directions = section.value_or("direction", [true; 2], |item| item.choice(&choices))?;
    let node = section.get("node");
    for (key, present) in [("remove_address", false), ("add_address", true)] {
        if let Some(item) = section.get(key) {
            let Some(node) = &node else {
                return Err(item.error("also needs node, the name of a host"));
            };
            let node = parts.node(node)?;
            if !parts.links[link].ends.contains(&node) {
                return Err(item.error(format!(
                    "link {:?} does not end there",
                    parts.links[link].name
                )));
            }
            push(ChangeAction::Address {
                node,
                address: item.read()?,
                present,
            });
        }
    }
    for (direction, wanted) in directions.into_iter().enumerate() {
        let config = &mut current[link][direction];
        let before = config.clone();
        // A direction that is not affected is parsed, too, so that its keys are known.
        let mut new = before.clone();
        let other = properties(section, &mut new)?;
        if !wanted || new == before {
            continue;
        }
        new.validate()
            .map_err(|error| section.error(error.to_string()))?;
        push(if other {
            ChangeAction::Config(direction, Box::new(new.clone()))
        } else {
            ChangeAction::Loss(direction, new.loss.clone())
        });
        *config = new;
    }
    section.finish()?;
    // A change to the same value is valid, because a sweep may produce it.
    if section.keys().all(|key| ABOUT.contains(&key)) {
        return Err(section.error(
            "changes nothing: expected state, remove_address, add_address, or a link property such as loss",
        ));
    }
    Ok(())
}
