//! Texts that people read: stories, failure blocks, tables.
