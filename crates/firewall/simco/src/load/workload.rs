//! Workloads.

use std::time::Duration;

use crate::message::Lifetime;
use crate::model::PinholeDemand;

/// Workload. The default is that of Kiesel and Scharf (2006), section 5.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// 1/λ: mean of the exponentially distributed interval between requests to open a pinhole. With
    /// zero, none are opened after the preload.
    pub opening_interval: Duration,
    /// h: mean of the exponentially distributed lifetime of a pinhole.
    pub holding: Duration,
    /// L: refresh interval.
    pub refresh: Duration,
    /// Requested lifetime, longer than `refresh`.
    pub lifetime: Lifetime,
    /// Pinholes of a call, opened and closed together. With 1, pinholes are independent, as in the
    /// paper's load generator, whose calls have two of them.
    pub pinholes_per_call: u32,
    /// Pinholes opened first, as fast as [`preload_window`](Self::preload_window) allows, so that the
    /// load starts in steady state.
    pub preload: u32,
    /// Maximum number of outstanding requests during the preload.
    pub preload_window: u32,
    /// Maximum number of pinholes; further ones are not requested, and counted.
    pub max_pinholes: u32,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            opening_interval: Duration::from_millis(30),
            holding: Duration::from_secs(180),
            refresh: Duration::from_secs(120),
            lifetime: Lifetime(240),
            pinholes_per_call: 1,
            preload: 6000,
            preload_window: 32,
            max_pinholes: 1 << 20,
        }
    }
}

impl Workload {
    /// Returns the demand for the [model](crate::model).
    pub fn demand(&self) -> PinholeDemand {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        PinholeDemand {
            opening_interval: ms(self.opening_interval),
            holding: ms(self.holding),
            refresh: ms(self.refresh),
        }
    }
}
