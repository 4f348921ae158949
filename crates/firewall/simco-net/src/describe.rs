//! Text form of rules, used in the audit log and by agents.

use serde::Serialize;

use carrick_simco::message::{AddressTuple, Direction, EnableRequest, Reply, Request};
use carrick_simco::rules::{Rule, RuleKind};

/// Properties of a rule, as far as they are known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RuleText {
    /// `reserved`, `enabled` or `disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// The transport protocol; 0 is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// `in`, `out` or `both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<&'static str>,
    /// A0: internal address and ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal: Option<String>,
    /// A3: external address and ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
    /// A2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<String>,
}

impl RuleText {
    fn of_kind(kind: &'static str) -> Self {
        Self {
            kind: Some(kind),
            ..Self::default()
        }
    }

    fn between(self, internal: &AddressTuple, external: &AddressTuple) -> Self {
        Self {
            protocol: Some(internal.protocol),
            internal: Some(internal.to_string()),
            external: Some(external.to_string()),
            ..self
        }
    }

    /// Returns the properties in a request.
    pub fn of_request(request: &Request) -> Self {
        let stream = |enable: &EnableRequest| Self {
            group: enable.group.map(|group| group.0),
            direction: Some(direction_name(enable.parameters.direction)),
            ..Self::of_kind("enabled").between(&enable.internal, &enable.external)
        };
        match request {
            Request::Reserve(reserve) => Self {
                group: reserve.group.map(|group| group.0),
                protocol: Some(reserve.parameters.protocol),
                ..Self::of_kind("reserved")
            },
            Request::Enable(enable) | Request::EnableReserved { enable, .. } => stream(enable),
            Request::Disable(disable) => {
                Self::of_kind("disabled").between(&disable.internal, &disable.external)
            }
            _ => Self::default(),
        }
    }

    /// Returns the properties in a reply.
    pub fn of_reply(reply: &Reply) -> Self {
        match reply {
            Reply::Enabled(enabled) => Self {
                group: Some(enabled.group.0),
                outside: Some(enabled.outside.to_string()),
                ..Self::of_kind("enabled")
            },
            Reply::EnableStatus(status) => Self {
                direction: Some(direction_name(status.parameters.direction)),
                ..Self::of_reply(&Reply::Enabled(status.enabled))
                    .between(&status.internal, &status.external)
            },
            Reply::Reserved(reserved) | Reply::ReserveStatus { reserved, .. } => Self {
                group: Some(reserved.group.0),
                protocol: Some(reserved.outside.protocol),
                outside: Some(reserved.outside.to_string()),
                ..Self::of_kind("reserved")
            },
            Reply::Disabled { .. } => Self::of_kind("disabled"),
            Reply::DisableStatus { disable, .. } => {
                Self::of_kind("disabled").between(&disable.internal, &disable.external)
            }
            _ => Self::default(),
        }
    }
}

impl From<&Rule> for RuleText {
    fn from(rule: &Rule) -> Self {
        let text = match &rule.kind {
            RuleKind::Reserved { reservation } => Self {
                protocol: Some(reservation.outside.protocol),
                outside: Some(reservation.outside.to_string()),
                ..Self::of_kind("reserved")
            },
            RuleKind::Enabled {
                parameters,
                internal,
                external,
                reported,
                reservation,
                ..
            } => Self {
                direction: Some(direction_name(parameters.direction)),
                outside: reservation.map(|_| reported.outside.to_string()),
                ..Self::of_kind("enabled").between(internal, external)
            },
            RuleKind::Disabled {
                internal, external, ..
            } => Self::of_kind("disabled").between(internal, external),
        };
        Self {
            group: Some(rule.group.0),
            ..text
        }
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Inbound => "in",
        Direction::Outbound => "out",
        Direction::Both => "both",
    }
}
