//! State of an endpoint besides the protocol's, in the format and by the codec of the core's exports.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::export::{Format, Portable};
use carrick_proto::{
    AssociationId, CloseReason, Endpoint as Core, ExportError, ImportError, SendOptions, Time,
    portable_enum, portable_struct,
};
use rustix::time::{ClockId, clock_gettime};

use crate::association::{Notification, RecvItem};
use crate::config::Transport;
use crate::driver::Handles;
use crate::network::InheritedKind;

/// Format of the state.
const FORMAT: Format = Format::new(*b"carrickh");

/// Latest moment of an export by the clock of its task: 292 years.
const MAX_NOW: u64 = i64::MAX as u64;

/// Socket, without its descriptor.
pub(crate) struct SocketEntry {
    pub(crate) kind: InheritedKind,
    pub(crate) address: IpAddr,
}

portable_struct! { SocketEntry { kind, address } }
portable_enum! { InheritedKind { 0: Udp, 1: Raw, 2: Claim } }
portable_enum! { Transport { 0: Udp { port }, 1: Raw, 2: Both { port } } }

/// State of an endpoint. The descriptors of the sockets follow in their order, then that of the claimed port.
pub(crate) struct EndpointState {
    /// `CLOCK_MONOTONIC` at the export in nanoseconds, which both processes read.
    pub(crate) clock: u64,
    /// Moment of the export by the clock of the task in nanoseconds.
    pub(crate) now: u64,
    /// Transport, with the UDP port.
    pub(crate) transport: Transport,
    pub(crate) sockets: Vec<SocketEntry>,
    /// The SCTP port is claimed.
    pub(crate) has_claim: bool,
    /// State of the protocol.
    pub(crate) core: Bytes,
    /// Associations that were set up, by their identifiers.
    pub(crate) associations: Vec<AssociationState>,
}

portable_struct! {
    EndpointState { clock, now, transport, sockets, has_claim, core, associations } check EndpointState::is_possible
}

portable_enum! { Handles { 0: Receiving, 1: Sending, 2: Dropped } }

/// Message that waits for room in the send buffer of the protocol.
pub(crate) struct WaitingMessage {
    pub(crate) options: SendOptions,
    pub(crate) data: Bytes,
}

portable_struct! { WaitingMessage { options, data } }

/// State of one association.
pub(crate) struct AssociationState {
    pub(crate) id: AssociationId,
    pub(crate) handles: Handles,
    /// A program has accepted it, or connected.
    pub(crate) is_accepted: bool,
    /// Addresses of the peer at the set-up.
    pub(crate) peer_addresses: Vec<IpAddr>,
    pub(crate) peer_port: u16,
    pub(crate) user_data: Bytes,
    /// Messages that have left the protocol.
    pub(crate) unread: Vec<RecvItem>,
    pub(crate) notifications: Vec<Notification>,
    /// Number of notifications that were discarded after these.
    pub(crate) lagged: u64,
    pub(crate) waiting: Vec<WaitingMessage>,
    /// New messages are refused, because a shutdown has begun.
    pub(crate) refuses_messages: bool,
    /// The shutdown begins after the messages that wait.
    pub(crate) shutdown_wanted: bool,
    /// Time after which the association is aborted.
    pub(crate) lingers_for: Option<Duration>,
    /// Reason of the end, which the program has not got.
    pub(crate) ended: Option<CloseReason>,
    pub(crate) timed_out: bool,
    pub(crate) undelivered: u32,
}

portable_struct! {
    AssociationState {
        id, handles, is_accepted, peer_addresses, peer_port, user_data, unread, notifications, lagged, waiting,
        refuses_messages, shutdown_wanted, lingers_for, ended, timed_out, undelivered,
    }
}

portable_enum! { RecvItem { 0: Messages(messages), 1: Restarted, 2: End(reason) } }
portable_enum! { Notification { 0: Event(event), 1: Lagged(count) } }

impl EndpointState {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, ExportError> {
        FORMAT.export(Time::ZERO, |out| self.write(out))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ImportError> {
        // There is no moment in it but those of the protocol, in bytes of their own.
        let mut input = FORMAT.open(bytes, Time::ZERO, None)?;
        let state = Self::read(&mut input)?;
        input.finish()?;
        Ok(state)
    }

    fn is_possible(&self) -> bool {
        self.now <= MAX_NOW
    }

    /// Returns the number of descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        self.sockets.len() + usize::from(self.has_claim)
    }

    /// Checks that the protocol has each association that has not ended, and that each is listed once.
    pub(crate) fn check(&self, core: &Core) -> Result<(), ImportError> {
        let mut listed = BTreeSet::new();
        let is_possible = |a: &AssociationState| {
            listed.insert(a.id) && (a.ended.is_some() || core.association(a.id).is_some())
        };
        if self.associations.iter().all(is_possible) {
            Ok(())
        } else {
            Err(ImportError::Malformed("identifiers of associations"))
        }
    }
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use carrick_proto::export::{ExportWriter, OLDEST_VERSION, VERSION};
    use carrick_proto::{Event, ImportConfig};

    use super::*;

    /// Checksum of all lists of fields, which changes with the version of [`FORMAT`].
    const LAYOUT: u32 = 0xc555_a29c;

    #[test]
    fn version_stands_for_the_layout() {
        let text = include_str!("state.rs");
        let (text, _) = text.split_once("#[cfg(test)]").unwrap();
        let mut lists = Vec::new();
        for begin in ["\nportable_struct! {", "\nportable_enum! {"] {
            for list in text.split(begin).skip(1) {
                let ends = ["\n}\n", " }\n"].iter().filter_map(|end| list.find(end));
                let words = list[..ends.min().unwrap_or(list.len())].split_whitespace();
                lists.push(words.collect::<Vec<_>>().join(" "));
            }
        }
        assert_eq!(lists.len(), 9);
        let sum = carrick_wire::crc32c(lists.join("\n").as_bytes());
        assert_eq!(
            sum, LAYOUT,
            "the exported state changed: set LAYOUT to {sum:#x}, and follow the same test of carrick-proto \
             (export/tests.rs)"
        );
    }

    #[test]
    fn an_impossible_moment_is_refused() {
        let state = EndpointState {
            clock: 0,
            now: MAX_NOW + 1,
            transport: Transport::Raw,
            sockets: Vec::new(),
            has_claim: false,
            core: Bytes::new(),
            associations: Vec::new(),
        };
        let error = EndpointState::decode(&state.encode().unwrap()).map(drop);
        assert_eq!(error, Err(ImportError::Malformed("EndpointState")));
    }

    #[test]
    fn wrong_parts_are_named() {
        let refused = |write: fn(&mut ExportWriter)| {
            let bytes = FORMAT.export(Time::ZERO, write).unwrap();
            EndpointState::decode(&bytes)
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        // Clock, moment, and then the transport.
        assert!(refused(|out| out.raw(&[1, 1, 7])).contains("(Transport)"));
        assert!(refused(|out| out.raw(&[1, 1, 1, 1, 9])).contains("(InheritedKind)"));
        assert!(refused(|out| out.raw(&[1, 1])).contains("(truncated)"));
    }

    /// States of each version, written by the test `write_state` of their commit (`tests/sockets/handover.rs`).
    const STATES: [(u16, &[u8]); 1] = [(1, include_bytes!("../../tests/exports/1.bin"))];

    #[test]
    fn states_of_each_version_are_read() {
        for (version, bytes) in STATES {
            assert_eq!(bytes[8..10], version.to_be_bytes());
            let state = EndpointState::decode(bytes).unwrap();
            assert_eq!((state.sockets.len(), state.descriptors()), (2, 3));
            let now = Time::from_nanos(state.now);
            let core = Core::import(ImportConfig::default(), now, &state.core).unwrap();
            state.check(&core).unwrap();
            let [of_program, waiting] = &state.associations[..] else {
                panic!("{} associations", state.associations.len());
            };
            assert_eq!((of_program.is_accepted, waiting.is_accepted), (true, false));
            assert_eq!(of_program.user_data, "data of the program");
            let messages = of_program.unread.iter().map(|item| match item {
                RecvItem::Messages(messages) => messages.len(),
                RecvItem::Restarted | RecvItem::End(_) => 0,
            });
            assert_eq!(messages.sum::<usize>(), 2);
            assert!(!of_program.waiting.is_empty(), "messages wait for room");
            let added =
                |n: &Notification| matches!(n, Notification::Event(Event::StreamsChanged { .. }));
            assert!(of_program.notifications.iter().any(added));
        }
        let (oldest, latest) = (STATES[0].0, STATES[STATES.len() - 1].0);
        assert_eq!((oldest, latest), (OLDEST_VERSION, VERSION));
    }

    #[test]
    fn unknown_and_repeated_associations_are_refused() {
        let mut state = EndpointState::decode(STATES[0].1).unwrap();
        let now = Time::from_nanos(state.now);
        let core = Core::import(ImportConfig::default(), now, &state.core).unwrap();
        state.associations[1].id = state.associations[0].id;
        let error = ImportError::Malformed("identifiers of associations");
        assert_eq!(state.check(&core), Err(error.clone()));
        let other = carrick_proto::EndpointConfig::new(5000, vec![[127, 0, 0, 1].into()], [0; 32]);
        let other = Core::new(other).unwrap();
        assert_eq!(state.check(&other), Err(error));
    }
}
