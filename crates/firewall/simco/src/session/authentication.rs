//! Challenges and tokens. RFC 4540 does not define their contents; here a token is an HMAC-SHA-256
//! under a key shared by agent and middlebox, over the challenge and both names:
//!
//! ```text
//! challenge   1, length of the challenger's name, name, 32 random octets
//! token       1, length of the prover's name, name, 32 octets of HMAC
//! HMAC over   "carrick simco 1", side of the prover, length of challenge (2), challenge,
//!             length and name of the agent, length and name of the middlebox
//! ```
//!
//! Tokens of the two sides always differ, so a challenge can't be reflected.

use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Identity;
use crate::message::{Challenge, Token};

/// Number of random octets of a challenge.
pub const NONCE_LEN: usize = 32;

const FORMAT: u8 = 1;
const LABEL: &[u8] = b"carrick simco 1";
const MAC_LEN: usize = 32;

/// Key shared by an agent and its middlebox. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey(Bytes);

impl SharedKey {
    /// Creates a key; `None` if it has fewer than 16 octets.
    pub fn new(secret: impl Into<Bytes>) -> Option<Self> {
        let secret = secret.into();
        (secret.len() >= 16).then_some(Self(secret))
    }
}

impl core::fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Side that authenticates itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionSide {
    /// The agent, in an SA request.
    Agent,
    /// The middlebox, in an SA reply.
    Middlebox,
}

/// Returns a challenge of `challenger`.
pub fn make_challenge(challenger: &Identity, nonce: [u8; NONCE_LEN]) -> Challenge {
    let value = named(challenger, &nonce);
    Challenge::new(value).unwrap_or_default()
}

/// Returns the name in a challenge; `None` if it has another format.
pub fn challenge_identity(challenge: &Challenge) -> Option<Identity> {
    let (identity, nonce) = split(challenge.as_bytes())?;
    (nonce.len() == NONCE_LEN).then_some(identity)
}

/// Returns the token of `side` for a challenge.
pub fn make_token(
    key: &SharedKey,
    side: SessionSide,
    challenge: &Challenge,
    agent: &Identity,
    middlebox: &Identity,
) -> Token {
    let tag = mac(key, side, challenge, agent, middlebox)
        .map(|mac| mac.finalize().into_bytes())
        .unwrap_or_default();
    let prover = match side {
        SessionSide::Agent => agent,
        SessionSide::Middlebox => middlebox,
    };
    Token::new(named(prover, &tag)).unwrap_or_default()
}

/// Returns the name in a token; `None` if it has another format.
pub(crate) fn token_identity(token: &Token) -> Option<Identity> {
    let (identity, tag) = split(token.as_bytes())?;
    (tag.len() == MAC_LEN).then_some(identity)
}

/// Verifies the token of `side` for the challenge in constant time.
pub fn verify_token(
    token: &Token,
    key: &SharedKey,
    side: SessionSide,
    challenge: &Challenge,
    agent: &Identity,
    middlebox: &Identity,
) -> bool {
    let prover = match side {
        SessionSide::Agent => agent,
        SessionSide::Middlebox => middlebox,
    };
    let Some((identity, tag)) = split(token.as_bytes()) else {
        return false;
    };
    identity == *prover
        && mac(key, side, challenge, agent, middlebox)
            .is_some_and(|mac| mac.verify_slice(&tag).is_ok())
}

fn mac(
    key: &SharedKey,
    side: SessionSide,
    challenge: &Challenge,
    agent: &Identity,
    middlebox: &Identity,
) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).ok()?;
    mac.update(LABEL);
    mac.update(&[match side {
        SessionSide::Agent => 1,
        SessionSide::Middlebox => 2,
    }]);
    mac.update(&(challenge.as_bytes().len() as u16).to_be_bytes());
    mac.update(challenge.as_bytes());
    for identity in [agent, middlebox] {
        mac.update(&[identity.as_bytes().len() as u8]);
        mac.update(identity.as_bytes());
    }
    Some(mac)
}

fn named(identity: &Identity, rest: &[u8]) -> Bytes {
    let name = identity.as_bytes();
    let mut value = BytesMut::with_capacity(2 + name.len() + rest.len());
    value.put_u8(FORMAT);
    value.put_u8(name.len() as u8);
    value.put_slice(name);
    value.put_slice(rest);
    value.freeze()
}

fn split(value: &[u8]) -> Option<(Identity, Bytes)> {
    let ([FORMAT, len], rest) = value.split_first_chunk::<2>()? else {
        return None;
    };
    let (name, rest) = rest.split_at_checked(usize::from(*len))?;
    let identity = Identity::from_octets(Bytes::copy_from_slice(name))?;
    Some((identity, Bytes::copy_from_slice(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> [Identity; 2] {
        ["agent", "box"].map(|name| Identity::new(name).unwrap())
    }

    fn key(octet: u8) -> SharedKey {
        SharedKey::new(vec![octet; 32]).unwrap()
    }

    #[test]
    fn token_depends_on_role_challenge_key_and_names() {
        let [agent, middlebox] = names();
        let challenge = make_challenge(&middlebox, [7; NONCE_LEN]);
        let token = make_token(&key(1), SessionSide::Agent, &challenge, &agent, &middlebox);
        let check =
            |token: &Token, key: &SharedKey, side, challenge: &Challenge, agent: &Identity| {
                verify_token(token, key, side, challenge, agent, &middlebox)
            };
        assert!(check(
            &token,
            &key(1),
            SessionSide::Agent,
            &challenge,
            &agent
        ));
        assert!(!check(
            &token,
            &key(2),
            SessionSide::Agent,
            &challenge,
            &agent
        ));
        assert!(!check(
            &token,
            &key(1),
            SessionSide::Middlebox,
            &challenge,
            &agent
        ));
        let other = make_challenge(&middlebox, [8; NONCE_LEN]);
        assert!(!check(&token, &key(1), SessionSide::Agent, &other, &agent));
        assert!(!check(
            &token,
            &key(1),
            SessionSide::Agent,
            &challenge,
            &middlebox
        ));
        for at in 0..token.as_bytes().len() {
            let mut changed = token.as_bytes().to_vec();
            changed[at] ^= 1;
            let changed = Token::new(changed).unwrap();
            assert!(
                !check(&changed, &key(1), SessionSide::Agent, &challenge, &agent),
                "octet {at}"
            );
        }
        assert!(!check(
            &Token::default(),
            &key(1),
            SessionSide::Agent,
            &challenge,
            &agent
        ));
    }

    #[test]
    fn reflected_challenge_is_rejected() {
        let [agent, middlebox] = names();
        let challenge = make_challenge(&middlebox, [7; NONCE_LEN]);
        // A token of the middlebox for its own challenge, presented as that of the agent.
        let reflected = make_token(
            &key(1),
            SessionSide::Middlebox,
            &challenge,
            &agent,
            &middlebox,
        );
        assert!(!verify_token(
            &reflected,
            &key(1),
            SessionSide::Agent,
            &challenge,
            &agent,
            &middlebox
        ));
    }

    #[test]
    fn challenges_and_tokens_carry_names() {
        let [agent, middlebox] = names();
        let challenge = make_challenge(&agent, [0; NONCE_LEN]);
        assert_eq!(challenge_identity(&challenge), Some(agent.clone()));
        let token = make_token(
            &key(1),
            SessionSide::Middlebox,
            &challenge,
            &agent,
            &middlebox,
        );
        assert_eq!(token_identity(&token), Some(middlebox));
        for lie in [&b""[..], &[1], &[1, 5, 1], &[2, 1, b'a'], &[1, 1, 0xff, 0]] {
            let lie = Bytes::copy_from_slice(lie);
            assert_eq!(
                challenge_identity(&Challenge::new(lie.clone()).unwrap()),
                None
            );
            assert_eq!(token_identity(&Token::new(lie).unwrap()), None);
        }
    }

    #[test]
    fn short_keys_are_refused_and_none_is_shown() {
        assert!(SharedKey::new(vec![1; 15]).is_none());
        assert_eq!(format!("{:?}", key(0x41)), "Key(..)");
        assert!(Identity::new("").is_none() && Identity::new(&"x".repeat(256)).is_none());
    }
}
