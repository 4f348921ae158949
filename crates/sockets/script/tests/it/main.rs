//! Scripts under `conformance/`, the messages of failures and of syntax errors, and constructs
//! of public scripts.

mod conformance;
mod failures;
mod packetdrill;
mod syntax;
