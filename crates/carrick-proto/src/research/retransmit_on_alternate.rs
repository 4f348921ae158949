//! RFC 2960's choice, used by papers `satellite` and `mobile-ip`: every retransmission goes to
//! another path, so that it does not share the fate of the original.

use super::{LossSignal, PathView, RetransmissionRoute};
use crate::path::{PathId, alternate};

/// All retransmissions to an alternate path.
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
