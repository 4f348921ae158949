//! Requests that follow the ACK of an INVITE immediately: they may arrive before the state of the
//! agent's dialog has changed.

use std::fmt::Debug;
use std::mem::forget;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::task::block_in_place;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

use crate::peer::{Peer, audio};
use crate::world::{Side, World};

/// Tracing subscriber that blocks the thread which logs a given event of the SIP library, until the
/// gate is opened.
struct Gate {
    event: &'static str,
    reached: Sender<()>,
    open: Mutex<Option<Receiver<()>>>,
}

/// Message of an event.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Gate {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("rsipstack::dialog")
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if !text.0.starts_with(self.event) {
            return;
        }
        if let Some(open) = self.open.lock().unwrap().take() {
            self.reached.send(()).unwrap();
            // Only this task stops: its worker's other tasks move to another thread. Without a sender
            // the test has failed.
            let _ = block_in_place(|| open.recv());
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Threads that compute until this is dropped.
struct CpuLoad(Arc<AtomicBool>);

impl CpuLoad {
    fn start(count: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..count {
            let over = Arc::clone(&over);
            thread::spawn(move || while !over.load(Ordering::Relaxed) {});
        }
        Self(over)
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns a runtime whose threads stop once at an event, a channel that reports the stop, and one that
/// releases them.
fn stopping_at(event: &'static str) -> (Runtime, Receiver<()>, Sender<()>) {
    let (reached, is_reached) = channel();
    let (opens, open) = channel();
    let gate = Arc::new(Gate {
        event,
        reached,
        open: Mutex::new(Some(open)),
    });
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .on_thread_start(move || forget(subscriber::set_default(Arc::clone(&gate))))
        .build();
    (runtime.unwrap(), is_reached, opens)
}

/// RFC 3261, section 15: the callee may send BYE as soon as it has the ACK.
#[test]
fn bye_immediately_after_the_ack_ends_the_call() {
    let (runtime, reached, open) = stopping_at("client invite dialog confirmed");
    let mut world = World::in_runtime(runtime, "127.0.0.1", |_| ());
    // Dropped before the world, whose end waits for the stopped task.
    let open = open;
    let invite = world.invited();
    world.answered(&invite);
    world.callee.expect("ACK");
    reached.recv().unwrap();
    world.callee.request("BYE", "");
    // Requests are read in the order of arrival: after this response, the BYE has been read, too.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut last = Peer::new(world.caller.b2bua, socket);
    last.hops = 0;
    last.invite(&audio("10.0.0.1", 4000));
    last.expect("483");
    open.send(()).unwrap();
    world.callee.expect_next("200");
    let answer = world.caller.expect("200");
    world.caller.confirm(&answer);
    world.caller.expect_bye();
    world.assert_over();
}

/// RFC 3261, section 14.1: an offer may follow as soon as the ACK is sent. Threads that compute
/// meanwhile delay the agent's own at any point.
#[test]
fn offer_immediately_after_the_ack_is_forwarded() {
    let _load = CpuLoad::start(4);
    for _ in 0..50 {
        let mut world = World::new();
        let invite = world.invited();
        world.answered(&invite);
        let answer = world.caller.expect("200");
        world.caller.confirm(&answer);
        world.caller.request("INVITE", &audio("10.0.0.9", 4400));
        let changed = world.callee.expect("INVITE");
        let same = audio("192.0.2.1", 6000);
        world.callee.answer(&changed, "200 OK", &same);
        world.caller.expect_next("200");
        world.caller.request("ACK", "");
        world.hang_up(Side::Caller);
    }
}
