//! The pinholes of one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::future::select_all;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;

use crate::media::Opening;
use crate::pinholes::{Held, Pinholes, Refusal};
use crate::server::Shared;
use crate::sources::Share;

pub(crate) struct Holes<P: Pinholes> {
    shared: Arc<Shared<P>>,
    share: Share,
    held: BTreeMap<Opening, P::Held>,
    /// Those that the middlebox is to close, and has not said that they are.
    closing: JoinSet<()>,
}

impl<P: Pinholes> Holes<P> {
    /// For a call that has this of its address's.
    pub(crate) fn new(shared: Arc<Shared<P>>, share: Share) -> Self {
        Self {
            shared,
            share,
            held: BTreeMap::new(),
            closing: JoinSet::new(),
        }
    }

    /// The call is set up.
    pub(crate) fn established(&mut self) {
        self.share.established();
    }

    /// Opens those that are not open yet. If one is refused, or nobody waits any more, some of them may
    /// be: [`Self::prune`] is to follow. Cancel-safe.
    pub(crate) async fn open(&mut self, wanted: &[Opening]) -> Result<(), Refusal> {
        self.settle();
        let missing = wanted
            .iter()
            .filter(|opening| !self.held.contains_key(opening));
        let missing: Vec<Opening> = missing.copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        if !self.share.open(missing.len()) {
            shared.door.crowd();
            return Err(Refusal::Crowded);
        }
        let begun = Instant::now();
        let asked = missing.iter().map(|opening| {
            let answer = shared.pinholes.open(opening);
            async move { (*opening, answer.await) }
        });
        let mut asked: FuturesUnordered<_> = asked.collect();
        while let Some((opening, answer)) = asked.next().await {
            match answer {
                Ok(held) => {
                    shared.counts.opened();
                    self.held.insert(opening, held);
                }
                Err(refusal) => {
                    shared.counts.refused_by_middlebox();
                    return Err(refusal);
                }
            }
        }
        shared.counts.took(begun.elapsed());
        Ok(())
    }

    /// Has those closed that are not wanted. What the middlebox says to that is not waited for.
    pub(crate) fn prune(&mut self, wanted: &[Opening]) {
        let held = std::mem::take(&mut self.held);
        for (opening, held) in held {
            if wanted.contains(&opening) {
                self.held.insert(opening, held);
                continue;
            }
            let shared = Arc::clone(&self.shared);
            self.closing.spawn(async move {
                held.close().await;
                shared.counts.closed();
            });
        }
        self.settle();
    }

    /// Closes all, and waits until they are.
    pub(crate) async fn close(&mut self) {
        self.prune(&[]);
        while self.closing.join_next().await.is_some() {}
        self.settle();
    }

    /// Gives back what it has of its address's for those that are closed, or were not opened.
    fn settle(&mut self) {
        while self.closing.try_join_next().is_some() {}
        self.share.keep(self.held.len() + self.closing.len());
    }

    /// Waits until one is no longer open. Cancel-safe.
    pub(crate) async fn lost(&self) {
        if self.held.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.held.values().map(|held| Box::pin(held.lost()))).await;
    }
}
