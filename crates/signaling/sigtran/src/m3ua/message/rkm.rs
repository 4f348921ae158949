//! Routing key management messages (RFC 4666, section 3.6).

use crate::m3ua::{DeregistrationResult, RegistrationResult, RoutingContexts, RoutingKey};
use crate::message::body::message;

message! {
    /// Registration Request, REG REQ (section 3.6.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0207          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing key, repeated                                      ...
    /// ```
    RegistrationRequest {
        /// Routing keys, at least one.
        routing_keys: Vec<RoutingKey>,
    }
}

message! {
    /// Registration Response, REG RSP (section 3.6.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0208          |          length = 28          |
    /// +-------------------------------+-------------------------------+
    /// |  registration result, repeated                              ...
    /// ```
    RegistrationResponse {
        /// Results, at least one.
        results: Vec<RegistrationResult>,
    }
}

message! {
    /// Deregistration Request, DEREG REQ (section 3.6.3).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0006          |            length             |
    /// +-------------------------------+-------------------------------+
    /// |  routing contexts                                           ...
    /// ```
    DeregistrationRequest {
        /// Routing contexts to deregister.
        routing_contexts: RoutingContexts,
    }
}

message! {
    /// Deregistration Response, DEREG RSP (section 3.6.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |         tag = 0x0209          |          length = 20          |
    /// +-------------------------------+-------------------------------+
    /// |  deregistration result, repeated                            ...
    /// ```
    DeregistrationResponse {
        /// Results, at least one.
        results: Vec<DeregistrationResult>,
    }
}
