//! Credit of the send queue of an association: taken by senders, returned by the endpoint's task.
//!
//! Both are atomic operations on one counter. Only a sender that finds no credit takes a lock, to wait
//! in order; other senders wait behind it, so that small messages do not starve a large one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};

/// No more credit is given. The bits above count the free credit.
const CLOSED: u64 = 1;

/// Reason for which no credit was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoCredit {
    /// Not enough credit now.
    Full,
    /// The association accepts no more messages.
    Closed,
}

/// Credit, in units of the caller.
#[derive(Debug)]
pub(crate) struct SendCredit {
    capacity: u32,
    /// Free credit, shifted by one, and [`CLOSED`].
    state: AtomicU64,
    /// Order of the waiting senders.
    turn: Semaphore,
    /// Credit that the first waiting sender needs; 0 without one.
    wanted: AtomicU64,
    freed: Notify,
}

/// Credit that was taken; free again when dropped.
#[derive(Debug)]
pub(crate) struct CreditPermit {
    credit: Arc<SendCredit>,
    amount: u32,
}

impl SendCredit {
    pub(crate) fn new(capacity: u32) -> Arc<Self> {
        Arc::new(Self {
            capacity,
            state: AtomicU64::new(u64::from(capacity) << 1),
            turn: Semaphore::new(1),
            wanted: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    /// Takes credit, at most the capacity, as soon as there is enough.
    ///
    /// Cancel-safe: dropped before it is ready, it has taken nothing.
    pub(crate) async fn take(self: &Arc<Self>, amount: u32) -> Result<CreditPermit, NoCredit> {
        match self.try_take(amount) {
            Err(NoCredit::Full) => {}
            taken => return taken,
        }
        let _turn = self.turn.acquire().await.map_err(|_| NoCredit::Closed)?;
        let _wanted = Wanted::new(self, amount);
        loop {
            match self.take_now(amount) {
                Err(NoCredit::Full) => self.freed.notified().await,
                taken => return taken,
            }
        }
    }

    /// Takes credit if there is enough and no sender waits.
    pub(crate) fn try_take(self: &Arc<Self>, amount: u32) -> Result<CreditPermit, NoCredit> {
        if self.turn.available_permits() == 0 && !self.is_closed() {
            return Err(NoCredit::Full);
        }
        self.take_now(amount)
    }

    fn take_now(self: &Arc<Self>, amount: u32) -> Result<CreditPermit, NoCredit> {
        let amount = amount.min(self.capacity);
        let mut state = self.state.load(Ordering::SeqCst);
        loop {
            if state & CLOSED != 0 {
                return Err(NoCredit::Closed);
            }
            let Some(left) = state.checked_sub(u64::from(amount) << 1) else {
                return Err(NoCredit::Full);
            };
            let order = (Ordering::SeqCst, Ordering::SeqCst);
            match (self.state).compare_exchange_weak(state, left, order.0, order.1) {
                Ok(_) => {
                    let credit = Arc::clone(self);
                    return Ok(CreditPermit { credit, amount });
                }
                Err(now) => state = now,
            }
        }
    }

    /// Takes credit, less than this if not enough is free, and none if it is closed.
    #[cfg(target_os = "linux")]
    pub(crate) fn take_free(self: &Arc<Self>, amount: u32) -> CreditPermit {
        let mut amount = amount.min(self.capacity);
        loop {
            match self.take_now(amount) {
                Ok(permit) => return permit,
                Err(NoCredit::Closed) => amount = 0,
                Err(NoCredit::Full) => {}
            }
            let free = self.state.load(Ordering::SeqCst) >> 1;
            amount = u32::try_from(free).unwrap_or(u32::MAX).min(amount);
            if amount == 0 {
                return CreditPermit {
                    credit: Arc::clone(self),
                    amount,
                };
            }
        }
    }

    /// Refuses further credit, also to waiting senders.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::SeqCst);
        self.turn.close();
        self.freed.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// Returns the credit that exists.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns whether no credit is taken.
    pub(crate) fn is_whole(&self) -> bool {
        self.state.load(Ordering::SeqCst) >> 1 == u64::from(self.capacity)
    }
}

impl CreditPermit {
    /// Splits this much off, at most what the permit has.
    pub(crate) fn split(&mut self, amount: u32) -> Self {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        let credit = Arc::clone(&self.credit);
        Self { credit, amount }
    }
}

impl Drop for CreditPermit {
    fn drop(&mut self) {
        let amount = u64::from(self.amount) << 1;
        let free = (self.credit.state.fetch_add(amount, Ordering::SeqCst) + amount) >> 1;
        // A waiting sender stores its need before it reads the counter, and this function does it in the
        // opposite order, so that at least one of them sees the other's change.
        let wanted = self.credit.wanted.load(Ordering::SeqCst);
        if wanted > 0 && free >= wanted {
            self.credit.freed.notify_one();
        }
    }
}

/// Credit that the first waiting sender needs, while it waits.
struct Wanted<'a>(&'a SendCredit);

impl<'a> Wanted<'a> {
    fn new(credit: &'a SendCredit, amount: u32) -> Self {
        let amount = u64::from(amount.min(credit.capacity)).max(1);
        credit.wanted.store(amount, Ordering::SeqCst);
        Self(credit)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.wanted.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicU32;
    use std::task::Poll;
    use std::time::Duration;

    use super::*;

    async fn is_pending(future: impl Future) -> bool {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn waiting_senders_are_served_in_order() {
        let credit = SendCredit::new(10);
        let nine = credit.try_take(9).unwrap();
        let mut large = Box::pin(credit.take(100));
        assert!(is_pending(&mut large).await);
        assert_eq!(credit.try_take(1).unwrap_err(), NoCredit::Full);
        let mut small = Box::pin(credit.take(1));
        assert!(is_pending(&mut small).await);
        drop(nine);
        let all = large.await.unwrap();
        assert!(is_pending(&mut small).await);
        drop(all);
        drop(small.await.unwrap());
        assert!(credit.is_whole());
    }

    #[test]
    fn a_permit_is_returned_in_parts() {
        let credit = SendCredit::new(10);
        let mut rest = credit.try_take(9).unwrap();
        let four = rest.split(4);
        assert_eq!(credit.try_take(2).unwrap_err(), NoCredit::Full);
        drop(four);
        drop(credit.try_take(5).unwrap());
        let all = rest.split(100);
        drop(rest);
        assert!(!credit.is_whole());
        drop(all);
        assert!(credit.is_whole());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn free_credit_is_taken_until_it_is_closed() {
        let credit = SendCredit::new(10);
        let six = credit.take_free(6);
        let rest = credit.take_free(6);
        assert_eq!((six.amount, rest.amount), (6, 4));
        drop(six);
        credit.close();
        assert_eq!(credit.take_free(1).amount, 0);
        drop(rest);
        assert!(credit.is_whole());
    }

    #[tokio::test]
    async fn a_cancelled_waiter_lets_the_next_one_continue() {
        let credit = SendCredit::new(10);
        let nine = credit.try_take(9).unwrap();
        let mut large = Box::pin(credit.take(5));
        let mut small = Box::pin(credit.take(1));
        assert!(is_pending(&mut large).await && is_pending(&mut small).await);
        drop(large);
        drop(small.await.unwrap());
        drop(nine);
        assert!(credit.is_whole());
    }

    #[tokio::test]
    async fn closing_ends_all_waits_with_an_error() {
        let credit = SendCredit::new(10);
        let all = credit.try_take(10).unwrap();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let credit = Arc::clone(&credit);
                tokio::spawn(async move { credit.take(1).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        credit.close();
        for one in waiting {
            assert_eq!(one.await.unwrap(), Err(NoCredit::Closed));
        }
        assert!(!credit.is_whole());
        drop(all);
        assert!(credit.is_whole());
        assert_eq!(credit.try_take(1).unwrap_err(), NoCredit::Closed);
    }

    /// Takes, holds, cancels and returns credit on several threads at once: never more than the capacity is
    /// in use, and no sender waits for free credit.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn credit_is_neither_lost_nor_granted_twice() {
        const CAPACITY: u32 = 100;
        let credit = SendCredit::new(CAPACITY);
        let held = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..8_u32)
            .map(|task| {
                let (credit, held) = (Arc::clone(&credit), Arc::clone(&held));
                tokio::spawn(async move {
                    let mut taken = 0;
                    for round in 0..20_000_u32 {
                        let amount = 1 + (round * 7 + task * 31) % 60;
                        if round % 5 == 0 {
                            // Polled once and cancelled.
                            let mut taking = pin!(credit.take(amount));
                            let _ = std::future::poll_fn(|cx| {
                                Poll::Ready(taking.as_mut().poll(cx).is_ready())
                            })
                            .await;
                            continue;
                        }
                        let permit = credit.take(amount).await.unwrap();
                        assert!(held.fetch_add(amount, Ordering::SeqCst) + amount <= CAPACITY);
                        if round % 3 == 0 {
                            tokio::task::yield_now().await;
                        }
                        held.fetch_sub(amount, Ordering::SeqCst);
                        drop(permit);
                        taken += 1;
                    }
                    taken
                })
            })
            .collect();
        for task in tasks {
            let done = tokio::time::timeout(Duration::from_secs(60), task).await;
            assert_eq!(done.expect("a sender waits without end").unwrap(), 16_000);
        }
        assert!(credit.is_whole());
    }
}
