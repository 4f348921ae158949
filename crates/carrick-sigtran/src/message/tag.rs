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
}
