//! Interface Identifier Management (IIM) messages (RFC 3331, section 3.3.4).

use crate::m2ua::{DeregistrationResult, InterfaceIdentifier, LinkKey, RegistrationResult};
use crate::message::body::message;

message! {
    /// Registration Request, REG REQ (section 3.3.4.1).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x0309         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  link key, repeated                                         ...
    /// ```
    RegistrationRequest {
        /// Link keys, at least one.
        link_keys: Vec<LinkKey>,
    }
}

message! {
    /// Registration Response, REG RSP (section 3.3.4.2).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x030d         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  registration result, repeated                              ...
    /// ```
    RegistrationResponse {
        /// Results, at least one.
        results: Vec<RegistrationResult>,
    }
}

message! {
    /// De-Registration Request, DEREG REQ (section 3.3.4.3).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |     tag = 0x0001 or 0x0003    |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  interface identifier, repeated                             ...
    /// ```
    DeregistrationRequest {
        /// Interfaces to deregister, at least one.
        identifiers: Vec<InterfaceIdentifier>,
    }
}

message! {
    /// De-Registration Response, DEREG RSP (section 3.3.4.4).
    ///
    /// ```text
    /// +-------------------------------+-------------------------------+
    /// |          tag = 0x030f         |             length            |
    /// +-------------------------------+-------------------------------+
    /// |  de-registration result, repeated                           ...
    /// ```
    DeregistrationResponse {
        /// Results, at least one.
        results: Vec<DeregistrationResult>,
    }
}
