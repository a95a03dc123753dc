//! The engine `madsim`, in one binary: whether it is in this build, what is its own, its
//! determinism by madsim's own check, a bug of order, and the programs.

mod flags;
mod program;

#[cfg(madsim)]
mod determinism;
#[cfg(madsim)]
mod opinions;
#[cfg(madsim)]
mod order;
#[cfg(madsim)]
mod own;
#[cfg(madsim)]
mod stage;
