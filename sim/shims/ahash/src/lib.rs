//! Stands in for `ahash` 0.7, whose keys come from the addresses of a process: a client that
//! walks through its hash maps (`zookeeper-client` ends its outstanding requests so when a
//! connection is lost) would do it in another order in every process. Here the keys are
//! always the same. docs/shims.md says more.
//!
//! It has what `hashbrown` 0.12 uses and no more: something that is missing does not compile.

use std::hash::{BuildHasher, DefaultHasher};

/// Makes hashers that begin alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomState;

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        DefaultHasher::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_states_hash_alike() {
        assert_eq!(RandomState.hash_one("watch"), RandomState.hash_one("watch"));
        assert_ne!(RandomState.hash_one(1), RandomState.hash_one(2));
    }
}
