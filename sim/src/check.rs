//! Checkers: pure functions from a history to findings.
