//! Back-to-back user agent between two peers, with a simulated middlebox.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carrick_calls::{
    B2bua, B2buaConfig, CallCounts, OpenPinhole, PinholeRefusal, PinholeRequest, Pinholes,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::peer::{Message, PATIENCE, Peer, audio};

/// One of the peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Caller,
    Callee,
}

/// Behaviour of the middlebox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MiddleboxMode {
    Grant,
    Hang,
    Refuse,
    NoAnswer,
    /// Grants requests, but neither closes pinholes nor answers requests to close them.
    IgnoreClose,
    /// Like `IgnoreClose`, and grants only pinholes for this port of the internal host.
    GrantOnly(u16),
}

impl MiddleboxMode {
    fn closes(self) -> bool {
        !matches!(self, Self::IgnoreClose | Self::GrantOnly(_))
    }
}

/// Middlebox in memory.
#[derive(Clone)]
pub(crate) struct Middlebox {
    open: Arc<Mutex<Vec<PinholeRequest>>>,
    /// Number of pinholes opened so far.
    opened: Arc<AtomicUsize>,
    mode: watch::Sender<MiddleboxMode>,
    /// Number of times all pinholes were lost.
    lost: watch::Sender<u32>,
}

pub(crate) struct TestPinhole {
    opening: PinholeRequest,
    open: Arc<Mutex<Vec<PinholeRequest>>>,
    mode: watch::Receiver<MiddleboxMode>,
    lost: watch::Receiver<u32>,
}

impl Pinholes for Middlebox {
    type Held = TestPinhole;

    async fn open(&self, opening: &PinholeRequest) -> Result<TestPinhole, PinholeRefusal> {
        let mut mode = self.mode.subscribe();
        let now = *mode
            .wait_for(|mode| *mode != MiddleboxMode::Hang)
            .await
            .unwrap();
        match now {
            MiddleboxMode::Refuse => {
                return Err(PinholeRefusal::Refused("quota \"full\"".to_owned()));
            }
            MiddleboxMode::NoAnswer => {
                return Err(PinholeRefusal::NoAnswer("no answer".to_owned()));
            }
            MiddleboxMode::GrantOnly(port) if port != opening.internal.port() => {
                return Err(PinholeRefusal::NoAnswer("no answer".to_owned()));
            }
            MiddleboxMode::Grant
            | MiddleboxMode::Hang
            | MiddleboxMode::IgnoreClose
            | MiddleboxMode::GrantOnly(_) => {}
        }
        self.open.lock().unwrap().push(*opening);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(TestPinhole {
            opening: *opening,
            open: Arc::clone(&self.open),
            mode,
            lost: self.lost.subscribe(),
        })
    }
}

impl OpenPinhole for TestPinhole {
    async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.changed().await.is_err() {
            std::future::pending().await
        }
    }

    async fn close(mut self) {
        // The pinhole of a failed middlebox is closed already.
        let _ = self.mode.wait_for(|mode| mode.closes()).await;
        let mut open = self.open.lock().unwrap();
        // The middlebox may have ended the pinhole.
        if let Some(at) = open.iter().position(|o| *o == self.opening) {
            open.remove(at);
        }
    }
}

/// Caller inside, callee outside, and the agent and the middlebox between them.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) b2bua: Option<B2bua<Middlebox>>,
    middlebox: Middlebox,
    pub(crate) caller: Peer,
    pub(crate) callee: Peer,
}

/// Starts the agent on this address, with a caller inside and a callee outside.
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

    /// Creates a world with SIP on this address.
    pub(crate) fn on(address: &str, change: impl FnOnce(&mut B2buaConfig)) -> Self {
        Self::in_runtime(Runtime::new().unwrap(), address, change)
    }

    /// Creates a world with this runtime for the agent.
    pub(crate) fn in_runtime(
        runtime: Runtime,
        address: &str,
        change: impl FnOnce(&mut B2buaConfig),
    ) -> Self {
        let middlebox = Middlebox {
            open: Arc::default(),
            opened: Arc::default(),
            mode: watch::Sender::new(MiddleboxMode::Grant),
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

    pub(crate) fn mode(&self, mode: MiddleboxMode) {
        self.middlebox.mode.send_replace(mode);
    }

    /// Ends one of the pinholes, as the middlebox may do.
    pub(crate) fn lose_one(&self) {
        self.middlebox.open.lock().unwrap().pop().unwrap();
        self.middlebox.lost.send_modify(|lost| *lost += 1);
    }

    /// Returns the open pinholes as sorted text.
    pub(crate) fn open(&self) -> Vec<String> {
        let open = self.middlebox.open.lock().unwrap();
        let text = |o: &PinholeRequest| format!("{} {} {}", o.internal, o.external, o.ports);
        let mut all: Vec<String> = open.iter().map(text).collect();
        all.sort();
        all
    }

    /// Number of pinholes opened so far.
    pub(crate) fn opened(&self) -> usize {
        self.middlebox.opened.load(Ordering::Relaxed)
    }

    pub(crate) fn counts(&self) -> CallCounts {
        self.b2bua.as_ref().unwrap().counts()
    }

    /// Waits until a condition holds; `what` describes it.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(
                Instant::now() < until,
                "{what}: open {:?}, {:?}",
                self.open(),
                self.counts()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until no call and no pinhole is left.
    pub(crate) fn assert_over(&self) {
        self.until("the call is over", |world| {
            world.open().is_empty() && world.counts().calls == 0 && world.counts().pinholes == 0
        });
    }

    /// Sends an INVITE of the caller. Returns it as the callee receives it.
    pub(crate) fn invited(&mut self) -> Message {
        self.caller.invite(&audio("10.0.0.1", 4000));
        self.callee.expect("INVITE")
    }

    /// Answers an INVITE as the callee.
    pub(crate) fn answered(&mut self, invite: &Message) {
        self.callee
            .answer(invite, "200 OK", &audio("192.0.2.1", 6000));
    }

    /// Establishes a call.
    pub(crate) fn established(&mut self) {
        let invite = self.invited();
        self.answered(&invite);
        let answer = self.caller.expect("200");
        self.caller.confirm(&answer);
        self.callee.expect("ACK");
        self.until("established", |world| world.counts().established == 1);
    }

    /// Returns the peer of a side and the other one.
    pub(crate) fn sides(&mut self, side: Side) -> [&mut Peer; 2] {
        match side {
            Side::Caller => [&mut self.caller, &mut self.callee],
            Side::Callee => [&mut self.callee, &mut self.caller],
        }
    }

    /// Ends the call by a BYE of a side, and waits until nothing is left.
    pub(crate) fn hang_up(&mut self, side: Side) {
        let [one, other] = self.sides(side);
        one.request("BYE", "");
        one.expect("200");
        other.expect_bye();
        self.assert_over();
    }

    /// Waits until both sides have received a BYE and nothing is left.
    pub(crate) fn expect_bye_at_both(&mut self) {
        self.caller.expect_bye();
        self.callee.expect_bye();
        self.assert_over();
    }
}
