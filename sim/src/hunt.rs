//! Hunting: many seeds, over worker processes.
