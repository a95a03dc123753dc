//! RESP, the protocol of Redis, as bytes.
//!
//! Order of things: what clients send ([`RequestDecoder`], [`Arguments`]), what the
//! server answers ([`ReplyEncoder`]), what a client reads ([`ReplyDecoder`],
//! [`Reply`]; also a replica reading its master's handshake), and the strict
//! integers that all three share ([`number`]).
//!
//! Everything here is bounded: no decoder allocates more than a small multiple of
//! what has arrived, whatever lengths the bytes declare, and none recurses.
//!
//! It knows no command and does no I/O: callers read into a decoder's buffer and
//! write what an encoder holds.

mod arguments;
mod encode;
pub mod extended;
mod inline;
pub mod number;
mod reply;
mod request;

pub use arguments::{Arguments, OwnedArguments};
pub use encode::{Protocol, ReplyEncoder, append_command};
pub use reply::{Reply, ReplyDecoder, ReplyError};
pub use request::{RequestDecoder, RequestError, RequestLimits};
