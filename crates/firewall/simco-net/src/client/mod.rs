//! Agent as a library for tokio programs.
//!
//! A [`Client`] has one session with a middlebox, over any transport. It reconnects with increasing
//! pauses when the session is lost, and restores its rules.
//!
//! A [`HeldRule`] is soft state that is maintained: it is refreshed before its lifetime ends, and
//! requested again if the middlebox has lost it. Dropped, it expires; closed, it is deleted at once.
//!
//! ```no_run
//! use carrick_simco_net::client::{Client, ClientConfig, ConnectTarget};
//! # async fn example(request: carrick_simco::message::EnableRequest) -> Result<(), Box<dyn std::error::Error>> {
//! let target = ConnectTarget::tcp("fw1.example.net", carrick_simco::PORT);
//! let client = Client::connect(ClientConfig::new(target)).await?;
//! let pinhole = client.enable(request).await?;
//! println!("rule {} is open", pinhole.id());
//! pinhole.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Requests without a reply
//!
//! After [`AgentSettings::timeout`] the client sends PRS for a request about a known rule. For a
//! request that creates a rule it sends PRL, and PRS for each unknown rule, once for all requests that
//! were lost together. The replies determine the outcome. Without them, the request fails with
//! [`RequestError::Unanswered`], and nothing is held.
//!
//! If the session is lost before the reply, the client queries the next one: a rule that was created
//! is held, a request that was not carried out is repeated once. If no session opens meanwhile, or the
//! agent has more rules than a reply to PRL can list, the request fails with [`RequestError::Lost`].
//! [`Client::extend`] is not repeated: in another session its identifier may be another rule's.
//!
//! [`Client::enable_cancellable`] is for callers that may cancel a request and then need its rule
//! deleted.

mod agent_link;
mod error;
mod held;
mod load;
mod outcome;
mod refresh;
mod rule_listing;
mod session;
mod target;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use carrick_simco::agent::{AgentSettings, CloseReason};
use carrick_simco::message::{
    Capabilities, DisableRequest, EnableReply, EnableRequest, Lifetime, NegativeReply,
    PolicyRuleId, Reply, Request, ReserveRequest,
};

pub use error::{ClientError, RequestError};
pub use held::HeldRule;
pub use load::{LoadPlan, LoadProgress, LoadReport, run_load};
pub use target::{ConnectTarget, SctpTarget};

use held::HeldRules;
use outcome::ClaimedRules;
use rule_listing::RuleListings;
use session::{AnswerSender, Cancellation, SessionCommand, SessionTask, TransactionError};

/// Capacity of the queue of requests to the session task.
const COMMANDS: usize = 1024;

/// Capacity of the event channel.
const EVENTS: usize = 1024;

/// Configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Address of the middlebox.
    pub target: ConnectTarget,
    /// Identity of the agent and reply timeout.
    pub settings: AgentSettings,
    /// Pause before the first attempt to reconnect; it doubles with each further one.
    pub first_pause: Duration,
    /// Maximum pause.
    pub longest_pause: Duration,
}

impl ClientConfig {
    /// Returns a configuration without credentials and with a timeout of 10 seconds.
    pub fn new(target: ConnectTarget) -> Self {
        Self {
            target,
            settings: AgentSettings {
                timeout: Duration::from_secs(10),
                ..AgentSettings::default()
            },
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// Event reported by a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// A session has opened, the first or a later one.
    Opened(Capabilities),
    /// The session has ended. The client reconnects unless the end was requested.
    Closed(CloseReason),
    /// An attempt to connect failed, with the reason.
    NotConnected(String),
    /// ARE: a rule was created, changed or, with a lifetime of zero, ended. Not reported for requests
    /// of this session.
    Rule {
        /// Identifier of the rule.
        rule: PolicyRuleId,
        /// Remaining lifetime.
        lifetime: Lifetime,
    },
    /// The middlebox had lost a held rule and granted it again with another identifier.
    Renewed {
        /// Previous identifier.
        old: PolicyRuleId,
        /// New identifier.
        new: PolicyRuleId,
    },
    /// A held rule has ended: another party ended it, or it was not granted again.
    Ended {
        /// Identifier of the rule.
        rule: PolicyRuleId,
        /// Reply with which it was refused.
        refused: Option<NegativeReply>,
    },
    /// Number of events dropped because the receiver was too slow.
    Lagged(u64),
}

/// Stream of events from the time of subscription.
pub struct Events(broadcast::Receiver<ClientEvent>);

impl Events {
    /// Returns the next event; `None` when the client has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(ClientEvent::Lagged(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Maintained session of an agent. Clones share it; it ends with the last clone and the last held
/// rule.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientState>,
}

/// State shared by handles and tasks.
pub(crate) struct ClientState {
    commands: mpsc::Sender<SessionCommand>,
    events: broadcast::Sender<ClientEvent>,
    held_rules: HeldRules,
    claims: ClaimedRules,
    listings: RuleListings,
    timeout: Duration,
    capabilities: Capabilities,
}

impl Client {
    /// Connects and opens a session. Later sessions are opened by the client.
    ///
    /// # Errors
    /// The first session can't be opened.
    pub async fn connect(config: ClientConfig) -> Result<Self, ClientError> {
        let (commands, to_session) = mpsc::channel(COMMANDS);
        let (events, mut reported) = broadcast::channel(EVENTS);
        let timeout = config.settings.timeout;
        let (opened, open) = oneshot::channel();
        let session = SessionTask::new(config, to_session, events.clone())?;
        tokio::spawn(session.run(opened));
        let capabilities = open.await.unwrap_or(Err(ClientError::Ended))?;
        // Skip the event of the opening.
        while reported.try_recv().is_ok() {}
        let client = Self {
            inner: Arc::new(ClientState {
                commands,
                events,
                held_rules: HeldRules::default(),
                claims: ClaimedRules::default(),
                listings: RuleListings::default(),
                timeout,
                capabilities,
            }),
        };
        tokio::spawn(refresh::run(
            Arc::downgrade(&client.inner),
            Events(reported),
        ));
        Ok(client)
    }

    /// Returns the capabilities that the middlebox reported in the first session.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.capabilities
    }

    /// Returns a stream of the events from now on.
    pub fn events(&self) -> Events {
        Events(self.inner.events.subscribe())
    }

    /// Returns the number of held rules.
    pub fn held(&self) -> usize {
        self.inner.held_rules.len()
    }

    /// PER: enables a data stream and holds the rule.
    ///
    /// # Errors
    /// The request is refused or its outcome is unknown.
    pub async fn enable(&self, request: EnableRequest) -> Result<HeldRule, RequestError> {
        self.hold(Request::Enable(request)).await
    }

    /// PER as with [`Self::enable`], for callers that may cancel it and then delete a rule that was
    /// granted. Without a reply it queries the outcome, in this session or in later ones, as long as a
    /// rule that was created may be in force. After the cancellation the request is neither sent nor
    /// repeated.
    ///
    /// # Errors
    /// The request is refused or was not carried out, or a rule that it created must have expired.
    pub async fn enable_cancellable(
        &self,
        request: EnableRequest,
        cancelled: &CancellationToken,
    ) -> Result<HeldRule, RequestError> {
        let request = Request::Enable(request);
        let reply = outcome::create_cancellable(&self.inner, &request, cancelled).await?;
        HeldRule::new(Arc::clone(&self.inner), request, &reply).ok_or(RequestError::Unexpected)
    }

    /// PER for a rule that is not refreshed.
    ///
    /// # Errors
    /// As for [`Self::enable`].
    pub async fn enable_once(&self, request: EnableRequest) -> Result<EnableReply, RequestError> {
        match outcome::create(&self.inner, &Request::Enable(request)).await? {
            Reply::Enabled(enabled) => Ok(enabled),
            _ => Err(RequestError::Unexpected),
        }
    }

    /// PRR: reserves addresses and ports and holds the reservation.
    ///
    /// # Errors
    /// As for [`Self::enable`].
    pub async fn reserve(&self, request: ReserveRequest) -> Result<HeldRule, RequestError> {
        self.hold(Request::Reserve(request)).await
    }

    /// PDR: prohibits a data stream, ends the rules that enable it, and holds the rule.
    ///
    /// # Errors
    /// As for [`Self::enable`].
    pub async fn prohibit(&self, request: DisableRequest) -> Result<HeldRule, RequestError> {
        self.hold(Request::Disable(request)).await
    }

    /// PLC: changes the lifetime of a rule, zero to delete it. Returns the granted lifetime.
    ///
    /// # Errors
    /// The request is refused or its outcome is unknown.
    pub async fn extend(
        &self,
        rule: PolicyRuleId,
        lifetime: Lifetime,
    ) -> Result<Lifetime, RequestError> {
        outcome::change_lifetime(&self.inner, rule, lifetime).await
    }

    /// PRS: returns one of the three replies with the status of a rule.
    ///
    /// # Errors
    /// The request is refused or not answered.
    pub async fn status(&self, rule: PolicyRuleId) -> Result<Reply, RequestError> {
        self.request(Request::Status(rule)).await
    }

    /// PRL: returns the rules that this agent may see, at most 8,191, the limit of a message (RFC
    /// 4540, section 8.7).
    ///
    /// # Errors
    /// The request is refused or not answered; [`NegativeReply::ReplyTooBig`] if there are more.
    pub async fn list(&self) -> Result<Vec<PolicyRuleId>, RequestError> {
        match self.request(Request::List).await? {
            Reply::List(list) => Ok(list.rules().to_vec()),
            _ => Err(RequestError::Unexpected),
        }
    }

    /// Sends any request about policy rules once and returns the positive reply.
    ///
    /// # Errors
    /// The request is refused or not answered; the outcome is then unknown.
    pub async fn request(&self, request: Request) -> Result<Reply, RequestError> {
        self.inner.send(request).await.map_err(RequestError::from)
    }

    /// Ends the session with ST and closes the connection. Rules expire.
    pub async fn end(self) {
        let (done, ended) = oneshot::channel();
        // If the task has ended, so has the session.
        if self
            .inner
            .commands
            .send(SessionCommand::End(done))
            .await
            .is_ok()
        {
            let _ = ended.await;
        }
    }

    async fn hold(&self, request: Request) -> Result<HeldRule, RequestError> {
        let reply = outcome::create(&self.inner, &request).await?;
        HeldRule::new(Arc::clone(&self.inner), request, &reply).ok_or(RequestError::Unexpected)
    }
}

/// Returns a random seed from the operating system.
fn random_seed() -> Result<[u8; 32], ClientError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| ClientError::Random(error.to_string()))?;
    Ok(seed)
}

impl ClientState {
    /// Sends a request once. A negative reply is an error.
    async fn send(&self, request: Request) -> Result<Reply, TransactionError> {
        self.send_cancellable(request, None).await
    }

    /// Sends a request once, unless it is cancelled before.
    async fn send_cancellable(
        &self,
        request: Request,
        cancellation: Option<&Cancellation>,
    ) -> Result<Reply, TransactionError> {
        let (answer, answered) = oneshot::channel();
        let command =
            SessionCommand::Request(request, AnswerSender::new(answer, cancellation.cloned()));
        // Without a session, requests wait as long as for a reply.
        match tokio::time::timeout(self.timeout, self.commands.send(command)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(TransactionError::Ended),
            Err(_) => return Err(TransactionError::NotConnected),
        }
        let timeout = 2 * self.timeout;
        let answered = tokio::time::timeout(timeout, answered).await;
        let delivery = match answered.unwrap_or(Ok(Err(TransactionError::NotConnected))) {
            Ok(answer) => answer?,
            Err(_) => return Err(TransactionError::Ended),
        };
        match delivery.take() {
            Some(Reply::Negative(refused)) => Err(TransactionError::Refused(refused)),
            Some(reply) => Ok(reply),
            None => Err(TransactionError::Ended),
        }
    }

    fn emit(&self, event: ClientEvent) {
        // There may be no receiver.
        let _ = self.events.send(event);
    }
}
