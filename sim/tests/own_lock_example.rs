//! Does the example of a lock of one's own do here what it does in its own workspace? It is the
//! README's.

extern crate self as shop_lock;

#[path = "../../examples/own-lock/src/lib.rs"]
mod lock;
#[path = "../../examples/own-lock/tests/storm.rs"]
mod storm;

pub use lock::{Held, ShopLock};
