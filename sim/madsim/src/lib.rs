//! The engine `madsim`: a second opinion on every verdict, by another scheduler and another
//! network. The program of this crate is `lockstorm` with that engine in it.
//!
//! madsim answers the C library's questions for time and entropy itself, as the interposer
//! of the ordinary program does: the same symbols, so the two are never in one binary. Hence
//! a crate and a program of its own; `lockstorm … --engine madsim` starts it.
//!
//! madsim has its simulator only in builds with `--cfg madsim`, for the whole tree of
//! dependencies. `.cargo/config.toml` of this repository sets it. An environment variable
//! `RUSTFLAGS`, even an empty one, switches that off: then this crate has no engine, says why
//! ([`ABSENT`]), and a test of it fails.

#[cfg(madsim)]
mod engine;

use std::sync::Arc;

use lockstorm_sim::engine::Engine;

#[cfg(madsim)]
pub use engine::{Madsim, carry};

/// Whether this build has the engine.
pub const AVAILABLE: bool = cfg!(madsim);

/// Why a build has no engine, with the mend.
pub const ABSENT: &str = "this build has no engine `madsim`: it was built without `--cfg madsim`. \
    .cargo/config.toml sets that flag, and an environment variable RUSTFLAGS (even an empty one) \
    or CARGO_ENCODED_RUSTFLAGS switches the file's flags off: `unset RUSTFLAGS \
    CARGO_ENCODED_RUSTFLAGS` and build again from inside the repository; where a flag of your own \
    is needed, write it into CARGO_BUILD_RUSTFLAGS, which adds to them";

/// The engine.
///
/// # Errors
/// [`ABSENT`].
#[cfg(madsim)]
pub fn engine() -> Result<Arc<dyn Engine>, &'static str> {
    Ok(Arc::new(Madsim::default()))
}

/// The engine.
///
/// # Errors
/// [`ABSENT`].
#[cfg(not(madsim))]
pub fn engine() -> Result<Arc<dyn Engine>, &'static str> {
    Err(ABSENT)
}
