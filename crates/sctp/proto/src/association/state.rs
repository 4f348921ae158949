//! States of an association (RFC 9260 section 4), each with its own data.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::ids::StateName;
use crate::route::Route;
use crate::time::Time;

/// A control chunk that is retransmitted until it is answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeat {
    /// To be sent with the next packet.
    pub(crate) due: bool,
    /// Time of the next retransmission.
    pub(crate) timer: Option<Time>,
    /// Number of retransmissions.
    pub(crate) retransmissions: u32,
}

portable_struct! { Repeat { due, timer, retransmissions } }

impl Repeat {
    pub(crate) const fn now() -> Self {
        Self {
            due: true,
            timer: None,
            retransmissions: 0,
        }
    }

    /// Makes the chunk due again if its timer has expired. Returns whether it has.
    fn expire(&mut self, now: Time) -> bool {
        if self.timer.is_none_or(|at| at > now) {
            return false;
        }
        self.timer = None;
        self.due = true;
        self.retransmissions += 1;
        true
    }
}

/// Timer of a state that expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StateExpiry {
    /// T1-init, with the number of retransmissions that INIT is due for.
    T1Init(u32),
    /// T1-cookie, with the number of retransmissions that COOKIE ECHO is due for.
    T1Cookie(u32),
    /// T2-shutdown.
    T2Shutdown,
    /// T5-shutdown-guard.
    T5ShutdownGuard,
}

/// State of COOKIE-WAIT.
#[derive(Debug)]
pub(crate) struct CookieWait {
    /// INIT and T1-init.
    pub(crate) init: Repeat,
    /// Time of the INIT, if it was sent only once.
    pub(crate) sent: Option<Time>,
    /// Milliseconds to ask for in a Cookie Preservative, after a stale cookie.
    pub(crate) preserve: Option<u32>,
    /// Number of stale cookies.
    pub(crate) stale: u32,
}

portable_struct! { CookieWait { init, sent, preserve, stale } }

/// State of COOKIE-ECHOED.
#[derive(Debug)]
pub(crate) struct CookieEchoed {
    /// COOKIE ECHO and T1-cookie.
    pub(crate) echo: Repeat,
    pub(crate) cookie: Bytes,
    /// Parameters of the INIT ACK to be reported as unrecognized, as they were received.
    pub(crate) unrecognized: Vec<u8>,
    pub(crate) sent: Option<Time>,
    pub(crate) stale: u32,
}

portable_struct! { CookieEchoed { echo, cookie, unrecognized, sent, stale } }

/// State of SHUTDOWN-SENT and SHUTDOWN-ACK-SENT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// SHUTDOWN or SHUTDOWN ACK, and T2-shutdown.
    pub(crate) chunk: Repeat,
    /// T5-shutdown-guard.
    pub(crate) guard: Option<Time>,
    /// Source of the packet that the chunk answers (section 6.4).
    pub(crate) answer: Option<Route>,
    /// Route of the last transmission.
    pub(crate) sent_to: Option<Route>,
}

portable_struct! { Ending { chunk, guard, answer, sent_to } }

/// State of an association. The larger data of set-up and shutdown is on the heap, since most associations are
/// established and idle. Each packet asks for the state several times: the tag is by itself, not in a field of a state.
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum AssociationState {
    CookieWait(CookieWait),
    CookieEchoed(Box<CookieEchoed>),
    Established,
    ShutdownPending,
    ShutdownSent(Box<Ending>),
    ShutdownReceived,
    ShutdownAckSent(Box<Ending>),
    Closed,
}

portable_enum! {
    AssociationState {
        0: CookieWait(value),
        1: CookieEchoed(value),
        2: Established,
        3: ShutdownPending,
        4: ShutdownSent(value),
        5: ShutdownReceived,
        6: ShutdownAckSent(value),
        7: Closed,
    }
}

impl AssociationState {
    pub(crate) fn name(&self) -> StateName {
        match self {
            Self::CookieWait(_) => StateName::CookieWait,
            Self::CookieEchoed(_) => StateName::CookieEchoed,
            Self::Established => StateName::Established,
            Self::ShutdownPending => StateName::ShutdownPending,
            Self::ShutdownSent(_) => StateName::ShutdownSent,
            Self::ShutdownReceived => StateName::ShutdownReceived,
            Self::ShutdownAckSent(_) => StateName::ShutdownAckSent,
            Self::Closed => StateName::Closed,
        }
    }

    /// Data may be sent (section 6).
    pub(crate) fn sends_data(&self) -> bool {
        matches!(
            self,
            Self::Established | Self::ShutdownPending | Self::ShutdownReceived
        )
    }

    /// Data is accepted (section 6).
    pub(crate) fn receives_data(&self) -> bool {
        matches!(
            self,
            Self::Established | Self::ShutdownPending | Self::ShutdownSent(_)
        )
    }

    /// SACKs are processed (section 6).
    pub(crate) fn receives_sacks(&self) -> bool {
        self.sends_data()
    }

    /// New messages are taken from the user (section 9.2).
    pub(crate) fn takes_messages(&self) -> bool {
        matches!(
            self,
            Self::CookieWait(_) | Self::CookieEchoed(_) | Self::Established
        )
    }

    /// Heartbeats are sent (section 8.3: until SHUTDOWN or SHUTDOWN ACK has been sent).
    pub(crate) fn sends_heartbeats(&self) -> bool {
        self.sends_data()
    }

    /// Heartbeats are answered (section 8.3).
    pub(crate) fn answers_heartbeats(&self) -> bool {
        matches!(
            self,
            Self::CookieEchoed(_)
                | Self::Established
                | Self::ShutdownPending
                | Self::ShutdownReceived
                | Self::ShutdownSent(_)
        )
    }

    /// Requests to re-configure streams are answered, also for a peer that still has data to send
    /// after them.
    pub(crate) fn answers_reconfig(&self) -> bool {
        self.sends_data() || self.receives_data()
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    pub(crate) fn is_setup(&self) -> bool {
        matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_))
    }

    /// Returns whether the INIT or COOKIE ECHO of this state was not answered in time.
    pub(crate) fn repeats_set_up(&self) -> bool {
        match self {
            Self::CookieWait(wait) => wait.init.retransmissions > 0,
            Self::CookieEchoed(echoed) => echoed.echo.retransmissions > 0,
            _ => false,
        }
    }

    /// State of SHUTDOWN or SHUTDOWN ACK, once one is sent.
    pub(super) fn ending(&self) -> Option<&Ending> {
        match self {
            Self::ShutdownSent(ending) | Self::ShutdownAckSent(ending) => Some(ending),
            _ => None,
        }
    }

    pub(super) fn ending_mut(&mut self) -> Option<&mut Ending> {
        match self {
            Self::ShutdownSent(ending) | Self::ShutdownAckSent(ending) => Some(ending),
            _ => None,
        }
    }

    /// Forgets the route of SHUTDOWN or SHUTDOWN ACK unless it passes: one of its addresses was removed.
    pub(super) fn keep_answer_if(&mut self, passes: impl FnOnce(&Route) -> bool) {
        if let Some(ending) = self.ending_mut() {
            ending.answer = ending.answer.filter(passes);
        }
    }

    /// Handles the timer of the state that has expired, if any: its chunk is due again.
    pub(super) fn expire_timer(&mut self, now: Time) -> Option<StateExpiry> {
        match self {
            Self::CookieWait(wait) => wait.init.expire(now).then(|| {
                wait.sent = None;
                StateExpiry::T1Init(wait.init.retransmissions)
            }),
            Self::CookieEchoed(echoed) => echoed.echo.expire(now).then(|| {
                echoed.sent = None;
                StateExpiry::T1Cookie(echoed.echo.retransmissions)
            }),
            Self::ShutdownSent(ending) | Self::ShutdownAckSent(ending) => {
                if ending.guard.is_some_and(|at| at <= now) {
                    return Some(StateExpiry::T5ShutdownGuard);
                }
                let expired = ending.chunk.expire(now);
                expired.then_some(StateExpiry::T2Shutdown)
            }
            _ => None,
        }
    }

    /// Makes the INIT or COOKIE ECHO due again, which is no retransmission: it goes to another address. Returns
    /// whether it is a COOKIE ECHO.
    pub(super) fn repeat_setup_chunk(&mut self) -> bool {
        match self {
            Self::CookieWait(wait) => {
                wait.init.due = true;
                wait.sent = None;
                false
            }
            Self::CookieEchoed(echoed) => {
                echoed.echo.due = true;
                echoed.sent = None;
                true
            }
            _ => false,
        }
    }

    /// The timer of the state: T1, T2 or T5, whichever is first.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        match self {
            Self::CookieWait(s) => s.init.timer,
            Self::CookieEchoed(s) => s.echo.timer,
            Self::ShutdownSent(e) | Self::ShutdownAckSent(e) => {
                crate::time::earliest(e.chunk.timer, e.guard)
            }
            _ => None,
        }
    }
}
