//! Summary of a run, and whether it succeeded ("Output" in `interop/README.md`).

use serde_json::{Value, json};

use crate::options::{Mode, Options};
use crate::output::emit;

/// End of an association, its originator, and the cause code of a received ABORT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunOutcome {
    pub(crate) ended: &'static str,
    pub(crate) by: &'static str,
    pub(crate) cause: u16,
}

impl RunOutcome {
    pub(crate) const FAILED: Self = Self::by_self("failed");
    pub(crate) const TIMEOUT: Self = Self::by_self("timeout");
    pub(crate) const ABORTED: Self = Self::by_self("abort");

    pub(crate) const fn by_self(ended: &'static str) -> Self {
        Self {
            ended,
            by: "self",
            cause: 0,
        }
    }

    pub(crate) const fn by_peer(ended: &'static str, cause: u16) -> Self {
        Self {
            ended,
            by: "peer",
            cause,
        }
    }
}

/// Number of messages and of their bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct MessageTotal {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl MessageTotal {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }
}

/// Totals of a run.
#[derive(Default)]
pub(crate) struct RunTotals {
    pub(crate) sent: MessageTotal,
    pub(crate) received: MessageTotal,
    pub(crate) unordered: u64,
}

impl RunTotals {
    /// Prints the summary, with a further field of the stack. Returns whether the run succeeded.
    pub(crate) fn report(
        &self,
        options: &Options,
        outcome: RunOutcome,
        errors: u64,
        (name, value): (&str, Value),
    ) -> bool {
        let (sent, received) = (self.sent, self.received);
        let aborted_by_peer = outcome.ended == "abort" && outcome.by == "peer";
        let all_sent = options.mode != Mode::Source || sent.bytes == options.bytes;
        let ok = matches!(outcome.ended, "shutdown" | "abort")
            && errors == 0
            && received.bytes >= options.expect
            && (all_sent || aborted_by_peer);
        emit(
            "end",
            json!({
                "ok": ok,
                "ended": outcome.ended,
                "by": outcome.by,
                "cause": outcome.cause,
                "sent": { "messages": sent.messages, "bytes": sent.bytes },
                "received": {
                    "messages": received.messages,
                    "bytes": received.bytes,
                    "unordered": self.unordered,
                },
                "errors": errors,
                name: value,
            }),
        );
        ok
    }
}
