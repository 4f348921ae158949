//! Negotiation: the DTLS Key Management Parameter (draft-ietf-tsvwg-sctp-dtls-chunk, sections 4.1 and 5.1).

use carrick_wire::{CauseCode, ParameterType};

/// DTLS Key Management.
pub(crate) const PARAMETER: ParameterType = ParameterType(0x8006);

/// Methods of a parameter at most, so that its value fits into
/// [`MAX_OFFER`](carrick_proto::protection::MAX_OFFER).
pub(crate) const MAX_METHODS: usize = 32;

const RESTART: u8 = 4;
const SERVER: u8 = 2;
const CLIENT: u8 = 1;

/// Identifier of a key management method (section 9.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Method(pub u8);

impl Method {
    /// Keys that both sides were configured with ([`PreSharedSecret`](crate::PreSharedSecret)).
    pub const PRE_SHARED: Self = Self(0);
    /// Default of the method of TLS 1.3 handshakes, to which the draft assigns no number yet: one of the range
    /// that is first come, first served. Both sides need the same.
    pub const TLS: Self = Self(192);
}

/// Roles in the key management that a side can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Roles {
    /// Either role: the tie breaker decides, if the peer has both as well.
    #[default]
    Both,
    /// Client only.
    Client,
    /// Server only.
    Server,
}

/// Role of a side in the key management of an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Begins the first handshake.
    Client,
    /// Waits for the first handshake.
    Server,
}

impl Roles {
    const fn bits(self) -> u8 {
        match self {
            Self::Both => SERVER | CLIENT,
            Self::Client => CLIENT,
            Self::Server => SERVER,
        }
    }
}

/// Value of the parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyManagementParameter {
    pub(crate) tie_breaker: u32,
    /// R, S and C.
    flags: u8,
    methods: Vec<u8>,
}

/// Result of the negotiation for one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// Role of this side in the key management.
    pub role: Role,
    /// Method of the key management.
    pub method: Method,
    /// Both sides support the protected restart.
    pub restart: bool,
}

impl KeyManagementParameter {
    pub(crate) fn new(tie_breaker: u32, roles: Roles, restart: bool, methods: &[Method]) -> Self {
        Self {
            tie_breaker,
            flags: roles.bits() | if restart { RESTART } else { 0 },
            methods: methods
                .iter()
                .take(MAX_METHODS)
                .map(|method| method.0)
                .collect(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = self.tie_breaker.to_be_bytes().to_vec();
        value.push(self.flags);
        value.extend_from_slice(&self.methods);
        value
    }

    /// Reads a value; `None` without a method. Reserved bits are ignored.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (tie_breaker, rest) = value.split_first_chunk()?;
        let (flags, methods) = rest.split_first()?;
        (!methods.is_empty()).then(|| Self {
            tie_breaker: u32::from_be_bytes(*tie_breaker),
            flags: flags & (RESTART | SERVER | CLIENT),
            methods: methods.to_vec(),
        })
    }

    /// Agrees on the values of both sides.
    pub(crate) fn agree_on_values(ours: &[u8], theirs: &[u8]) -> Result<Agreement, CauseCode> {
        let malformed = CauseCode::NO_COMMON_KEY_MANAGEMENT;
        let ours = Self::decode(ours).ok_or(malformed)?;
        ours.agree(&Self::decode(theirs).ok_or(malformed)?)
    }

    /// Determines role and method of this side (section 5.1):
    ///
    /// 1. A side with one role takes it, and the other side the other role. With both roles on both sides, the one
    ///    with the larger tie breaker is the server.
    /// 2. The method is the first of the server's list that the client has.
    ///
    /// # Errors
    /// The error cause for the peer.
    pub(crate) fn agree(&self, theirs: &Self) -> Result<Agreement, CauseCode> {
        // 1.
        let both = SERVER | CLIENT;
        let roles = (self.flags & both, theirs.flags & both);
        let role = match roles {
            (ours, theirs) if ours == both && theirs == both => None,
            (CLIENT, theirs) if theirs & SERVER != 0 => Some(Role::Client),
            (SERVER, theirs) if theirs & CLIENT != 0 => Some(Role::Server),
            (ours, SERVER) if ours & CLIENT != 0 => Some(Role::Client),
            (ours, CLIENT) if ours & SERVER != 0 => Some(Role::Server),
            _ => return Err(CauseCode::INCOMPATIBLE_KEY_MANAGEMENT_ROLES),
        };
        let by_tie_breaker = match self.tie_breaker.cmp(&theirs.tie_breaker) {
            std::cmp::Ordering::Greater => Ok(Role::Server),
            std::cmp::Ordering::Less => Ok(Role::Client),
            std::cmp::Ordering::Equal => Err(CauseCode::TIE_BREAKER_COLLISION),
        };
        let role = role.map_or(by_tie_breaker, Ok)?;
        // 2.
        let (server, client) = match role {
            Role::Server => (self, theirs),
            Role::Client => (theirs, self),
        };
        let method = server
            .methods
            .iter()
            .find(|method| client.methods.contains(method));
        let method = method.ok_or(CauseCode::NO_COMMON_KEY_MANAGEMENT)?;
        Ok(Agreement {
            role,
            method: Method(*method),
            restart: self.flags & theirs.flags & RESTART != 0,
        })
    }
}

/// Returns the parameter of a value as it is on the wire, without padding.
pub(crate) fn on_the_wire(value: &[u8]) -> Vec<u8> {
    let len = value.len() as u16 + 4;
    [&PARAMETER.0.to_be_bytes()[..], &len.to_be_bytes(), value].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameter(tie_breaker: u32, roles: Roles, methods: &[u8]) -> KeyManagementParameter {
        let methods: Vec<Method> = methods.iter().copied().map(Method).collect();
        KeyManagementParameter::new(tie_breaker, roles, true, &methods)
    }

    /// draft-ietf-tsvwg-sctp-dtls-chunk, section 4.1
    #[test]
    fn the_parameter_has_the_format_of_the_draft() {
        let both = parameter(0x0102_0304, Roles::Both, &[192, 0]);
        assert_eq!(both.encode(), [1, 2, 3, 4, 0b111, 192, 0]);
        assert_eq!(
            on_the_wire(&both.encode()),
            [0x80, 0x06, 0, 11, 1, 2, 3, 4, 0b111, 192, 0]
        );
        let reserved = [1, 2, 3, 4, 0b1111_1010, 7];
        let read = KeyManagementParameter::decode(&reserved).unwrap();
        assert_eq!(read.encode(), [1, 2, 3, 4, 0b010, 7]);
        assert_eq!(KeyManagementParameter::decode(&[1, 2, 3, 4, 7]), None);
    }

    /// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.1
    #[test]
    fn refusals_have_their_cause() {
        let code = |ours: &KeyManagementParameter, theirs: &KeyManagementParameter| {
            ours.agree(theirs).map_err(|c| c.0)
        };
        let client = parameter(1, Roles::Client, &[192]);
        assert_eq!(
            code(&client, &parameter(2, Roles::Client, &[192])),
            Err(103)
        );
        assert_eq!(code(&client, &parameter(1, Roles::Both, &[0])), Err(101));
        let both = parameter(1, Roles::Both, &[192]);
        assert_eq!(code(&both, &both), Err(102));
        assert!(client.agree(&parameter(1, Roles::Server, &[192])).is_ok());
    }

    fn any_parameter() -> impl Strategy<Value = KeyManagementParameter> {
        let methods = proptest::collection::vec(0..5_u8, 1..5);
        (0..4_u32, 0..8_u8, methods).prop_map(|(tie_breaker, flags, methods)| {
            KeyManagementParameter {
                tie_breaker,
                flags,
                methods,
            }
        })
    }

    proptest! {
        /// draft-ietf-tsvwg-sctp-dtls-chunk, section 5.1
        #[test]
        fn both_sides_agree_alike(ours in any_parameter(), theirs in any_parameter()) {
            match (ours.agree(&theirs), theirs.agree(&ours)) {
                (Ok(here), Ok(there)) => {
                    prop_assert_ne!(here.role, there.role);
                    prop_assert_eq!((here.method, here.restart), (there.method, there.restart));
                }
                (here, there) => prop_assert_eq!(here.map_err(|c| c.0), there.map_err(|c| c.0)),
            }
        }
    }
}
