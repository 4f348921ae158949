//! Chunk types, and the action for unknown ones (RFC 9260, section 3.2).

use core::fmt;

/// Type of a chunk. All values are possible; those of RFC 9260 and of its extensions are constants.
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
    /// Explicit congestion notification echo (RFC 4960, appendix A; reserved in RFC 9260).
    pub const ECNE: Self = Self(12);
    /// Congestion window reduced (RFC 4960, appendix A; reserved in RFC 9260).
    pub const CWR: Self = Self(13);
    /// Shutdown complete (3.3.13).
    pub const SHUTDOWN_COMPLETE: Self = Self(14);
    /// Authentication (RFC 4895, 4.1).
    pub const AUTH: Self = Self(15);
    /// Non-renegable selective acknowledgement (draft-natarajan-tsvwg-sctp-nrsack).
    pub const NR_SACK: Self = Self(16);
    /// Payload data that interleaves (RFC 8260, 2.1).
    pub const I_DATA: Self = Self(64);
    /// Address configuration acknowledgement (RFC 5061, 4.1.2).
    pub const ASCONF_ACK: Self = Self(128);
    /// Re-configuration (RFC 6525, 3.1).
    pub const RE_CONFIG: Self = Self(130);
    /// Padding (RFC 4820, 3).
    pub const PAD: Self = Self(132);
    /// Forward cumulative TSN (RFC 3758, 3.2).
    pub const FORWARD_TSN: Self = Self(192);
    /// Address configuration change (RFC 5061, 4.1.1).
    pub const ASCONF: Self = Self(193);
    /// Forward cumulative TSN where messages interleave (RFC 8260, 2.3.1).
    pub const I_FORWARD_TSN: Self = Self(194);

    /// Returns whether RFC 9260 itself defines the type, so that every implementation supports it. ECNE and
    /// CWR, for which RFC 9260 reserves the numbers, are not included.
    pub const fn is_base(self) -> bool {
        self.0 <= Self::SHUTDOWN_COMPLETE.0 && !matches!(self, Self::ECNE | Self::CWR)
    }

    /// Returns the action for an unknown chunk of this type (RFC 9260, section 3.2, table 2).
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
            Self::AUTH => "AUTH",
            Self::NR_SACK => "NR-SACK",
            Self::I_DATA => "I-DATA",
            Self::ASCONF_ACK => "ASCONF-ACK",
            Self::RE_CONFIG => "RE-CONFIG",
            Self::PAD => "PAD",
            Self::FORWARD_TSN => "FORWARD-TSN",
            Self::ASCONF => "ASCONF",
            Self::I_FORWARD_TSN => "I-FORWARD-TSN",
            Self(other) => return write!(f, "chunk type {other:#04x}"),
        })
    }
}

/// Action for an unknown chunk or parameter, encoded in the two highest bits of its type (RFC 9260,
/// tables 2 and 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownAction {
    /// 00: for a chunk, discard the rest of the packet; for a parameter, the rest of the chunk's
    /// parameters.
    Stop,
    /// 01: stop, and report the unknown item.
    StopAndReport,
    /// 10: skip it and continue.
    Skip,
    /// 11: skip it, continue, and report it.
    SkipAndReport,
}

impl UnknownAction {
    /// Converts the two highest bits of a type, shifted down.
    pub(crate) const fn from_high_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::Stop,
            0b01 => Self::StopAndReport,
            0b10 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }

    /// Returns true if the items after the unknown one are processed.
    pub const fn continues(self) -> bool {
        matches!(self, Self::Skip | Self::SkipAndReport)
    }

    /// Returns true if the unknown item is reported to the sender.
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
    fn high_bits_of_a_chunk_type_select_the_action() {
        let actions = [
            (0x11, UnknownAction::Stop),
            (0x3f, UnknownAction::Stop),
            (0x41, UnknownAction::StopAndReport),
            (0x7f, UnknownAction::StopAndReport),
            (0x81, UnknownAction::Skip),
            (0xbf, UnknownAction::Skip),
            (0xc3, UnknownAction::SkipAndReport),
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
    fn high_bits_of_extensions_match_their_rfcs() {
        let actions = [
            (ChunkType::AUTH, UnknownAction::Stop),
            (ChunkType::I_DATA, UnknownAction::StopAndReport),
            (ChunkType::ASCONF_ACK, UnknownAction::Skip),
            (ChunkType::FORWARD_TSN, UnknownAction::SkipAndReport),
        ];
        for (kind, action) in actions {
            assert_eq!(kind.unknown_action(), action, "{kind}");
        }
    }

    #[test]
    fn base_types_differ_from_extension_types() {
        let base = (0..=u8::MAX).filter(|kind| ChunkType(*kind).is_base());
        assert!(base.eq((0..12).chain([14])));
    }

    #[test]
    fn high_bits_of_a_parameter_select_the_action() {
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
        assert_eq!(ChunkType::RE_CONFIG.to_string(), "RE-CONFIG");
        assert_eq!(ChunkType(0xc3).to_string(), "chunk type 0xc3");
    }
}
