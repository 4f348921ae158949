//! Descriptors of all programs, and the indexes by which they are found.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use carrick_proto::Time;
use carrick_sockets::SocketId;
use rustix::event::epoll::EventFlags;

use crate::descriptor::{Descriptor, Phase};
use crate::ends::ProgramEnds;
use crate::poller::Token;
use crate::turns::Turns;

/// All descriptors. [`Self::insert`] and [`Self::remove`] are the only ways in and out, so that the indexes agree with the
/// descriptors. One that is served is taken out meanwhile ([`Self::take`]), and remains in the indexes.
#[derive(Debug)]
pub(crate) struct Descriptors {
    by_token: BTreeMap<Token, Descriptor>,
    by_cookie: BTreeMap<u64, Token>,
    by_socket: BTreeMap<SocketId, Token>,
    /// Descriptors to be served.
    ready: BTreeSet<Token>,
    /// Descriptors to be served that wait for the turn of their user.
    turns: Turns,
    /// Descriptors whose association has ended, until the program closes them.
    ended: BTreeSet<Token>,
    /// Listening descriptors whose associations wait for file descriptors.
    starved: BTreeSet<Token>,
    /// Restored descriptors whose programs' ends the daemon has not had yet.
    unwatched: BTreeSet<Token>,
    /// Time at which the starved ones are served again.
    serve_again: Option<Time>,
    ends: ProgramEnds,
}

impl Descriptors {
    pub(crate) fn new(ends: ProgramEnds) -> Self {
        Self {
            by_token: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            by_socket: BTreeMap::new(),
            ready: BTreeSet::new(),
            turns: Turns::default(),
            ended: BTreeSet::new(),
            starved: BTreeSet::new(),
            unwatched: BTreeSet::new(),
            serve_again: None,
            ends,
        }
    }

    /// Adds a descriptor, which is then served.
    pub(crate) fn insert(&mut self, token: Token, descriptor: Descriptor) {
        self.by_cookie.insert(descriptor.cookie(), token);
        // The socket of a broken descriptor is closed.
        if !matches!(descriptor.phase(), Phase::Broken(_)) {
            self.by_socket.insert(descriptor.socket(), token);
        }
        if descriptor.is_ended() {
            self.ended.insert(token);
        }
        self.ready.insert(token);
        self.by_token.insert(token, descriptor);
    }

    /// Adds a descriptor without the program's end of its pair, which [`Self::watch_restored`] is to watch.
    pub(crate) fn insert_unwatched(&mut self, token: Token, descriptor: Descriptor) {
        self.unwatched.insert(token);
        self.insert(token, descriptor);
    }

    /// Watches the program's end of a restored descriptor, once a request has it.
    pub(crate) fn watch_restored(&mut self, token: Token, theirs: impl AsFd) {
        if self.unwatched.remove(&token) {
            // Without memory for it, the end of an association is that of the descriptor.
            let _ = self.ends.watch(theirs);
        }
    }

    /// Removes a descriptor that was taken out, and whose socket is closed.
    pub(crate) fn remove(&mut self, now: Time, token: Token, descriptor: &Descriptor) {
        self.by_cookie.remove(&descriptor.cookie());
        self.by_socket.remove(&descriptor.socket());
        self.ended.remove(&token);
        self.ready.remove(&token);
        self.unwatched.remove(&token);
        let (cookie, uid) = (descriptor.cookie(), descriptor.uid());
        self.ends.depart(now, cookie, uid);
        // There is room for the associations that wait in backlogs.
        self.feed_starved();
    }

    /// Replaces a descriptor that was taken out by one with another pair.
    pub(crate) fn replace(&mut self, now: Time, token: Token, old: &Descriptor, new: &Descriptor) {
        self.by_cookie.remove(&old.cookie());
        self.ends.depart(now, old.cookie(), old.uid());
        self.by_cookie.insert(new.cookie(), token);
        self.ended.remove(&token);
    }

    /// Takes a descriptor out while it is served.
    pub(crate) fn take(&mut self, token: Token) -> Option<Descriptor> {
        self.by_token.remove(&token)
    }

    /// Returns a descriptor that was taken out.
    pub(crate) fn put_back(&mut self, token: Token, descriptor: Descriptor) {
        self.by_token.insert(token, descriptor);
    }

    /// Replaces all descriptors, but not the indexes, and returns those before.
    pub(crate) fn exchange(
        &mut self,
        descriptors: BTreeMap<Token, Descriptor>,
    ) -> BTreeMap<Token, Descriptor> {
        std::mem::replace(&mut self.by_token, descriptors)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_token.len()
    }

    /// Returns all descriptors in the order of their tokens.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, &Descriptor)> {
        self.by_token.iter().map(|(token, d)| (*token, d))
    }

    pub(crate) fn get(&self, token: Token) -> Option<&Descriptor> {
        self.by_token.get(&token)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Descriptor> {
        self.by_token.get_mut(&token)
    }

    /// Returns the descriptor of a socket.
    pub(crate) fn of_socket(&self, socket: SocketId) -> Option<&Descriptor> {
        self.by_token.get(self.by_socket.get(&socket)?)
    }

    /// Returns the descriptor whose program's end has a cookie.
    pub(crate) fn with_cookie(&self, cookie: u64) -> Option<Token> {
        self.by_cookie.get(&cookie).copied()
    }

    /// Returns the sockets of all descriptors.
    pub(crate) fn sockets(&self) -> Vec<SocketId> {
        self.by_socket.keys().copied().collect()
    }

    /// Queues a descriptor to be served.
    pub(crate) fn set_ready(&mut self, token: Token) {
        self.ready.insert(token);
    }

    /// Queues the descriptor of a socket to be served.
    pub(crate) fn set_socket_ready(&mut self, socket: SocketId) {
        self.ready.extend(self.by_socket.get(&socket));
    }

    /// Queues all descriptors to be served and read.
    pub(crate) fn set_all_readable(&mut self) {
        for (token, descriptor) in &mut self.by_token {
            descriptor.incoming.set_readable(true);
            self.ready.insert(*token);
        }
    }

    /// Gives the queued descriptors a turn of their users.
    pub(crate) fn queue_turns(&mut self) {
        for token in std::mem::take(&mut self.ready) {
            if let Some(descriptor) = self.by_token.get(&token) {
                self.turns.insert(descriptor.uid(), token);
            }
        }
    }

    /// Removes the next turn.
    pub(crate) fn next_turn(&mut self) -> Option<Token> {
        self.turns.next().map(|(_, token)| token)
    }

    /// Returns whether descriptors are to be served.
    pub(crate) fn is_busy(&self) -> bool {
        !self.ready.is_empty() || !self.turns.is_empty()
    }

    /// Records an event of a descriptor.
    pub(crate) fn handle_event(&mut self, now: Time, token: Token, flags: EventFlags) {
        if self.ended.contains(&token) {
            self.ends.note_event(now);
        } else if let Some(descriptor) = self.by_token.get_mut(&token) {
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                descriptor.incoming.set_readable(true);
            }
            if flags.contains(EventFlags::HUP) {
                descriptor.hang_up();
            }
            self.ready.insert(token);
        }
    }

    /// Records that the pair of a descriptor is shut down: the program has to be observed to close it.
    pub(crate) fn end(&mut self, now: Time, token: Token) {
        self.ended.insert(token);
        self.ends.schedule(now);
    }

    /// Separates a descriptor from its socket, which the daemon has closed.
    pub(crate) fn leave_socket(&mut self, descriptor: &Descriptor) {
        self.by_socket.remove(&descriptor.socket());
    }

    /// Lets a listening descriptor wait for file descriptors, until a time at most.
    pub(crate) fn starve(&mut self, token: Token, until: Time) {
        self.starved.insert(token);
        self.serve_again.get_or_insert(until);
    }

    fn feed_starved(&mut self) {
        self.ready.append(&mut self.starved);
        self.serve_again = None;
    }

    /// Queues the descriptors that wait for file descriptors, if it is time. Returns whether it is.
    pub(crate) fn expire_starved(&mut self, now: Time) -> bool {
        let is_due = self.serve_again.is_some_and(|at| at <= now);
        if is_due {
            self.feed_starved();
        }
        is_due
    }

    /// Returns the programs' ends.
    pub(crate) fn ends(&self) -> &ProgramEnds {
        &self.ends
    }

    /// Returns the programs' ends, for a check.
    pub(crate) fn ends_mut(&mut self) -> &mut ProgramEnds {
        &mut self.ends
    }

    /// Returns the time at which anything is due.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let times = [self.ends.next_check(), self.serve_again];
        times.into_iter().flatten().min()
    }

    /// Returns the descriptors that programs have closed, and that are not ended.
    pub(crate) fn closed(&self, selects: impl Fn(&Descriptor) -> bool) -> Vec<Token> {
        let closed = self.iter().filter(|(_, d)| d.is_closed() && !d.is_ended());
        closed
            .filter_map(|(token, d)| selects(d).then_some(token))
            .collect()
    }

    /// Returns whether a descriptor that has ended is selected.
    pub(crate) fn any_ended(&self, selects: impl Fn(&Descriptor) -> bool) -> bool {
        let mut ended = self.ended.iter().filter_map(|t| self.by_token.get(t));
        ended.any(selects)
    }

    /// Takes the ended descriptors out whose programs' ends are not among those that are `open`.
    pub(crate) fn take_closed(&mut self, open: &BTreeSet<u64>) -> Vec<(Token, Descriptor)> {
        let is_closed = |token: &Token| {
            let descriptor = self.by_token.get(token);
            descriptor.is_some_and(|d| !open.contains(&d.cookie()))
        };
        let closed: Vec<Token> = self.ended.iter().copied().filter(is_closed).collect();
        let taken = closed
            .into_iter()
            .filter_map(|token| Some((token, self.take(token)?)));
        taken.collect()
    }

    /// Schedules the next check of the programs' ends, if any is to be observed.
    pub(crate) fn schedule_check(&mut self, now: Time) {
        if !self.ended.is_empty() || self.ends.has_departed() {
            self.ends.schedule(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use carrick_proto::export::{ExportReader, Portable, VERSION};

    use super::*;
    use crate::descriptor::{PhaseEvent, pair};
    use crate::users::Owner;

    /// Returns descriptors with these tokens, which have had their turn.
    fn descriptors(tokens: [u64; 2]) -> Descriptors {
        let mut all = Descriptors::new(ProgramEnds::new().unwrap());
        for token in tokens {
            let number = token.to_be_bytes();
            let mut input = ExportReader::new(VERSION, &number, Time::ZERO, None);
            let owner = Owner { uid: 7, process: 1 };
            let socket = SocketId::read(&mut input).unwrap();
            all.insert(
                Token(token),
                Descriptor::new(socket, owner, pair().unwrap().0),
            );
        }
        assert_eq!(turns(&mut all), tokens.map(Token));
        all
    }

    fn turns(all: &mut Descriptors) -> Vec<Token> {
        all.queue_turns();
        std::iter::from_fn(|| all.next_turn()).collect()
    }

    #[test]
    fn a_removal_makes_room_for_starved_ones() {
        let mut all = descriptors([1, 2]);
        all.starve(Token(1), Time::ZERO + Duration::from_secs(1));
        assert!(!all.is_busy() && !all.expire_starved(Time::ZERO));
        let removed = all.take(Token(2)).unwrap();
        all.remove(Time::ZERO, Token(2), &removed);
        assert_eq!(turns(&mut all), [Token(1)]);
        assert_eq!(all.with_cookie(removed.cookie()), None);
        assert!(all.of_socket(removed.socket()).is_none());
    }

    #[test]
    fn an_event_after_the_end_causes_a_check() {
        let mut all = descriptors([1, 2]);
        let mut ended = all.take(Token(1)).unwrap();
        ended.change(PhaseEvent::AssociationEnded);
        all.end(Time::ZERO, Token(1));
        all.put_back(Token(1), ended);
        for token in [1, 2] {
            all.handle_event(Time::ZERO, Token(token), EventFlags::HUP);
        }
        assert!(all.ends().has_changed());
        assert_eq!(turns(&mut all), [Token(2)]);
        let closed = all.closed(|_| true);
        assert_eq!(closed, [Token(2)]);
        let taken = all.take_closed(&BTreeSet::new());
        assert!(matches!(&taken[..], [(Token(1), _)]));
    }
}
