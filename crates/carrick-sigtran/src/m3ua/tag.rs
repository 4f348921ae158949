//! Parameter tags (RFC 4666, section 3.2).

/// INFO String.
pub const INFO_STRING: u16 = 0x0004;
/// Routing Context.
pub const ROUTING_CONTEXT: u16 = 0x0006;
/// Diagnostic Information.
pub const DIAGNOSTIC_INFORMATION: u16 = 0x0007;
/// Heartbeat Data.
pub const HEARTBEAT_DATA: u16 = 0x0009;
/// Traffic Mode Type.
pub const TRAFFIC_MODE_TYPE: u16 = 0x000b;
/// Error Code.
pub const ERROR_CODE: u16 = 0x000c;
/// Status.
pub const STATUS: u16 = 0x000d;
/// ASP Identifier.
pub const ASP_IDENTIFIER: u16 = 0x0011;
/// Affected Point Code.
pub const AFFECTED_POINT_CODE: u16 = 0x0012;
/// Correlation Id.
pub const CORRELATION_ID: u16 = 0x0013;
/// Network Appearance.
pub const NETWORK_APPEARANCE: u16 = 0x0200;
/// User/Cause.
pub const USER_CAUSE: u16 = 0x0204;
/// Congestion Indications.
pub const CONGESTION_INDICATIONS: u16 = 0x0205;
/// Concerned Destination.
pub const CONCERNED_DESTINATION: u16 = 0x0206;
/// Routing Key.
pub const ROUTING_KEY: u16 = 0x0207;
/// Registration Result.
pub const REGISTRATION_RESULT: u16 = 0x0208;
/// Deregistration Result.
pub const DEREGISTRATION_RESULT: u16 = 0x0209;
/// Local Routing Key Identifier.
pub const LOCAL_ROUTING_KEY_IDENTIFIER: u16 = 0x020a;
/// Destination Point Code.
pub const DESTINATION_POINT_CODE: u16 = 0x020b;
/// Service Indicators.
pub const SERVICE_INDICATORS: u16 = 0x020c;
/// Originating Point Code List.
pub const ORIGINATING_POINT_CODES: u16 = 0x020e;
/// Protocol Data.
pub const PROTOCOL_DATA: u16 = 0x0210;
/// Registration Status.
pub const REGISTRATION_STATUS: u16 = 0x0212;
/// Deregistration Status.
pub const DEREGISTRATION_STATUS: u16 = 0x0213;

/// Returns whether the table of section 3.2 marks the tag as reserved or not used in M3UA: it belongs to another
/// adaptation layer or to an old version. Tags above the table are for future parameters.
pub const fn is_excluded(tag: u16) -> bool {
    matches!(
        tag,
        0x0000..=0x0003
            | 0x0005
            | 0x0008
            | 0x000a
            | 0x000e..=0x0010
            | 0x0201..=0x0203
            | 0x020d
            | 0x020f
            | 0x0211
    )
}

/// Returns the name of a tag of M3UA.
pub const fn name(tag: u16) -> Option<&'static str> {
    Some(match tag {
        INFO_STRING => "INFO String",
        ROUTING_CONTEXT => "Routing Context",
        DIAGNOSTIC_INFORMATION => "Diagnostic Information",
        HEARTBEAT_DATA => "Heartbeat Data",
        TRAFFIC_MODE_TYPE => "Traffic Mode Type",
        ERROR_CODE => "Error Code",
        STATUS => "Status",
        ASP_IDENTIFIER => "ASP Identifier",
        AFFECTED_POINT_CODE => "Affected Point Code",
        CORRELATION_ID => "Correlation Id",
        NETWORK_APPEARANCE => "Network Appearance",
        USER_CAUSE => "User/Cause",
        CONGESTION_INDICATIONS => "Congestion Indications",
        CONCERNED_DESTINATION => "Concerned Destination",
        ROUTING_KEY => "Routing Key",
        REGISTRATION_RESULT => "Registration Result",
        DEREGISTRATION_RESULT => "Deregistration Result",
        LOCAL_ROUTING_KEY_IDENTIFIER => "Local Routing Key Identifier",
        DESTINATION_POINT_CODE => "Destination Point Code",
        SERVICE_INDICATORS => "Service Indicators",
        ORIGINATING_POINT_CODES => "Originating Point Code List",
        PROTOCOL_DATA => "Protocol Data",
        REGISTRATION_STATUS => "Registration Status",
        DEREGISTRATION_STATUS => "Deregistration Status",
        _ => return None,
    })
}
