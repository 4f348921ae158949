//! Negotiation of extensions to RFC 9260.
//!
//! The Supported Extensions parameter lists chunk types (RFC 5061, section 4.2.7). Partial reliability,
//! ECN and the zero checksum have parameters of their own (RFC 3758, section 3.1; RFC 4960, appendix A;
//! RFC 9653, section 4).

use carrick_wire::{ChunkType, ErrorDetectionMethod, Parameter, ParameterType, ParameterWriter};

/// Set of extensions, offered or in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(default = "Extensions::recommended", deny_unknown_fields),
    serde(rename_all(deserialize = "kebab-case"))
)]
pub struct Extensions {
    /// Partial reliability (RFC 3758). Offered: FORWARD-TSN, which works with DATA only. In force:
    /// FORWARD-TSN or I-FORWARD-TSN, see [`Self::and`].
    pub partial_reliability: bool,
    /// Authentication of chunks (RFC 4895): AUTH.
    pub authentication: bool,
    /// Dynamic address reconfiguration (RFC 5061): ASCONF and ASCONF-ACK. Needs
    /// [`Self::authentication`] unless
    /// [`SecurityConfig::dynamic_addresses_without_authentication`](crate::SecurityConfig::dynamic_addresses_without_authentication) is set.
    pub dynamic_addresses: bool,
    /// Stream reconfiguration (RFC 6525): RE-CONFIG.
    pub reconfiguration: bool,
    /// User message interleaving (RFC 8260): I-DATA instead of DATA.
    pub interleaving: bool,
    /// Explicit congestion notification (RFC 4960, appendix A): ECNE and CWR.
    pub ecn: bool,
    /// Partial reliability with interleaving (RFC 8260, section 2.3.1): I-FORWARD-TSN. Ignored without
    /// [`Self::interleaving`].
    pub interleaved_partial_reliability: bool,
    /// Non-renegable acknowledgements (draft-natarajan-tsvwg-sctp-nrsack): NR-SACK instead of SACK.
    pub nr_sack: bool,
    /// Zero checksum (RFC 9653). Offered only if [`SecurityConfig::lower_layer`](crate::SecurityConfig::lower_layer) detects errors.
    pub zero_checksum: bool,
}

portable_struct! {
    Extensions {
        partial_reliability, authentication, dynamic_addresses, reconfiguration, interleaving, ecn,
        interleaved_partial_reliability, nr_sack, zero_checksum,
    }
}

/// Number of chunk types in the Supported Extensions parameter, if all extensions are offered.
const CHUNK_TYPES: usize = 8;

impl Extensions {
    /// Empty set.
    pub const NONE: Self = Self {
        partial_reliability: false,
        authentication: false,
        dynamic_addresses: false,
        reconfiguration: false,
        interleaving: false,
        ecn: false,
        interleaved_partial_reliability: false,
        nr_sack: false,
        zero_checksum: false,
    };

    /// Extensions without cost, of [`AssociationConfig::modern`](crate::AssociationConfig::modern).
    pub(crate) const RECOMMENDED: Self = Self {
        partial_reliability: true,
        interleaved_partial_reliability: true,
        nr_sack: true,
        zero_checksum: true,
        ecn: true,
        reconfiguration: true,
        ..Self::NONE
    };

    #[cfg(feature = "serde")]
    fn recommended() -> Self {
        Self::RECOMMENDED
    }

    /// Returns the extensions in force if one side offers `self` and the other one `other`. With
    /// interleaving, partial reliability needs I-FORWARD-TSN on both sides, and FORWARD-TSN is ignored
    /// (RFC 8260, section 2.3.1).
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = Self::from_bits(self.bits() & other.bits());
        let interleaved = both.interleaving && both.interleaved_partial_reliability;
        Self {
            partial_reliability: interleaved || both.partial_reliability && !both.interleaving,
            interleaved_partial_reliability: interleaved,
            ..both
        }
    }

    /// Returns the extensions that INIT ACK lists if these are in force: only those that the peer has
    /// offered, except for the zero checksum, which one side may accept alone.
    pub(crate) fn in_init_ack(self, peer: Self, offered: Self) -> Self {
        Self {
            partial_reliability: self.partial_reliability && peer.partial_reliability,
            zero_checksum: offered.zero_checksum,
            ..self
        }
    }

    /// Returns the set as a bit field for a cookie.
    pub(crate) fn bits(self) -> u16 {
        let Self {
            partial_reliability,
            authentication,
            dynamic_addresses,
            reconfiguration,
            interleaving,
            ecn,
            interleaved_partial_reliability,
            nr_sack,
            zero_checksum,
        } = self;
        let fields = [
            partial_reliability,
            authentication,
            dynamic_addresses,
            reconfiguration,
            interleaving,
            ecn,
            interleaved_partial_reliability,
            nr_sack,
            zero_checksum,
        ];
        let lower = fields.iter().rev();
        lower.fold(0, |bits, field| bits << 1 | u16::from(*field))
    }

    /// Returns the set of a bit field.
    pub(crate) fn from_bits(bits: u16) -> Self {
        let has = |n: u32| bits >> n & 1 == 1;
        Self {
            partial_reliability: has(0),
            authentication: has(1),
            dynamic_addresses: has(2),
            reconfiguration: has(3),
            interleaving: has(4),
            ecn: has(5),
            interleaved_partial_reliability: has(6),
            nr_sack: has(7),
            zero_checksum: has(8),
        }
    }

    /// Returns whether a chunk type belongs to an extension of the set.
    pub(crate) fn have_chunk(self, kind: ChunkType) -> bool {
        let marks = matches!(kind, ChunkType::ECNE | ChunkType::CWR);
        self.chunk_types().any(|k| k == kind) || self.ecn && marks
    }

    /// Returns whether a side that offers these extensions recognizes a parameter of INIT or INIT ACK.
    pub(crate) fn know_parameter(self, kind: ParameterType) -> bool {
        match kind {
            ParameterType::FORWARD_TSN_SUPPORTED => self.partial_reliability,
            ParameterType::RANDOM | ParameterType::CHUNKS | ParameterType::HMAC_ALGO => {
                self.authentication
            }
            // Recognized always: they need no response.
            ParameterType::SUPPORTED_EXTENSIONS
            | ParameterType::ECN_CAPABLE
            | ParameterType::ADAPTATION_LAYER_INDICATION => true,
            // A recommendation in INIT and INIT ACK (RFC 5061, section 5.4).
            ParameterType::SET_PRIMARY_ADDRESS => self.dynamic_addresses,
            ParameterType::ZERO_CHECKSUM_ACCEPTABLE => self.zero_checksum,
            _ => false,
        }
    }

    /// Adds the extensions that a parameter of INIT or INIT ACK offers.
    pub(crate) fn read(&mut self, parameter: &Parameter<'_>) {
        match parameter {
            Parameter::ForwardTsnSupported => self.partial_reliability = true,
            Parameter::EcnCapable => self.ecn = true,
            // Other error detection methods are not supported.
            Parameter::ZeroChecksumAcceptable(method) => {
                self.zero_checksum |= *method == ErrorDetectionMethod::DTLS;
            }
            Parameter::SupportedExtensions(types) => {
                let has = |kind| types.contains(kind);
                self.partial_reliability |= has(ChunkType::FORWARD_TSN);
                self.authentication |= has(ChunkType::AUTH);
                self.dynamic_addresses |= has(ChunkType::ASCONF) && has(ChunkType::ASCONF_ACK);
                self.reconfiguration |= has(ChunkType::RE_CONFIG);
                self.interleaving |= has(ChunkType::I_DATA);
                self.interleaved_partial_reliability |= has(ChunkType::I_FORWARD_TSN);
                self.nr_sack |= has(ChunkType::NR_SACK);
            }
            _ => {}
        }
    }

    /// Writes the parameters that offer these extensions.
    pub(crate) fn write(self, parameters: &mut ParameterWriter<'_>) {
        if self.partial_reliability {
            parameters.forward_tsn_supported();
        }
        if self.ecn {
            parameters.ecn_capable();
        }
        if self.zero_checksum {
            parameters.zero_checksum_acceptable(ErrorDetectionMethod::DTLS);
        }
        let mut types = [ChunkType::DATA; CHUNK_TYPES];
        let listed = types.iter_mut().zip(self.chunk_types());
        let count = listed.map(|(place, kind)| *place = kind).count();
        if count > 0 {
            parameters.supported_extensions(&types[..count]);
        }
    }

    /// Returns the chunk types for the Supported Extensions parameter.
    fn chunk_types(self) -> impl Iterator<Item = ChunkType> {
        let Self {
            partial_reliability,
            authentication,
            dynamic_addresses,
            reconfiguration,
            interleaving,
            // Parameters of their own.
            ecn: _,
            interleaved_partial_reliability,
            nr_sack,
            zero_checksum: _,
        } = self;
        let listed: [_; CHUNK_TYPES] = [
            (partial_reliability, ChunkType::FORWARD_TSN),
            (authentication, ChunkType::AUTH),
            (dynamic_addresses, ChunkType::ASCONF),
            (dynamic_addresses, ChunkType::ASCONF_ACK),
            (reconfiguration, ChunkType::RE_CONFIG),
            (interleaving, ChunkType::I_DATA),
            (interleaved_partial_reliability, ChunkType::I_FORWARD_TSN),
            (nr_sack, ChunkType::NR_SACK),
        ];
        let offered = listed.into_iter().filter(|(offered, _)| *offered);
        offered.map(|(_, kind)| kind)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use carrick_wire::{
        Chunk, CommonHeader, InitFields, Packet, PacketBuilder, Tsn, VerificationTag,
    };

    use super::*;

    fn all() -> impl Iterator<Item = Extensions> {
        let every = Extensions::from_bits(u16::MAX);
        (0..=every.bits()).map(Extensions::from_bits)
    }

    #[test]
    fn bit_field_matches_the_set() {
        for (bits, extensions) in all().enumerate() {
            assert_eq!(usize::from(extensions.bits()), bits);
        }
        assert_eq!(Extensions::from_bits(0), Extensions::NONE);
    }

    #[test]
    fn written_extensions_are_read_back() {
        for offered in all() {
            let header = CommonHeader {
                source_port: 1,
                destination_port: 2,
                tag: VerificationTag::ZERO,
            };
            let fields = InitFields {
                tag: VerificationTag(1),
                a_rwnd: 1500,
                outbound_streams: 1,
                inbound_streams: 1,
                initial_tsn: Tsn::new(1),
            };
            let mut buf = Vec::new();
            let mut packet = PacketBuilder::new(&mut buf, header, 1500);
            packet.init(ChunkType::INIT, fields, |parameters| {
                offered.write(parameters)
            });
            packet.finish();
            let packet = Packet::parse(&buf).expect("a packet");
            let raw = packet
                .chunks()
                .next()
                .expect("a chunk")
                .expect("well formed");
            let Ok(Chunk::Init(init)) = Chunk::parse(raw) else {
                panic!("no INIT");
            };
            let mut read = Extensions::NONE;
            for raw in init.parameters() {
                read.read(&Parameter::parse(raw.expect("cut")).expect("known"));
            }
            assert_eq!(read, offered);
        }
    }

    #[test]
    fn common_extensions_are_in_force() {
        let ours = Extensions {
            interleaving: true,
            reconfiguration: true,
            ..Extensions::NONE
        };
        let theirs = Extensions {
            interleaving: true,
            partial_reliability: true,
            ..Extensions::NONE
        };
        let both = Extensions {
            interleaving: true,
            ..Extensions::NONE
        };
        assert_eq!(ours.and(theirs), both);
    }

    /// RFC 8260, section 2.3.1.
    #[test]
    fn interleaved_abandonment_needs_i_forward_tsn() {
        let partial = Extensions {
            partial_reliability: true,
            ..Extensions::NONE
        };
        let both = Extensions {
            interleaving: true,
            ..partial
        };
        let all = Extensions {
            interleaved_partial_reliability: true,
            ..both
        };
        assert_eq!(both.and(partial), partial);
        assert_eq!(all.and(partial), partial);
        let not_interleaving = Extensions {
            interleaving: false,
            ..all
        };
        assert_eq!(all.and(not_interleaving), partial);
        for less in [both.and(both), both.and(all), all.and(both)] {
            assert!(less.interleaving && !less.partial_reliability);
            assert!(!less.interleaved_partial_reliability);
            assert!(!less.have_chunk(ChunkType::FORWARD_TSN));
            assert!(!less.have_chunk(ChunkType::I_FORWARD_TSN));
        }
        assert_eq!(all.and(all), all);
        let without_forward_tsn = Extensions {
            partial_reliability: false,
            ..all
        };
        assert_eq!(
            all.and(without_forward_tsn),
            all,
            "FORWARD-TSN is not needed"
        );
        assert!(all.have_chunk(ChunkType::I_FORWARD_TSN));
    }
}
