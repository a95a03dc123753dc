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
//! [`Verdict::exit_code`](lockstorm_sim::check::Verdict::exit_code).

use std::fmt::Display;
use std::process::ExitCode;

use lockstorm_sim::plan::PlanError;

use super::say::complain;

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
    /// A run did not repeat.
    Nondeterminism(String),
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

    /// The code it ends with.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Plan(_) | Failure::Usage(_) => USAGE,
            Failure::Nondeterminism(_) => NONDETERMINISM,
            Failure::Internal(_) => INTERNAL,
        }
    }

    /// Says it on standard error and gives the code.
    pub fn tell(self) -> ExitCode {
        let code = ExitCode::from(self.code());
        match self {
            Failure::Plan(error) => complain(format!("error: {error}")),
            Failure::Usage(what) | Failure::Nondeterminism(what) => {
                complain(format!("error: {what}"));
            }
            Failure::Internal(what) => complain(format!("internal error: {what}")),
        }
        code
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Failure::Plan(Box::new(error))
    }
}
