//! Syntax errors.
