//! Chunk types, and what their high bits say about types that are not known (RFC 9260, 3.2).

use core::fmt;

/// The type of a chunk. All values are possible; those of RFC 9260 are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkType(pub u8);

impl ChunkType {
    /// Payload data (3.3.1).
    pub const DATA: Self = Self(0);
    /// Initiation (3.3.2).
    pub const INIT: Self = Self(1);
    /// Initiation acknowledgement (3.3.3).
    pub const INIT_ACK: Self = Self(2);
    /// Selective acknowledgement (3.3.4).
    pub const SACK: Self = Self(3);
    /// Heartbeat request (3.3.5).
    pub const HEARTBEAT: Self = Self(4);
    /// Heartbeat acknowledgement (3.3.6).
    pub const HEARTBEAT_ACK: Self = Self(5);
    /// Abort (3.3.7).
    pub const ABORT: Self = Self(6);
    /// Shutdown (3.3.8).
    pub const SHUTDOWN: Self = Self(7);
    /// Shutdown acknowledgement (3.3.9).
    pub const SHUTDOWN_ACK: Self = Self(8);
    /// Operation error (3.3.10).
    pub const ERROR: Self = Self(9);
    /// State cookie (3.3.11).
    pub const COOKIE_ECHO: Self = Self(10);
    /// Cookie acknowledgement (3.3.12).
    pub const COOKIE_ACK: Self = Self(11);
    /// Reserved for the explicit congestion notification echo (3.2, table 1).
    pub const ECNE: Self = Self(12);
    /// Reserved for "congestion window reduced" (3.2, table 1).
    pub const CWR: Self = Self(13);
    /// Shutdown complete (3.3.13).
    pub const SHUTDOWN_COMPLETE: Self = Self(14);

    /// What to do with the packet if this type is not known (3.2, table 2).
    pub const fn unknown_action(self) -> UnknownAction {
        UnknownAction::from_high_bits(self.0 >> 6)
    }
}

impl fmt::Display for ChunkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::DATA => "DATA",
            Self::INIT => "INIT",
            Self::INIT_ACK => "INIT ACK",
            Self::SACK => "SACK",
            Self::HEARTBEAT => "HEARTBEAT",
            Self::HEARTBEAT_ACK => "HEARTBEAT ACK",
            Self::ABORT => "ABORT",
            Self::SHUTDOWN => "SHUTDOWN",
            Self::SHUTDOWN_ACK => "SHUTDOWN ACK",
            Self::ERROR => "ERROR",
            Self::COOKIE_ECHO => "COOKIE ECHO",
            Self::COOKIE_ACK => "COOKIE ACK",
            Self::ECNE => "ECNE",
            Self::CWR => "CWR",
            Self::SHUTDOWN_COMPLETE => "SHUTDOWN COMPLETE",
            Self(other) => return write!(f, "chunk type {other:#04x}"),
        })
    }
}

/// What the two highest bits of an unknown chunk type or parameter type ask for (RFC 9260,
/// tables 2 and 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownAction {
    /// 00: for a chunk, discard the rest of the packet; for a parameter, the rest of the chunk's
    /// parameters.
    Stop,
    /// 01: the same, and report what was not known.
    StopAndReport,
    /// 10: ignore it and go on.
    Skip,
    /// 11: go on, and report what was not known.
    SkipAndReport,
}

impl UnknownAction {
    /// The action of the two highest bits of a type, shifted down.
    pub(crate) const fn from_high_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::Stop,
            0b01 => Self::StopAndReport,
            0b10 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }

    /// Whether what comes after the unknown item is processed.
    pub const fn continues(self) -> bool {
        matches!(self, Self::Skip | Self::SkipAndReport)
    }

    /// Whether the sender is to be told.
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopAndReport | Self::SkipAndReport)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::{ChunkType, UnknownAction};
    use crate::testing::{first_chunk, packet};
    use crate::{Chunk, ParameterType};

    #[test]
    fn the_high_bits_of_a_chunk_type_say_what_to_do() {
        let actions = [
            (0x0f, UnknownAction::Stop),
            (0x3f, UnknownAction::Stop),
            (0x40, UnknownAction::StopAndReport),
            (0x7f, UnknownAction::StopAndReport),
            (0x80, UnknownAction::Skip),
            (0xbf, UnknownAction::Skip),
            (0xc0, UnknownAction::SkipAndReport),
            (0xff, UnknownAction::SkipAndReport),
        ];
        for (kind, action) in actions {
            assert_eq!(ChunkType(kind).unknown_action(), action, "{kind:#x}");
            let bytes = packet(&[kind, 0xff, 0, 5, 1, 0, 0, 0]);
            let Ok(Chunk::Unknown(raw)) = first_chunk(&bytes) else {
                panic!("{kind:#x} known")
            };
            assert_eq!(raw.bytes, [kind, 0xff, 0, 5, 1]);
        }
    }

    #[test]
    fn the_high_bits_of_a_parameter_type_say_what_to_do() {
        let actions = [
            (0x3fff, UnknownAction::Stop),
            (0x4000, UnknownAction::StopAndReport),
            (0x8008, UnknownAction::Skip),
            (0xc000, UnknownAction::SkipAndReport),
        ];
        for (kind, action) in actions {
            assert_eq!(ParameterType(kind).unknown_action(), action, "{kind:#x}");
        }
    }

    #[test]
    fn actions_name_their_halves() {
        let halves = [
            (UnknownAction::Stop, false, false),
            (UnknownAction::StopAndReport, false, true),
            (UnknownAction::Skip, true, false),
            (UnknownAction::SkipAndReport, true, true),
        ];
        for (action, continues, reports) in halves {
            assert_eq!((action.continues(), action.reports()), (continues, reports));
        }
    }

    #[test]
    fn types_read_as_in_the_standard() {
        assert_eq!(ChunkType::INIT_ACK.to_string(), "INIT ACK");
        assert_eq!(ChunkType(0xc1).to_string(), "chunk type 0xc1");
    }
}
