//! Scenarios in real time: what is to be run, told without sockets and clocks, and what came of it.
//!
//! A scenario names its runs ([`Plan`]): a network, and for each flow a stack with its settings and a
//! program for each of the two hosts. Whoever has sockets and clocks carries them out and hands back what the programs
//! noted and what was seen on the way into and out of the hosts ([`Record`]); the scenario measures it
//! with the code that measures its simulations.

mod accuracy;
mod bulk;
mod cells;
mod log;
mod messages;
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

pub use accuracy::{Accuracy, Lateness, Later, Machine, Probe};
pub use bulk::{Bulk, Drain};
pub(crate) use cells::{Measured, twins};
pub(crate) use log::{Log, Transmission};
pub use messages::{Messages, Sink, Source};
pub use record::{Data, Record, Seen};

/// What a scenario wants to be run in real time.
pub struct Plan {
    /// The runs, in the order in which their outcomes are wanted. They run at the same time, as far as
    /// `at_once` allows.
    pub runs: Vec<Run>,
    /// How many may run at the same time, at least 1.
    pub at_once: usize,
    /// Makes a result of the outcomes, one for each run.
    pub conclude: Box<dyn FnOnce(Vec<Outcome>) -> Result<LiveResult, LabError>>,
}

/// Builds the network of a run, on the thread that will run it.
pub type BuildWorld = Box<dyn FnOnce() -> Result<World, ConfigError> + Send>;

/// One run.
pub struct Run {
    /// Its name among the scenario's runs: the cell, what carries it, and the repetition, with dots between
    /// them; letters, digits, dots and hyphens.
    pub name: String,
    /// Builds the network.
    pub world: BuildWorld,
    /// The flows, in the order of the world's hosts.
    pub flows: Vec<Flow>,
    /// What is noted of the packets.
    pub watch: Watch,
    /// How long it is expected to take once the connections stand.
    pub expected: Duration,
    /// After how long it is given up.
    pub limit: Duration,
    /// The directory for a capture of every interface of the network, if there is to be one.
    pub capture: Option<PathBuf>,
}

impl Run {
    /// The first part of its name: the same as that of the simulated cell, if there is one.
    pub fn cell(&self) -> String {
        let mut parts = self.name.rsplitn(3, '.').skip(2);
        parts.next().unwrap_or_default().to_owned()
    }

    /// Whether it is of this cell, by the beginning of its name up to a dot.
    pub fn is_of(&self, cell: &str) -> bool {
        let rest = self.name.strip_prefix(cell);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Whether it is the first repetition.
    pub fn is_first(&self) -> bool {
        self.name.ends_with(".0")
    }
}

/// One connection of a run, between two hosts that no other flow has.
pub struct Flow {
    /// What the hosts speak.
    pub stack: Stack,
    /// The host that sets the connection up: 0 or 1 of the two.
    pub client: usize,
    /// The programs of the two hosts. The first of each flow begins a second after the connections of
    /// all flows are set up.
    pub programs: [Box<dyn Program>; 2],
    /// The addresses that the two hosts use, the first of them first; `None` for all that they have.
    pub addresses: Option<[Vec<IpAddr>; 2]>,
    /// The host whose addresses come and go: 0 or 1 of the two. Its endpoint has all that the host has, follows
    /// them, and asks the other host to send to the newest (RFC 5061).
    pub roams: Option<usize>,
    /// The connection may be lost, which ends the run ([`Record::lost`]); else that is a failure.
    pub may_be_lost: bool,
}

impl Flow {
    /// A flow between hosts that use all addresses that they have.
    pub fn new(stack: Stack, client: usize, programs: [Box<dyn Program>; 2]) -> Self {
        Self {
            stack,
            client,
            programs,
            addresses: None,
            roams: None,
            may_be_lost: false,
        }
    }
}

/// What is noted of the packets of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// Each DATA chunk and each TCP segment ([`Data::Chunk`], [`Data::Segment`]).
    #[default]
    Data,
    /// The length of each packet that enters a host ([`Data::Packet`]).
    Lengths,
}

/// A network for a run.
///
/// Its hosts are namespaces, or what is below one: a node whose program is
/// [`carrick_netsim::mobile::MobileNode`] around a [`carrick_netsim::Port`] keeps Mobile IP in the simulator.
pub struct World {
    /// The network.
    pub network: Network,
    /// The two hosts of each flow.
    pub hosts: Vec<[NodeId; 2]>,
    /// What changes, and how long after the first programs began.
    pub changes: Vec<(Duration, Change)>,
}

/// What the hosts of a run speak.
#[derive(Clone, Debug)]
pub enum Stack {
    /// SCTP of this project.
    Sctp {
        /// In UDP (RFC 6951) or on plain IP.
        encapsulated: bool,
        /// The SCTP port of both hosts.
        port: u16,
        /// The association's parameters at both ends. The first address of the other host is made the
        /// primary path once all are verified.
        config: Box<AssociationConfig>,
    },
    /// TCP of the kernel, on the hosts' first addresses.
    Tcp {
        /// Congestion control, by the kernel's name.
        congestion: &'static str,
        /// The port.
        port: u16,
        /// Bytes of data and options in a segment; `None` for what fits the network.
        segment: Option<u16>,
        /// The largest window that a receiver announces, in bytes; `None` for the kernel's choice.
        window: Option<usize>,
    },
}

/// A program of a host. It has no sockets and no clock: it is called, and asked what it wants.
///
/// After every call it is asked for what it wants to send, until there is no more or until the stack has no
/// room for it; then it is asked again when there is. So one that always has more fills the stack.
pub trait Program: Any + Send {
    /// The connection stands and has this many streams in both directions; 1 for TCP.
    fn connected(&mut self, now: Time, streams: u16);

    /// A message came; a piece of the byte stream for TCP.
    fn handle_message(&mut self, now: Time, stream: u16, message: Bytes);

    /// What it wants to send.
    fn poll_transmit(&mut self) -> Option<Outgoing>;

    /// When it wants to be called though nothing came.
    fn poll_timeout(&self) -> Option<Time>;

    /// That time has come.
    fn handle_timeout(&mut self, now: Time);

    /// How it takes what comes. The default takes all at once.
    fn reading(&self) -> Reading {
        Reading::All
    }

    /// It has no more to do. The run ends when all say so.
    fn is_done(&self) -> bool;

    /// What went wrong.
    fn failure(&self) -> Option<String>;
}

/// How a program takes what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Whatever is there.
    All,
    /// The next message, and then it is asked again. A program that ever says so says so, or
    /// [`Self::Nothing`], from the beginning: then SCTP keeps all messages but one in its receive buffer.
    One,
    /// Nothing now.
    Nothing,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its stream.
    pub stream: u16,
    /// Its payload protocol identifier.
    pub ppid: u32,
    /// Its data.
    pub payload: Bytes,
}

/// What became of a run.
pub enum Outcome {
    /// It ran to its end.
    Ran(Record),
    /// This host has not got what it needs; the text says what.
    Missing(String),
    /// It went wrong; the text says how.
    Failed(String),
}

impl Outcome {
    /// The record, if there is one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Ran(record) => Some(record),
            _ => None,
        }
    }
}

/// A sentence for each run that brought nothing, those that miss the same together.
pub(crate) fn shortfalls(names: &[String], outcomes: &[Outcome]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for (name, outcome) in names.iter().zip(outcomes) {
        let sentence = match outcome {
            Outcome::Ran(_) => continue,
            Outcome::Missing(what) => format!("Not run: {what}."),
            Outcome::Failed(what) => format!("The run {name} went wrong: {what}."),
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
    fn what_is_missing_is_said_once_and_what_failed_each_time() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        let outcomes = [
            Outcome::Missing("no bbr".into()),
            Outcome::Failed("a reset".into()),
            Outcome::Missing("no bbr".into()),
            Outcome::Failed("a reset".into()),
        ];
        let said = shortfalls(&names, &outcomes);
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(said[0], "Not run: no bbr.");
        assert_eq!(said[2], "The run d went wrong: a reset.");
    }
}
