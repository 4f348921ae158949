//! Phases of a descriptor and their transitions, the table of which is [`Phase::after`].

use carrick_proto::portable_enum;
use carrick_sockets::Errno;

/// Phase of a descriptor. What the program can do with its end of the pair follows from it alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The program's end is not writable: the association is being set up, or its send buffer is full.
    Plugged,
    /// Messages pass in both directions.
    Open,
    /// The program's end refuses messages (`EPIPE`), but has messages to read.
    WriteRefused,
    /// The association has ended, and the pair is shut down in both directions.
    Ended,
    /// The set-up of the association has failed, and the daemon's end of the pair is closed.
    SetupFailed,
    /// The daemon has ended the association, because the program sent an invalid frame. With the pending error.
    Broken(Option<Errno>),
}

portable_enum! {
    Phase {
        0: Plugged,
        1: Open,
        2: WriteRefused,
        3: Ended,
        4: SetupFailed,
        5: Broken(error),
    }
}

/// Event that may change the phase of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PhaseEvent {
    /// The program has to wait for an association, or for room in the send buffer.
    Blocked,
    /// The association is established, has room in its send buffer, or has an error.
    Released,
    /// The association sends no further messages: after `shutdown`, or the peer's SHUTDOWN (RFC 9260, section 9.2).
    WriteClosed,
    /// No message passes in either direction any more.
    AssociationEnded,
    /// The association has never been established.
    SetupFailed,
    /// The program has sent an invalid frame.
    InvalidFrame,
    /// The program has read the pending error (`SO_ERROR`).
    ErrorRead,
}

impl Phase {
    /// Returns the phase after an event, or `None` if the event does not change this one. The last three phases remain: a
    /// program that connects again after a set-up that failed gets another pair.
    pub(crate) fn after(self, event: PhaseEvent) -> Option<Self> {
        Some(match (self, event) {
            (Self::Open, PhaseEvent::Blocked) => Self::Plugged,
            (Self::Plugged, PhaseEvent::Released) => Self::Open,
            (Self::Plugged | Self::Open, PhaseEvent::WriteClosed) => Self::WriteRefused,
            (Self::Plugged, PhaseEvent::SetupFailed) => Self::SetupFailed,
            (Self::Plugged | Self::Open | Self::WriteRefused, PhaseEvent::AssociationEnded) => {
                Self::Ended
            }
            (Self::Plugged | Self::Open | Self::WriteRefused, PhaseEvent::InvalidFrame) => {
                Self::Broken(Some(Errno::ECONNABORTED))
            }
            (Self::Broken(Some(_)), PhaseEvent::ErrorRead) => Self::Broken(None),
            _ => return None,
        })
    }

    /// Returns whether no frame passes on the pair any more.
    pub(crate) fn is_ended(self) -> bool {
        matches!(self, Self::Ended | Self::SetupFailed | Self::Broken(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [PhaseEvent; 7] = [
        PhaseEvent::Blocked,
        PhaseEvent::Released,
        PhaseEvent::WriteClosed,
        PhaseEvent::AssociationEnded,
        PhaseEvent::SetupFailed,
        PhaseEvent::InvalidFrame,
        PhaseEvent::ErrorRead,
    ];

    /// Returns the phases that can follow a phase, in the order of the events.
    fn following(phase: Phase) -> Vec<Phase> {
        let after = |event| phase.after(event);
        EVENTS.into_iter().filter_map(after).collect()
    }

    #[test]
    fn phases_follow_the_table() {
        let broken = Phase::Broken(Some(Errno::ECONNABORTED));
        let (refused, ended, failed) = (Phase::WriteRefused, Phase::Ended, Phase::SetupFailed);
        let plugged = following(Phase::Plugged);
        assert_eq!(plugged, [Phase::Open, refused, ended, failed, broken]);
        let open = following(Phase::Open);
        assert_eq!(open, [Phase::Plugged, refused, ended, broken]);
        assert_eq!(following(refused), [ended, broken]);
        assert_eq!(following(broken), [Phase::Broken(None)]);
    }

    #[test]
    fn an_ended_descriptor_remains_ended() {
        for phase in [Phase::Ended, Phase::SetupFailed, Phase::Broken(None)] {
            assert!(phase.is_ended());
            assert_eq!(following(phase), []);
        }
    }
}
