//! The agent as a library for tokio programs.
//!
//! A [`Client`] has one session with a middlebox, over any transport. It connects again when the
//! session is lost, with growing pauses, and takes its rules up again.
//!
//! A [`HeldRule`] is soft state that is kept: it is refreshed before its life is over, and when the
//! middlebox has forgotten it, it is asked for again. Dropped, it lives out its life; closed, it ends
//! at once.
//!
//! ```no_run
//! use carrick_simco::client::{Client, ClientConfig, Target};
//! # async fn example(request: carrick_simco::message::EnableRequest) -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::tcp("fw1.example.net", carrick_simco::PORT);
//! let client = Client::connect(ClientConfig::new(target)).await?;
//! let pinhole = client.enable(request).await?;
//! println!("rule {} is open", pinhole.id());
//! pinhole.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Requests without an answer
//!
//! After [`AgentSettings::timeout`] a request about a rule that is known is followed by PRS, and one
//! that would have made a rule by PRL, and by PRS for each rule that is not known yet, asked once for all
//! requests that were lost together; the outcome is what the middlebox says then. When that has no answer either, the request fails with
//! [`RequestError::Unanswered`], and nothing is held.
//!
//! When the session is lost before the answer, the same is asked in the next one: a rule that was made
//! is taken up, and one that was not made is asked for once more. When no session opens meanwhile, or
//! the middlebox has more rules of the agent than a reply to PRL can name, the request fails with
//! [`RequestError::Lost`]. [`Client::extend`] is not repeated: in another session its identifier may
//! be another rule's.
//!
//! Whoever gives a request up, and wants nothing left of it, asks with [`Client::enable_wished`].

mod error;
mod held;
mod inquiry;
mod load;
mod session;
mod survey;
mod target;
mod upkeep;
mod wish;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, oneshot};

use crate::agent::{AgentSettings, CloseReason};
use crate::message::{
    Capabilities, DisableRequest, EnableRequest, Enabled, Lifetime, NegativeReply, PolicyRuleId,
    Reply, Request, ReserveRequest,
};

pub use error::{ClientError, RequestError};
pub use held::HeldRule;
pub use load::{LoadPlan, LoadProgress, LoadReport, run_load};
pub use target::{SctpTarget, Target};
pub use wish::Wish;

use held::Shelf;
use inquiry::Claims;
use session::{Answer, Ask, AskError, Session};
use survey::Surveys;

/// Requests that wait for the session's task.
const ASKS: usize = 1024;

/// Events that a slow listener may be behind.
const EVENTS: usize = 1024;

/// What a client is made of.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where the middlebox is.
    pub target: Target,
    /// Who the agent is, and how long an answer may take.
    pub settings: AgentSettings,
    /// The pause before the first attempt to connect again; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl ClientConfig {
    /// To this middlebox, without credentials, with answers in 10 seconds.
    pub fn new(target: Target) -> Self {
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

/// What a client tells unasked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// A session is open, the first or another one.
    Opened(Capabilities),
    /// The session is over. Unless that was asked for, the client connects again.
    Closed(CloseReason),
    /// An attempt to connect failed, for this reason.
    NotConnected(String),
    /// ARE: a rule was created, changed or, with a lifetime of zero, has ended. Not told of what
    /// this session asked for itself.
    Rule {
        /// Which rule.
        rule: PolicyRuleId,
        /// What is left of its life.
        lifetime: Lifetime,
    },
    /// The middlebox had forgotten a held rule and granted it again with another identifier.
    Renewed {
        /// What it was.
        old: PolicyRuleId,
        /// What it is.
        new: PolicyRuleId,
    },
    /// A held rule is no longer: somebody ended it, or it could not be had again.
    Ended {
        /// Which rule.
        rule: PolicyRuleId,
        /// Why it could not be had again.
        refused: Option<NegativeReply>,
    },
    /// So many events were lost here, because nobody took them.
    Lagged(u64),
}

/// The events of a client, from the moment on at which they were asked for.
pub struct Events(broadcast::Receiver<ClientEvent>);

impl Events {
    /// The next event; `None` when the client has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(ClientEvent::Lagged(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// An agent's session that is kept up. Clones are handles of the same; when the last one and the
/// last held rule are gone, the session ends.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// What handles share with the tasks.
pub(crate) struct Inner {
    asks: mpsc::Sender<Ask>,
    events: broadcast::Sender<ClientEvent>,
    shelf: Shelf,
    claims: Claims,
    surveys: Surveys,
    timeout: Duration,
    capabilities: Capabilities,
}

impl Client {
    /// Connects and opens a session; later ones are opened by the client itself.
    ///
    /// # Errors
    /// When the first session can't be opened.
    pub async fn connect(config: ClientConfig) -> Result<Self, ClientError> {
        let (asks, to_ask) = mpsc::channel(ASKS);
        let (events, mut told) = broadcast::channel(EVENTS);
        let timeout = config.settings.timeout;
        let (opened, open) = oneshot::channel();
        let session = Session::new(config, to_ask, events.clone())?;
        tokio::spawn(session.run(opened));
        let capabilities = open.await.unwrap_or(Err(ClientError::Ended))?;
        // What was told so far is the opening.
        while told.try_recv().is_ok() {}
        let client = Self {
            inner: Arc::new(Inner {
                asks,
                events,
                shelf: Shelf::default(),
                claims: Claims::default(),
                surveys: Surveys::default(),
                timeout,
                capabilities,
            }),
        };
        tokio::spawn(upkeep::run(Arc::downgrade(&client.inner), Events(told)));
        Ok(client)
    }

    /// What the middlebox could do when the first session opened.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.capabilities
    }

    /// Events from now on.
    pub fn events(&self) -> Events {
        Events(self.inner.events.subscribe())
    }

    /// Rules that are held.
    pub fn held(&self) -> usize {
        self.inner.shelf.len()
    }

    /// PER: lets a data stream pass, and holds the rule.
    ///
    /// # Errors
    /// When it is refused, or its outcome is not known.
    pub async fn enable(&self, request: EnableRequest) -> Result<HeldRule, RequestError> {
        self.hold(Request::Enable(request)).await
    }

    /// PER as with [`Self::enable`], for those who may give it up and have what is granted then closed.
    /// When there is no answer, it does not fail before the outcome is known: it asks, in the session or
    /// in later ones, as long as a rule that was made may live. What is given up is not sent any more
    /// if it was not, and not asked for once more.
    ///
    /// # Errors
    /// When it is refused or was not done, or when no rule of it can live any more.
    pub async fn enable_wished(
        &self,
        request: EnableRequest,
        wish: &Wish,
    ) -> Result<HeldRule, RequestError> {
        let request = Request::Enable(request);
        let reply = inquiry::create_wished(&self.inner, &request, wish).await?;
        HeldRule::new(Arc::clone(&self.inner), request, &reply).ok_or(RequestError::Unexpected)
    }

    /// PER, for a rule that nobody refreshes.
    ///
    /// # Errors
    /// As for [`Self::enable`].
    pub async fn enable_once(&self, request: EnableRequest) -> Result<Enabled, RequestError> {
        match inquiry::create(&self.inner, &Request::Enable(request)).await? {
            Reply::Enabled(enabled) => Ok(enabled),
            _ => Err(RequestError::Unexpected),
        }
    }

    /// PRR: reserves addresses and ports, and holds the reservation.
    ///
    /// # Errors
    /// As for [`Self::enable`].
    pub async fn reserve(&self, request: ReserveRequest) -> Result<HeldRule, RequestError> {
        self.hold(Request::Reserve(request)).await
    }

    /// PDR: blocks a data stream, ends what lets it pass, and holds the rule.
    ///
    /// # Errors
    /// As for [`Self::enable`].
    pub async fn prohibit(&self, request: DisableRequest) -> Result<HeldRule, RequestError> {
        self.hold(Request::Disable(request)).await
    }

    /// PLC: another lifetime, zero to end the rule. Returns what was granted.
    ///
    /// # Errors
    /// When it is refused, or its outcome is not known.
    pub async fn extend(
        &self,
        rule: PolicyRuleId,
        lifetime: Lifetime,
    ) -> Result<Lifetime, RequestError> {
        inquiry::change_lifetime(&self.inner, rule, lifetime).await
    }

    /// PRS: how is this rule? One of the three replies with the status of a rule.
    ///
    /// # Errors
    /// When it is refused or not answered.
    pub async fn status(&self, rule: PolicyRuleId) -> Result<Reply, RequestError> {
        self.request(Request::Status(rule)).await
    }

    /// PRL: the rules that this agent may see, 8,191 at most: a message has no room for more (RFC 4540
    /// section 8.7).
    ///
    /// # Errors
    /// When it is refused or not answered; with [`NegativeReply::ReplyTooBig`] when there are more.
    pub async fn list(&self) -> Result<Vec<PolicyRuleId>, RequestError> {
        match self.request(Request::List).await? {
            Reply::List(list) => Ok(list.rules().to_vec()),
            _ => Err(RequestError::Unexpected),
        }
    }

    /// Any request about policy rules, once, with a positive reply.
    ///
    /// # Errors
    /// When it is refused or not answered; what became of it is then not known.
    pub async fn request(&self, request: Request) -> Result<Reply, RequestError> {
        self.inner.ask(request).await.map_err(RequestError::from)
    }

    /// Ends the session with ST; rules live out their lives.
    pub async fn end(self) {
        let (done, ended) = oneshot::channel();
        // If the task is gone, the session is over.
        if self.inner.asks.send(Ask::End(done)).await.is_ok() {
            let _ = ended.await;
        }
    }

    async fn hold(&self, request: Request) -> Result<HeldRule, RequestError> {
        let reply = inquiry::create(&self.inner, &request).await?;
        HeldRule::new(Arc::clone(&self.inner), request, &reply).ok_or(RequestError::Unexpected)
    }
}

impl Inner {
    /// Asks once. A negative reply is an error.
    async fn ask(&self, request: Request) -> Result<Reply, AskError> {
        self.ask_for(request, None).await
    }

    /// The same for a wish: what is given up before it is sent is not sent.
    async fn ask_for(&self, request: Request, wish: Option<&Wish>) -> Result<Reply, AskError> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask::Request(request, Answer::new(answer, wish.cloned()));
        // Without a session, requests wait as long as an answer might take.
        match tokio::time::timeout(self.timeout, self.asks.send(ask)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(AskError::Ended),
            Err(_) => return Err(AskError::NotConnected),
        }
        let patience = 2 * self.timeout;
        let answered = tokio::time::timeout(patience, answered).await;
        let delivery = match answered.unwrap_or(Ok(Err(AskError::NotConnected))) {
            Ok(answer) => answer?,
            Err(_) => return Err(AskError::Ended),
        };
        match delivery.take() {
            Some(Reply::Negative(refused)) => Err(AskError::Refused(refused)),
            Some(reply) => Ok(reply),
            None => Err(AskError::Ended),
        }
    }

    fn tell(&self, event: ClientEvent) {
        // Nobody needs to listen.
        let _ = self.events.send(event);
    }
}
