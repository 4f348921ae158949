//! Extensions beyond RFC 9260: what this side offers, what the peer offers, and what both have.
//!
//! Chunk types are told in the Supported Extensions parameter (RFC 5061 section 4.2.7); partial
//! reliability, ECN and packets without a checksum have parameters of their own (RFC 3758 section
//! 3.1, RFC 4960 appendix A, RFC 9653 section 4).

use alloc::vec::Vec;

use carrick_wire::{ChunkType, ErrorDetectionMethod, Parameter, ParameterType, ParameterWriter};

/// A set of extensions: offered, or in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// Messages may be abandoned (RFC 3758). Offered: FORWARD-TSN, which goes with DATA alone; in
    /// force: by whichever chunk, see [`Self::and`].
    pub partial_reliability: bool,
    /// Chunks can be authenticated (RFC 4895): AUTH.
    pub authentication: bool,
    /// Addresses may come and go (RFC 5061): ASCONF and ASCONF-ACK.
    pub dynamic_addresses: bool,
    /// Streams may be reset and added (RFC 6525): RE-CONFIG.
    pub reconfiguration: bool,
    /// Messages of several streams may be interleaved (RFC 8260): I-DATA instead of DATA.
    pub interleaving: bool,
    /// Routers may mark packets instead of dropping them (RFC 4960 appendix A): ECNE and CWR.
    pub ecn: bool,
    /// Messages that may be interleaved may be abandoned, too (RFC 8260 section 2.3.1):
    /// I-FORWARD-TSN. Means nothing without [`Self::interleaving`].
    pub interleaved_partial_reliability: bool,
    /// Acknowledgements say what will not be taken back (draft-natarajan-tsvwg-sctp-nrsack):
    /// NR-SACK instead of SACK.
    pub nr_sack: bool,
    /// Packets may come without a checksum (RFC 9653). Offered only where
    /// [`crate::AssociationConfig::lower_layer`] protects them.
    pub zero_checksum: bool,
}

/// Each extension: its place in a cookie, and how it is read and set.
type Field = fn(&mut Extensions) -> &mut bool;
const FIELDS: [Field; 9] = [
    |e| &mut e.partial_reliability,
    |e| &mut e.authentication,
    |e| &mut e.dynamic_addresses,
    |e| &mut e.reconfiguration,
    |e| &mut e.interleaving,
    |e| &mut e.ecn,
    |e| &mut e.interleaved_partial_reliability,
    |e| &mut e.nr_sack,
    |e| &mut e.zero_checksum,
];

impl Extensions {
    /// None.
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

    /// Those that are in force where both are offered. With interleaving, messages may be abandoned
    /// where both sides have I-FORWARD-TSN, and FORWARD-TSN counts for nothing (RFC 8260 section
    /// 2.3.1).
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

    /// What an INIT ACK says where these are in force: nothing that the peer has not offered, but that
    /// packets may come without a checksum, which one side can do by itself.
    pub(crate) fn told_to(self, peer: Self, offered: Self) -> Self {
        Self {
            partial_reliability: self.partial_reliability && peer.partial_reliability,
            zero_checksum: offered.zero_checksum,
            ..self
        }
    }

    /// As a number, for a cookie.
    pub(crate) fn bits(mut self) -> u16 {
        let bit = |(n, field): (usize, &Field)| u16::from(*field(&mut self)) << n;
        FIELDS.iter().enumerate().map(bit).sum()
    }

    pub(crate) fn from_bits(bits: u16) -> Self {
        let mut all = Self::NONE;
        for (n, field) in FIELDS.iter().enumerate() {
            *field(&mut all) = bits >> n & 1 == 1;
        }
        all
    }

    /// Whether a chunk type belongs to one of them.
    pub(crate) fn have_chunk(self, kind: ChunkType) -> bool {
        let marks = matches!(kind, ChunkType::ECNE | ChunkType::CWR);
        self.chunk_types().any(|k| k == kind) || self.ecn && marks
    }

    /// Whether a side that offers these knows a parameter of INIT and INIT ACK.
    pub(crate) fn know_parameter(self, kind: ParameterType) -> bool {
        match kind {
            ParameterType::FORWARD_TSN_SUPPORTED => self.partial_reliability,
            ParameterType::RANDOM | ParameterType::CHUNKS | ParameterType::HMAC_ALGO => {
                self.authentication
            }
            // To know it costs nothing, and it says nothing that has to be answered.
            ParameterType::SUPPORTED_EXTENSIONS
            | ParameterType::ECN_CAPABLE
            | ParameterType::ADAPTATION_LAYER_INDICATION => true,
            // In INIT and INIT ACK it is advice (RFC 5061 section 5.4).
            ParameterType::SET_PRIMARY_ADDRESS => self.dynamic_addresses,
            ParameterType::ZERO_CHECKSUM_ACCEPTABLE => self.zero_checksum,
            _ => false,
        }
    }

    /// Takes what a parameter of INIT or INIT ACK says.
    pub(crate) fn read(&mut self, parameter: &Parameter<'_>) {
        match parameter {
            Parameter::ForwardTsnSupported => self.partial_reliability = true,
            Parameter::EcnCapable => self.ecn = true,
            // Another method than ours is none that we could keep to.
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

    /// Tells the peer.
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
        let types: Vec<ChunkType> = self.chunk_types().collect();
        if !types.is_empty() {
            parameters.supported_extensions(&types);
        }
    }

    fn chunk_types(self) -> impl Iterator<Item = ChunkType> {
        let listed = [
            (self.partial_reliability, ChunkType::FORWARD_TSN),
            (self.authentication, ChunkType::AUTH),
            (self.dynamic_addresses, ChunkType::ASCONF),
            (self.dynamic_addresses, ChunkType::ASCONF_ACK),
            (self.reconfiguration, ChunkType::RE_CONFIG),
            (self.interleaving, ChunkType::I_DATA),
            (
                self.interleaved_partial_reliability,
                ChunkType::I_FORWARD_TSN,
            ),
            (self.nr_sack, ChunkType::NR_SACK),
        ];
        let offered = listed.into_iter().filter(|(offered, _)| *offered);
        offered.map(|(_, kind)| kind)
    }
}

#[cfg(test)]
mod tests {
    use carrick_wire::{
        Chunk, CommonHeader, InitFields, Packet, PacketBuilder, Tsn, VerificationTag,
    };

    use super::*;

    fn all() -> impl Iterator<Item = Extensions> {
        (0..1 << FIELDS.len()).map(Extensions::from_bits)
    }

    #[test]
    fn bits_and_fields_agree() {
        for (bits, extensions) in all().enumerate() {
            assert_eq!(usize::from(extensions.bits()), bits);
        }
        assert_eq!(Extensions::from_bits(0), Extensions::NONE);
    }

    #[test]
    fn what_is_written_is_read() {
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
    fn only_what_both_offer_is_in_force() {
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

    #[test]
    fn abandoning_what_interleaves_takes_i_forward_tsn_on_both_sides_8260_2_3_1() {
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
        assert_eq!(all.and(without_forward_tsn), all, "it is not needed");
        assert!(all.have_chunk(ChunkType::I_FORWARD_TSN));
    }
}
