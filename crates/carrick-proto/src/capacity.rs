//! Growth of queues that seldom hold more than one element.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Room for another element: one at first, then twice as many. The standard library begins with four, which
/// most associations never use.
pub(crate) trait ReserveDoubling {
    /// Reserves room for one more element.
    fn reserve_doubling(&mut self);
}

macro_rules! reserve_doubling {
    ($queue:ident) => {
        impl<T> ReserveDoubling for $queue<T> {
            #[inline]
            fn reserve_doubling(&mut self) {
                if self.len() == self.capacity() {
                    self.reserve_exact(self.len().max(1));
                }
            }
        }
    };
}

reserve_doubling!(Vec);
reserve_doubling!(VecDeque);
