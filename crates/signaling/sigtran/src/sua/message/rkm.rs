//! Routing key management messages (RFC 3868, section 3.8).

use crate::message::body::message;
use crate::sua::{
    AspCapabilities, DeregistrationResult, RegistrationResult, RoutingContexts, RoutingKey,
};

message! {
    /// Registration Request, REG REQ (section 3.8.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x010e         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing key, repeated                                      ...
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0109         |           length = 8          |
    /// +-------------------------------+-------------------------------+
    /// |                        ASP capabilities                       |
    /// +---------------------------------------------------------------+
    /// ```
    RegistrationRequest {
        /// Routing keys, at least one.
        routing_keys: Vec<RoutingKey>,
        /// Capabilities of the ASP.
        capabilities: Option<AspCapabilities>,
    }
}

message! {
    /// Registration Response, REG RSP (section 3.8.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0014         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  registration result, repeated                              ...
    /// ```
    RegistrationResponse {
        /// Results, at least one.
        results: Vec<RegistrationResult>,
    }
}

message! {
    /// Deregistration Request, DEREG REQ (section 3.8.3).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0006         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// ```
    DeregistrationRequest {
        /// Routing contexts to deregister.
        routing_contexts: RoutingContexts,
    }
}

message! {
    /// Deregistration Response, DEREG RSP (section 3.8.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0015         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  deregistration result, repeated                            ...
    /// ```
    DeregistrationResponse {
        /// Results, at least one.
        results: Vec<DeregistrationResult>,
    }
}
