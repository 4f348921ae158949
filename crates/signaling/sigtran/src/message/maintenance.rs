//! Contents of ASP maintenance and management messages that several layers share.

use bytes::Bytes;

use super::body::{Body, message};
use super::field::{Context, Value};
use super::tag::common as tag;
use super::{
    AspIdentifier, DecodeError, EncodeError, HEADER_LEN, InfoString, MessageKind, MessageWriter,
    PARAMETER_HEADER_LEN, RawMessage, RoutingContext, RoutingContexts, Status,
};
use crate::aspm::AsIds;

message! {
    /// Content of ASP Up and ASP Up Ack (RFC 4666, sections 3.5.1 and 3.5.2). The acknowledgements of the other
    /// layers have no identifier.
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0011          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                        ASP identifier                         |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    #[derive(Default)]
    AspUp {
        /// Identifier of the sender.
        asp_identifier: Option<AspIdentifier>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

message! {
    /// Content of ASP Down and ASP Down Ack (RFC 4666, sections 3.5.3 and 3.5.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    #[derive(Default)]
    AspDown {
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

/// Content of BEAT and BEAT Ack (RFC 4666, sections 3.5.5 and 3.5.6). The acknowledgement has all parameters of the BEAT
/// without any change, known or not, so that they are kept as received.
///
/// ```text
/// +-------------------------------+-------------------------------+
/// |         tag = 0x0009          |            length             |
/// +-------------------------------+-------------------------------+
/// |  heartbeat data                                             ...
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Heartbeat {
    /// Parameters with their padding.
    parameters: Bytes,
    /// Heartbeat Data.
    data: Option<Bytes>,
}

impl Heartbeat {
    /// Heartbeat with this Heartbeat Data.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 65,531 octets.
    pub fn new(data: &[u8]) -> Result<Self, EncodeError> {
        let mut writer = MessageWriter::new(MessageKind::new(0, 0));
        writer.parameter(tag::HEARTBEAT_DATA, data);
        let parameters = writer.finish()?.slice(HEADER_LEN..);
        let start = PARAMETER_HEADER_LEN;
        let data = parameters.slice(start..start + data.len());
        Ok(Self {
            parameters,
            data: Some(data),
        })
    }

    /// Returns the Heartbeat Data.
    pub const fn data(&self) -> Option<&Bytes> {
        self.data.as_ref()
    }
}

impl Body for Heartbeat {
    fn decode(raw: RawMessage<'_>, context: Context<'_>) -> Result<Self, DecodeError> {
        let mut data = None;
        for raw in raw.parameters() {
            let raw = raw?;
            let value = Value { raw, context };
            match raw.tag {
                tag::HEARTBEAT_DATA if data.is_some() => return Err(value.repeated()),
                tag::HEARTBEAT_DATA => data = Some(value.all()),
                _ => context.skip(raw)?,
            }
        }
        let octets = raw.parameter_octets();
        let parameters = if octets.len().is_multiple_of(4) {
            context.octets.slice_ref(octets)
        } else {
            // The acknowledgement has the padding that the BEAT lacks (RFC 4666, section 3.2).
            let mut padded = octets.to_vec();
            padded.resize(octets.len().next_multiple_of(4), 0);
            Bytes::from(padded)
        };
        Ok(Self { parameters, data })
    }

    fn encode(&self, writer: &mut MessageWriter) -> Result<(), EncodeError> {
        writer.value(&self.parameters);
        Ok(())
    }
}

message! {
    /// Content of ASP Inactive and ASP Inactive Ack of M3UA and SUA (RFC 4666, sections 3.7.3 and 3.7.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    #[derive(Default)]
    AspInactive {
        /// Application servers, all of the ASP if absent.
        routing_contexts: Option<RoutingContexts>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

message! {
    /// Notify, NTFY, of M3UA and SUA (RFC 4666, section 3.8.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x000d          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |          status type          |      status information       |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0011          |          length = 8           |
    /// +-------------------------------+-------------------------------+
    /// |                        ASP identifier                         |
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0004          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  INFO string                                                ...
    /// ```
    Notify {
        /// Event.
        status: Status,
        /// ASP that became active or failed, if it has an identifier.
        asp_identifier: Option<AspIdentifier>,
        /// Application servers of the event.
        routing_contexts: Option<RoutingContexts>,
        /// Text for debugging.
        info: Option<InfoString>,
    }
}

impl AspInactive {
    /// ASP Inactive or its acknowledgement for application servers.
    pub(crate) fn of(ids: Option<AsIds<RoutingContext>>) -> Self {
        Self {
            routing_contexts: RoutingContexts::of(ids),
            info: None,
        }
    }
}

impl Notify {
    /// Notify message about application servers.
    pub(crate) fn of(
        status: Status,
        asp_identifier: Option<AspIdentifier>,
        ids: Option<AsIds<RoutingContext>>,
    ) -> Self {
        Self {
            status,
            asp_identifier,
            routing_contexts: RoutingContexts::of(ids),
            info: None,
        }
    }

    /// Returns the status and the application servers.
    pub(crate) fn read(&self) -> (Status, Option<AsIds<RoutingContext>>) {
        let contexts = self.routing_contexts.clone();
        (self.status, contexts.and_then(AsIds::from_contexts))
    }
}
