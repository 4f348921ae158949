//! Live runs of scenarios: description of the runs and their records, without sockets and clocks.
//!
//! A scenario describes its runs ([`LivePlan`]): a network, and for each flow a stack with its
//! settings and a program for each of the two hosts. A runner with sockets and clocks executes them
//! and returns the records of the programs and of the packets into and out of the hosts
//! ([`RunRecord`]). The scenario evaluates these with the code that evaluates its simulations.

mod accuracy;
mod record;

use std::any::Any;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::{Change, ConfigError, Network, NodeId};
use carrick_proto::{AssociationConfig, Time};

use crate::error::LabError;
use crate::result::LiveResult;

pub use accuracy::{Accuracy, LatePackets, Lateness, ProbeResult, StallReport};
pub use record::{ObservedData, PacketData, RunRecord};

/// Live runs of a scenario.
pub struct LivePlan {
    /// Runs in the order of their outcomes. They run at the same time, as far as `at_once` allows.
    pub runs: Vec<LiveRun>,
    /// Maximum number of simultaneous runs, at least 1.
    pub at_once: usize,
    /// Evaluates the outcomes, one for each run.
    pub conclude: Box<dyn FnOnce(Vec<RunOutcome>) -> Result<LiveResult, LabError>>,
}

/// Builds the network of a run, on the thread that runs it.
pub type BuildWorld = Box<dyn FnOnce() -> Result<LiveWorld, ConfigError> + Send>;

/// One live run.
pub struct LiveRun {
    /// Name among the scenario's runs: cell, carrier and repetition, separated by dots; letters,
    /// digits, dots and hyphens.
    pub name: String,
    /// Builds the network.
    pub world: BuildWorld,
    /// Flows in the order of the world's hosts.
    pub flows: Vec<Connection>,
    /// Packet data to record.
    pub watch: PacketRecording,
    /// Expected duration after all connections are established.
    pub expected: Duration,
    /// Duration after which the run is aborted.
    pub limit: Duration,
    /// Directory for a capture of every interface of the network, if requested.
    pub capture: Option<PathBuf>,
}

impl LiveRun {
    /// Returns the first part of the name, which is the name of the simulated cell if there is one.
    pub fn cell(&self) -> String {
        let mut parts = self.name.rsplitn(3, '.').skip(2);
        parts.next().unwrap_or_default().to_owned()
    }

    /// Returns whether the run is one of this cell, by the start of its name up to a dot.
    pub fn is_of(&self, cell: &str) -> bool {
        let rest = self.name.strip_prefix(cell);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns whether this is the first repetition.
    pub fn is_first(&self) -> bool {
        self.name.ends_with(".0")
    }
}

/// Connection of a run, between two hosts that no other connection uses.
pub struct Connection {
    /// Protocol stack of the hosts.
    pub stack: Stack,
    /// Index of the host that sets up the connection: 0 or 1.
    pub client: usize,
    /// Programs of the two hosts. The first program of each connection begins one second after the
    /// connections of all pairs of hosts are established.
    pub programs: [Box<dyn Program>; 2],
    /// Addresses used by the two hosts, primary first; `None` for all addresses.
    pub addresses: Option<[Vec<IpAddr>; 2]>,
    /// Index of the host whose addresses change: 0 or 1. Its endpoint uses all addresses of the
    /// host, follows their changes, and requests the peer to set the newest one as primary (RFC
    /// 5061).
    pub roams: Option<usize>,
    /// Permits the loss of the connection, which ends the run ([`RunRecord::lost`]); otherwise a
    /// loss is a failure.
    pub may_be_lost: bool,
}

/// Packet data recorded in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketRecording {
    /// Each DATA chunk and each TCP segment ([`PacketData::Chunk`], [`PacketData::Segment`]).
    #[default]
    Data,
    /// Length of each packet that enters a host ([`PacketData::Packet`]).
    Lengths,
}

/// Network of a run.
///
/// Its hosts are network namespaces, or programs that wrap one: a node whose program is
/// [`carrick_netsim::mobile::MobileNode`] around a [`carrick_netsim::ExternalHost`] keeps Mobile IP in the
/// simulator.
pub struct LiveWorld {
    /// Simulated network.
    pub network: Network,
    /// Hosts, the two of the first flow before those of the next; then hosts without a flow.
    pub hosts: Vec<NodeId>,
    /// Changes of the network, with their times after the begin of the first programs.
    pub changes: Vec<(Duration, Change)>,
}

/// Protocol stack of the hosts of a run.
#[derive(Clone, Debug)]
pub enum Stack {
    /// SCTP of this project.
    Sctp {
        /// Layer below SCTP.
        below: Below,
        /// SCTP port of both hosts.
        port: u16,
        /// Parameters of the association at both ends. The first address of the peer is set as
        /// primary path after all addresses have been verified.
        config: Box<AssociationConfig>,
    },
    /// TCP of the kernel, on the first addresses of the hosts.
    Tcp {
        /// Congestion control, by the kernel's name.
        congestion: &'static str,
        /// TCP port of the receiver.
        port: u16,
        /// Bytes of data and options in a segment; `None` for the maximum of the network.
        segment: Option<u16>,
        /// Largest receive window in bytes; `None` for the kernel's choice.
        window: Option<usize>,
        /// Send buffer in bytes (`SO_SNDBUF`); `None` for the kernel's choice.
        send_buffer: Option<usize>,
        /// Multipath TCP over all addresses of the hosts (RFC 8684); `None` for TCP.
        multipath: Option<MultipathTcp>,
    },
    /// QUIC of crate `quinn` (RFC 9000), on the first addresses of the hosts.
    Quic {
        /// UDP port of the server.
        port: u16,
        /// Number of streams that the messages use.
        streams: u16,
    },
    /// Program of another stack, which sends and receives numbered messages itself.
    Program(ExternalFlow),
}

/// Layer below SCTP in a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// Plain IP.
    Ip,
    /// UDP (RFC 6951).
    Udp,
    /// DTLS on UDP (RFC 8261), between the first addresses. The hosts have self-signed certificates, whose fingerprints
    /// they know.
    Dtls,
}

/// Path management of Multipath TCP in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipathTcp {
    /// All subflows but the first are backups (RFC 8684, section 3.3.8).
    pub backup: bool,
    /// Consecutive losses after which a subflow is stale (`net.mptcp.stale_loss_cnt`).
    pub stale_loss_count: u32,
}

/// Flow of an external program: message n begins with its number and has stream 1 + n mod `streams`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalFlow {
    /// Name of the program in the directory of such programs.
    pub program: &'static str,
    /// Further arguments of both ends.
    pub arguments: Vec<String>,
    /// SCTP port of the receiver.
    pub port: u16,
    /// Size of a message in bytes.
    pub size: usize,
    /// Interval of the messages.
    pub interval: Duration,
    /// Number of messages.
    pub count: u64,
    /// Number of streams.
    pub streams: u16,
}

/// A program of a host, without sockets and clock: the runner calls it and polls its output.
///
/// After every call the runner polls for messages to send, until there are none or until the stack
/// has no buffer space; it polls again when there is. A program that always has another message
/// therefore keeps the stack's send buffer full. By default a program sends and does nothing.
pub trait Program: Any + Send {
    /// Handles the established connection with the number of streams in both directions; 1 for TCP.
    fn connected(&mut self, now: Time, streams: u16) {
        let _ = (now, streams);
    }

    /// Handles a received message, or a piece of the byte stream for TCP.
    fn handle_message(&mut self, now: Time, stream: u16, message: Bytes) {
        let _ = (now, stream, message);
    }

    /// Returns the next message to send. A call means that the stack has accepted the message before.
    fn poll_transmit(&mut self, now: Time) -> Option<OutgoingMessage> {
        let _ = now;
        None
    }

    /// Returns whether the next message is polled only when the stack has room, as the time of the poll is that of
    /// its SEND. Otherwise it is polled when the stack has accepted the message before, and waits for room.
    fn needs_room(&self) -> bool {
        false
    }

    /// Returns the time of the next call of [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Handles the expired timeout.
    fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// Returns how received messages are read. The default reads all at once.
    fn reading(&self) -> ReadMode {
        ReadMode::All
    }

    /// Returns whether the program is done. The run ends when all programs are.
    fn is_done(&self) -> bool;

    /// Returns the failure, if any.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// Mode of reading received messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Read everything available.
    All,
    /// Read the next message, then poll the mode again. A program that ever returns this returns
    /// this, or [`Self::Nothing`], from the beginning: SCTP then keeps all messages but one in its
    /// receive buffer.
    One,
    /// Read nothing now.
    Nothing,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// Stream of the message.
    pub stream: u16,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// User data.
    pub payload: Bytes,
}

impl OutgoingMessage {
    /// Returns a message.
    pub fn new(stream: u16, ppid: u32, payload: Bytes) -> Self {
        Self {
            stream,
            ppid,
            payload,
        }
    }
}

/// Outcome of a run.
pub enum RunOutcome {
    /// The run was completed.
    Ran(RunRecord),
    /// The host lacks a feature, described by the text.
    Missing(String),
    /// The run failed, for the reason given by the text.
    Failed(String),
}

impl RunOutcome {
    /// Returns the record, if there is one.
    pub fn record(&self) -> Option<&RunRecord> {
        match self {
            Self::Ran(record) => Some(record),
            _ => None,
        }
    }
}

/// Describes each run without a result in a sentence; runs that lack the same feature share one.
pub(crate) fn shortfalls(names: &[String], outcomes: &[RunOutcome]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for (name, outcome) in names.iter().zip(outcomes) {
        let sentence = match outcome {
            RunOutcome::Ran(_) => continue,
            RunOutcome::Missing(what) => format!("Not run: {what}."),
            RunOutcome::Failed(what) => format!("The run {name} failed: {what}."),
        };
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_features_are_reported_once() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        let outcomes = [
            RunOutcome::Missing("no bbr".into()),
            RunOutcome::Failed("a reset".into()),
            RunOutcome::Missing("no bbr".into()),
            RunOutcome::Failed("a reset".into()),
        ];
        let texts = shortfalls(&names, &outcomes);
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert_eq!(texts[0], "Not run: no bbr.");
        assert_eq!(texts[2], "The run d failed: a reset.");
    }
}
