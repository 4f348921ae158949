//! Slab of the messages in the queues of all streams, linked per stream: an empty queue needs no
//! memory, and a message is removed from the middle of a queue in constant time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::capacity::ReserveDoubling;
use crate::tx::message::PendingMessage;

/// Ends of the list of one stream's messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamQueue {
    ends: Option<(u32, u32)>,
}

impl StreamQueue {
    pub(super) fn first(self) -> Option<u32> {
        self.ends.map(|e| e.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.ends.is_none()
    }
}

/// Message with its neighbours in the queue.
#[derive(Debug)]
struct Node {
    pending: PendingMessage,
    before: Option<u32>,
    behind: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct MessageSlab {
    nodes: Vec<Option<Node>>,
    /// Unused nodes, used again in the order in which they became free: that of their addresses, in which processors
    /// read memory ahead.
    free: VecDeque<u32>,
}

impl MessageSlab {
    pub(super) fn get(&self, at: u32) -> Option<&PendingMessage> {
        self.node(at).map(|p| &p.pending)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut PendingMessage> {
        self.node_mut(at).map(|p| &mut p.pending)
    }

    /// Appends a message to a queue; returns its position in the slab.
    pub(super) fn push(&mut self, queue: &mut StreamQueue, pending: PendingMessage) -> u32 {
        let before = queue.ends.map(|e| e.1);
        let node = Some(Node {
            pending,
            before,
            behind: None,
        });
        let at = if let Some(at) = self.free.pop_front() {
            self.nodes[at as usize] = node;
            at
        } else {
            self.nodes.reserve_doubling();
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        if let Some(last) = before.and_then(|b| self.node_mut(b)) {
            last.behind = Some(at);
        }
        queue.ends = Some((queue.ends.map_or(at, |e| e.0), at));
        at
    }

    /// Removes a message from its queue.
    pub(super) fn remove(&mut self, queue: &mut StreamQueue, at: u32) -> Option<PendingMessage> {
        let node = self.nodes.get_mut(at as usize)?.take()?;
        self.unlink(queue, at, (node.before, node.behind));
        Some(node.pending)
    }

    /// Drops a message from its queue, without moving it out of the slab.
    pub(super) fn discard(&mut self, queue: &mut StreamQueue, at: u32) {
        let Some(entry) = self.nodes.get_mut(at as usize) else {
            return;
        };
        let Some(node) = entry else {
            return;
        };
        let neighbours = (node.before, node.behind);
        *entry = None;
        self.unlink(queue, at, neighbours);
    }

    fn unlink(
        &mut self,
        queue: &mut StreamQueue,
        at: u32,
        (before, behind): (Option<u32>, Option<u32>),
    ) {
        self.free.push_back(at);
        if let Some(node) = before.and_then(|b| self.node_mut(b)) {
            node.behind = behind;
        }
        if let Some(node) = behind.and_then(|b| self.node_mut(b)) {
            node.before = before;
        }
        let Some((first, last)) = queue.ends else {
            return;
        };
        let first = if first == at { behind } else { Some(first) };
        let last = if last == at { before } else { Some(last) };
        queue.ends = first.zip(last);
    }

    /// Messages of a queue, in order.
    pub(super) fn iter(&self, queue: StreamQueue) -> impl Iterator<Item = &PendingMessage> {
        let mut next = queue.first();
        core::iter::from_fn(move || {
            let node = self.node(next?)?;
            next = node.behind;
            Some(&node.pending)
        })
    }

    /// All messages, in no particular order.
    pub(super) fn into_all(self) -> Vec<PendingMessage> {
        let nodes = self.nodes.into_iter().flatten();
        nodes.map(|p| p.pending).collect()
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)?.as_ref()
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::tx::message::SendOptions;

    fn order(slab: &MessageSlab, queue: StreamQueue) -> Vec<u64> {
        let mut at = queue.first();
        let mut all = Vec::new();
        while let Some(node) = at.and_then(|a| slab.node(a)) {
            all.push(node.pending.arrival);
            at = node.behind;
        }
        all
    }

    proptest! {
        #[test]
        fn agrees_with_a_queue_for_each_stream(steps in proptest::collection::vec((0_usize..3, any::<bool>(), any::<prop::sample::Index>()), 0..200)) {
            let mut slab = MessageSlab::default();
            let mut queues = [StreamQueue::default(); 3];
            let mut models: [VecDeque<(u64, u32)>; 3] = Default::default();
            for (number, (which, add, pick)) in steps.into_iter().enumerate() {
                let (queue, model) = (&mut queues[which], &mut models[which]);
                if add || model.is_empty() {
                    let mut pending = PendingMessage::new(0, SendOptions::default(), Bytes::from_static(b"m"));
                    pending.arrival = number as u64;
                    model.push_back((number as u64, slab.push(queue, pending)));
                } else {
                    let (arrival, at) = model.remove(pick.index(model.len())).unwrap();
                    prop_assert_eq!(slab.remove(queue, at).map(|p| p.arrival), Some(arrival));
                    prop_assert!(slab.get(at).is_none());
                }
                for (queue, model) in queues.iter().zip(&models) {
                    let expected: Vec<u64> = model.iter().map(|q| q.0).collect();
                    prop_assert_eq!(order(&slab, *queue), expected);
                    prop_assert_eq!(queue.is_empty(), model.is_empty());
                }
            }
            let waiting: usize = models.iter().map(VecDeque::len).sum();
            prop_assert!(slab.nodes.len() - slab.free.len() == waiting);
        }
    }
}
