//! How a statement fails, told apart by what the server may have done.

use std::fmt;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::lock::LockError;

/// A statement that was not answered with success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Certainly nothing was sent.
    NotSent { reason: String },
    /// Every connection that may be open was in use for the whole wait: nothing was sent.
    NoConnection { reason: String },
    /// The statement was, or may have been, sent; what became of it is not known.
    NoReply { reason: String },
    /// The server answered with an error: the statement, and the transaction around it,
    /// did nothing. `fatal`: it has ended the session, too.
    Refused { code: String, message: String, fatal: bool },
}

impl Failure {
    /// What an error of the client library means for a statement that was handed to it on
    /// an open connection. For a COMMIT it means less: see
    /// [`of_commit`](Failure::of_commit).
    pub(crate) fn of_statement(error: &Error) -> Self {
        match error.as_db_error() {
            Some(told) => Failure::Refused {
                code: told.code().code().to_owned(),
                message: told.message().to_owned(),
                fatal: matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic)),
            },
            // The library does not say whether a byte had left when the connection broke.
            None => Failure::NoReply { reason: whole(error) },
        }
    }

    /// The same for a COMMIT: a session that is ended while it commits may have committed
    /// before it was (it waits for its standby then).
    pub(crate) fn of_commit(self) -> Self {
        match self {
            Failure::Refused { code, message, fatal: true } => {
                Failure::NoReply { reason: format!("{code} {message}") }
            }
            other => other,
        }
    }

    /// The server's code, where it answered.
    pub(crate) fn code(&self) -> Option<SqlState> {
        match self {
            Failure::Refused { code, .. } => Some(SqlState::from_code(code)),
            _ => None,
        }
    }

    /// Whether somebody else has what was asked for: NOWAIT, or `lock_timeout`.
    pub(crate) fn is_busy(&self) -> bool {
        self.code() == Some(SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the statement was ended before it was done: by `statement_timeout`, or because
    /// somebody asked for it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.code() == Some(SqlState::QUERY_CANCELED)
    }

    /// Whether a row of the same key is there.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.code() == Some(SqlState::UNIQUE_VIOLATION)
    }

    /// Whether a row was changed since the transaction began, and its level minds.
    pub(crate) fn is_serialization(&self) -> bool {
        self.code() == Some(SqlState::T_R_SERIALIZATION_FAILURE)
    }

    /// Whether the server undid the transaction for the sake of others, and the same may
    /// go well a moment later.
    pub(crate) fn is_rolled_back(&self) -> bool {
        let code = self.code();
        code == Some(SqlState::T_R_DEADLOCK_DETECTED) || self.is_serialization()
    }

    /// Whether asking again, perhaps on a new connection, may go better soon.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Failure::NotSent { .. } | Failure::NoConnection { .. } => true,
            Failure::NoReply { .. } => false,
            Failure::Refused { fatal, .. } => {
                let passing = [
                    SqlState::READ_ONLY_SQL_TRANSACTION,
                    SqlState::CANNOT_CONNECT_NOW,
                    SqlState::TOO_MANY_CONNECTIONS,
                    SqlState::ADMIN_SHUTDOWN,
                    SqlState::CRASH_SHUTDOWN,
                ];
                let code = self.code();
                *fatal
                    || self.is_rolled_back()
                    || passing.iter().any(|one| Some(one) == code.as_ref())
            }
        }
    }

    /// Whether the connection on which it happened should not be used again.
    pub(crate) fn spoils_connection(&self) -> bool {
        match self {
            Failure::NotSent { .. } | Failure::NoReply { .. } => true,
            Failure::NoConnection { .. } => false,
            // The server has become a standby: another may be the primary.
            Failure::Refused { fatal, .. } => {
                *fatal || self.code() == Some(SqlState::READ_ONLY_SQL_TRANSACTION)
            }
        }
    }
}

/// The error with what caused it.
pub(crate) fn whole(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NotSent { reason }
            | Failure::NoConnection { reason }
            | Failure::NoReply { reason } => formatter.write_str(reason),
            Failure::Refused { code, message, .. } => {
                write!(formatter, "the server refused: {code} {message}")
            }
        }
    }
}

impl From<Failure> for LockError {
    fn from(failure: Failure) -> Self {
        let reason = failure.to_string();
        match failure {
            Failure::NoReply { .. } => LockError::Indeterminate { reason },
            Failure::NotSent { .. } | Failure::NoConnection { .. } | Failure::Refused { .. } => {
                LockError::Backend { reason }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str, fatal: bool) -> Failure {
        Failure::Refused { code: code.to_owned(), message: "no".to_owned(), fatal }
    }

    #[test]
    fn only_refusals_that_pass_by_themselves_are_asked_again() {
        for code in ["25006", "57P03", "53300", "57P01", "40P01", "40001"] {
            assert!(refused(code, false).may_pass(), "{code}");
        }
        for code in ["23505", "42P01", "42601", "57014"] {
            assert!(!refused(code, false).may_pass(), "{code}");
        }
        assert!(refused("25P03", true).may_pass());
        assert!(refused("55P03", false).is_busy() && refused("23505", false).is_duplicate());
    }

    #[test]
    fn a_session_that_ends_while_it_commits_may_have_committed() {
        assert!(matches!(refused("57P01", true).of_commit(), Failure::NoReply { .. }));
        assert!(matches!(refused("40001", false).of_commit(), Failure::Refused { .. }));
        assert!(matches!(LockError::from(refused("57P01", true)), LockError::Backend { .. }));
    }
}
