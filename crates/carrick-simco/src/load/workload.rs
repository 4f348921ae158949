//! What is asked for, and how often.

use std::time::Duration;

use crate::message::Lifetime;
use crate::model::Demand;

/// A workload. The default is the paper's (section 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// 1/λ: mean time between two requests to open a pinhole, exponentially distributed. With zero,
    /// none are opened after the preload.
    pub opening_interval: Duration,
    /// h: mean life of a pinhole, exponentially distributed.
    pub holding: Duration,
    /// L: a pinhole is refreshed each time this has passed.
    pub refresh: Duration,
    /// The lifetime that is asked for: longer than `refresh`.
    pub lifetime: Lifetime,
    /// Pinholes of a call, which are opened and closed at the same time. With 1, each pinhole comes
    /// and goes by itself, as in the paper's load generator; calls then have two of them.
    pub pinholes_per_call: u32,
    /// Pinholes that are opened first, as fast as [`preload_window`](Self::preload_window) lets
    /// them: the load begins in its steady state.
    pub preload: u32,
    /// Requests of the preload without an answer at a time.
    pub preload_window: u32,
    /// Pinholes at a time at most; further ones are not asked for, and counted.
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
    /// The same for the [model](crate::model).
    pub fn demand(&self) -> Demand {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        Demand {
            opening_interval: ms(self.opening_interval),
            holding: ms(self.holding),
            refresh: ms(self.refresh),
        }
    }
}
