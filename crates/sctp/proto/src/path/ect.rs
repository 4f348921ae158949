//! Detection of paths that drop ECN-capable packets, as some middleboxes do.

/// Number of timeouts without an acknowledged ECN-capable packet after which packets are sent without ECT.
const MAX_TIMEOUTS: u8 = 2;

/// Record of whether the path has delivered ECN-capable packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ect {
    proven: bool,
    timeouts: u8,
}

portable_struct! { Ect { proven, timeouts } }

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
    fn a_path_that_drops_ect_packets_gets_none() {
        let mut ect = Ect::default();
        ect.on_timeout();
        assert!(ect.is_usable());
        ect.on_timeout();
        assert!(!ect.is_usable());
        ect.on_acknowledged();
        assert!(
            !ect.is_usable(),
            "the acknowledged packet was not ECN-capable"
        );
    }

    #[test]
    fn an_acknowledged_ect_packet_keeps_ect_enabled() {
        let mut ect = Ect::default();
        ect.on_acknowledged();
        (0..9).for_each(|_| ect.on_timeout());
        assert!(ect.is_usable());
    }
}
