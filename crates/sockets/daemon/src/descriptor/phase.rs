//! Phases of a descriptor and their transitions, the table of which is [`Phase::after`].

use carrick_proto::portable_enum;
use carrick_sockets::Errno;

/// Phase of a descriptor. What the program can do with its end of the pair follows from it alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// A one-to-one descriptor without an association, or whose association is being set up. The program's end is not
    /// writable.
    SettingUp,
    /// Messages pass in both directions.
    Open,
    /// The send buffer of the association is full. The program's end is not writable.
    Full,
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
        0: SettingUp,
        1: Open,
        2: Full,
        3: WriteRefused,
        4: Ended,
        5: SetupFailed,
        6: Broken(error),
    }
}

/// Event that may change the phase of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PhaseEvent {
    /// The program has to wait for an association.
    SetupStarted,
    /// The program has to wait for room in the send buffer.
    BufferFilled,
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
            (Self::Open, PhaseEvent::SetupStarted) => Self::SettingUp,
            (Self::Open, PhaseEvent::BufferFilled) => Self::Full,
            (Self::SettingUp | Self::Full, PhaseEvent::Released) => Self::Open,
            (Self::SettingUp, PhaseEvent::SetupFailed) => Self::SetupFailed,
            (Self::Broken(Some(_)), PhaseEvent::ErrorRead) => Self::Broken(None),
            (Self::WriteRefused, PhaseEvent::WriteClosed) => return None,
            (from, PhaseEvent::WriteClosed) if !from.is_ended() => Self::WriteRefused,
            (from, PhaseEvent::AssociationEnded) if !from.is_ended() => Self::Ended,
            (from, PhaseEvent::InvalidFrame) if !from.is_ended() => {
                Self::Broken(Some(Errno::ECONNABORTED))
            }
            _ => return None,
        })
    }

    /// Returns whether a plug makes the program's end not writable.
    pub(crate) fn is_plugged(self) -> bool {
        matches!(self, Self::SettingUp | Self::Full)
    }

    /// Returns whether no frame passes on the pair any more.
    pub(crate) fn is_ended(self) -> bool {
        matches!(self, Self::Ended | Self::SetupFailed | Self::Broken(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [PhaseEvent; 8] = [
        PhaseEvent::SetupStarted,
        PhaseEvent::BufferFilled,
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
        let setting_up = following(Phase::SettingUp);
        assert_eq!(setting_up, [Phase::Open, refused, ended, failed, broken]);
        let full = following(Phase::Full);
        assert_eq!(full, [Phase::Open, refused, ended, broken]);
        let open = following(Phase::Open);
        let plugged = [Phase::SettingUp, Phase::Full];
        assert_eq!(open, [&plugged[..], &[refused, ended, broken]].concat());
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
