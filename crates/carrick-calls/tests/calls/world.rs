//! The back-to-back user agent between two peers, and a middlebox that is told what to do.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carrick_calls::{B2bua, B2buaConfig, Counts, Held, Opening, Pinholes, Refusal};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::peer::{Message, PATIENCE, Peer, audio};

/// One of the peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Caller,
    Callee,
}

/// What the middlebox is to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    Grants,
    Waits,
    Refuses,
    IsSilent,
    /// Grants, but says nothing to who closes, and closes nothing yet.
    KeepsOpen,
    /// The same, but grants nothing but what is for this port of the internal host.
    KeepsOnly(u16),
}

impl Mood {
    fn closes(self) -> bool {
        !matches!(self, Self::KeepsOpen | Self::KeepsOnly(_))
    }
}

/// A middlebox that keeps what is open.
#[derive(Clone)]
pub(crate) struct Middlebox {
    open: Arc<Mutex<Vec<Opening>>>,
    /// All that was ever opened.
    opened: Arc<AtomicUsize>,
    mood: watch::Sender<Mood>,
    /// How often it has ended all pinholes.
    lost: watch::Sender<u32>,
}

pub(crate) struct Hole {
    opening: Opening,
    open: Arc<Mutex<Vec<Opening>>>,
    mood: watch::Receiver<Mood>,
    lost: watch::Receiver<u32>,
}

impl Pinholes for Middlebox {
    type Held = Hole;

    async fn open(&self, opening: &Opening) -> Result<Hole, Refusal> {
        let mut mood = self.mood.subscribe();
        let now = *mood.wait_for(|mood| *mood != Mood::Waits).await.unwrap();
        match now {
            Mood::Refuses => return Err(Refusal::Refused("quota \"full\"".to_owned())),
            Mood::IsSilent => return Err(Refusal::Silent("no answer".to_owned())),
            Mood::KeepsOnly(port) if port != opening.internal.port() => {
                return Err(Refusal::Silent("no answer".to_owned()));
            }
            Mood::Grants | Mood::Waits | Mood::KeepsOpen | Mood::KeepsOnly(_) => {}
        }
        self.open.lock().unwrap().push(*opening);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Hole {
            opening: *opening,
            open: Arc::clone(&self.open),
            mood,
            lost: self.lost.subscribe(),
        })
    }
}

impl Held for Hole {
    async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.changed().await.is_err() {
            std::future::pending().await
        }
    }

    async fn close(mut self) {
        // A middlebox that is no more has closed it.
        let _ = self.mood.wait_for(|mood| mood.closes()).await;
        let mut open = self.open.lock().unwrap();
        // It may be one that the middlebox has ended.
        if let Some(at) = open.iter().position(|o| *o == self.opening) {
            open.remove(at);
        }
    }
}

/// A caller inside, a callee outside, and what is between.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) b2bua: Option<B2bua<Middlebox>>,
    middlebox: Middlebox,
    pub(crate) caller: Peer,
    pub(crate) callee: Peer,
}

/// The agent on this address, a caller inside and a callee outside.
pub(crate) async fn start<P: Pinholes>(
    address: &str,
    change: impl FnOnce(&mut B2buaConfig),
    pinholes: P,
) -> (B2bua<P>, [Peer; 2]) {
    let socket = || UdpSocket::bind((address, 0)).unwrap();
    let (near, far) = (socket(), socket());
    let listen = SocketAddr::new(address.parse().unwrap(), 0);
    let internal = vec!["10.0.0.0/8".parse().unwrap()];
    let mut config = B2buaConfig::new(listen, internal);
    config.outer = Some(far.local_addr().unwrap().into());
    config.inner = Some(near.local_addr().unwrap().into());
    change(&mut config);
    let b2bua = B2bua::start(config, pinholes).await.unwrap();
    let listen = b2bua.address();
    (b2bua, [near, far].map(|socket| Peer::new(listen, socket)))
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut B2buaConfig)) -> Self {
        Self::on("127.0.0.1", change)
    }

    /// With SIP on this address.
    pub(crate) fn on(address: &str, change: impl FnOnce(&mut B2buaConfig)) -> Self {
        Self::in_runtime(Runtime::new().unwrap(), address, change)
    }

    /// With this runtime for the agent.
    pub(crate) fn in_runtime(
        runtime: Runtime,
        address: &str,
        change: impl FnOnce(&mut B2buaConfig),
    ) -> Self {
        let middlebox = Middlebox {
            open: Arc::default(),
            opened: Arc::default(),
            mood: watch::Sender::new(Mood::Grants),
            lost: watch::Sender::new(0),
        };
        let started = start(address, change, middlebox.clone());
        let (b2bua, [caller, callee]) = runtime.block_on(started);
        Self {
            runtime,
            b2bua: Some(b2bua),
            middlebox,
            caller,
            callee,
        }
    }

    pub(crate) fn mood(&self, mood: Mood) {
        self.middlebox.mood.send_replace(mood);
    }

    /// The middlebox ends one of the pinholes.
    pub(crate) fn lose_one(&self) {
        self.middlebox.open.lock().unwrap().pop().unwrap();
        self.middlebox.lost.send_modify(|lost| *lost += 1);
    }

    /// What is open, as text, sorted.
    pub(crate) fn open(&self) -> Vec<String> {
        let open = self.middlebox.open.lock().unwrap();
        let text = |o: &Opening| format!("{} {} {}", o.internal, o.external, o.ports);
        let mut all: Vec<String> = open.iter().map(text).collect();
        all.sort();
        all
    }

    /// How many were ever opened.
    pub(crate) fn opened(&self) -> usize {
        self.middlebox.opened.load(Ordering::Relaxed)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.b2bua.as_ref().unwrap().counts()
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !so(self) {
            assert!(
                Instant::now() < until,
                "{what}: open {:?}, {:?}",
                self.open(),
                self.counts()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Nothing is left.
    pub(crate) fn assert_over(&self) {
        self.until("the call is over", |world| {
            world.open().is_empty() && world.counts().calls == 0 && world.counts().pinholes == 0
        });
    }

    /// An offer of the caller, as it comes to the callee.
    pub(crate) fn invited(&mut self) -> Message {
        self.caller.invite(&audio("10.0.0.1", 4000));
        self.callee.expect("INVITE")
    }

    /// The callee answers it.
    pub(crate) fn answered(&mut self, invite: &Message) {
        self.callee
            .answer(invite, "200 OK", &audio("192.0.2.1", 6000));
    }

    /// A call that is there.
    pub(crate) fn established(&mut self) {
        let invite = self.invited();
        self.answered(&invite);
        let answer = self.caller.expect("200");
        self.caller.confirm(&answer);
        self.callee.expect("ACK");
        self.until("established", |world| world.counts().established == 1);
    }

    /// A peer, and the other one.
    pub(crate) fn sides(&mut self, side: Side) -> [&mut Peer; 2] {
        match side {
            Side::Caller => [&mut self.caller, &mut self.callee],
            Side::Callee => [&mut self.callee, &mut self.caller],
        }
    }

    /// A side ends the call, and nothing is left.
    pub(crate) fn hang_up(&mut self, side: Side) {
        let [one, other] = self.sides(side);
        one.request("BYE", "");
        one.expect("200");
        other.is_hung_up_on();
        self.assert_over();
    }

    /// Both sides are told that the call is over, and nothing is left.
    pub(crate) fn both_are_hung_up_on(&mut self) {
        self.caller.is_hung_up_on();
        self.callee.is_hung_up_on();
        self.assert_over();
    }
}
