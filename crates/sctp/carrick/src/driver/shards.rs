//! The tasks of an endpoint that has several: shards. Each has the associations whose verification tags
//! name it ([`carrick_proto::Shard`]). A packet that arrives at another one is passed on.
//!
//! Changes of the host's addresses are followed by the first shard, which opens the sockets of all in their
//! order. All shards end together.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use carrick_proto::{IcmpInput, Route, Shard, ShardTable, SharedTable, Time};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::sync::watch;

use super::Driver;
use crate::command::{Command, Commands};
use crate::socket::{IcmpNote, Segments};

/// Maximum number of inputs that wait for a shard, each of at most 64 KiB; further ones are dropped.
const MAX_WAITING: usize = 1024;

/// Maximum number of them that are processed in a round.
const INPUTS: usize = 256;

/// Input that arrived at another shard.
enum PassedOn {
    Packets(Route, PacketBlock),
    Icmp(IcmpNote),
}

impl PassedOn {
    fn count(&self) -> u64 {
        match self {
            Self::Packets(_, block) => block.bytes.len().div_ceil(block.stride) as u64,
            Self::Icmp(_) => 1,
        }
    }
}

/// Packets that arrived together: all but the last have `stride` bytes.
#[derive(Default)]
struct PacketBlock {
    bytes: Vec<u8>,
    stride: usize,
}

/// The table of all shards, behind a lock.
#[derive(Debug, Default)]
struct LockedTable(Mutex<ShardTable>);

impl SharedTable for LockedTable {
    fn with(&self, work: &mut dyn FnMut(&mut ShardTable)) {
        // No code panics while it has the lock.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Way to another shard.
#[derive(Clone)]
struct ShardHandle {
    inputs: mpsc::Sender<PassedOn>,
    /// Weak, so that the shard detects that all handles were dropped.
    commands: mpsc::WeakUnboundedSender<Command>,
}

/// Place of a task among the shards of its endpoint.
pub(crate) struct ShardLink {
    shard: Shard,
    inputs: mpsc::Receiver<PassedOn>,
    batch: Vec<PassedOn>,
    /// Packets for each shard of those that are being read.
    leaving: Vec<PacketBlock>,
    /// All shards by their index, this one included.
    all: Vec<ShardHandle>,
    /// Dropped when the shard has nothing left to do.
    unfinished: Option<watch::Receiver<()>>,
    /// Ready when no shard is unfinished.
    all_finished: Pin<Box<dyn Future<Output = ()> + Send>>,
    passed_on: u64,
    not_passed_on: u64,
}

impl ShardLink {
    /// Returns the places of the tasks with these commands, in their order.
    pub(crate) fn group(commands: &[Commands]) -> Vec<Self> {
        let table: Arc<dyn SharedTable> = Arc::new(LockedTable::default());
        let (all, inputs): (Vec<_>, Vec<_>) = commands
            .iter()
            .map(|commands| {
                let (inputs, received) = mpsc::channel(MAX_WAITING);
                let commands = commands.downgrade();
                (ShardHandle { inputs, commands }, received)
            })
            .unzip();
        let (running, unfinished) = watch::channel(());
        let running = Arc::new(running);
        let count = inputs.len() as u32;
        let place = |(inputs, index)| {
            let running = Arc::clone(&running);
            Self {
                shard: Shard {
                    index,
                    count,
                    table: Arc::clone(&table),
                },
                inputs,
                batch: Vec::new(),
                leaving: all.iter().map(|_| PacketBlock::default()).collect(),
                all: all.clone(),
                unfinished: Some(unfinished.clone()),
                all_finished: Box::pin(async move { running.closed().await }),
                passed_on: 0,
                not_passed_on: 0,
            }
        };
        inputs.into_iter().zip(0..).map(place).collect()
    }

    pub(crate) fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Returns the number of packets and ICMP messages that were passed on.
    pub(super) fn passed_on(&self) -> u64 {
        self.passed_on
    }

    /// Returns the number of those that were dropped, because too many waited for their shard.
    pub(super) fn not_passed_on(&self) -> u64 {
        self.not_passed_on
    }

    /// Returns whether a datagram is for this shard. [`Self::pass_on`] passes those on that are not, once all that
    /// arrived together have been examined.
    pub(super) fn keeps(&mut self, route: &Route, datagram: &[u8]) -> bool {
        let to = self.shard.of_datagram(route, datagram) as usize;
        // The packets of a shard that has failed are out of the blue.
        if to == self.shard.index as usize || self.all[to].inputs.is_closed() {
            return true;
        }
        let block = &mut self.leaving[to];
        if block.bytes.is_empty() {
            block.stride = datagram.len();
        }
        block.bytes.extend_from_slice(datagram);
        false
    }

    /// Passes on the packets for other shards that arrived together on this route.
    pub(super) fn pass_on(&mut self, route: &Route) {
        for to in 0..self.leaving.len() {
            if !self.leaving[to].bytes.is_empty() {
                let block = std::mem::take(&mut self.leaving[to]);
                self.send(to, PassedOn::Packets(*route, block));
            }
        }
    }

    /// Returns whether an ICMP message is for this shard; otherwise passes it on.
    pub(super) fn keeps_icmp(&mut self, icmp: &IcmpInput<'_>) -> bool {
        let to = self.shard.of_icmp(icmp);
        to == self.shard.index || !self.send(to as usize, PassedOn::Icmp(icmp.into()))
    }

    /// Returns whether the shard exists.
    fn send(&mut self, to: usize, input: PassedOn) -> bool {
        let count = input.count();
        match self.all[to].inputs.try_send(input) {
            Ok(()) => self.passed_on += count,
            Err(TrySendError::Full(_)) => self.not_passed_on += count,
            Err(TrySendError::Closed(_)) => return false,
        }
        true
    }

    /// Sends the same command to all other shards. One without handles ends soon and needs none.
    fn command_others(&self, command: impl Fn() -> Command) {
        for (shard, index) in self.all.iter().zip(0..) {
            if index != self.shard.index
                && let Some(commands) = shard.commands.upgrade()
            {
                // Without a task there is nothing to change.
                let _ = commands.send(command());
            }
        }
    }
}

impl Driver {
    /// Processes what arrived at other shards. Returns true if there was any.
    pub(super) fn receive_passed_on(&mut self, cx: &mut Context<'_>, now: Time) -> bool {
        let Some(shards) = &mut self.shards else {
            return false;
        };
        let polled = shards.inputs.poll_recv_many(cx, &mut shards.batch, INPUTS);
        for input in shards.batch.drain(..) {
            match input {
                PassedOn::Packets(route, block) => {
                    let mut packets = Segments::new(&block.bytes, block.stride);
                    self.below
                        .handle_datagrams(now, &mut self.core, &route, &mut packets);
                }
                PassedOn::Icmp(note) => self.core.handle_icmp(now, &note.input()),
            }
        }
        polled.is_ready()
    }

    /// Passes sockets that were opened for the other shards to them.
    pub(super) fn share_added(&mut self) {
        let Some(shards) = &self.shards else {
            return;
        };
        for of_address in self.network.take_sockets_of_others() {
            // The first shard has opened them, for those behind it.
            for (socket, shard) in of_address.into_iter().zip(&shards.all[1..]) {
                if let Some(commands) = shard.commands.upgrade() {
                    // Without a task nothing is sent from the address.
                    let _ = commands.send(Command::AddSocket(Box::new(socket)));
                }
            }
        }
    }

    /// Removes an address from the other shards, if this is the first.
    pub(super) fn share_removed(&self, address: IpAddr) {
        if let Some(shards) = self.shards.as_ref().filter(|s| s.shard.index == 0) {
            shards.command_others(|| Command::RemoveAddress(address));
        }
    }

    /// Lets the other shards select their source addresses again.
    pub(super) fn share_routes_changed(&self) {
        if let Some(shards) = &self.shards {
            let refresh = |core: &mut carrick_proto::Endpoint, _| core.local_routes_changed();
            shards.command_others(|| Command::Work(Box::new(refresh)));
        }
    }

    /// Returns whether no shard has anything left to do; this one has nothing.
    pub(super) fn all_shards_are_done(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(shards) = &mut self.shards else {
            return true;
        };
        shards.unfinished = None;
        shards.all_finished.as_mut().poll(cx) == Poll::Ready(())
    }
}
