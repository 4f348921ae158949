//! Puts the parts of a partial delivery together again (RFC 9260 section 6.9), up to a limit.

use carrick_proto::{Message, Part, Tsn};

/// Messages of which only the beginning has come.
#[derive(Debug)]
pub(crate) struct Assembly {
    limit: usize,
    /// By the TSN that all parts of a message share. The message is `None` when it is too large
    /// and delivered in parts.
    open: Vec<(Tsn, Option<Message>)>,
}

impl Assembly {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            open: Vec::new(),
        }
    }

    /// Takes a message or a part of one, and gives what the user is to have now.
    pub(crate) fn take(&mut self, message: Message) -> Option<Message> {
        match message.part {
            Part::Whole => Some(message),
            Part::First => self.begin(message),
            Part::Middle | Part::Last => self.go_on(message),
            Part::Aborted => self.abort(message),
        }
    }

    /// The peer gave the message up. The user hears of that only with the beginning in hand.
    fn abort(&mut self, part: Message) -> Option<Message> {
        let at = self.open.iter().position(|(tsn, _)| *tsn == part.tsn);
        let kept_back = at.and_then(|at| self.open.swap_remove(at).1);
        kept_back.is_none().then_some(part)
    }

    /// The peer restarted: what was begun will not be finished.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    fn begin(&mut self, message: Message) -> Option<Message> {
        let tsn = message.tsn;
        if message.payload.len() > self.limit {
            self.open.push((tsn, None));
            return Some(message);
        }
        self.open.push((tsn, Some(message)));
        None
    }

    fn go_on(&mut self, part: Message) -> Option<Message> {
        let Some(at) = self.open.iter().position(|(tsn, _)| *tsn == part.tsn) else {
            return Some(part);
        };
        let last = part.part == Part::Last;
        let Some(mut message) = self.open[at].1.take() else {
            if last {
                self.open.swap_remove(at);
            }
            return Some(part);
        };
        message.payload.append(part.payload);
        if last {
            self.open.swap_remove(at);
            message.part = Part::Whole;
            return Some(message);
        }
        if message.payload.len() > self.limit {
            return Some(message);
        }
        self.open[at].1 = Some(message);
        None
    }
}
