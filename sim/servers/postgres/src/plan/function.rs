//! The functions that statements may call, by name and types.

use crate::value::Type;

/// A function of this server, or a family of them that differ by types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Now,
    StatementTimestamp,
    ClockTimestamp,
    Sleep,
    BackendPid,
    TerminateBackend,
    CancelBackend,
    TransactionId,
    TransactionIdIfAssigned,
    AdvisoryLock { shared: bool, of_transaction: bool, tries: bool },
    AdvisoryUnlock { shared: bool },
    AdvisoryUnlockAll,
    NextValue,
    CurrentValue,
    LastValue,
    SetValue,
    SetConfig,
    CurrentSetting,
    IsInRecovery,
    Promote,
    BlockingPids,
    IsolationTestIsBlocked,
    Absolute,
    AbsoluteInt2,
    AbsoluteInt4,
    Modulo,
    Length,
    Upper,
    Lower,
    Substring,
    Repeat,
    Random,
    Version,
    CurrentUser,
    CurrentDatabase,
    CurrentSchema,
    Notify,
    ExtractEpoch,
    HashText,
}

use Function as F;
use Type as T;

/// Name, types of arguments, type of the result, function.
type Signature = (&'static str, &'static [Type], Type, Function);

const fn lock(shared: bool, of_transaction: bool, tries: bool) -> Function {
    Function::AdvisoryLock { shared, of_transaction, tries }
}

#[rustfmt::skip]
pub(super) const SIGNATURES: &[Signature] = &[
    ("now", &[], T::Timestamptz, F::Now),
    ("transaction_timestamp", &[], T::Timestamptz, F::Now),
    ("current_timestamp", &[], T::Timestamptz, F::Now),
    ("statement_timestamp", &[], T::Timestamptz, F::StatementTimestamp),
    ("clock_timestamp", &[], T::Timestamptz, F::ClockTimestamp),
    ("pg_sleep", &[T::Float8], T::Void, F::Sleep),
    ("pg_backend_pid", &[], T::Int4, F::BackendPid),
    ("pg_terminate_backend", &[T::Int4], T::Bool, F::TerminateBackend),
    ("pg_cancel_backend", &[T::Int4], T::Bool, F::CancelBackend),
    ("txid_current", &[], T::Int8, F::TransactionId),
    ("txid_current_if_assigned", &[], T::Int8, F::TransactionIdIfAssigned),
    ("pg_advisory_lock", &[T::Int8], T::Void, lock(false, false, false)),
    ("pg_advisory_lock", &[T::Int4, T::Int4], T::Void, lock(false, false, false)),
    ("pg_advisory_lock_shared", &[T::Int8], T::Void, lock(true, false, false)),
    ("pg_advisory_lock_shared", &[T::Int4, T::Int4], T::Void, lock(true, false, false)),
    ("pg_try_advisory_lock", &[T::Int8], T::Bool, lock(false, false, true)),
    ("pg_try_advisory_lock", &[T::Int4, T::Int4], T::Bool, lock(false, false, true)),
    ("pg_try_advisory_lock_shared", &[T::Int8], T::Bool, lock(true, false, true)),
    ("pg_try_advisory_lock_shared", &[T::Int4, T::Int4], T::Bool, lock(true, false, true)),
    ("pg_advisory_xact_lock", &[T::Int8], T::Void, lock(false, true, false)),
    ("pg_advisory_xact_lock", &[T::Int4, T::Int4], T::Void, lock(false, true, false)),
    ("pg_advisory_xact_lock_shared", &[T::Int8], T::Void, lock(true, true, false)),
    ("pg_advisory_xact_lock_shared", &[T::Int4, T::Int4], T::Void, lock(true, true, false)),
    ("pg_try_advisory_xact_lock", &[T::Int8], T::Bool, lock(false, true, true)),
    ("pg_try_advisory_xact_lock", &[T::Int4, T::Int4], T::Bool, lock(false, true, true)),
    ("pg_try_advisory_xact_lock_shared", &[T::Int8], T::Bool, lock(true, true, true)),
    ("pg_try_advisory_xact_lock_shared", &[T::Int4, T::Int4], T::Bool, lock(true, true, true)),
    ("pg_advisory_unlock", &[T::Int8], T::Bool, F::AdvisoryUnlock { shared: false }),
    ("pg_advisory_unlock", &[T::Int4, T::Int4], T::Bool, F::AdvisoryUnlock { shared: false }),
    ("pg_advisory_unlock_shared", &[T::Int8], T::Bool, F::AdvisoryUnlock { shared: true }),
    ("pg_advisory_unlock_shared", &[T::Int4, T::Int4], T::Bool, F::AdvisoryUnlock { shared: true }),
    ("pg_advisory_unlock_all", &[], T::Void, F::AdvisoryUnlockAll),
    ("nextval", &[T::Text], T::Int8, F::NextValue),
    ("currval", &[T::Text], T::Int8, F::CurrentValue),
    ("lastval", &[], T::Int8, F::LastValue),
    ("setval", &[T::Text, T::Int8], T::Int8, F::SetValue),
    ("setval", &[T::Text, T::Int8, T::Bool], T::Int8, F::SetValue),
    ("set_config", &[T::Text, T::Text, T::Bool], T::Text, F::SetConfig),
    ("current_setting", &[T::Text], T::Text, F::CurrentSetting),
    ("current_setting", &[T::Text, T::Bool], T::Text, F::CurrentSetting),
    ("pg_is_in_recovery", &[], T::Bool, F::IsInRecovery),
    ("pg_promote", &[], T::Bool, F::Promote),
    ("pg_promote", &[T::Bool], T::Bool, F::Promote),
    ("pg_promote", &[T::Bool, T::Int4], T::Bool, F::Promote),
    ("pg_blocking_pids", &[T::Int4], T::Int4Array, F::BlockingPids),
    ("pg_isolation_test_session_is_blocked", &[T::Int4, T::Int4Array], T::Bool, F::IsolationTestIsBlocked),
    ("abs", &[T::Int2], T::Int2, F::AbsoluteInt2),
    ("abs", &[T::Int4], T::Int4, F::AbsoluteInt4),
    ("abs", &[T::Int8], T::Int8, F::Absolute),
    ("abs", &[T::Float8], T::Float8, F::Absolute),
    ("mod", &[T::Int4, T::Int4], T::Int4, F::Modulo),
    ("mod", &[T::Int8, T::Int8], T::Int8, F::Modulo),
    ("length", &[T::Text], T::Int4, F::Length),
    ("char_length", &[T::Text], T::Int4, F::Length),
    ("upper", &[T::Text], T::Text, F::Upper),
    ("lower", &[T::Text], T::Text, F::Lower),
    ("substr", &[T::Text, T::Int4], T::Text, F::Substring),
    ("substr", &[T::Text, T::Int4, T::Int4], T::Text, F::Substring),
    ("substring", &[T::Text, T::Int4], T::Text, F::Substring),
    ("substring", &[T::Text, T::Int4, T::Int4], T::Text, F::Substring),
    ("repeat", &[T::Text, T::Int4], T::Text, F::Repeat),
    ("random", &[], T::Float8, F::Random),
    ("version", &[], T::Text, F::Version),
    ("current_user", &[], T::Text, F::CurrentUser),
    ("session_user", &[], T::Text, F::CurrentUser),
    ("user", &[], T::Text, F::CurrentUser),
    ("current_database", &[], T::Text, F::CurrentDatabase),
    ("current_schema", &[], T::Text, F::CurrentSchema),
    ("pg_notify", &[T::Text, T::Text], T::Void, F::Notify),
    ("extract_epoch", &[T::Timestamptz], T::Numeric, F::ExtractEpoch),
    ("extract_epoch", &[T::Interval], T::Numeric, F::ExtractEpoch),
    ("hashtext", &[T::Text], T::Int4, F::HashText),
];

impl Function {
    /// Whether it gives the same result whenever it is called with the same arguments: then
    /// it may be called when the statement is analysed, and need not be remembered.
    pub(crate) fn is_pure(self) -> bool {
        matches!(
            self,
            F::Absolute
                | F::AbsoluteInt2
                | F::AbsoluteInt4
                | F::Modulo
                | F::Length
                | F::Upper
                | F::Lower
                | F::Substring
                | F::Repeat
                | F::ExtractEpoch
                | F::HashText
        )
    }

    /// Whether it is called with NULL too, rather than give NULL then.
    pub(crate) fn takes_null(self) -> bool {
        matches!(self, F::SetConfig | F::Notify)
    }

    /// Whether it changes data, so that a standby cannot.
    pub(crate) fn writes(self) -> bool {
        matches!(self, F::NextValue | F::SetValue | F::TransactionId)
    }
}
