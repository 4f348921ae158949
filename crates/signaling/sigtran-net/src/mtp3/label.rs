//! Messages of MTP3 as an MSU has them: Service Information Octet, routing label and user data (Q.704, section 2; T1.111.4).
//!
//! ```text
//!        bits   14 (ITU)        16 (TTC)        24 (ANSI)
//! DPC           0 to 13         0 to 15         0 to 23
//! OPC           14 to 27        16 to 31        24 to 47
//! SLS           28 to 31        32 to 39        48 to 55
//! ```

use bytes::Bytes;
use carrick_sigtran::m2pa::{Msu, SequenceNumber};
use carrick_sigtran::m3ua::{PointCode, ProtocolData};

/// Service indicator of signalling network management messages.
pub(crate) const NETWORK_MANAGEMENT: u8 = 0;
/// Service indicators of signalling network testing and maintenance messages: regular and special.
const TESTING: [u8; 2] = [1, 2];

/// Heading codes: H0 in the low 4 bits, H1 in the high ones.
const XCO: u8 = 0x31;
const XCA: u8 = 0x41;
const CBD: u8 = 0x51;
const CBA: u8 = 0x61;
const SLTM: u8 = 0x11;
const SLTA: u8 = 0x21;

/// Format of routing labels: the bits of a point code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LabelFormat {
    pub(super) bits: u8,
}

/// Message to or from the adjacent signalling point about a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LinkMessage {
    /// Extended Changeover Order: FSN of the last message that was accepted on a link.
    ChangeoverOrder(u8, SequenceNumber),
    /// Extended Changeover Acknowledgement.
    ChangeoverAck(u8, SequenceNumber),
    /// Changeback Declaration of a link, with the changeback code.
    ChangebackDeclaration(u8, u8),
    /// Changeback Acknowledgement.
    ChangebackAck(u8, u8),
    /// Signalling Link Test Message of a link: service indicator, and what is sent back.
    Test(u8, u8, Bytes),
    /// Signalling Link Test Acknowledgement.
    TestAck(u8, u8, Bytes),
}

impl LabelFormat {
    /// Format with point codes of 14 (ITU), 16 (TTC) or 24 bits (ANSI).
    pub(crate) const fn new(bits: u8) -> Self {
        Self { bits }
    }

    /// Octets of a label.
    const fn len(self) -> usize {
        match self.bits {
            14 => 4,
            16 => 5,
            _ => 7,
        }
    }

    /// Number of SLS values.
    pub(super) const fn sls_values(self) -> usize {
        match self.bits {
            24 => 256,
            _ => 16,
        }
    }

    /// Returns the MSU of a message. Bits of point codes and SLS beyond the format are lost.
    pub(crate) fn encode(self, data: &ProtocolData) -> Msu {
        let code = |code: PointCode| u64::from(code.value()) & ((1 << self.bits) - 1);
        let sls = u64::from(data.sls) & (self.sls_values() as u64 - 1);
        let label = code(data.dpc) | code(data.opc) << self.bits | sls << (2 * self.bits);
        let mut sif = Vec::with_capacity(self.len() + data.user_data.len());
        sif.extend_from_slice(&label.to_le_bytes()[..self.len()]);
        sif.extend_from_slice(&data.user_data);
        // The TTC's priority is a field of M2PA; elsewhere it is in the subservice field.
        let (priority, mp) = match self.bits {
            16 => (data.mp & 3, 0),
            _ => (0, data.mp & 3),
        };
        let sio = data.ni << 6 | mp << 4 | data.si & 0x0f;
        Msu {
            priority,
            ..Msu::new(sio, sif.into())
        }
    }

    /// Returns the message of an MSU, `None` if it is shorter than a label.
    pub(crate) fn decode(self, msu: &Msu) -> Option<ProtocolData> {
        let label = msu.sif.get(..self.len())?;
        let mut octets = [0; 8];
        octets[..self.len()].copy_from_slice(label);
        let label = u64::from_le_bytes(octets);
        let code = |shift: u8| PointCode::new((label >> shift & ((1 << self.bits) - 1)) as u32);
        let sls = (label >> (2 * self.bits)) as usize & (self.sls_values() - 1);
        Some(ProtocolData {
            dpc: code(0)?,
            opc: code(self.bits)?,
            si: msu.sio & 0x0f,
            ni: msu.sio >> 6,
            mp: match self.bits {
                16 => msu.priority & 3,
                _ => msu.sio >> 4 & 3,
            },
            sls: sls as u8,
            user_data: msu.sif.slice(self.len()..),
        })
    }

    /// Returns a message about a link. With 24 bits the SLC is in the message, otherwise in the label.
    pub(super) fn link_message(
        self,
        [opc, dpc]: [PointCode; 2],
        ni: u8,
        message: &LinkMessage,
    ) -> ProtocolData {
        let (si, heading, slc, content) = match message {
            LinkMessage::ChangeoverOrder(slc, fsn) => (0, XCO, *slc, fsn.value()),
            LinkMessage::ChangeoverAck(slc, fsn) => (0, XCA, *slc, fsn.value()),
            LinkMessage::ChangebackDeclaration(slc, code) => (0, CBD, *slc, u32::from(*code)),
            LinkMessage::ChangebackAck(slc, code) => (0, CBA, *slc, u32::from(*code)),
            LinkMessage::Test(slc, si, _) => (*si, SLTM, *slc, 0),
            LinkMessage::TestAck(slc, si, _) => (*si, SLTA, *slc, 0),
        };
        let mut user_data = vec![heading];
        if let LinkMessage::Test(.., rest) | LinkMessage::TestAck(.., rest) = message {
            user_data.extend_from_slice(rest);
        } else {
            let long = matches!(heading, XCO | XCA);
            let (content, octets) = match (self.bits, long) {
                (24, true) => (content << 4 | u32::from(slc), 4),
                (24, false) => (content << 4 | u32::from(slc), 2),
                (_, true) => (content, 3),
                (_, false) => (content, 1),
            };
            user_data.extend_from_slice(&content.to_le_bytes()[..octets]);
        }
        ProtocolData {
            si,
            ..self.management(opc, dpc, ni, slc, user_data)
        }
    }

    /// Returns a signalling network management message with the highest priority.
    pub(super) fn management(
        self,
        opc: PointCode,
        dpc: PointCode,
        ni: u8,
        sls: u8,
        user_data: Vec<u8>,
    ) -> ProtocolData {
        ProtocolData {
            opc,
            dpc,
            si: NETWORK_MANAGEMENT,
            ni,
            mp: if self.bits == 24 { 3 } else { 0 },
            sls,
            user_data: user_data.into(),
        }
    }

    /// Returns a message about a link, `None` for all other messages.
    pub(super) fn parse_link_message(self, data: &ProtocolData) -> Option<LinkMessage> {
        let (heading, rest) = data.user_data.split_first()?;
        if TESTING.contains(&data.si) {
            let rest = data.user_data.slice(1..);
            return match *heading {
                SLTM => Some(LinkMessage::Test(data.sls, data.si, rest)),
                SLTA => Some(LinkMessage::TestAck(data.sls, data.si, rest)),
                _ => None,
            };
        }
        if data.si != NETWORK_MANAGEMENT {
            return None;
        }
        let long = matches!(*heading, XCO | XCA);
        let octets = match (self.bits, long) {
            (24, true) => 4,
            (24, false) => 2,
            (_, true) => 3,
            (_, false) => 1,
        };
        let mut content = [0; 4];
        content[..octets].copy_from_slice(rest.get(..octets)?);
        let content = u32::from_le_bytes(content);
        let (slc, content) = match self.bits {
            24 => ((content & 0x0f) as u8, content >> 4),
            _ => (data.sls, content),
        };
        let fsn = SequenceNumber::new(content & SequenceNumber::MAX.value())?;
        match *heading {
            XCO => Some(LinkMessage::ChangeoverOrder(slc, fsn)),
            XCA => Some(LinkMessage::ChangeoverAck(slc, fsn)),
            CBD => Some(LinkMessage::ChangebackDeclaration(slc, content as u8)),
            CBA => Some(LinkMessage::ChangebackAck(slc, content as u8)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_the_octets_of_their_format() {
        for (bits, dpc, opc, sls, label) in [
            (14, 0x3fff, 1, 5, &[0xff, 0x7f, 0x00, 0x50][..]),
            (16, 0xabcd, 2, 5, &[0xcd, 0xab, 2, 0, 5][..]),
            (24, 0x1_0203, 4, 200, &[3, 2, 1, 4, 0, 0, 200][..]),
        ] {
            let data = ProtocolData {
                opc: PointCode::new(opc).unwrap(),
                dpc: PointCode::new(dpc).unwrap(),
                si: 3,
                ni: 2,
                mp: 1,
                sls,
                user_data: Bytes::from_static(b"user"),
            };
            let format = LabelFormat::new(bits);
            let msu = format.encode(&data);
            assert_eq!(msu.sif, [label, b"user"].concat(), "{bits}");
            assert_eq!(format.decode(&msu), Some(data));
            let short = Msu::new(0, msu.sif.slice(..label.len() - 1));
            assert_eq!(format.decode(&short), None);
        }
    }

    #[test]
    fn messages_about_links_are_read_as_written() {
        let fsn = SequenceNumber::new(0x1_0203).unwrap();
        let codes = [1, 2].map(|code| PointCode::new(code).unwrap());
        for bits in [14, 16, 24] {
            let format = LabelFormat::new(bits);
            for message in [
                LinkMessage::ChangeoverOrder(3, fsn),
                LinkMessage::ChangeoverAck(3, fsn),
                LinkMessage::ChangebackDeclaration(3, 200),
                LinkMessage::ChangebackAck(3, 200),
                LinkMessage::Test(3, 1, Bytes::from_static(b"\x40test")),
                LinkMessage::TestAck(3, 2, Bytes::from_static(b"\x40test")),
            ] {
                let data = format.link_message(codes, 2, &message);
                assert_eq!(format.parse_link_message(&data), Some(message));
                let msu = format.encode(&data);
                assert_eq!(format.decode(&msu), Some(data));
            }
        }
    }
}
