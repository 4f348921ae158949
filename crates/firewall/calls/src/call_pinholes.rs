//! Pinholes of one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::future::select_all;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;

use crate::media::PinholeRequest;
use crate::pinholes::{OpenPinhole, PinholeRefusal, Pinholes};
use crate::server::Shared;
use crate::sources::CallQuota;

/// Pinholes held for one call, and its share of the limits per address.
pub(crate) struct CallPinholes<P: Pinholes> {
    shared: Arc<Shared<P>>,
    quota: CallQuota,
    held: BTreeMap<PinholeRequest, P::Held>,
    /// Requests to close a pinhole that the middlebox has not answered yet.
    closing: JoinSet<()>,
}

impl<P: Pinholes> CallPinholes<P> {
    /// Starts without pinholes.
    pub(crate) fn new(shared: Arc<Shared<P>>, quota: CallQuota) -> Self {
        Self {
            shared,
            quota,
            held: BTreeMap::new(),
            closing: JoinSet::new(),
        }
    }

    /// Releases the share of the quota for calls being set up.
    pub(crate) fn established(&mut self) {
        self.quota.established();
    }

    /// Opens the pinholes that are not open yet. After a refusal or a cancellation some of them may be
    /// open; the caller then calls [`Self::prune`]. Cancel-safe.
    pub(crate) async fn open(&mut self, wanted: &[PinholeRequest]) -> Result<(), PinholeRefusal> {
        self.settle();
        let missing = wanted
            .iter()
            .filter(|opening| !self.held.contains_key(opening));
        let missing: Vec<PinholeRequest> = missing.copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        if !self.quota.open(missing.len()) {
            shared.admission.count_address_limit();
            return Err(PinholeRefusal::AddressLimit);
        }
        let begun = Instant::now();
        let requests = missing.iter().map(|opening| {
            let answer = shared.pinholes.open(opening);
            async move { (*opening, answer.await) }
        });
        let mut requests: FuturesUnordered<_> = requests.collect();
        while let Some((opening, answer)) = requests.next().await {
            match answer {
                Ok(held) => {
                    shared.counts.pinhole_opened();
                    self.held.insert(opening, held);
                }
                Err(refusal) => {
                    shared.counts.refused_by_middlebox();
                    return Err(refusal);
                }
            }
        }
        shared.counts.pinholes_opened_in(begun.elapsed());
        Ok(())
    }

    /// Closes the pinholes that are not in `wanted`, without waiting for the middlebox.
    pub(crate) fn prune(&mut self, wanted: &[PinholeRequest]) {
        let held = std::mem::take(&mut self.held);
        for (opening, held) in held {
            if wanted.contains(&opening) {
                self.held.insert(opening, held);
                continue;
            }
            let shared = Arc::clone(&self.shared);
            self.closing.spawn(async move {
                held.close().await;
                shared.counts.pinhole_closed();
            });
        }
        self.settle();
    }

    /// Closes all pinholes and waits until they are closed.
    pub(crate) async fn close(&mut self) {
        self.prune(&[]);
        while self.closing.join_next().await.is_some() {}
        self.settle();
    }

    /// Releases the quota of pinholes that are closed or were not opened.
    fn settle(&mut self) {
        while self.closing.try_join_next().is_some() {}
        self.quota.keep(self.held.len() + self.closing.len());
    }

    /// Waits until a pinhole is no longer open. Cancel-safe.
    pub(crate) async fn lost(&self) {
        if self.held.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.held.values().map(|held| Box::pin(held.lost()))).await;
    }
}
