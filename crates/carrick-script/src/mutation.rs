//! Changed scripts: each expectation is changed once, which shows whether anything depends on it.

use std::time::Duration;

use crate::model::{Action, CallResult, Item, Position, Script, Timing, Value};
use crate::schema::FieldKind;

/// Script with one changed expectation.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// Changed script.
    pub script: Script,
    /// Place of the event.
    pub position: Position,
    /// Change, such as `SACK, a_rwnd: 1500 becomes 1501`.
    pub change: String,
}

/// Calls whose result is the number that a script gives to a descriptor.
const OPENING_CALLS: [&str; 4] = ["socket", "accept", "accept4", "sctp_peeloff"];

impl Script {
    /// Returns scripts in each of which one expectation is changed: a time, a field or a result. Tags and initial TSNs of
    /// the stack are left as they are, since a script chooses their numbers. A useful script fails with each change.
    pub fn mutations(&self) -> Vec<Mutation> {
        let mut mutations = Vec::new();
        for index in 0..self.events.len() {
            for step in 0.. {
                let mut script = self.clone();
                let Some(change) = script.change(index, step) else {
                    break;
                };
                mutations.push(Mutation {
                    position: self.events[index].position,
                    script,
                    change,
                });
            }
        }
        mutations
    }

    /// Changes the expectation with this number of an event; returns the change.
    fn change(&mut self, event: usize, step: usize) -> Option<String> {
        let late = self.options.tolerance + Duration::from_millis(1);
        let event = &mut self.events[event];
        let mut left = step;
        match &mut event.action {
            Action::Inject(_) => None,
            Action::Expect(packet) => {
                if event.timing != Timing::Any {
                    if left == 0 {
                        let (Timing::Absolute(from, to) | Timing::Relative(from, to)) =
                            &mut event.timing
                        else {
                            return None;
                        };
                        let moved = late + (*to - *from);
                        *from += moved;
                        *to += moved;
                        return Some(format!("time: {} µs later", moved.as_micros()));
                    }
                    left -= 1;
                }
                packet
                    .chunks
                    .iter_mut()
                    .find_map(|item| change_item(item, &mut left))
            }
            Action::Call(call) => {
                if step > 0 || OPENING_CALLS.contains(&call.name.as_str()) {
                    return None;
                }
                let old = call.result.clone();
                call.result = match &old {
                    CallResult::Any => return None,
                    CallResult::Number(number) => CallResult::Number(number + 1),
                    CallResult::Error(_) => CallResult::Number(0),
                };
                Some(format!("{}: another result than {old:?}", call.name))
            }
        }
    }
}

/// Changes the value with number `left` of an item; `left` becomes the rest if the item has fewer values.
fn change_item(item: &mut Item, left: &mut usize) -> Option<String> {
    let name = item.schema.name;
    for (index, value) in &mut item.values {
        let field = &item.schema.fields[*index];
        if let Value::Item(inner) = value {
            if let Some(change) = change_item(inner, left) {
                return Some(format!("{name}, {}, {change}", field.key));
            }
            continue;
        }
        let is_chosen = matches!(field.kind, FieldKind::Tag | FieldKind::InitialTsn);
        let Some(changed) = changed(value).filter(|_| !is_chosen) else {
            continue;
        };
        if *left > 0 {
            *left -= 1;
            continue;
        }
        let old = std::mem::replace(value, changed);
        return Some(format!("{name}, {}: {old} becomes {value}", field.key));
    }
    let inner = item
        .items
        .iter_mut()
        .find_map(|inner| change_item(inner, left));
    inner.map(|change| format!("{name}, {change}"))
}

fn changed(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Any | Value::Variable(_) | Value::Item(_) | Value::Address(_) => return None,
        Value::Number(number) => Value::Number(number ^ 1),
        Value::Bytes(bytes) => {
            let mut bytes = bytes.clone();
            match bytes.first_mut() {
                Some(first) => *first ^= 1,
                None => bytes.push(0),
            }
            Value::Bytes(bytes)
        }
        Value::Pairs(pairs) => {
            let mut pairs = pairs.clone();
            pairs.push((1, 1));
            Value::Pairs(pairs)
        }
        Value::Numbers(numbers) => {
            let mut numbers = numbers.clone();
            numbers.push(0);
            Value::Numbers(numbers)
        }
    })
}
