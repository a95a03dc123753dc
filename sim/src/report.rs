//! Texts that people read: stories, failure blocks, tables, the demonstration; and the
//! same as JSON.
//!
//! Everything here is a pure function of runs: the same run gives the same text, with
//! no wall clock, no path and no colour in it unless asked for. A text has its
//! sentence first, its numbers second, its story third, its commands last.
//!
//! Order of things: [`manner`] says how a text may look (characters, colours), and
//! [`layout`] measures and folds it; [`subject`] chooses what of a judgement is told,
//! [`story`] tells how it came about, [`why`] says why and what to try; [`block`] is
//! the failure block of a test and of the program, [`table`] the summary of a hunt,
//! [`mod@demonstration`] what the program shows when it is started alone, [`mod@shrunk`] what shrinking came to, [`mod@explained`] what decided a failure, [`recorded`]
//! tells of a history that was read from a file, [`mod@standing`] of a world that stands still, [`timers`] lists those that do not follow
//! a node's clocks, [`json`] is the machine's view; [`html`] is a run as a page, [`perfetto`]
//! as a trace, [`mermaid`] as a diagram; [`mod@lesson`] tells lessons, as text and as a site; [`mod@matrix`]
//! tells what came of every lock and family of faults, [`claims`] what came of the sentences of a text.

pub mod block;
pub mod claims;
pub mod demonstration;
pub mod explained;
pub mod html;
pub mod json;
pub mod layout;
pub mod lesson;
pub mod manner;
pub mod matrix;
pub mod mermaid;
pub mod perfetto;
pub mod recorded;
pub mod shrunk;
pub mod standing;
pub mod story;
pub mod subject;
pub mod table;
pub mod timers;
pub mod why;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

pub use block::{Failure, failure_block};
pub use demonstration::{Shown, demonstration};
pub use json::Document;
pub use manner::{Build, Charset, Manner, Style};
pub use table::Tally;
