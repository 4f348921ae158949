//! Screening: messages are allowed or denied by their origin and routing label.

use carrick_sigtran::m3ua::{AffectedPointCode, ProtocolData};
use serde::Deserialize;

use super::router::Target;

/// Action of a screening rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ScreeningAction {
    Allow,
    Deny,
}

/// Screening rule; an absent condition matches all messages.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ScreeningRule {
    pub(super) action: ScreeningAction,
    pub(super) from: Option<Target>,
    pub(super) opc: Option<AffectedPointCode>,
    pub(super) dpc: Option<AffectedPointCode>,
    /// Any if the list is empty.
    pub(super) service_indicators: Vec<u8>,
}

/// Returns whether a message passes: the first rule that matches determines it; without one it passes.
pub(super) fn passes(rules: &[ScreeningRule], from: &Target, data: &ProtocolData) -> bool {
    let matches = |rule: &&ScreeningRule| {
        rule.from.as_ref().is_none_or(|origin| origin == from)
            && rule.opc.is_none_or(|range| range.contains(data.opc))
            && rule.dpc.is_none_or(|range| range.contains(data.dpc))
            && (rule.service_indicators.is_empty() || rule.service_indicators.contains(&data.si))
    };
    let rule = rules.iter().find(matches);
    rule.is_none_or(|rule| rule.action == ScreeningAction::Allow)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use carrick_sigtran::m3ua::PointCode;

    use super::*;

    #[test]
    fn the_first_rule_that_matches_determines() {
        let code = |code| PointCode::new(code).unwrap();
        let message = |opc, si| ProtocolData {
            opc: code(opc),
            dpc: code(1),
            si,
            ni: 2,
            mp: 0,
            sls: 0,
            user_data: Bytes::new(),
        };
        let rule = |action, opc: u32, service_indicators: &[u8]| ScreeningRule {
            action,
            from: Some(Target::LinkSet("a".into())),
            opc: Some(AffectedPointCode {
                mask: 3,
                point_code: code(opc),
            }),
            dpc: None,
            service_indicators: service_indicators.to_vec(),
        };
        let rules = [
            rule(ScreeningAction::Allow, 8, &[3]),
            rule(ScreeningAction::Deny, 8, &[]),
        ];
        let (a, b) = (Target::LinkSet("a".into()), Target::LinkSet("b".into()));
        assert!(passes(&rules, &a, &message(9, 3)));
        assert!(!passes(&rules, &a, &message(9, 5)));
        assert!(passes(&rules, &a, &message(16, 5)));
        assert!(passes(&rules, &b, &message(9, 5)));
    }
}
