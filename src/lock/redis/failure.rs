//! How a command fails, told apart by what the server may have done.

use std::fmt;

use redis::{ErrorKind, RedisError};

use crate::lock::LockError;

/// A command that was not answered with success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Certainly nothing was sent.
    NotSent { reason: String },
    /// The request was, or may have been, sent; what became of it is not known.
    NoReply { reason: String },
    /// So many of several servers did not answer that they may have granted. All were told
    /// to forget it, and it can be tried again; but nobody knows what became of it.
    Scattered { reason: String },
    /// The server answered with an error: nothing was changed.
    Refused { code: String, message: String },
    /// The record was written, too few replicas have it, and it is being taken back.
    TooFewReplicas { acknowledged: u64, wanted: u16 },
}

impl Failure {
    /// What an error of the client library means for a command that was handed to
    /// it on an open connection.
    pub(super) fn of_command(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => Failure::Refused {
                code: error.code().unwrap_or("ERR").to_owned(),
                message: error.detail().unwrap_or_default().to_owned(),
            },
            // The library does not say whether a byte had left when the connection
            // broke, so it may have.
            _ => Failure::NoReply { reason: error.to_string() },
        }
    }

    /// Whether asking again, on a new connection, may go better soon.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Failure::NotSent { .. }
            | Failure::Scattered { .. }
            | Failure::TooFewReplicas { .. } => true,
            Failure::NoReply { .. } => false,
            Failure::Refused { .. } => self.is_read_only() || self.is_not_serving(),
        }
    }

    /// Whether the connection on which it happened should not be used again.
    pub(super) fn spoils_connection(&self) -> bool {
        match self {
            Failure::NotSent { .. } | Failure::NoReply { .. } => true,
            Failure::Scattered { .. } | Failure::TooFewReplicas { .. } => false,
            // The server is no master, or not yet: another may be.
            Failure::Refused { .. } => self.is_read_only() || self.is_not_serving(),
        }
    }

    /// Whether a replica refused a write.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Failure::Refused { code, .. } if code == "READONLY")
    }

    /// Whether the server has not its data yet, or has no link to them.
    fn is_not_serving(&self) -> bool {
        matches!(self, Failure::Refused { code, .. } if code == "LOADING" || code == "MASTERDOWN")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NotSent { reason }
            | Failure::NoReply { reason }
            | Failure::Scattered { reason } => formatter.write_str(reason),
            Failure::Refused { code, message } => {
                write!(formatter, "the server refused: {code} {message}")
            }
            Failure::TooFewReplicas { acknowledged, wanted } => {
                write!(formatter, "{acknowledged} of {wanted} replicas had the record in time")
            }
        }
    }
}

impl From<Failure> for LockError {
    fn from(failure: Failure) -> Self {
        let reason = failure.to_string();
        match failure {
            Failure::NoReply { .. } | Failure::Scattered { .. } => {
                LockError::Indeterminate { reason }
            }
            Failure::NotSent { .. } | Failure::Refused { .. } | Failure::TooFewReplicas { .. } => {
                LockError::Backend { reason }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::ServerErrorKind;

    use super::*;

    fn refused(reply: &[u8]) -> Failure {
        let value = redis::parse_redis_value(reply).unwrap();
        Failure::of_command(&value.extract_error().unwrap_err())
    }

    #[test]
    fn an_error_reply_is_a_definite_refusal() {
        for (reply, code) in [
            (&b"-READONLY You can't write against a read only replica.\r\n"[..], "READONLY"),
            (b"-LOADING Redis is loading the dataset in memory\r\n", "LOADING"),
            (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "OOM"),
            (b"-NOREPLICAS Not enough good replicas to write.\r\n", "NOREPLICAS"),
            (b"-ERR unknown command\r\n", "ERR"),
        ] {
            let failure = refused(reply);
            assert!(matches!(&failure, Failure::Refused { code: c, .. } if c == code), "{failure}");
            assert!(matches!(LockError::from(failure), LockError::Backend { .. }));
        }
    }

    #[test]
    fn only_refusals_that_pass_by_themselves_are_asked_again() {
        assert!(refused(b"-READONLY no\r\n").may_pass());
        assert!(refused(b"-LOADING no\r\n").may_pass());
        assert!(!refused(b"-OOM no\r\n").may_pass());
        assert!(!refused(b"-NOREPLICAS no\r\n").spoils_connection());
    }

    #[test]
    fn a_broken_connection_leaves_the_command_unknown() {
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(matches!(
            LockError::from(Failure::of_command(&broken)),
            LockError::Indeterminate { .. }
        ));
        let known = RedisError::from((ErrorKind::Server(ServerErrorKind::ReadOnly), "no"));
        assert!(Failure::of_command(&known).is_read_only());
    }
}
