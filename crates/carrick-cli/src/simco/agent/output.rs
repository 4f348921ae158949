//! What an agent prints: a line for people, or an object of JSON.

use std::io::{Write, stdout};

use carrick_simco::client::ClientEvent;
use carrick_simco::message::{Direction, Enabled, Lifetime, Owner, PolicyRuleId, Reply};
use serde::Serialize;

use super::super::address::shown;
use crate::failure::Failure;

#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    pub(super) json: bool,
}

/// A rule, or what happened to one.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    internal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outside: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Line {
    fn text(&self) -> String {
        let mut words: Vec<String> = self.event.iter().map(ToString::to_string).collect();
        let mut add = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{name} {value}")));
        };
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        add("rule", number(self.rule));
        add("was", number(self.old));
        add("is", self.kind.map(Into::into));
        add("group", number(self.group));
        add("lifetime", self.lifetime.map(|s| format!("{s} s")));
        add("protocol", self.protocol.map(|p| p.to_string()));
        add("direction", self.direction.map(Into::into));
        add("internal", self.internal.clone());
        add("external", self.external.clone());
        add("outside", self.outside.clone());
        add("owner", self.owner.clone());
        add("because", self.reason.clone());
        words.join("  ")
    }
}

fn owner(owner: &Owner) -> String {
    String::from_utf8_lossy(owner.as_bytes()).into_owned()
}

impl Output {
    fn line(self, line: &Line) -> Result<(), Failure> {
        let text = if self.json {
            serde_json::to_string(line).map_err(|e| Failure::Run(e.to_string()))?
        } else {
            line.text()
        };
        writeln!(stdout(), "{text}")?;
        Ok(())
    }

    pub(super) fn enabled(self, enabled: &Enabled) -> Result<(), Failure> {
        self.line(&Line {
            outside: Some(shown(&enabled.outside)),
            ..of(enabled)
        })
    }

    pub(super) fn lifetime(self, rule: u32, lifetime: Lifetime) -> Result<(), Failure> {
        self.line(&Line {
            rule: Some(rule),
            lifetime: Some(lifetime.0),
            ..Line::default()
        })
    }

    pub(super) fn list(self, rules: &[PolicyRuleId]) -> Result<(), Failure> {
        if self.json {
            let rules: Vec<u32> = rules.iter().map(|rule| rule.0).collect();
            let json = serde_json::json!({ "rules": rules });
            writeln!(stdout(), "{json}")?;
            return Ok(());
        }
        for rule in rules {
            writeln!(stdout(), "{rule}")?;
        }
        Ok(())
    }

    /// A reply about one rule.
    pub(super) fn reply(self, reply: &Reply) -> Result<(), Failure> {
        let rule = |rule: &PolicyRuleId, lifetime: &Lifetime| Line {
            rule: Some(rule.0),
            lifetime: Some(lifetime.0),
            ..Line::default()
        };
        self.line(&match reply {
            Reply::Enabled(enabled) => Line {
                outside: Some(shown(&enabled.outside)),
                ..of(enabled)
            },
            Reply::Reserved(reserved) | Reply::ReserveStatus { reserved, .. } => Line {
                kind: Some("reserved"),
                group: Some(reserved.group.0),
                outside: Some(shown(&reserved.outside)),
                protocol: Some(reserved.outside.protocol),
                owner: match reply {
                    Reply::ReserveStatus { owner: whose, .. } => Some(owner(whose)),
                    _ => None,
                },
                ..rule(&reserved.rule, &reserved.lifetime)
            },
            Reply::Disabled { rule: id, lifetime } => Line {
                kind: Some("disabled"),
                ..rule(id, lifetime)
            },
            Reply::EnableStatus(status) => Line {
                protocol: Some(status.internal.protocol),
                direction: Some(match status.parameters.direction {
                    Direction::Inbound => "in",
                    Direction::Outbound => "out",
                    Direction::Both => "both",
                }),
                internal: Some(shown(&status.internal)),
                external: Some(shown(&status.external)),
                outside: Some(shown(&status.enabled.outside)),
                owner: Some(owner(&status.owner)),
                ..of(&status.enabled)
            },
            Reply::DisableStatus {
                rule: id,
                disable,
                owner: whose,
            } => Line {
                kind: Some("disabled"),
                protocol: Some(disable.internal.protocol),
                internal: Some(shown(&disable.internal)),
                external: Some(shown(&disable.external)),
                owner: Some(owner(whose)),
                ..rule(id, &disable.lifetime)
            },
            _ => return Err(Failure::Run("the answer is about no rule".into())),
        })
    }

    pub(super) fn event(self, event: &ClientEvent) -> Result<(), Failure> {
        let named = |event| Line {
            event: Some(event),
            ..Line::default()
        };
        self.line(&match event {
            ClientEvent::Opened(_) => named("opened"),
            ClientEvent::Closed(reason) => Line {
                reason: Some(format!("{reason:?}")),
                ..named("closed")
            },
            ClientEvent::NotConnected(why) => Line {
                reason: Some(why.clone()),
                ..named("not-connected")
            },
            ClientEvent::Rule { rule, lifetime } => Line {
                rule: Some(rule.0),
                lifetime: Some(lifetime.0),
                ..named(if lifetime.0 == 0 { "ended" } else { "changed" })
            },
            ClientEvent::Renewed { old, new } => Line {
                rule: Some(new.0),
                old: Some(old.0),
                ..named("renewed")
            },
            ClientEvent::Ended { rule, refused } => Line {
                rule: Some(rule.0),
                reason: refused.map(|reply| reply.text().into()),
                ..named("lost")
            },
            ClientEvent::Lagged(count) => Line {
                reason: Some(format!("{count} events were not read in time")),
                ..named("lagged")
            },
        })
    }
}

fn of(enabled: &Enabled) -> Line {
    Line {
        rule: Some(enabled.rule.0),
        kind: Some("enabled"),
        group: Some(enabled.group.0),
        lifetime: Some(enabled.lifetime.0),
        ..Line::default()
    }
}
