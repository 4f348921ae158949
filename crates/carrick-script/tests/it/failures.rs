//! Messages of failures.
