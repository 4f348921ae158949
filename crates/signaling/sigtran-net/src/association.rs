//! Association with a peer: parameters, and the tasks that read and write its messages.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use carrick::{
    AddressEvent, Association, Config, Event, Events, Message, Notification, PathId, Ppid,
    RecvHalf, SendHalf, SendOptions, StreamId,
};
use carrick_sigtran::m2pa;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

use crate::connection::{Connected, LinkKey};

/// Maximum number of messages that are received or sent together.
const BATCH: usize = 128;

/// Maximum number of messages that wait to be sent on an association.
pub(crate) const MAX_QUEUED: usize = 8192;

/// Maximum octets of messages that wait to be sent on an association.
const MAX_QUEUED_OCTETS: usize = 8 << 20;

/// Maximum number of management messages beyond [`MAX_QUEUED`]; a peer that causes more without reading them is
/// aborted.
const MAX_MANAGEMENT: usize = 1024;

/// Time limit of the graceful end of an association: five times RTO.Max, the duration of T5-shutdown-guard (RFC 9260,
/// section 9.2). Outstanding messages can move to another path meanwhile. It frees the association of a peer that
/// acknowledges and never reads.
pub(crate) const LINGER: Duration = Duration::from_secs(25);

/// Queues of crate `carrick` for each association, in bytes.
const TRANSPORT_QUEUE: usize = 1 << 20;

/// Changes the association parameters in the configuration of an endpoint for SIGTRAN: streams in each direction, at
/// least 2, because stream 0 is for management alone (RFC 4666, section 1.4.7), and small messages are sent at once.
/// All other parameters stay as they are.
pub fn endpoint_config(config: Config, streams: u16) -> Config {
    let streams = streams.max(2);
    let association = config.association.clone().with(|c| {
        c.streams.outbound_streams = streams;
        c.streams.max_inbound_streams = streams;
        c.transmission.nagle = false;
    });
    let mut config = config.linger(LINGER).association(association);
    config.send_queue = TRANSPORT_QUEUE;
    config.receive_queue = TRANSPORT_QUEUE;
    config.receive_queue_messages = 4 * BATCH;
    config
}

/// Key of an association, unique in a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct AssociationId(pub(crate) u64);

/// Input of the task that owns the state machines.
pub(crate) enum Input {
    /// An association with a configured peer was set up or not.
    Connected(LinkKey, Connected),
    /// A peer has set up an association, at the endpoint of all or of one link.
    Accepted(Option<LinkKey>, Box<carrick::Incoming>),
    /// Messages in their order.
    Received(AssociationId, Vec<Message>),
    /// The peer has restarted the association.
    Restarted(AssociationId),
    /// The path to this address of the peer has failed, or recovered if it is active.
    PathStatus(AssociationId, IpAddr, bool),
    /// The association has ended, with the reason.
    Ended(AssociationId, String),
}

/// Established association with its tasks.
pub(crate) struct OpenAssociation {
    pub(crate) sender: SendHalf,
    queue: Arc<SendQueue>,
    /// Messages of the current batch, not yet in the queue, and their octets.
    staged: VecDeque<(Bytes, SendOptions)>,
    staged_octets: usize,
    /// Payload protocol identifier of the messages in both directions.
    ppid: u32,
    reader: AbortHandle,
    writer: AbortHandle,
}

impl Drop for OpenAssociation {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
    }
}

impl OpenAssociation {
    /// Starts the tasks. The one that reads ends with [`Input::Ended`]; the one that writes notifies `room`.
    pub(crate) fn start(
        id: AssociationId,
        mut association: Association,
        ppid: u32,
        inputs: mpsc::Sender<Input>,
        room: Arc<Notify>,
    ) -> Self {
        let events = AssociationEvents::new(&mut association);
        let (sender, receiver) = association.split();
        let queue = Arc::new(SendQueue {
            queued: Mutex::default(),
            added: Notify::new(),
            room,
        });
        let reader =
            tokio::spawn(read(id, (sender.clone(), receiver), events, inputs)).abort_handle();
        let writer = tokio::spawn(write(Arc::clone(&queue), sender.clone())).abort_handle();
        Self {
            sender,
            queue,
            staged: VecDeque::new(),
            staged_octets: 0,
            ppid,
            reader,
            writer,
        }
    }

    pub(crate) const fn ppid(&self) -> u32 {
        self.ppid
    }

    /// Stages a message for [`Self::flush`]. Returns `false` if it is discarded: traffic beyond the limits of the queue. M2PA
    /// limits its messages itself, and they are in sequence.
    pub(crate) fn stage(&mut self, stream: u16, unordered: bool, octets: Bytes) -> bool {
        // Stream 0 is for management.
        if stream != 0 && self.ppid != m2pa::PAYLOAD_PROTOCOL_ID && self.is_full(octets.len()) {
            return false;
        }
        self.staged_octets += octets.len();
        let options = SendOptions {
            stream: StreamId(stream),
            ppid: Ppid(self.ppid),
            unordered,
            ..SendOptions::default()
        };
        self.staged.push_back((octets, options));
        true
    }

    /// Returns whether the queue and what is staged have no room for a message with these octets.
    fn is_full(&self, octets: usize) -> bool {
        let queued = self.queue.lock();
        queued.messages.len() + self.staged.len() >= MAX_QUEUED
            || queued.octets + self.staged_octets + octets > MAX_QUEUED_OCTETS
    }

    /// Queues the staged messages.
    pub(crate) fn flush(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let mut queued = self.queue.lock();
        queued.octets += std::mem::take(&mut self.staged_octets);
        queued.messages.append(&mut self.staged);
        let overrun = queued.messages.len() > MAX_QUEUED + MAX_MANAGEMENT;
        drop(queued);
        if overrun {
            self.sender.abort(b"management messages are not read");
        }
        self.queue.added.notify_one();
    }

    /// Returns whether the queue is less than half full.
    pub(crate) fn has_room(&self) -> bool {
        self.fill() < 4
    }

    /// Returns how many eighths of the queue are full.
    pub(crate) fn fill(&self) -> usize {
        let queued = self.queue.lock();
        (8 * queued.messages.len() / MAX_QUEUED).max(8 * queued.octets / MAX_QUEUED_OCTETS)
    }

    /// Shuts the association down after what is queued was delivered.
    pub(crate) fn close(&self) {
        self.queue.lock().is_closed = true;
        self.queue.added.notify_one();
    }
}

/// Messages between the task of the state machines and the one that writes.
struct SendQueue {
    queued: Mutex<QueuedMessages>,
    added: Notify,
    /// Notified when messages were taken; shared by all associations.
    room: Arc<Notify>,
}

#[derive(Default)]
struct QueuedMessages {
    messages: VecDeque<(Bytes, SendOptions)>,
    octets: usize,
    is_closed: bool,
}

impl SendQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedMessages> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for messages and takes a batch; false after the last one of a closed queue.
    async fn take(&self, batch: &mut VecDeque<(Bytes, SendOptions)>) -> bool {
        loop {
            {
                let mut queued = self.lock();
                let count = queued.messages.len().min(BATCH);
                batch.extend(queued.messages.drain(..count));
                queued.octets -= batch.iter().map(|(octets, _)| octets.len()).sum::<usize>();
                if batch.is_empty() && queued.is_closed {
                    return false;
                }
            }
            if !batch.is_empty() {
                self.room.notify_one();
                return true;
            }
            self.added.notified().await;
        }
    }
}

async fn write(queue: Arc<SendQueue>, sender: SendHalf) {
    let mut batch = VecDeque::new();
    while queue.take(&mut batch).await {
        // The task that reads reports the end of the association.
        if sender.send_many(&mut batch).await.is_err() {
            return;
        }
    }
    if tokio::time::timeout(LINGER, sender.shutdown())
        .await
        .is_err()
    {
        sender.abort(b"shutdown timed out");
    }
}

/// Passes messages, restarts and states of paths on until the association ends.
async fn read(
    id: AssociationId,
    (sender, mut receiver): (SendHalf, RecvHalf),
    mut events: AssociationEvents,
    inputs: mpsc::Sender<Input>,
) {
    let reason = loop {
        let mut batch = Vec::new();
        let input = tokio::select! {
            // A restart precedes the messages that follow it.
            biased;
            event = events.next() => match event {
                AssociationEvent::Restarted => Input::Restarted(id),
                AssociationEvent::Path(address, is_active) => {
                    Input::PathStatus(id, address, is_active)
                }
            },
            received = receiver.recv_many(&mut batch, BATCH) => match received {
                Ok(0) => break "shut down".to_owned(),
                Ok(_) => Input::Received(id, batch),
                Err(error) => break error.to_string(),
            },
        };
        if inputs.send(input).await.is_err() {
            return;
        }
    };
    let reason = match sender.undelivered() {
        0 => reason,
        count => format!("{reason} ({count} messages not delivered)"),
    };
    // If the receiver is dropped, the program ends.
    let _ = inputs.send(Input::Ended(id, reason)).await;
}

/// Event of an association that concerns the state machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AssociationEvent {
    Restarted,
    /// The path to an address has failed, or recovered if it is active.
    Path(IpAddr, bool),
}

/// Events of an association.
struct AssociationEvents {
    events: Option<Events>,
    paths: Paths,
}

impl AssociationEvents {
    fn new(association: &mut Association) -> Self {
        Self {
            paths: Paths::new(association.control().peer_addresses()),
            events: association.take_events(),
        }
    }

    /// Returns the next event that concerns the state machines.
    ///
    /// Cancel-safe.
    async fn next(&mut self) -> AssociationEvent {
        while let Some(events) = &mut self.events {
            match events.next().await {
                Some(Notification::Event(event)) => {
                    if let Some(event) = self.paths.update(&event) {
                        return event;
                    }
                }
                Some(_) => {}
                None => self.events = None,
            }
        }
        std::future::pending().await
    }
}

/// Address of each path of an association, and whether it has failed.
struct Paths(BTreeMap<PathId, (IpAddr, bool)>);

impl Paths {
    fn new(addresses: &[IpAddr]) -> Self {
        let paths = (0..).map(PathId).zip(addresses);
        Self(
            paths
                .map(|(path, address)| (path, (*address, false)))
                .collect(),
        )
    }

    /// Returns what an event means to the state machines.
    fn update(&mut self, event: &Event) -> Option<AssociationEvent> {
        let (path, failed) = match event {
            Event::Restarted => return Some(AssociationEvent::Restarted),
            Event::PathFailed(path) => (path, true),
            Event::PathRecovered(path) => (path, false),
            Event::Address(AddressEvent::PeerAdded { path, address }) => {
                self.0.insert(*path, (*address, false));
                return None;
            }
            Event::Address(AddressEvent::PeerRemoved { path, .. }) => {
                self.0.remove(path);
                return None;
            }
            _ => return None,
        };
        let (address, has_failed) = self.0.get_mut(path)?;
        // A path that was potentially failed recovers, too.
        let changes = std::mem::replace(has_failed, failed) != failed;
        changes.then_some(AssociationEvent::Path(*address, !failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260, section 11.2.3: NETWORK STATUS CHANGE
    #[test]
    fn failures_of_paths_are_events() {
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let mut paths = Paths::new(&[address(1), address(2)]);
        let potentially = Event::PathPotentiallyFailed(PathId(1));
        assert_eq!(paths.update(&potentially), None);
        assert_eq!(paths.update(&Event::PathRecovered(PathId(1))), None);
        let failed = Some(AssociationEvent::Path(address(2), false));
        assert_eq!(paths.update(&Event::PathFailed(PathId(1))), failed);
        let recovered = Some(AssociationEvent::Path(address(2), true));
        assert_eq!(paths.update(&Event::PathRecovered(PathId(1))), recovered);
        let added = AddressEvent::PeerAdded {
            path: PathId(5),
            address: address(9),
        };
        assert_eq!(paths.update(&Event::Address(added)), None);
        let failed = Some(AssociationEvent::Path(address(9), false));
        assert_eq!(paths.update(&Event::PathFailed(PathId(5))), failed);
        assert_eq!(paths.update(&Event::PathFailed(PathId(7))), None);
        let restarted = Some(AssociationEvent::Restarted);
        assert_eq!(paths.update(&Event::Restarted), restarted);
    }
}
