//! Whether packets that say they are ECN-capable get through on a path. Some middleboxes drop them.

/// Timeouts without a proof after which packets go without ECT.
const MAX_TIMEOUTS: u8 = 2;

/// What the path did with ECN-capable packets so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ect {
    proven: bool,
    timeouts: u8,
}

impl Ect {
    pub(crate) fn is_usable(self) -> bool {
        self.proven || self.timeouts < MAX_TIMEOUTS
    }

    /// A chunk that left once, and so in such a packet, was acknowledged.
    pub(crate) fn on_acknowledged(&mut self) {
        self.proven |= self.is_usable();
    }

    /// T3-rtx expired.
    pub(crate) fn on_timeout(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_swallows_ecn_capable_packets_is_left_in_peace() {
        let mut ect = Ect::default();
        ect.on_timeout();
        assert!(ect.is_usable());
        ect.on_timeout();
        assert!(!ect.is_usable());
        ect.on_acknowledged();
        assert!(!ect.is_usable(), "that one left without");
    }

    #[test]
    fn a_path_that_has_passed_them_goes_on() {
        let mut ect = Ect::default();
        ect.on_acknowledged();
        (0..9).for_each(|_| ect.on_timeout());
        assert!(ect.is_usable());
    }
}
