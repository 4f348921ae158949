//! Parameter tags of all layers. They are one number space, so that a tag has one name.

/// Declares the tags of each layer, and the function that names them.
macro_rules! tags {
    ($($(#[$doc:meta])* mod $layer:ident {
        $($tag:ident = $value:literal, $text:literal;)*
    })*) => {
        $($(#[$doc])* pub mod $layer {
            $(#[doc = $text] pub const $tag: u16 = $value;)*
        })*

        /// Returns the name of a tag, `None` if no layer has it.
        pub const fn name(tag: u16) -> Option<&'static str> {
            Some(match tag {
                $($($layer::$tag => $text,)*)*
                _ => return None,
            })
        }
    };
}

tags! {
    /// Tags that several layers share (RFC 4666, section 3.2).
    mod common {
        INFO_STRING = 0x0004, "INFO String";
        ROUTING_CONTEXT = 0x0006, "Routing Context";
        DIAGNOSTIC_INFORMATION = 0x0007, "Diagnostic Information";
        HEARTBEAT_DATA = 0x0009, "Heartbeat Data";
        TRAFFIC_MODE_TYPE = 0x000b, "Traffic Mode Type";
        ERROR_CODE = 0x000c, "Error Code";
        STATUS = 0x000d, "Status";
        ASP_IDENTIFIER = 0x0011, "ASP Identifier";
        AFFECTED_POINT_CODE = 0x0012, "Affected Point Code";
        CORRELATION_ID = 0x0013, "Correlation Id";
    }

    /// Tags of interface identifiers, which M2UA and IUA have (RFC 3331, section 3.1.6; RFC 4233, section 3.1.5).
    mod interface {
        INTERFACE_IDENTIFIER = 0x0001, "Interface Identifier (integer)";
        INTERFACE_IDENTIFIER_TEXT = 0x0003, "Interface Identifier (text)";
        INTERFACE_IDENTIFIER_RANGE = 0x0008, "Interface Identifier (integer range)";
    }

    /// Tags of M3UA (RFC 4666, section 3.2).
    mod m3ua {
        NETWORK_APPEARANCE = 0x0200, "Network Appearance";
        USER_CAUSE = 0x0204, "User/Cause";
        CONGESTION_INDICATIONS = 0x0205, "Congestion Indications";
        CONCERNED_DESTINATION = 0x0206, "Concerned Destination";
        ROUTING_KEY = 0x0207, "Routing Key";
        REGISTRATION_RESULT = 0x0208, "Registration Result";
        DEREGISTRATION_RESULT = 0x0209, "Deregistration Result";
        LOCAL_ROUTING_KEY_IDENTIFIER = 0x020a, "Local Routing Key Identifier";
        DESTINATION_POINT_CODE = 0x020b, "Destination Point Code";
        SERVICE_INDICATORS = 0x020c, "Service Indicators";
        ORIGINATING_POINT_CODES = 0x020e, "Originating Point Code List";
        PROTOCOL_DATA = 0x0210, "Protocol Data";
        REGISTRATION_STATUS = 0x0212, "Registration Status";
        DEREGISTRATION_STATUS = 0x0213, "Deregistration Status";
    }

    /// Tags of SUA (RFC 3868, sections 3.9 and 3.10).
    mod sua {
        REGISTRATION_RESULT = 0x0014, "Registration Result";
        DEREGISTRATION_RESULT = 0x0015, "Deregistration Result";
        REGISTRATION_STATUS = 0x0016, "Registration Status";
        DEREGISTRATION_STATUS = 0x0017, "Deregistration Status";
        LOCAL_ROUTING_KEY_IDENTIFIER = 0x0018, "Local Routing Key Identifier";
        HOP_COUNTER = 0x0101, "SS7 Hop Counter";
        SOURCE_ADDRESS = 0x0102, "Source Address";
        DESTINATION_ADDRESS = 0x0103, "Destination Address";
        SOURCE_REFERENCE_NUMBER = 0x0104, "Source Reference Number";
        DESTINATION_REFERENCE_NUMBER = 0x0105, "Destination Reference Number";
        SCCP_CAUSE = 0x0106, "SCCP Cause";
        SEQUENCE_NUMBER = 0x0107, "Sequence Number";
        RECEIVE_SEQUENCE_NUMBER = 0x0108, "Receive Sequence Number";
        ASP_CAPABILITIES = 0x0109, "ASP Capabilities";
        CREDIT = 0x010a, "Credit";
        DATA = 0x010b, "Data";
        USER_CAUSE = 0x010c, "User/Cause";
        NETWORK_APPEARANCE = 0x010d, "Network Appearance";
        ROUTING_KEY = 0x010e, "Routing Key";
        DRN_LABEL = 0x010f, "DRN Label";
        TID_LABEL = 0x0110, "TID Label";
        ADDRESS_RANGE = 0x0111, "Address Range";
        SMI = 0x0112, "SMI";
        IMPORTANCE = 0x0113, "Importance";
        MESSAGE_PRIORITY = 0x0114, "Message Priority";
        PROTOCOL_CLASS = 0x0115, "Protocol Class";
        SEQUENCE_CONTROL = 0x0116, "Sequence Control";
        SEGMENTATION = 0x0117, "Segmentation";
        CONGESTION_LEVEL = 0x0118, "Congestion Level";
        GLOBAL_TITLE = 0x8001, "Global Title";
        POINT_CODE = 0x8002, "Point Code";
        SUBSYSTEM_NUMBER = 0x8003, "Subsystem Number";
        IPV4_ADDRESS = 0x8004, "IPv4 Address";
        HOST_NAME = 0x8005, "Hostname";
        IPV6_ADDRESS = 0x8006, "IPv6 Address";
    }

    /// Tags of M2UA (RFC 3331, section 3.1.6).
    mod m2ua {
        PROTOCOL_DATA = 0x0300, "Protocol Data 1";
        TTC_PROTOCOL_DATA = 0x0301, "Protocol Data 2 (TTC)";
        STATE_REQUEST = 0x0302, "State Request";
        STATE_EVENT = 0x0303, "State Event";
        CONGESTION_STATUS = 0x0304, "Congestion Status";
        DISCARD_STATUS = 0x0305, "Discard Status";
        ACTION = 0x0306, "Action";
        SEQUENCE_NUMBER = 0x0307, "Sequence Number";
        RETRIEVAL_RESULT = 0x0308, "Retrieval Result";
        LINK_KEY = 0x0309, "Link Key";
        LOCAL_LINK_KEY_IDENTIFIER = 0x030a, "Local-LK-Identifier";
        SDT_IDENTIFIER = 0x030b, "Signalling Data Terminal Identifier";
        SDL_IDENTIFIER = 0x030c, "Signalling Data Link Identifier";
        REGISTRATION_RESULT = 0x030d, "Registration Result";
        REGISTRATION_STATUS = 0x030e, "Registration Status";
        DEREGISTRATION_RESULT = 0x030f, "De-Registration Result";
        DEREGISTRATION_STATUS = 0x0310, "De-Registration Status";
    }

    /// Tags of IUA (RFC 4233, section 3.1.5).
    mod iua {
        DLCI = 0x0005, "DLCI";
        PROTOCOL_DATA = 0x000e, "Protocol Data";
        RELEASE_REASON = 0x000f, "Release Reason";
        TEI_STATUS = 0x0010, "TEI Status";
    }
}
