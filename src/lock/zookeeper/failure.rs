//! Why a step failed, and what that says of the lock.

use zookeeper_client::Error;

use crate::lock::LockError;

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// No session could be opened: nothing was asked.
    #[error("no session could be opened: {reason}")]
    Unreachable {
        /// For people.
        reason: String,
    },
    /// The session is over, and with it whatever it kept.
    #[error("{reason}")]
    Over {
        /// For people.
        reason: String,
    },
    /// The ensemble refused.
    #[error("the ensemble refused: {reason}")]
    Refused {
        /// For people.
        reason: String,
    },
    /// The place in the queue is not there any more, although its session lives.
    #[error("our place in the queue was deleted by somebody else")]
    Vanished,
}

/// Whether the connection went before the answer: nobody knows whether the request was
/// applied. The client says so as such, with the error of its stream as it came, or with its
/// own that nothing came for too long.
pub(super) fn is_lost(error: &Error) -> bool {
    matches!(error, Error::ConnectionLoss | Error::Custom(_))
}

impl Failure {
    /// What an error of the client says that is no loss of a connection.
    pub(super) fn of(error: &Error) -> Failure {
        let reason = error.to_string();
        match error {
            Error::SessionExpired | Error::SessionMoved | Error::ClientClosed => {
                Failure::Over { reason }
            }
            Error::NoHosts | Error::Timeout => Failure::Unreachable { reason },
            error if is_lost(error) => Failure::Unreachable { reason },
            _ => Failure::Refused { reason },
        }
    }

    /// Whether another try may go better.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(self, Failure::Refused { .. })
    }
}

impl From<Failure> for LockError {
    fn from(failure: Failure) -> LockError {
        LockError::Backend { reason: failure.to_string() }
    }
}
