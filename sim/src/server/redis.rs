//! Redis 7.0 as clients see it.

pub mod codec;
pub mod failover;
pub mod observe;
