//! Output of the agent: a line of text or a JSON object per result.

use std::io::{Write, stdout};

use carrick_simco::PeerText;
use carrick_simco::message::{EnableReply, Lifetime, Owner, PolicyRuleId, Reply};
use carrick_simco_net::client::ClientEvent;
use carrick_simco_net::describe::RuleText;
use serde::Serialize;

use crate::failure::Failure;

#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    pub(super) json: bool,
}

/// Rule or event to print.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<u32>,
    #[serde(flatten)]
    what: RuleText,
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
        let what = &self.what;
        add("is", what.kind.map(Into::into));
        add("group", number(what.group));
        add("lifetime", self.lifetime.map(|s| format!("{s} s")));
        add("protocol", what.protocol.map(|p| p.to_string()));
        add("direction", what.direction.map(Into::into));
        add("internal", what.internal.clone());
        add("external", what.external.clone());
        add("outside", what.outside.clone());
        let owner = self.owner.as_ref();
        add("owner", owner.map(|owner| PeerText::new(owner).to_string()));
        add("reason", self.reason.clone());
        words.join("  ")
    }
}

fn name(owner: &Owner) -> String {
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

    /// Prints a reply about one rule.
    pub(super) fn reply(self, reply: &Reply) -> Result<(), Failure> {
        let (rule, lifetime, owner) = match reply {
            Reply::Enabled(enabled) => (enabled.rule, enabled.lifetime, None),
            Reply::EnableStatus(status) => {
                let EnableReply { rule, lifetime, .. } = status.enabled;
                (rule, lifetime, Some(&status.owner))
            }
            Reply::Reserved(reserved) => (reserved.rule, reserved.lifetime, None),
            Reply::ReserveStatus { reserved, owner } => {
                (reserved.rule, reserved.lifetime, Some(owner))
            }
            Reply::Disabled { rule, lifetime } => (*rule, *lifetime, None),
            Reply::DisableStatus {
                rule,
                disable,
                owner,
            } => (*rule, disable.lifetime, Some(owner)),
            _ => {
                return Err(Failure::Run(
                    "unexpected reply from the middlebox: it describes no rule".into(),
                ));
            }
        };
        self.line(&Line {
            rule: Some(rule.0),
            lifetime: Some(lifetime.0),
            what: RuleText::of_reply(reply),
            owner: owner.map(name),
            ..Line::default()
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
                reason: Some(reason.to_string()),
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
                reason: Some(format!("{count} events lost: output was not read in time")),
                ..named("lagged")
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of an owner is chosen by another agent and may hold control characters.
    #[test]
    fn control_characters_in_owner_names_are_escaped() {
        let owner = Owner::new(&b"pbx\n\x1b[2Jrule 7\xff"[..]).unwrap();
        let line = Line {
            rule: Some(1),
            owner: Some(name(&owner)),
            ..Line::default()
        };
        let text = line.text();
        assert!(!text.contains(char::is_control), "{text}");
        assert!(text.contains("pbx\\n\\u{1b}[2Jrule 7"), "{text}");
        let json = serde_json::to_string(&line).unwrap();
        assert!(!json.contains(char::is_control), "{json}");
    }
}
