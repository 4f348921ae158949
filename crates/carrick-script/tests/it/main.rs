//! Scripts under `conformance/`, the messages of failures and of syntax errors.

mod conformance;
mod failures;
mod syntax;
