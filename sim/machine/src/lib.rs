//! What a simulated machine has of its own, below engines and servers: keyed [`draw`]s and a
//! [`disk`].
//!
//! It knows [`Host`](lockstorm::Host) and nothing that runs on it.

pub mod disk;
pub mod draw;
