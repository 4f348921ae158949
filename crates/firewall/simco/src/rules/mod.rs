//! Policy rules of a middlebox (RFC 4540, section 8.1; RFC 5189, section 2.3).

mod index;
mod rule;
mod table;

pub use rule::{AgentIndex, Rule, RuleKind, RuleWeight};
pub use table::RuleTable;
