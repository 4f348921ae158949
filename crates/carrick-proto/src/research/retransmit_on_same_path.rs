//! Retransmission route that stays on the path of the original as long as that path is usable.

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, same_unless_dead};

/// Sends all retransmissions on the path of the original while it is active.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitOnSamePath;

impl RetransmissionRoute for RetransmitOnSamePath {
    fn name(&self) -> &'static str {
        "same-path"
    }

    fn route(
        &self,
        _: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        same_unless_dead(last, paths)
    }
}
