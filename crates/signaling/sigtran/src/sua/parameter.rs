//! Parameters (RFC 3868, section 3.10). Addresses, causes and Routing Keys have their own modules.

use super::tag;
use crate::message::common::user_cause;
use crate::message::field::{Parameter, Value, enumerations, newtypes};
use crate::message::{DecodeError, DecodeErrorKind, EncodeError, MessageWriter};

newtypes! {
    /// Network Appearance: the SS7 network of a Routing Key (section 3.10.13). Local to an SG and its ASPs.
    NetworkAppearance(u32) = tag::NETWORK_APPEARANCE;
    /// Local Routing Key Identifier: correlates a registration with its result (section 3.9.24).
    LocalRoutingKeyIdentifier(u32) = tag::LOCAL_ROUTING_KEY_IDENTIFIER;
    /// Source Reference Number of a connection, allocated by the sender (section 3.10.4).
    SourceReferenceNumber(u32) = tag::SOURCE_REFERENCE_NUMBER;
    /// Destination Reference Number of a connection, allocated by the receiver (section 3.10.5).
    DestinationReferenceNumber(u32) = tag::DESTINATION_REFERENCE_NUMBER;
    /// Sequence Control: messages with the same value keep their order (section 3.10.22).
    SequenceControl(u32) = tag::SEQUENCE_CONTROL;
    /// Credit: size of the window in messages, for protocol class 3 (section 3.10.10).
    Credit(u8) = tag::CREDIT;
    /// Data: message of the SCCP user (section 3.10.11).
    UserData(Bytes) = tag::DATA;
}

enumerations! {
    /// Subsystem Multiplicity Indicator, SMI (section 3.10.18).
    ///
    /// ```text
    /// +-----------------------------------------------+---------------+
    /// |                   reserved                    |      SMI      |
    /// +-----------------------------------------------+---------------+
    /// ```
    Smi = tag::SMI, octet, else invalid {
        /// Reserved or unknown.
        Unknown = 0,
        /// Solitary.
        Solitary = 1,
        /// Duplicated.
        Duplicated = 2,
        /// Triplicated.
        Triplicated = 3,
        /// Quadruplicated.
        Quadruplicated = 4,
        /// Unspecified.
        Unspecified = 0xff,
    }
}

/// Declares parameters that are one number within a range.
macro_rules! ranges {
    ($($(#[$doc:meta])* $name:ident = $tag:path, $read:ident in $range:pat,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(u8);

        impl $name {
            /// Parameter with this value, `None` if it is out of range.
            pub const fn new(value: u8) -> Option<Self> {
                match value {
                    $range => Some(Self(value)),
                    _ => None,
                }
            }

            /// Returns the value.
            pub const fn value(self) -> u8 {
                self.0
            }
        }

        impl Parameter for $name {
            const TAG: u16 = $tag;

            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                let number = u32::from(value.$read()?);
                let octet = u8::try_from(number).ok();
                octet.and_then(Self::new).ok_or_else(|| value.invalid(number))
            }

            fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
                writer.number(Self::TAG, self.0.into());
                Ok(())
            }
        }
    )*};
}

ranges! {
    /// SS7 Hop Counter, 1 to 15: decremented with each global title translation (section 3.10.1).
    ///
    /// ```text
    /// +-----------------------------------------------+---------------+
    /// |                   reserved                    |  hop counter  |
    /// +-----------------------------------------------+---------------+
    /// ```
    HopCounter = tag::HOP_COUNTER, octet in 1..=15,
    /// Importance, 0 (least) to 7 (section 3.10.19).
    ///
    /// ```text
    /// +-----------------------------------------------+---------------+
    /// |                   reserved                    |  importance   |
    /// +-----------------------------------------------+---------------+
    /// ```
    Importance = tag::IMPORTANCE, octet in 0..=7,
    /// Message Priority, 0 to 3, or 0xff if the SCCP user specified none (section 3.10.20).
    ///
    /// ```text
    /// +-----------------------------------------------+---------------+
    /// |                   reserved                    |   priority    |
    /// +-----------------------------------------------+---------------+
    /// ```
    MessagePriority = tag::MESSAGE_PRIORITY, octet in 0..=3 | 0xff,
    /// Congestion Level: 0 to 3 of a signalling point, 0 to 7 of a subsystem (section 3.10.24).
    CongestionLevel = tag::CONGESTION_LEVEL, number in 0..=7,
}

impl CongestionLevel {
    /// No congestion, or undefined.
    pub const NONE: Self = Self(0);
}

/// Class of an SCCP service (section 1.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ServiceClass {
    /// Protocol class 0: connectionless, unordered.
    Class0,
    /// Protocol class 1: connectionless, in sequence.
    Class1,
    /// Protocol class 2: connection-oriented.
    Class2,
    /// Protocol class 3: connection-oriented with flow control.
    Class3,
}

impl ServiceClass {
    /// Returns whether the class is connection-oriented.
    pub const fn is_connection_oriented(self) -> bool {
        matches!(self, Self::Class2 | Self::Class3)
    }
}

/// Protocol Class with the return option (section 3.10.21).
///
/// ```text
/// +-----------------------------------------------+-+---------+---+
/// |                   reserved                    |R|  spare  |cls|
/// +-----------------------------------------------+-+---------+---+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProtocolClass {
    /// Class.
    pub class: ServiceClass,
    /// Bit 8: the message is returned on error.
    pub return_on_error: bool,
}

impl ProtocolClass {
    /// Class without the return option.
    pub const fn new(class: ServiceClass) -> Self {
        Self {
            class,
            return_on_error: false,
        }
    }
}

impl Parameter for ProtocolClass {
    const TAG: u16 = tag::PROTOCOL_CLASS;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let octet = value.octet()?;
        Ok(Self {
            class: match octet & 3 {
                0 => ServiceClass::Class0,
                1 => ServiceClass::Class1,
                2 => ServiceClass::Class2,
                _ => ServiceClass::Class3,
            },
            return_on_error: octet & 0x80 != 0,
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let octet = self.class as u32 | u32::from(self.return_on_error) << 7;
        writer.number(Self::TAG, octet);
        Ok(())
    }
}

/// Sequence number P(S) or P(R) of protocol class 3, modulo 128 (section 3.10.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SequenceNumber(u8);

impl SequenceNumber {
    /// Sequence number, `None` above 127.
    pub const fn new(value: u8) -> Option<Self> {
        if value < 128 { Some(Self(value)) } else { None }
    }

    /// Returns the value, 0 to 127.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// Returns the number that is `count` after this one.
    #[must_use]
    pub const fn add(self, count: u8) -> Self {
        Self(self.0.wrapping_add(count) % 128)
    }

    /// Returns how many numbers this one is after another one, 0 to 127.
    pub const fn since(self, earlier: Self) -> u8 {
        self.0.wrapping_sub(earlier.0) % 128
    }
}

/// Sequence Number: both sequence numbers and the more data indication of a CODT (section 3.10.7). In protocol class 2
/// only the indication is used.
///
/// ```text
/// +-------------------------------+-------------+-+-------------+-+
/// |           reserved            |    P(R)     |M|    P(S)     |0|
/// +-------------------------------+-------------+-+-------------+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SequenceNumbers {
    /// P(R): next number that is expected from the peer.
    pub received: SequenceNumber,
    /// More data of the same user message follow in the next CODT.
    pub more: bool,
    /// P(S): number of this message.
    pub sent: SequenceNumber,
}

impl Parameter for SequenceNumbers {
    const TAG: u16 = tag::SEQUENCE_NUMBER;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let [_, _, received, sent] = value.exact()?;
        Ok(Self {
            received: SequenceNumber(received >> 1),
            more: received & 1 != 0,
            sent: SequenceNumber(sent >> 1),
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let received = self.received.0 << 1 | u8::from(self.more);
        writer.parameter(Self::TAG, &[0, 0, received, self.sent.0 << 1]);
        Ok(())
    }
}

/// Receive Sequence Number P(R) of a CODA: lower edge of the window (section 3.10.8).
///
/// ```text
/// +-----------------------------------------------+-------------+-+
/// |                   reserved                    |    P(R)     |0|
/// +-----------------------------------------------+-------------+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReceiveSequenceNumber(pub SequenceNumber);

impl Parameter for ReceiveSequenceNumber {
    const TAG: u16 = tag::RECEIVE_SEQUENCE_NUMBER;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        Ok(Self(SequenceNumber(value.octet()? >> 1)))
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.number(Self::TAG, u32::from(self.0.0) << 1);
        Ok(())
    }
}

/// Interworking with SS7 networks of a peer (section 3.10.9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Interworking {
    /// No interworking with SS7 networks.
    None,
    /// IP signalling endpoint that interworks with SS7 networks.
    Endpoint,
    /// Signalling gateway.
    SignallingGateway,
    /// Relay node.
    RelayNode,
}

/// ASP Capabilities (section 3.10.9).
///
/// ```text
/// +-------------------------------+-------+-+-+-+-+---------------+
/// |           reserved            |0 0 0 0|3|2|1|0| interworking  |
/// +-------------------------------+-------+-+-+-+-+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AspCapabilities {
    /// Support of protocol classes 0 to 3. Class 0 is mandatory.
    pub classes: [bool; 4],
    /// Interworking with SS7 networks.
    pub interworking: Interworking,
}

impl Parameter for AspCapabilities {
    const TAG: u16 = tag::ASP_CAPABILITIES;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let [_, _, flags, interworking] = value.exact()?;
        Ok(Self {
            classes: [0, 1, 2, 3].map(|class| flags >> class & 1 != 0),
            interworking: match interworking {
                0 => Interworking::None,
                1 => Interworking::Endpoint,
                2 => Interworking::SignallingGateway,
                3 => Interworking::RelayNode,
                other => return Err(value.invalid(other.into())),
            },
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let flags = (0..).zip(self.classes);
        let flags = flags.fold(0, |flags, (class, has)| flags | u8::from(has) << class);
        writer.parameter(Self::TAG, &[0, 0, flags, self.interworking as u8]);
        Ok(())
    }
}

user_cause! {
    /// User/Cause (section 3.10.12). The user is the service indicator of the SCCP, usually 3.
    UserCause = tag::USER_CAUSE;
}

/// Bits of a field that contain a label for loadsharing, at most 16 of them (section 4.7.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LabelPosition {
    /// Most significant bit.
    pub start: u8,
    /// Least significant bit, not above `start`.
    pub end: u8,
}

impl LabelPosition {
    const fn is_valid(self, most_significant: u8) -> bool {
        self.start <= most_significant && self.end <= self.start && self.start - self.end < 16
    }
}

/// Declares labels in a field with this most significant bit.
macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident = $tag:path, bits 0 to $most_significant:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// ```text
        /// +---------------+---------------+-------------------------------+
        /// |     start     |      end      |          label value          |
        /// +---------------+---------------+-------------------------------+
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name {
            /// Position of the label.
            pub position: LabelPosition,
            /// Label, unique in the application server.
            pub label: u16,
        }

        impl Parameter for $name {
            const TAG: u16 = $tag;

            fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
                let [start, end, l0, l1] = value.exact()?;
                let position = LabelPosition { start, end };
                if !position.is_valid($most_significant) {
                    let kind = DecodeErrorKind::LoadsharingLabel(Self::TAG);
                    return Err(DecodeError::new(kind, value.raw.offset));
                }
                let label = u16::from_be_bytes([l0, l1]);
                Ok(Self { position, label })
            }

            fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
                let LabelPosition { start, end } = self.position;
                if !self.position.is_valid($most_significant) {
                    let value = u32::from(start) << 8 | u32::from(end);
                    return Err(EncodeError::Value { tag: Self::TAG, value });
                }
                let [l0, l1] = self.label.to_be_bytes();
                writer.parameter(Self::TAG, &[start, end, l0, l1]);
                Ok(())
            }
        }
    )*};
}

labels! {
    /// DRN Label: label in the destination reference numbers of an ASP's connections (section 3.10.15).
    DrnLabel = tag::DRN_LABEL, bits 0 to 23;
    /// TID Label: label in the transaction identifiers of an ASP (section 3.10.16).
    TidLabel = tag::TID_LABEL, bits 0 to 31;
}

/// Segmentation reference: 24 bits that the sender assigns to the segments of a message (section 3.10.23).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SegmentationReference(u32);

impl SegmentationReference {
    /// Reference from the low 24 bits of a number.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// Returns the number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// Segmentation of a CLDT (section 3.10.23).
///
/// ```text
/// +-+-------------+-----------------------------------------------+
/// |F|  remaining  |            segmentation reference             |
/// +-+-------------+-----------------------------------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Segmentation {
    /// This is the first segment.
    pub first: bool,
    /// Number of segments that follow, 0 to 15.
    pub remaining: u8,
    /// Reference of the segments of one message.
    pub reference: SegmentationReference,
}

impl Segmentation {
    /// Maximum number of segments that follow the first one.
    pub const MAX_REMAINING: u8 = 15;
}

impl Parameter for Segmentation {
    const TAG: u16 = tag::SEGMENTATION;

    fn decode(value: Value<'_>) -> Result<Self, DecodeError> {
        let [first_remaining, reference @ ..] = value.exact::<4>()?;
        let remaining = first_remaining & 0x7f;
        if remaining > Self::MAX_REMAINING {
            return Err(value.invalid(first_remaining.into()));
        }
        let [r0, r1, r2] = reference;
        Ok(Self {
            first: first_remaining & 0x80 != 0,
            remaining,
            reference: SegmentationReference(u32::from_be_bytes([0, r0, r1, r2])),
        })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        let octet = self.remaining | u8::from(self.first) << 7;
        if self.remaining > Self::MAX_REMAINING {
            let (tag, value) = (Self::TAG, octet.into());
            return Err(EncodeError::Value { tag, value });
        }
        writer.number(Self::TAG, u32::from(octet) << 24 | self.reference.0);
        Ok(())
    }
}
