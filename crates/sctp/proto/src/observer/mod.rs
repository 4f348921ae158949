//! Observer of what an endpoint decides, for logs, traces and figures.
//!
//! An observer is passed each event when it occurs: those of the user's notifications, and those that only explain
//! them, such as the error of a path by which data moves to another one. It cannot change what the endpoint does, and
//! without one, nothing is collected. It is not part of the exported state of an endpoint.

mod fields;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use carrick_wire::{ChunkType, StreamId, Tsn};

use crate::event::Event;
use crate::export::{ExportReader, ExportWriter, ImportError, Portable};
use crate::ids::{AssociationId, StateName};
use crate::path::{Path, PathErrorCause, PathId, Paths};
use crate::time::Time;

pub use fields::{ObservedDetail, ObservedValue};

/// Observer of the associations of an endpoint ([`Endpoint::set_observer`](crate::Endpoint::set_observer)).
///
/// It is called while the endpoint works, once for each event of a chunk: it should return soon. Several endpoints may
/// share one, in several threads.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Observes an event of an association. The default ignores it.
    fn observe(&self, association: AssociationId, time: Time, event: &ObservedEvent) {
        let _ = (association, time, event);
    }

    /// Returns the level of the finest events that it takes. It is asked after each input of an association: events of
    /// chunks, several for each packet, cost little while it takes none. Finer ones may be passed nevertheless. The default
    /// takes all.
    fn detail(&self) -> ObservedDetail {
        ObservedDetail::Chunk
    }

    /// Returns the name of an association in what the observer writes, so that other logs can refer to it. The default
    /// has none.
    fn trace(&self, association: AssociationId) -> Option<String> {
        let _ = association;
        None
    }
}

/// Event of an association, for an [`Observer`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ObservedEvent {
    /// The association is observed from now on: it was created, or imported.
    Begun {
        /// SCTP port of this side.
        local_port: u16,
        /// SCTP port of the peer.
        peer_port: u16,
        /// The peer initiated the association.
        accepted: bool,
    },
    /// The state changed (RFC 9260, section 4).
    StateChanged {
        /// State before; `None` for the first one.
        from: Option<StateName>,
        /// New state.
        to: StateName,
    },
    /// The association has a path, or the path's route changed.
    PathChanged {
        /// Path concerned.
        path: PathId,
        /// Source address of packets; `None` if the host chooses it.
        local: Option<IpAddr>,
        /// Address of the peer.
        remote: IpAddr,
        /// UDP port of the peer; `None` on plain IP.
        encapsulation: Option<u16>,
        /// Path MTU in bytes, IP header included.
        mtu: u16,
    },
    /// A path was removed.
    PathRemoved {
        /// Path concerned.
        path: PathId,
    },
    /// An error of a path was counted (RFC 9260, section 8.2).
    PathError {
        /// Path concerned.
        path: PathId,
        /// Reason of the error.
        cause: PathErrorCause,
        /// Error counter of the path.
        error_count: u32,
    },
    /// Nothing is acknowledged on a path with outstanding data: heartbeats on all paths show which one fails
    /// before T3-rtx expires.
    SilenceCheckBegun {
        /// Path concerned.
        path: PathId,
    },
    /// A DATA chunk was sent.
    ChunkSent {
        /// TSN of the chunk.
        tsn: Tsn,
        /// Stream of the chunk.
        stream: StreamId,
        /// Path on which it was sent.
        path: PathId,
        /// Number of the transmission, 1 for the first one.
        transmission: u32,
        /// Length of the user data in bytes.
        bytes: usize,
        /// [`SendOptions::context`](crate::SendOptions::context) of the message.
        context: u64,
    },
    /// A DATA chunk was acknowledged, cumulatively or by a Gap Ack Block.
    ChunkAcknowledged {
        /// TSN of the chunk.
        tsn: Tsn,
    },
    /// A DATA chunk was marked for retransmission before T3-rtx expired.
    LossDetected {
        /// TSN of the chunk.
        tsn: Tsn,
        /// Path on which it was sent last.
        path: PathId,
    },
    /// A tail loss probe was sent (RFC 8985, section 7).
    TailLossProbe {
        /// Path concerned.
        path: PathId,
    },
    /// The reduction of the congestion window was undone: the retransmissions were not necessary (RFC 4015).
    ReductionUndone {
        /// Path concerned.
        path: PathId,
    },
    /// T3-rtx expired on a path.
    Timeout {
        /// Path concerned.
        path: PathId,
    },
    /// A DATA chunk arrived for the first time.
    ChunkReceived {
        /// TSN of the chunk.
        tsn: Tsn,
    },
    /// A received chunk was discarded.
    ChunkDiscarded {
        /// Type of the chunk.
        chunk: ChunkType,
        /// Reason.
        reason: DiscardReason,
    },
    /// A SACK was sent.
    SackSent {
        /// Path on which it was sent.
        path: PathId,
        /// Number of its Gap Ack Blocks.
        gaps: usize,
    },
    /// The congestion window or the outstanding data of a path changed.
    Window {
        /// Path concerned.
        path: PathId,
        /// Congestion window in bytes.
        cwnd: usize,
        /// Slow-start threshold in bytes.
        ssthresh: usize,
        /// Outstanding bytes on the path.
        flight_size: usize,
    },
    /// A round-trip time of data was measured.
    RoundTrip {
        /// Path concerned.
        path: PathId,
        /// Sample.
        sample: Duration,
    },
    /// The RTO of a path changed, by an RTT sample of data or a heartbeat, or because T3-rtx expired.
    Rto {
        /// Path concerned.
        path: PathId,
        /// New RTO.
        rto: Duration,
    },
    /// The user is notified of an event.
    Notified(Event),
}

/// Reason why a received chunk was discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "kebab-case")
)]
pub enum DiscardReason {
    /// Its form is wrong.
    Malformed,
    /// It has to be authenticated and is not (RFC 4895, section 6.3).
    Unauthenticated,
    /// It carries user data in the clear although the chunk protection of the association requires otherwise.
    Unprotected,
    /// Its type is unknown, or that of an extension that is not in force (RFC 9260, section 3.2).
    Unrecognized,
    /// Its TSN was received before.
    Duplicate,
    /// The receive buffer has no room.
    NoBuffer,
}

impl ObservedEvent {
    /// Returns the event with the current RTO of a path.
    pub(crate) fn rto_of(path: &Path) -> Self {
        Self::Rto {
            path: path.id(),
            rto: path.rto(),
        }
    }
}

impl fmt::Display for DiscardReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed",
            Self::Unauthenticated => "unauthenticated",
            Self::Unprotected => "unprotected",
            Self::Unrecognized => "unrecognized",
            Self::Duplicate => "duplicate",
            Self::NoBuffer => "no-buffer",
        })
    }
}

/// Observation of one association; nothing unless its endpoint has an observer.
#[derive(Debug, Default)]
pub(crate) struct Observation(Option<Box<Observed>>);

#[derive(Debug)]
struct Observed {
    association: AssociationId,
    observer: Arc<dyn Observer>,
    /// The observer takes events of single chunks.
    takes_chunks: bool,
    /// State and paths at the last comparison.
    state: Option<StateName>,
    paths: Vec<ObservedPath>,
}

/// Path at the last comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ObservedPath {
    id: PathId,
    local: Option<IpAddr>,
    remote: IpAddr,
    encapsulation: Option<u16>,
    mtu: u16,
}

impl ObservedPath {
    fn of(path: &Path) -> Self {
        Self {
            id: path.id(),
            local: path.local(),
            remote: path.remote(),
            encapsulation: path.encapsulation(),
            mtu: path.ip_mtu(),
        }
    }
}

impl Portable for Observation {
    fn write(&self, _: &mut ExportWriter) {}

    fn read(_: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Ok(Self::default())
    }
}

impl Observation {
    /// Begins to observe an association, if there is an observer.
    pub(crate) fn new(association: AssociationId, observer: Option<Arc<dyn Observer>>) -> Self {
        Self(observer.map(|observer| {
            Box::new(Observed {
                association,
                takes_chunks: observer.detail() == ObservedDetail::Chunk,
                observer,
                state: None,
                paths: Vec::new(),
            })
        }))
    }

    /// Passes an event to the observer, if there is one.
    #[inline]
    pub(crate) fn record(&self, now: Time, event: impl FnOnce() -> ObservedEvent) {
        if let Some(observed) = &self.0 {
            let Observed {
                association,
                observer,
                ..
            } = &**observed;
            observer.observe(*association, now, &event());
        }
    }

    /// Passes an event of [`ObservedDetail::Chunk`] to the observer, if it takes them.
    #[inline]
    pub(crate) fn record_chunk(&self, now: Time, event: impl FnOnce() -> ObservedEvent) {
        if self.takes_chunks() {
            self.record(now, event);
        }
    }

    /// Returns whether there is an observer that takes events of single chunks.
    #[inline]
    pub(crate) fn takes_chunks(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|observed| observed.takes_chunks)
    }

    /// Returns whether there is an observer.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// Passes the changes of state and paths since the last comparison to the observer.
    pub(crate) fn compare(&mut self, now: Time, state: StateName, paths: &Paths) {
        let Some(observed) = self.0.as_deref_mut() else {
            return;
        };
        let Observed {
            association,
            observer,
            takes_chunks,
            state: last,
            paths: known,
        } = observed;
        // A filter of `tracing` may have changed.
        *takes_chunks = observer.detail() == ObservedDetail::Chunk;
        let record = |event: &ObservedEvent| observer.observe(*association, now, event);
        let present = || paths.iter().map(ObservedPath::of);
        // Usually nothing has changed, and a list is not needed.
        if !present().eq(known.iter().copied()) {
            for path in present().filter(|path| !known.contains(path)) {
                record(&ObservedEvent::PathChanged {
                    path: path.id,
                    local: path.local,
                    remote: path.remote,
                    encapsulation: path.encapsulation,
                    mtu: path.mtu,
                });
            }
            let is_gone = |old: &&ObservedPath| present().all(|path| path.id != old.id);
            for path in known.iter().filter(is_gone) {
                record(&ObservedEvent::PathRemoved { path: path.id });
            }
            *known = present().collect();
        }
        if *last != Some(state) {
            record(&ObservedEvent::StateChanged {
                from: *last,
                to: state,
            });
            *last = Some(state);
        }
    }
}
