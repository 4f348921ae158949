//! Retransmission route of RFC 2960, used by papers `satellite` and `mobile-ip`: every retransmission goes
//! to another path than the original, whose path may have failed.

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, alternate};

/// Sends all retransmissions on an alternate path.
#[derive(Clone, Copy, Debug)]
pub struct RetransmitOnAlternate;

impl RetransmissionRoute for RetransmitOnAlternate {
    fn name(&self) -> &'static str {
        "all-on-alternate"
    }

    fn route(
        &self,
        _: LossSignal,
        last: PathId,
        paths: &mut dyn Iterator<Item = PathView>,
    ) -> PathId {
        alternate(last, paths)
    }
}
