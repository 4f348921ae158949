//! Turns of clients, descriptors and leases: users are served one after another, so that a user with any number of
//! them delays another user by one turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use crate::poller::Token;

/// Time for the turns of a kind in a round, which a single turn may exceed.
const ROUND: Duration = Duration::from_millis(2);

/// Clients, descriptors or leases with work.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    users: BTreeMap<u32, UserTurns>,
    /// Users that wait.
    suspended: BTreeMap<u32, UserTurns>,
    /// User of the last turn.
    last: u32,
}

/// Clients, descriptors or leases of a user.
#[derive(Debug, Default)]
struct UserTurns {
    tokens: BTreeSet<Token>,
    /// Token of the last turn.
    last: Token,
}

/// Returns the first element behind another one, or the first of all.
fn following<T: Ord + Copy>(elements: &BTreeSet<T>, last: T) -> Option<T> {
    let mut behind = elements.range((Excluded(last), Unbounded));
    behind.next().or_else(|| elements.first()).copied()
}

impl Turns {
    /// Adds a turn. If the user waits, the turn waits as well.
    pub(crate) fn insert(&mut self, user: u32, token: Token) {
        let users = if self.suspended.contains_key(&user) {
            &mut self.suspended
        } else {
            &mut self.users
        };
        users.entry(user).or_default().tokens.insert(token);
    }

    /// Returns whether no turn is due.
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Lets a user wait until [`Self::resume`].
    pub(crate) fn suspend(&mut self, user: u32) {
        let turns = self.users.remove(&user).unwrap_or_default();
        self.suspended.entry(user).or_insert(turns);
    }

    /// Ends the wait of a user.
    pub(crate) fn resume(&mut self, user: u32) {
        if let Some(turns) = self.suspended.remove(&user)
            && !turns.tokens.is_empty()
        {
            self.users.insert(user, turns);
        }
    }

    /// Removes the next turn: of the user behind the one of the last turn, the token behind its last one.
    pub(crate) fn next(&mut self) -> Option<(u32, Token)> {
        let mut behind = self.users.range((Excluded(self.last), Unbounded));
        let user = *behind.next().or_else(|| self.users.iter().next())?.0;
        let turns = self.users.get_mut(&user)?;
        let token = following(&turns.tokens, turns.last)?;
        turns.tokens.remove(&token);
        turns.last = token;
        if turns.tokens.is_empty() {
            self.users.remove(&user);
        }
        self.last = user;
        Some((user, token))
    }
}

/// Time of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(Instant);

impl Budget {
    /// Begins a round.
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Returns whether there is time for another turn.
    pub(crate) fn is_left(&self) -> bool {
        self.0.elapsed() < ROUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(turns: &mut Turns, count: usize) -> Vec<(u32, u64)> {
        let next = || turns.next().map(|(user, token)| (user, token.0));
        std::iter::from_fn(next).take(count).collect()
    }

    #[test]
    fn users_are_served_in_turn() {
        let mut turns = Turns::default();
        for token in 1..=1000 {
            turns.insert(7, Token(token));
        }
        turns.insert(0, Token(1001));
        turns.insert(9, Token(1002));
        let first = order(&mut turns, 4);
        assert_eq!(first, [(7, 1), (9, 1002), (0, 1001), (7, 2)]);
        // A token that has had its turn comes behind all others of its user.
        turns.insert(7, Token(1));
        turns.insert(0, Token(1001));
        assert_eq!(order(&mut turns, 2), [(0, 1001), (7, 3)]);
        let rest = order(&mut turns, 2000);
        assert_eq!((rest.len(), rest.last()), (998, Some(&(7, 1))));
        assert!(turns.is_empty());
    }

    #[test]
    fn a_suspended_user_keeps_its_turns() {
        let mut turns = Turns::default();
        turns.insert(7, Token(1));
        turns.suspend(7);
        turns.insert(7, Token(2));
        assert!(turns.is_empty());
        turns.resume(7);
        assert_eq!(order(&mut turns, 3), [(7, 1), (7, 2)]);
    }
}
