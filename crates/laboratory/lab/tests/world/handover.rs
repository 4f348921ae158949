//! Handover: an endpoint is exported, dropped and continued from the export, at random moments, by a program whose
//! clock shows another time. Nothing else in the world may change.

use std::time::Duration;

use carrick_hosts::sctp::HostRoutes;
use carrick_proto::{AssociationConfig, Endpoint, ImportConfig, Time};

use super::dice::{Dice, Part};

/// Moments of the handovers of one side.
pub(crate) struct Handovers {
    dice: Dice,
    chance: f64,
    /// Handovers take place; otherwise their moments only pass.
    enabled: bool,
    /// Number of handovers.
    pub(crate) count: u64,
}

impl Handovers {
    pub(crate) fn new(seed: u64, side: usize, enabled: bool) -> Self {
        let mut dice = Dice::new(seed, Part::Handovers(side));
        Self {
            chance: dice.pick(&[0.003, 0.03, 0.3]),
            dice,
            enabled,
            count: 0,
        }
    }

    /// Hands the endpoint over, or not.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        config: &AssociationConfig,
        routes: Option<&HostRoutes>,
    ) {
        let later = self.dice.log_millis(1, 10_000_000);
        if self.dice.chance(self.chance) && self.enabled {
            hand_over(now, endpoint, config, routes, later);
            self.count += 1;
        }
    }
}

/// Hands the endpoint over to a program whose clock is ahead, and back.
fn hand_over(
    now: Time,
    endpoint: &mut Endpoint,
    config: &AssociationConfig,
    routes: Option<&HostRoutes>,
    later: Duration,
) {
    let moves = |from: &Endpoint, now: Time, then: Time| {
        let export = from.export(now).expect("all of it can be exported");
        let mut parts = ImportConfig {
            protections: config.security.protection.iter().cloned().collect(),
            ..ImportConfig::default()
        };
        if let Some(routes) = routes {
            parts.source_selection = Box::new(routes.clone());
        }
        Endpoint::import(parts, then, export.as_bytes()).expect("the export is valid")
    };
    let ahead = moves(endpoint, now, now + later);
    *endpoint = moves(&ahead, now + later, now);
}
