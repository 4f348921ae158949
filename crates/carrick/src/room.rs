//! The room in the send queue of an association: taken by senders, given back by the endpoint's task.
//!
//! Taking and giving back are atomic operations on one counter. Only who finds no room waits in
//! turn, which takes a lock; until its turn is over everybody else waits behind it, so that a large
//! message is not overtaken for ever by small ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};

/// Nothing more is taken. The bits above count what is free.
const CLOSED: u64 = 1;

/// Why there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// Not now.
    Full,
    /// Never again.
    Closed,
}

/// The room, in units of the caller.
#[derive(Debug)]
pub(crate) struct Room {
    capacity: u32,
    /// What is free, twice, and [`CLOSED`].
    state: AtomicU64,
    /// Whose turn it is to wait for room.
    turn: Semaphore,
    /// What the one whose turn it is waits for; 0 if nobody does.
    wanted: AtomicU64,
    freed: Notify,
}

/// Room that was taken; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    room: Arc<Room>,
    amount: u32,
}

impl Room {
    pub(crate) fn new(capacity: u32) -> Arc<Self> {
        Arc::new(Self {
            capacity,
            state: AtomicU64::new(u64::from(capacity) << 1),
            turn: Semaphore::new(1),
            wanted: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    /// Takes room, at most the capacity, as soon as there is enough.
    ///
    /// Cancel-safe: dropped before it is ready, it has taken nothing.
    pub(crate) async fn take(self: &Arc<Self>, amount: u32) -> Result<Permit, NoRoom> {
        match self.try_take(amount) {
            Err(NoRoom::Full) => {}
            taken => return taken,
        }
        let _turn = self.turn.acquire().await.map_err(|_| NoRoom::Closed)?;
        let _wanted = Wanted::new(self, amount);
        loop {
            match self.take_now(amount) {
                Err(NoRoom::Full) => self.freed.notified().await,
                taken => return taken,
            }
        }
    }

    /// Takes room if there is enough and nobody waits for it.
    pub(crate) fn try_take(self: &Arc<Self>, amount: u32) -> Result<Permit, NoRoom> {
        if self.turn.available_permits() == 0 && !self.is_closed() {
            return Err(NoRoom::Full);
        }
        self.take_now(amount)
    }

    fn take_now(self: &Arc<Self>, amount: u32) -> Result<Permit, NoRoom> {
        let amount = amount.min(self.capacity);
        let mut state = self.state.load(Ordering::SeqCst);
        loop {
            if state & CLOSED != 0 {
                return Err(NoRoom::Closed);
            }
            let Some(left) = state.checked_sub(u64::from(amount) << 1) else {
                return Err(NoRoom::Full);
            };
            let order = (Ordering::SeqCst, Ordering::SeqCst);
            match (self.state).compare_exchange_weak(state, left, order.0, order.1) {
                Ok(_) => {
                    let room = Arc::clone(self);
                    return Ok(Permit { room, amount });
                }
                Err(now) => state = now,
            }
        }
    }

    /// Nobody takes room any more, and nobody waits for it.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::SeqCst);
        self.turn.close();
        self.freed.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// Whether nothing is taken.
    pub(crate) fn is_whole(&self) -> bool {
        self.state.load(Ordering::SeqCst) >> 1 == u64::from(self.capacity)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let amount = u64::from(self.amount) << 1;
        let free = (self.room.state.fetch_add(amount, Ordering::SeqCst) + amount) >> 1;
        // Whoever waits says first what it wants and looks then; this is the other way round, so
        // that one of the two sees the other.
        let wanted = self.room.wanted.load(Ordering::SeqCst);
        if wanted > 0 && free >= wanted {
            self.room.freed.notify_one();
        }
    }
}

/// What the one whose turn it is wants, while it waits.
struct Wanted<'a>(&'a Room);

impl<'a> Wanted<'a> {
    fn new(room: &'a Room, amount: u32) -> Self {
        let amount = u64::from(amount.min(room.capacity)).max(1);
        room.wanted.store(amount, Ordering::SeqCst);
        Self(room)
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
    async fn what_waits_is_not_overtaken() {
        let room = Room::new(10);
        let nine = room.try_take(9).unwrap();
        let mut large = Box::pin(room.take(100));
        assert!(is_pending(&mut large).await);
        assert_eq!(room.try_take(1).unwrap_err(), NoRoom::Full);
        let mut small = Box::pin(room.take(1));
        assert!(is_pending(&mut small).await);
        drop(nine);
        let all = large.await.unwrap();
        assert!(is_pending(&mut small).await);
        drop(all);
        drop(small.await.unwrap());
        assert!(room.is_whole());
    }

    #[tokio::test]
    async fn who_gives_up_lets_the_next_one_in() {
        let room = Room::new(10);
        let nine = room.try_take(9).unwrap();
        let mut large = Box::pin(room.take(5));
        let mut small = Box::pin(room.take(1));
        assert!(is_pending(&mut large).await && is_pending(&mut small).await);
        drop(large);
        drop(small.await.unwrap());
        drop(nine);
        assert!(room.is_whole());
    }

    #[tokio::test]
    async fn closing_turns_away_all_who_wait() {
        let room = Room::new(10);
        let all = room.try_take(10).unwrap();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let room = Arc::clone(&room);
                tokio::spawn(async move { room.take(1).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        room.close();
        for one in waiting {
            assert_eq!(one.await.unwrap(), Err(NoRoom::Closed));
        }
        assert!(!room.is_whole());
        drop(all);
        assert!(room.is_whole());
        assert_eq!(room.try_take(1).unwrap_err(), NoRoom::Closed);
    }

    /// Takes, holds, cancels and gives back on several threads at once: never more than there is,
    /// and nobody waits for what is free.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn room_is_neither_lost_nor_given_twice() {
        const CAPACITY: u32 = 100;
        let room = Room::new(CAPACITY);
        let held = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..8_u32)
            .map(|task| {
                let (room, held) = (Arc::clone(&room), Arc::clone(&held));
                tokio::spawn(async move {
                    let mut taken = 0;
                    for round in 0..20_000_u32 {
                        let amount = 1 + (round * 7 + task * 31) % 60;
                        if round % 5 == 0 {
                            // Polled once and given up.
                            let mut taking = pin!(room.take(amount));
                            let _ = std::future::poll_fn(|cx| {
                                Poll::Ready(taking.as_mut().poll(cx).is_ready())
                            })
                            .await;
                            continue;
                        }
                        let permit = room.take(amount).await.unwrap();
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
            assert_eq!(done.expect("somebody waits for ever").unwrap(), 16_000);
        }
        assert!(room.is_whole());
    }
}
