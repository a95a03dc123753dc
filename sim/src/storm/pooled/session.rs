//! A connection of a node's pool.
//!
//! `deadpool-postgres` spawns its drivers past any host; what is here is its manager again, on
//! the pool that it is made of.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use lockstorm::stock::sql::SellError;
use tokio_postgres::{Client, Error, Statement};

use crate::storm::postgres::dialling::{Dialer, Dialled, NoSession, is_undone};

/// Opens the sessions of a pool.
#[derive(Debug)]
pub(super) struct Sessions(pub(super) Dialer);

/// A session at the server.
#[derive(Debug)]
pub(super) struct Session {
    dialled: Dialled,
    /// By their texts, each prepared once.
    statements: Mutex<BTreeMap<&'static str, Statement>>,
}

impl Session {
    pub(super) fn client(&self) -> &Client {
        &self.dialled.client
    }

    /// The statement, prepared now if it has not been.
    pub(super) async fn prepared(&self, sql: &'static str) -> Result<Statement, Error> {
        let known =
            self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client().prepare(sql).await?;
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.insert(sql, statement.clone());
        Ok(statement)
    }
}

impl Manager for Sessions {
    type Type = Session;
    type Error = SellError;

    async fn create(&self) -> Result<Session, SellError> {
        match self.0.dial().await {
            Ok(dialled) => Ok(Session { dialled, statements: Mutex::default() }),
            Err(NoSession::Failed(error)) => Err(told(&error)),
            Err(NoSession::Unreachable(reason)) => Err(SellError::Unreachable { reason }),
        }
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<SellError> {
        match session.client().is_closed() {
            false => Ok(()),
            true => Err(RecycleError::message("the connection was closed")),
        }
    }
}

/// What the failure of a statement before the commit means: nothing was committed.
pub(super) fn told(error: &Error) -> SellError {
    match error.as_db_error() {
        Some(told) => SellError::RolledBack {
            code: told.code().code().to_owned(),
            message: told.message().to_owned(),
        },
        None => SellError::Unreachable { reason: error.to_string() },
    }
}

/// What that of a COMMIT means, which was sent.
pub(super) fn told_of_commit(error: &Error) -> SellError {
    match told(error) {
        rolled_back if is_undone(error) => rolled_back,
        SellError::RolledBack { code, message } => {
            SellError::Indeterminate { reason: format!("{code} {message}") }
        }
        SellError::Unreachable { reason } | SellError::Indeterminate { reason } => {
            SellError::Indeterminate { reason }
        }
    }
}
