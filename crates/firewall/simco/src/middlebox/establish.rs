//! Session control: SE, SA and ST (RFC 4540, sections 7.2 to 7.4).

use rand_core::Rng;

use super::sessions::SessionState;
use super::{AgentConfig, Middlebox, MiddleboxEvent, ReplyTo, SessionEnd};
use crate::backend::Backend;
use crate::message::{Challenge, NegativeReply, ProtocolVersion, Reply, Request, Token, VERSION};
use crate::rules::AgentIndex;
use crate::session::{
    Identity, NONCE_LEN, SessionSide, SharedKey, challenge_identity, make_challenge, make_token,
    token_identity, verify_token,
};

impl<B: Backend> Middlebox<B> {
    /// Handles a request of session control; returns the reason of a refusal.
    pub(super) fn session_request(
        &mut self,
        to: ReplyTo,
        state: &SessionState,
        request: Request,
    ) -> Option<NegativeReply> {
        match (state, request) {
            (SessionState::Closed, Request::Establish { version, challenge }) => {
                self.establish(to, version, challenge.as_ref())
            }
            (SessionState::NoAuth { challenge }, Request::Authenticate(token)) => {
                self.authenticate(to, challenge.as_ref(), token.as_ref())
            }
            (SessionState::NoAuth { .. } | SessionState::Open(_), Request::Terminate) => {
                self.reply(to, &Reply::Terminated);
                self.end_session(to.session, SessionEnd::Requested);
                None
            }
            _ => {
                let refused = NegativeReply::NotApplicable;
                self.reply(to, &Reply::Negative(refused));
                Some(refused)
            }
        }
    }

    fn refuse(&mut self, to: ReplyTo, reply: NegativeReply) -> NegativeReply {
        self.reply(to, &Reply::Negative(reply));
        self.end_session(to.session, SessionEnd::Refused(reply));
        reply
    }

    fn establish(
        &mut self,
        to: ReplyTo,
        version: ProtocolVersion,
        challenge: Option<&Challenge>,
    ) -> Option<NegativeReply> {
        let session = self.sessions.get(to.session)?;
        let (authenticated, secure) = (session.authenticated, session.secure);
        let unknown_identity = session.unknown_identity;
        if self.sessions.open() >= self.config.limits.open_sessions {
            return Some(self.refuse(to, NegativeReply::LackOfResources));
        }
        if self.config.require_security && !secure {
            return Some(self.refuse(to, NegativeReply::InsufficientSecurity));
        }
        if version != VERSION {
            return Some(self.refuse(to, NegativeReply::VersionMismatch(VERSION)));
        }
        if unknown_identity {
            return Some(self.refuse(to, NegativeReply::NoAuthorization));
        }
        // Agents that can authenticate themselves do so even if it is not required.
        let can_prove = challenge.is_some_and(|challenge| self.key_of(challenge).is_some());
        let known = authenticated.or(self.anonymous.filter(|_| !can_prove));
        match (known, challenge) {
            (Some(agent), None) => self.open(to, agent),
            (known, challenge) => {
                let token = challenge.map(|challenge| self.own_token(challenge));
                let challenge = known.is_none().then(|| {
                    let mut nonce = [0; NONCE_LEN];
                    self.random.fill_bytes(&mut nonce);
                    make_challenge(&self.config.identity, nonce)
                });
                self.sessions.set_state(
                    to.session,
                    SessionState::NoAuth {
                        challenge: challenge.clone(),
                    },
                );
                self.reply(to, &Reply::Authenticate { challenge, token });
                None
            }
        }
    }

    /// Returns the agent of a challenge, if it has a key.
    fn key_of(&self, challenge: &Challenge) -> Option<(&AgentConfig, &SharedKey)> {
        let index = self.agents.find(&challenge_identity(challenge)?)?;
        let config = self.agents.config(index);
        Some((config, config.key.as_ref()?))
    }

    /// Returns the token of this middlebox; empty for an agent that is unknown or has no key.
    fn own_token(&self, challenge: &Challenge) -> Token {
        match self.key_of(challenge) {
            Some((config, key)) => make_token(
                key,
                SessionSide::Middlebox,
                challenge,
                &config.identity,
                &self.config.identity,
            ),
            None => Token::default(),
        }
    }

    fn authenticate(
        &mut self,
        to: ReplyTo,
        challenge: Option<&Challenge>,
        token: Option<&Token>,
    ) -> Option<NegativeReply> {
        let Some(challenge) = challenge else {
            // Only the middlebox had to authenticate itself.
            let authenticated = self.sessions.get(to.session).and_then(|s| s.authenticated);
            return match authenticated.or(self.anonymous) {
                Some(agent) => self.open(to, agent),
                None => Some(self.refuse(to, NegativeReply::NoAuthorization)),
            };
        };
        let claimed = token.and_then(token_identity);
        if let Some(agent) = self.check_token(challenge, token, claimed.as_ref()) {
            self.sessions.set_key_authenticated(to.session);
            return self.open(to, agent);
        }
        self.events.push_back(MiddleboxEvent::AuthenticationFailed {
            session: to.session,
            claimed,
        });
        Some(self.refuse(to, NegativeReply::AuthenticationFailed))
    }

    fn check_token(
        &self,
        challenge: &Challenge,
        token: Option<&Token>,
        claimed: Option<&Identity>,
    ) -> Option<AgentIndex> {
        let agent = self.agents.find(claimed?)?;
        let config = self.agents.config(agent);
        verify_token(
            token?,
            config.key.as_ref()?,
            SessionSide::Agent,
            challenge,
            &config.identity,
            &self.config.identity,
        )
        .then_some(agent)
    }

    fn open(&mut self, to: ReplyTo, agent: AgentIndex) -> Option<NegativeReply> {
        // The configuration may have changed since SE.
        if self.config.require_security && !self.sessions.get(to.session)?.secure {
            return Some(self.refuse(to, NegativeReply::InsufficientSecurity));
        }
        let config = self.agents.config(agent);
        if self.agents.sessions(agent).len() >= config.max_sessions
            || self.sessions.open() >= self.config.limits.open_sessions
        {
            return Some(self.refuse(to, NegativeReply::LackOfResources));
        }
        let identity = config.identity.clone();
        self.sessions
            .set_state(to.session, SessionState::Open(agent));
        self.agents.session_opened(agent, to.session);
        self.events.push_back(MiddleboxEvent::SessionOpened {
            session: to.session,
            agent: identity,
        });
        self.reply(to, &Reply::Established(self.capabilities()));
        None
    }
}
