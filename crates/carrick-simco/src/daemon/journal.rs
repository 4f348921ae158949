//! Where changes of rules pass before their replies leave.

use std::io;
use std::time::SystemTime;

use crate::message::PolicyRuleId;
use crate::rules::Rule;
use crate::session::Identity;

/// What happened to a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleChange {
    /// It was granted, or a reservation became an enable rule.
    Granted {
        /// The rule. Its own time of expiry is that of the process.
        rule: Box<Rule>,
        /// Whose it is.
        owner: Identity,
        /// When its life is over.
        expires: SystemTime,
    },
    /// It lives until then.
    Changed {
        /// Which rule.
        rule: PolicyRuleId,
        /// When its life is over.
        expires: SystemTime,
    },
    /// It has ended.
    Ended {
        /// Which rule.
        rule: PolicyRuleId,
    },
}

/// What outlives the process.
pub trait Journal: Send {
    /// Notes a change. Called in the order of the changes.
    fn record(&mut self, change: &RuleChange);

    /// All that was recorded must be safe when this returns. Called once for many changes, before
    /// any reply that tells of them leaves. May block.
    ///
    /// # Errors
    /// When that can't be done; the middlebox then stops without sending those replies.
    fn commit(&mut self) -> io::Result<()>;
}
