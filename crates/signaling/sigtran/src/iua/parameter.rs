//! Parameters (RFC 4233, sections 3.2 and 3.3).

use super::tag;
use crate::message::field::{Parameter, Value, enumerations, newtypes};
use crate::message::{DecodeError, EncodeError, MessageWriter};

newtypes! {
    /// Protocol Data: message of the user of Q.921, such as Q.931 (section 3.3.1.3).
    ProtocolData(Bytes) = tag::PROTOCOL_DATA;
}

enumerations! {
    /// Traffic Mode Type (section 3.3.2.5). IUA has no broadcast.
    TrafficMode = tag::TRAFFIC_MODE_TYPE, number, else undefined_traffic_mode {
        /// Over-ride.
        Override = 1,
        /// Load-share.
        Loadshare = 2,
    }

    /// Reason of a release (section 3.3.1.2).
    ReleaseReason = tag::RELEASE_REASON, number, else invalid {
        /// `RELEASE_MGMT`: release by layer management.
        Management = 0,
        /// `RELEASE_PHYS`: release by an alarm of the physical layer; not in a request.
        Physical = 1,
        /// `RELEASE_DM`: layer 2 should also refuse requests of the far end to establish a data link.
        Dm = 2,
        /// `RELEASE_OTHER`: other reasons.
        Other = 3,
    }

    /// Status of a TEI (section 3.3.3.3).
    TeiStatus = tag::TEI_STATUS, number, else invalid {
        /// ASSIGNED.
        Assigned = 0,
        /// UNASSIGNED.
        Unassigned = 1,
    }
}

/// Data Link Connection Identifier, DLCI (section 3.2). The second bit of the first octet and the last two octets are
/// spare.
///
/// ```text
/// +-----------+-+-+-------------+-+-------------------------------+
/// |   SAPI    |S|0|     TEI     |1|             spare             |
/// +-----------+-+-+-------------+-+-------------------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Dlci {
    sapi: u8,
    tei: u8,
}

impl Dlci {
    /// Lowest data link, in order.
    pub(super) const MIN: Self = Self { sapi: 0, tei: 0 };
    /// Highest data link, in order.
    pub(super) const MAX: Self = Self { sapi: 63, tei: 127 };

    /// DLCI of a service access point and a terminal endpoint, `None` if the SAPI is above 63 or the TEI above 127.
    pub const fn new(sapi: u8, tei: u8) -> Option<Self> {
        if sapi < 64 && tei < 128 {
            Some(Self { sapi, tei })
        } else {
            None
        }
    }

    /// Returns the Service Access Point Identifier, SAPI.
    pub const fn sapi(self) -> u8 {
        self.sapi
    }

    /// Returns the Terminal Endpoint Identifier, TEI.
    pub const fn tei(self) -> u8 {
        self.tei
    }
}

impl Parameter for Dlci {
    const TAG: u16 = tag::DLCI;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let [first, second, _, _] = value.exact()?;
        if first & 1 != 0 || second & 1 == 0 {
            return Err(value.invalid(u16::from_be_bytes([first, second]).into()));
        }
        Ok(Self {
            sapi: first >> 2,
            tei: second >> 1,
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.parameter(Self::TAG, &[self.sapi << 2, self.tei << 1 | 1, 0, 0]);
        Ok(())
    }
}

/// DLCI without meaning, of a TEI Query (section 3.3.3.4). It is sent with SAPI 0 and TEI 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct IgnoredDlci;

impl Parameter for IgnoredDlci {
    const TAG: u16 = tag::DLCI;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        value.number().map(|_| Self)
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.parameter(Self::TAG, &[0, 1, 0, 0]);
        Ok(())
    }
}
