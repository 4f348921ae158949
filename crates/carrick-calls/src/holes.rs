//! The pinholes of one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{join_all, select_all};

use crate::media::Opening;
use crate::pinholes::{Held, Pinholes, Refusal};
use crate::server::Shared;
use crate::sources::Share;

pub(crate) struct Holes<P: Pinholes> {
    shared: Arc<Shared<P>>,
    share: Share,
    held: BTreeMap<Opening, P::Held>,
}

impl<P: Pinholes> Holes<P> {
    /// For a call that has this of its address's.
    pub(crate) fn new(shared: Arc<Shared<P>>, share: Share) -> Self {
        Self {
            shared,
            share,
            held: BTreeMap::new(),
        }
    }

    /// The call is set up.
    pub(crate) fn established(&mut self) {
        self.share.established();
    }

    /// Opens those that are not open yet: all or none. Is never given up half-way.
    pub(crate) async fn open(&mut self, wanted: &[Opening]) -> Result<(), Refusal> {
        let missing: Vec<&Opening> = wanted
            .iter()
            .filter(|opening| !self.held.contains_key(opening))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let count = missing.len();
        if !self.share.open(count) {
            self.shared.door.crowd();
            return Err(Refusal::Crowded);
        }
        let begun = Instant::now();
        let asked = missing.iter().map(|o| self.shared.pinholes.open(o));
        let answers = join_all(asked).await;
        let (mut opened, mut refused) = (Vec::new(), None);
        for (opening, answer) in missing.into_iter().zip(answers) {
            match answer {
                Ok(held) => opened.push((*opening, held)),
                Err(refusal) => refused = Some(refusal),
            }
        }
        if let Some(refusal) = refused {
            self.shared.counts.refused_by_middlebox();
            self.share.close(count);
            join_all(opened.into_iter().map(|(_, held)| held.close())).await;
            return Err(refusal);
        }
        self.shared.counts.opened(opened.len(), begun.elapsed());
        self.held.extend(opened);
        Ok(())
    }

    /// Closes those that are not wanted.
    pub(crate) async fn prune(&mut self, wanted: &[Opening]) {
        let held = std::mem::take(&mut self.held);
        let (keep, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = held
            .into_iter()
            .partition(|(opening, _)| wanted.contains(opening));
        self.held = keep;
        let count = gone.len();
        join_all(gone.into_values().map(Held::close)).await;
        self.share.close(count);
        self.shared.counts.closed(count);
    }

    /// Waits until one is no longer open. Cancel-safe.
    pub(crate) async fn lost(&self) {
        if self.held.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.held.values().map(|held| Box::pin(held.lost()))).await;
    }
}
