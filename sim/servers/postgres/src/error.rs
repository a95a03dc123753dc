//! What a statement failed with, as PostgreSQL tells it.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The connection ends.
    Fatal,
    /// The statement fails, and with it its transaction.
    Error,
    Warning,
    Notice,
}

impl Severity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Severity::Fatal => "FATAL",
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
        }
    }
}

/// An error or a notice, boxed: results are mostly good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlError(Box<Fields>);

/// The fields of the message, but for those that name PostgreSQL's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) severity: Severity,
    /// SQLSTATE.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
    /// Where in the statement, bytes from its beginning; told in characters.
    pub(crate) at: Option<usize>,
    /// The schema, table, column and constraint concerned.
    pub(crate) table: Option<String>,
    pub(crate) column: Option<String>,
    pub(crate) constraint: Option<String>,
}

impl SqlError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(Fields {
            severity: Severity::Error,
            code,
            message: message.into(),
            detail: None,
            hint: None,
            at: None,
            table: None,
            column: None,
            constraint: None,
        }))
    }

    pub(crate) fn fatal(code: &'static str, message: impl Into<String>) -> SqlError {
        SqlError::new(code, message).severity(Severity::Fatal)
    }

    pub(crate) fn warning(code: &'static str, message: impl Into<String>) -> SqlError {
        SqlError::new(code, message).severity(Severity::Warning)
    }

    pub(crate) fn notice(message: impl Into<String>) -> SqlError {
        SqlError::new("00000", message).severity(Severity::Notice)
    }

    /// What this server does not do, though PostgreSQL does.
    pub(crate) fn unsupported(at: usize, what: impl fmt::Display) -> SqlError {
        SqlError::new("0A000", format!("the simulated server does not have {what}")).at(at)
    }

    pub(crate) fn severity(mut self, severity: Severity) -> SqlError {
        self.0.severity = severity;
        self
    }

    pub(crate) fn coded(mut self, code: &'static str) -> SqlError {
        self.0.code = code;
        self
    }

    pub(crate) fn at(mut self, at: usize) -> SqlError {
        self.0.at = Some(at);
        self
    }

    /// Names no place: it was found in another text than the client's.
    pub(crate) fn without_place(mut self) -> SqlError {
        self.0.at = None;
        self
    }

    /// Names the place, if none is named yet.
    pub(crate) fn or_at(mut self, at: usize) -> SqlError {
        self.0.at.get_or_insert(at);
        self
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn table(mut self, table: &str) -> SqlError {
        self.0.table = Some(table.to_owned());
        self
    }

    pub(crate) fn column(mut self, column: &str) -> SqlError {
        self.0.column = Some(column.to_owned());
        self
    }

    pub(crate) fn constraint(mut self, constraint: &str) -> SqlError {
        self.0.constraint = Some(constraint.to_owned());
        self
    }

    pub(crate) fn fields(&self) -> &Fields {
        &self.0
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.0.severity == Severity::Fatal
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.0.code
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.code, self.0.message)
    }
}

impl std::error::Error for SqlError {}

pub(crate) type SqlResult<T> = Result<T, SqlError>;
