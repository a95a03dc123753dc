//! Locks that keep their record in Redis.
