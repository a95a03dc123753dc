//! The reference engine: turmoil 0.7.
