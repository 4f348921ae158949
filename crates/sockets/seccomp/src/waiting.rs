//! Calls that wait: one thread waits for all of them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use carrick_client::proxy::{ProxySocket, set_up};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::calls::{AwaitedEvent, CallOutcome, ParkedCall};
use crate::kernel::{Notification, Reply};
use crate::memory::PendingSignal;
use crate::supervisor::Supervisor;

/// Time between two checks whether a signal or the end of the program ends a call. It grows with the number of
/// calls, by `CHECK_EACH`.
const CHECK: Duration = Duration::from_millis(20);
/// Time for each call between two checks.
const CHECK_EACH: Duration = Duration::from_millis(1);

/// Parked calls.
pub(crate) struct WaitingCalls {
    parked: Sender<WaitingCall>,
    incoming: Mutex<Receiver<WaitingCall>>,
    wake_up: OwnedFd,
}

struct WaitingCall {
    notification: Notification,
    call: ParkedCall,
    deadline: Option<Instant>,
    /// A signal was pending for the process at the last check, and no thread has handled it.
    is_suspected: bool,
}

impl WaitingCall {
    fn poll_fd(&self) -> PollFd<'_> {
        match &self.call.event {
            AwaitedEvent::Readable => {
                PollFd::from_borrowed_fd(self.call.socket.as_fd(), PollFlags::IN)
            }
            AwaitedEvent::Writable | AwaitedEvent::Connected(_) => {
                PollFd::from_borrowed_fd(self.call.socket.as_fd(), PollFlags::OUT)
            }
            AwaitedEvent::SetUp(result, _) => PollFd::new(result, PollFlags::IN),
        }
    }
}

impl WaitingCalls {
    pub(crate) fn new() -> io::Result<Self> {
        let (parked, incoming) = channel();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            parked,
            incoming: Mutex::new(incoming),
            wake_up: eventfd(0, flags)?,
        })
    }

    /// Parks a call until its event.
    pub(crate) fn park(&self, notification: Notification, call: ParkedCall) {
        let waiting = WaitingCall {
            notification,
            deadline: call.limit.map(|limit| Instant::now() + limit),
            call,
            is_suspected: false,
        };
        // The thread of the receiver ends with the process only.
        let _ = self.parked.send(waiting);
        let _ = rustix::io::write(&self.wake_up, &1_u64.to_ne_bytes());
    }

    /// Waits for the events of parked calls, without end.
    pub(crate) fn run(&self, supervisor: &'static Supervisor) {
        let incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calls: Vec<WaitingCall> = Vec::new();
        let mut checked = Instant::now();
        loop {
            let ready = self.wait(&calls, checked);
            let mut at = 0;
            calls = std::mem::take(&mut calls)
                .into_iter()
                .filter_map(|waiting| {
                    at += 1;
                    if ready.get(at - 1) == Some(&true) {
                        resume(supervisor, waiting)
                    } else {
                        Some(waiting)
                    }
                })
                .collect();
            let now = Instant::now();
            if now.duration_since(checked) >= period(calls.len()) {
                checked = now;
                calls.retain_mut(|waiting| still_waits(supervisor, waiting));
            }
            calls.retain(|waiting| {
                let is_late = waiting.deadline.is_some_and(|deadline| now >= deadline);
                if is_late {
                    let late = Reply::Error(waiting.call.late());
                    supervisor.listener.reply(&waiting.notification, late);
                }
                !is_late
            });
            calls.extend(incoming.try_iter());
        }
    }

    /// Waits for an event, the next check or the next deadline. Returns which calls have their event.
    fn wait(&self, calls: &[WaitingCall], checked: Instant) -> Vec<bool> {
        let deadlines = calls.iter().filter_map(|waiting| waiting.deadline);
        let check = (!calls.is_empty()).then(|| checked + period(calls.len()));
        let until = deadlines.chain(check).min();
        let limit = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let mut polled: Vec<PollFd<'_>> = calls.iter().map(WaitingCall::poll_fd).collect();
        polled.push(PollFd::new(&self.wake_up, PollFlags::IN));
        // Without memory in the kernel, the calls are looked at again after the next check.
        if poll(&mut polled, limit.as_ref()).is_err() {
            return Vec::new();
        }
        // The number of wake-ups does not matter.
        let _ = rustix::io::read(&self.wake_up, &mut [0; 8]);
        polled.iter().map(|one| !one.revents().is_empty()).collect()
    }
}

fn period(calls: usize) -> Duration {
    CHECK.max(CHECK_EACH * calls as u32)
}

/// Continues a call after its event. Returns it if it has to wait again.
fn resume(supervisor: &'static Supervisor, waiting: WaitingCall) -> Option<WaitingCall> {
    let WaitingCall {
        notification,
        mut call,
        deadline,
        is_suspected,
    } = waiting;
    if !supervisor.listener.is_valid(&notification) {
        // The program was killed.
        return None;
    }
    call.socket.refresh();
    let outcome = match call.event {
        AwaitedEvent::Readable | AwaitedEvent::Writable => {
            supervisor.perform(&notification, call.socket)
        }
        AwaitedEvent::Connected(value) => finished(call.socket.connected(), call.socket, value),
        AwaitedEvent::SetUp(result, value) => match set_up(&result) {
            Err(Errno::AGAIN) => CallOutcome::Wait(ParkedCall {
                event: AwaitedEvent::SetUp(result, value),
                ..call
            }),
            done => finished(done, call.socket, value),
        },
    };
    match outcome {
        CallOutcome::Wait(call) => Some(WaitingCall {
            notification,
            call,
            deadline,
            is_suspected,
        }),
        CallOutcome::Reply(reply) => {
            supervisor.listener.reply(&notification, reply);
            None
        }
    }
}

/// Ends a set-up. What it changed of the socket is stored before the program continues, whose next call may change the
/// socket again.
fn finished(done: Result<(), Errno>, socket: ProxySocket<'_>, value: i64) -> CallOutcome {
    drop(socket);
    CallOutcome::Reply(done.map_or_else(Reply::Error, |()| Reply::Value(value)))
}

/// Returns false for a call whose program was killed, or that a signal ends, which gets its reply.
///
/// The kernel does not wake a thread with a notification that was received, except to kill it; otherwise a signal would end a
/// call whose message had been taken. So pending signals are looked for here, between two attempts, where nothing is lost.
/// A signal of the process may be another thread's to handle: only one that is still pending at the next check ends a
/// call.
fn still_waits(supervisor: &Supervisor, waiting: &mut WaitingCall) -> bool {
    if !supervisor.listener.is_valid(&waiting.notification) {
        return false;
    }
    let signal = supervisor.caller(&waiting.notification).pending_signal();
    let reply = match signal {
        PendingSignal::OfThread => waiting.call.interrupted(),
        // No other thread has handled it since the last check, so this one may be the one that has to. It is
        // not sure that the kernel would handle a restart.
        PendingSignal::OfProcess if waiting.is_suspected => Reply::Error(Errno::INTR),
        _ => {
            waiting.is_suspected = signal == PendingSignal::OfProcess;
            return true;
        }
    };
    supervisor.listener.reply(&waiting.notification, reply);
    false
}
