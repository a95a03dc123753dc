//! Exit codes, in one place.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | safe |
//! | 1 | violation |
//! | 2 | unknown, inert, or not expressible |
//! | 3 | nondeterminism |
//! | 64 | usage, or bad input |
//! | 70 | internal |
//!
//! Codes of verdicts come from
//! [`Verdict::exit_code`](crate::check::Verdict::exit_code).

use std::fmt::Display;
use std::process::ExitCode;

use crate::plan::PlanError;

/// All is well.
pub const SAFE: u8 = 0;
/// Something did not meet its expectation.
pub const VIOLATION: u8 = 1;
/// A run did not repeat.
pub const NONDETERMINISM: u8 = 3;
/// The command line or a file is not as it must be (`EX_USAGE`).
pub const USAGE: u8 = 64;
/// The fault is ours (`EX_SOFTWARE`).
pub const INTERNAL: u8 = 70;

/// Why a verb could not be done.
#[derive(Debug)]
pub enum Failure {
    /// A plan, a seed file, or a flag about one: points at the place.
    Plan(Box<PlanError>),
    /// Other bad input, in one sentence with the mend.
    Usage(String),
    /// The fault is ours, or the machine's.
    Internal(String),
}

impl Failure {
    /// Bad input.
    pub fn usage(what: impl Display) -> Self {
        Failure::Usage(what.to_string())
    }

    /// Our fault, or the machine's.
    pub fn internal(what: impl Display) -> Self {
        Failure::Internal(what.to_string())
    }

    /// Says it on standard error and gives the code.
    pub fn tell(self) -> ExitCode {
        match self {
            Failure::Plan(error) => {
                eprintln!("error: {error}");
                ExitCode::from(USAGE)
            }
            Failure::Usage(what) => {
                eprintln!("error: {what}");
                ExitCode::from(USAGE)
            }
            Failure::Internal(what) => {
                eprintln!("internal error: {what}");
                ExitCode::from(INTERNAL)
            }
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Failure::Plan(Box::new(error))
    }
}
