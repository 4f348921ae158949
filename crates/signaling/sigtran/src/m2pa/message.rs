//! Messages (RFC 4165, section 2), each drawn above its type.

use bytes::Bytes;

use super::SequenceNumber;
use super::error::{DecodeError, DecodeErrorKind, EncodeError};

/// Version of M2PA.
const VERSION: u8 = 1;
/// Message class of M2PA.
const CLASS: u8 = 11;
/// Message type of User Data.
const USER_DATA: u8 = 1;
/// Message type of Link Status.
const LINK_STATUS: u8 = 2;
/// Size of the common header and the M2PA header in octets.
const HEADER_LEN: usize = 16;
/// Size of the state in octets.
const STATE_LEN: usize = 4;

/// Maximum size of the data of a message in octets: the priority, and the longest message of MTP3 (Q.2210).
pub const MAX_DATA: usize = 1 + 4096;
/// Maximum size of a message in octets.
pub const MAX_MESSAGE: usize = HEADER_LEN + MAX_DATA;

/// Message of M2PA: common header, M2PA header and data (sections 2.1 to 2.3).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+---------------+---------------+---------------+
/// |  version = 1  |     spare     |  class = 11   | message type  |
/// +---------------+---------------+---------------+---------------+
/// |                 message length, with headers                  |
/// +---------------+-----------------------------------------------+
/// |    unused     |                      BSN                      |
/// +---------------+-----------------------------------------------+
/// |    unused     |                      FSN                      |
/// +---------------+-----------------------------------------------+
/// |  User Data (type = 1) or Link Status (type = 2)             ...
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Backward sequence number: FSN of the message last received and accepted from the peer.
    pub bsn: SequenceNumber,
    /// Forward sequence number: number of this User Data message, or of the last one with data.
    pub fsn: SequenceNumber,
    /// Data of the message.
    pub body: Body,
}

/// Data of a message (section 2.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// User Data (section 2.3.1): a message of MTP3, or `None` in an acknowledgement.
    UserData(Option<Msu>),
    /// Link Status (section 2.3.2).
    LinkStatus(LinkStatus),
}

/// Message of MTP3 in User Data: the fields of an MTP message signal unit that M2PA carries (section 2.3.1).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---+-----------+---------------+-------------------------------+
/// |PRI|   spare   |      SIO      |  SIF                        ...
/// +---+-----------+---------------+-------------------------------+
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Msu {
    /// Message priority, 0 to 3. Only the MTP of the Japanese TTC has it; 0 for others.
    pub priority: u8,
    /// Service Information Octet.
    pub sio: u8,
    /// Signaling Information Field, at most 4,095 octets.
    pub sif: Bytes,
}

impl Msu {
    /// Message with priority 0.
    pub const fn new(sio: u8, sif: Bytes) -> Self {
        Self {
            priority: 0,
            sio,
            sif,
        }
    }

    /// Returns the number of octets of the Data field.
    pub const fn data_len(&self) -> usize {
        2 + self.sif.len()
    }

    /// Checks that User Data can carry the message.
    pub(super) const fn check(&self) -> Result<(), EncodeError> {
        if self.priority > 3 {
            return Err(EncodeError::Priority(self.priority));
        }
        let length = self.data_len();
        if length > MAX_DATA {
            return Err(EncodeError::TooLong { length });
        }
        Ok(())
    }
}

/// State of the link at the sender (section 2.3.2).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------------------------------------------------------+
/// |                             state                             |
/// +---------------------------------------------------------------+
/// |  filler, in the proving states only                         ...
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkStatus {
    /// Alignment, in place of SIO.
    Alignment,
    /// Proving Normal, in place of SIN, with its filler.
    ProvingNormal(Bytes),
    /// Proving Emergency, in place of SIE, with its filler.
    ProvingEmergency(Bytes),
    /// Ready, in place of the FISU at the end of proving and of a processor outage.
    Ready,
    /// Processor Outage, in place of SIPO.
    ProcessorOutage,
    /// Processor Recovered: end of a processor outage.
    ProcessorRecovered,
    /// Busy, in place of SIB.
    Busy,
    /// Busy Ended.
    BusyEnded,
    /// Out of Service, in place of SIOS.
    OutOfService,
}

impl LinkStatus {
    /// Returns the number of the state.
    pub const fn state(&self) -> u32 {
        match self {
            Self::Alignment => 1,
            Self::ProvingNormal(_) => 2,
            Self::ProvingEmergency(_) => 3,
            Self::Ready => 4,
            Self::ProcessorOutage => 5,
            Self::ProcessorRecovered => 6,
            Self::Busy => 7,
            Self::BusyEnded => 8,
            Self::OutOfService => 9,
        }
    }

    fn decode(octets: &Bytes) -> Result<Self, DecodeError> {
        let Some((state, filler)) = octets[HEADER_LEN..].split_first_chunk::<STATE_LEN>() else {
            let length = octets.len() - HEADER_LEN;
            return Err(DecodeError::new(
                DecodeErrorKind::StateTruncated { length },
                HEADER_LEN,
            ));
        };
        let proving = || octets.slice(HEADER_LEN + STATE_LEN..);
        let status = match u32::from_be_bytes(*state) {
            1 => Self::Alignment,
            2 => return Ok(Self::ProvingNormal(proving())),
            3 => return Ok(Self::ProvingEmergency(proving())),
            4 => Self::Ready,
            5 => Self::ProcessorOutage,
            6 => Self::ProcessorRecovered,
            7 => Self::Busy,
            8 => Self::BusyEnded,
            9 => Self::OutOfService,
            state => {
                return Err(DecodeError::new(DecodeErrorKind::State(state), HEADER_LEN));
            }
        };
        if !filler.is_empty() {
            let length = filler.len();
            return Err(DecodeError::new(
                DecodeErrorKind::UnexpectedFiller { length },
                HEADER_LEN + STATE_LEN,
            ));
        }
        Ok(status)
    }

    fn filler(&self) -> &[u8] {
        match self {
            Self::ProvingNormal(filler) | Self::ProvingEmergency(filler) => filler,
            _ => &[],
        }
    }
}

impl Message {
    /// Parses an SCTP user message. Variable values are slices of it.
    ///
    /// The spare octet (section 2.1.2), the unused octets of the M2PA header and the spare bits beside the priority
    /// are ignored.
    ///
    /// # Errors
    /// [`DecodeError`] with the position. The message is to be discarded (section 4.2.1).
    pub fn decode(octets: &Bytes) -> Result<Self, DecodeError> {
        let received = octets.len();
        let Some(header) = octets.first_chunk::<HEADER_LEN>() else {
            return Err(DecodeError::new(
                DecodeErrorKind::HeaderTruncated { length: received },
                0,
            ));
        };
        let [version, _, class, message_type, l0, l1, l2, l3, ..] = *header;
        if version != VERSION {
            return Err(DecodeError::new(DecodeErrorKind::Version(version), 0));
        }
        if class != CLASS {
            return Err(DecodeError::new(DecodeErrorKind::Class(class), 2));
        }
        if received > MAX_MESSAGE {
            let length = received;
            return Err(DecodeError::new(DecodeErrorKind::TooLong { length }, 4));
        }
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        if length as usize != received {
            return Err(DecodeError::new(
                DecodeErrorKind::MessageLength { length, received },
                4,
            ));
        }
        let [.., _, b0, b1, b2, _, f0, f1, f2] = *header;
        let number = |octets: [u8; 3]| {
            let [o0, o1, o2] = octets;
            SequenceNumber::MAX.add(u32::from_be_bytes([0, o0, o1, o2]) + 1)
        };
        let body = match message_type {
            USER_DATA => Body::UserData(decode_user_data(octets)?),
            LINK_STATUS => Body::LinkStatus(LinkStatus::decode(octets)?),
            other => return Err(DecodeError::new(DecodeErrorKind::Type(other), 3)),
        };
        Ok(Self {
            bsn: number([b0, b1, b2]),
            fsn: number([f0, f1, f2]),
            body,
        })
    }

    /// Encodes the message.
    ///
    /// # Errors
    /// [`EncodeError`] if the data is too long or the priority is not defined.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let (message_type, length) = match &self.body {
            Body::UserData(None) => (USER_DATA, 0),
            Body::UserData(Some(msu)) => {
                msu.check()?;
                (USER_DATA, msu.data_len())
            }
            Body::LinkStatus(status) => (LINK_STATUS, STATE_LEN + status.filler().len()),
        };
        if length > MAX_DATA {
            return Err(EncodeError::TooLong { length });
        }
        let length = HEADER_LEN + length;
        let mut octets = Vec::with_capacity(length);
        octets.extend_from_slice(&[VERSION, 0, CLASS, message_type]);
        octets.extend_from_slice(&(length as u32).to_be_bytes());
        octets.extend_from_slice(&self.bsn.value().to_be_bytes());
        octets.extend_from_slice(&self.fsn.value().to_be_bytes());
        match &self.body {
            Body::UserData(None) => {}
            Body::UserData(Some(msu)) => {
                octets.extend_from_slice(&[msu.priority << 6, msu.sio]);
                octets.extend_from_slice(&msu.sif);
            }
            Body::LinkStatus(status) => {
                octets.extend_from_slice(&status.state().to_be_bytes());
                octets.extend_from_slice(status.filler());
            }
        }
        Ok(Bytes::from(octets))
    }
}

fn decode_user_data(octets: &Bytes) -> Result<Option<Msu>, DecodeError> {
    match octets[HEADER_LEN..] {
        [] => Ok(None),
        [_] => Err(DecodeError::new(
            DecodeErrorKind::ServiceInformationMissing,
            HEADER_LEN + 1,
        )),
        [first, sio, ..] => Ok(Some(Msu {
            priority: first >> 6,
            sio,
            sif: octets.slice(HEADER_LEN + 2..),
        })),
    }
}
