//! What a statement is, and those that are neither queries nor definitions.

use super::Parser;
use crate::error::{SqlError, SqlResult};
use crate::sql::ast::{Isolation, Modes, Parsed, SetValue, Statement};
use crate::sql::lexer::Token;

/// Statements of PostgreSQL that this server does not have.
const FOREIGN: &[&str] = &[
    "alter", "call", "close", "cluster", "comment", "copy", "declare", "do", "explain", "fetch",
    "grant", "import", "load", "merge", "move", "reassign", "refresh", "reindex", "revoke",
    "security", "table",
];

/// The modes of LOCK TABLE, weakest first.
const LOCK_MODES: [&[&str]; 8] = [
    &["access", "share"],
    &["row", "share"],
    &["row", "exclusive"],
    &["share", "update", "exclusive"],
    &["share"],
    &["share", "row", "exclusive"],
    &["exclusive"],
    &["access", "exclusive"],
];

impl Parser {
    pub(super) fn statement(&mut self) -> SqlResult<Statement> {
        if self.is_mark("(") {
            return Ok(Statement::Select(Box::new(self.select()?)));
        }
        let Token::Word(word) = self.peek().clone() else { return Err(self.unexpected()) };
        match word.as_str() {
            "select" | "values" | "insert" | "update" | "delete" | "with" => self.query_statement(),
            "create" => self.create(),
            "drop" => self.drop(),
            "truncate" => self.truncate(),
            "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint"
            | "release" => self.transaction(&word),
            "set" => self.set_statement(),
            "show" => {
                self.at += 1;
                Ok(Statement::Show(self.parameter_name()?))
            }
            "reset" => {
                self.at += 1;
                let name = self.parameter_name()?;
                Ok(Statement::Reset((name != "all").then_some(name)))
            }
            "lock" => self.lock(),
            "prepare" => self.prepare(),
            "execute" => self.execute(),
            "deallocate" => {
                self.at += 1;
                self.accept("prepare");
                let all = self.accept("all");
                Ok(Statement::Deallocate(if all { None } else { Some(self.name()?) }))
            }
            "discard" => {
                self.at += 1;
                match self.accept("all") {
                    true => Ok(Statement::DiscardAll),
                    false => Err(self.unsupported("DISCARD of parts")),
                }
            }
            "listen" | "notify" | "unlisten" => self.notification(&word),
            "vacuum" | "analyze" | "analyse" | "checkpoint" => Ok(self.maintenance(&word)),
            foreign if FOREIGN.contains(&foreign) => {
                Err(self.unsupported(&foreign.to_ascii_uppercase()))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn truncate(&mut self) -> SqlResult<Statement> {
        self.at += 1;
        self.accept("table");
        self.accept("only");
        let names = self.list(Parser::qualified)?;
        let restart = self.accept_all(&["restart", "identity"]);
        self.accept_all(&["continue", "identity"]);
        if !self.accept("cascade") {
            self.accept("restrict");
        }
        Ok(Statement::Truncate { names, restart })
    }

    /// Statistics and dead rows are the server's own affair: only the words are read.
    fn maintenance(&mut self, word: &str) -> Statement {
        while !matches!(self.peek(), Token::End | Token::Mark(";")) {
            self.at += 1;
        }
        Statement::Maintain(match word {
            "vacuum" => "VACUUM",
            "checkpoint" => "CHECKPOINT",
            _ => "ANALYZE",
        })
    }

    fn notification(&mut self, word: &str) -> SqlResult<Statement> {
        self.at += 1;
        if word == "unlisten" && self.accept_operator("*") {
            return Ok(Statement::Unlisten(None));
        }
        let channel = self.name()?;
        Ok(match word {
            "listen" => Statement::Listen(channel),
            "unlisten" => Statement::Unlisten(Some(channel)),
            _ => {
                let payload = match self.accept_mark(",") {
                    true => self.text_constant()?,
                    false => String::new(),
                };
                Statement::Notify { channel, payload }
            }
        })
    }

    fn transaction(&mut self, word: &str) -> SqlResult<Statement> {
        self.at += 1;
        match word {
            "begin" | "start" => {
                let is_start = word == "start";
                if is_start {
                    self.expect("transaction")?;
                } else if !self.accept("work") {
                    self.accept("transaction");
                }
                Ok(Statement::Begin { modes: self.modes()?, is_start })
            }
            "savepoint" => Ok(Statement::Savepoint(self.name()?)),
            "release" => {
                self.accept("savepoint");
                Ok(Statement::Release(self.name()?))
            }
            _ => {
                if self.is_word("prepared") {
                    return Err(self.unsupported("two-phase commit"));
                }
                if !self.accept("work") {
                    self.accept("transaction");
                }
                if word == "rollback" && self.accept("to") {
                    self.accept("savepoint");
                    return Ok(Statement::RollbackTo(self.name()?));
                }
                let mut chain = false;
                if self.accept("and") {
                    chain = !self.accept("no");
                    self.expect("chain")?;
                }
                let is_commit = matches!(word, "commit" | "end");
                Ok(if is_commit {
                    Statement::Commit { chain }
                } else {
                    Statement::Rollback { chain }
                })
            }
        }
    }

    fn modes(&mut self) -> SqlResult<Modes> {
        let mut modes = Modes::default();
        loop {
            let at = self.place();
            if self.accept_all(&["isolation", "level"]) {
                modes.isolation = Some((at, self.isolation()?));
            } else if self.accept_all(&["read", "only"]) {
                modes.read_only = Some(true);
            } else if self.accept_all(&["read", "write"]) {
                modes.read_only = Some(false);
            } else if self.accept_all(&["not", "deferrable"]) || self.accept("deferrable") {
                // It has a meaning only for SERIALIZABLE.
            } else {
                return Ok(modes);
            }
            self.accept_mark(",");
        }
    }

    fn isolation(&mut self) -> SqlResult<Isolation> {
        if self.accept("serializable") {
            Ok(Isolation::Serializable)
        } else if self.accept_all(&["repeatable", "read"]) {
            Ok(Isolation::RepeatableRead)
        } else if self.accept_all(&["read", "committed"]) {
            Ok(Isolation::ReadCommitted)
        } else if self.accept_all(&["read", "uncommitted"]) {
            Ok(Isolation::ReadUncommitted)
        } else {
            Err(self.unexpected())
        }
    }

    /// The name of a configuration parameter.
    fn parameter_name(&mut self) -> SqlResult<String> {
        if self.accept_all(&["transaction", "isolation", "level"]) {
            return Ok("transaction_isolation".to_owned());
        }
        if self.accept_all(&["time", "zone"]) {
            return Ok("timezone".to_owned());
        }
        let mut name = self.label()?;
        while self.accept_mark(".") {
            name.push('.');
            name.push_str(&self.label()?);
        }
        Ok(name)
    }

    fn set_statement(&mut self) -> SqlResult<Statement> {
        self.at += 1;
        if self.accept("transaction") {
            return Ok(Statement::SetTransaction { modes: self.modes()?, session: false });
        }
        if self.accept_all(&["session", "characteristics", "as", "transaction"]) {
            return Ok(Statement::SetTransaction { modes: self.modes()?, session: true });
        }
        if self.is_word("constraints") || self.is_word("role") {
            return Err(self.unsupported("SET CONSTRAINTS and SET ROLE"));
        }
        let local = self.accept("local");
        if !local {
            self.accept("session");
        }
        if self.accept_all(&["time", "zone"]) {
            let value = self.set_value()?;
            return Ok(Statement::Set { local, name: "timezone".to_owned(), value });
        }
        let name = self.parameter_name()?;
        if !self.accept("to") {
            self.expect_operator("=")?;
        }
        let value = self.set_value()?;
        Ok(Statement::Set { local, name, value })
    }

    fn set_value(&mut self) -> SqlResult<SetValue> {
        if self.accept("default") {
            return Ok(SetValue::Default);
        }
        let parts = self.list(|parser| {
            let is_signed = parser.is_operator("-") || parser.is_operator("+");
            let sign = if is_signed && parser.is_operator("-") { "-" } else { "" };
            parser.at += usize::from(is_signed);
            match parser.peek().clone() {
                Token::Integer(text) | Token::Decimal(text) => {
                    parser.at += 1;
                    Ok(format!("{sign}{text}"))
                }
                _ if is_signed => Err(parser.unexpected()),
                Token::Text(text) | Token::Quoted(text) | Token::Word(text) => {
                    parser.at += 1;
                    Ok(text)
                }
                _ => Err(parser.unexpected()),
            }
        })?;
        Ok(SetValue::Text(parts.join(", ")))
    }

    fn lock(&mut self) -> SqlResult<Statement> {
        self.at += 1;
        self.accept("table");
        self.accept("only");
        let names = self.list(Parser::qualified)?;
        let mut mode = 8;
        if self.accept("in") {
            let found = LOCK_MODES
                .iter()
                .position(|words| self.is_words(words) && self.is_word_at(words.len(), "mode"));
            let Some(found) = found else {
                self.at += usize::from(matches!(self.peek(), Token::Word(_)));
                return Err(self.unexpected());
            };
            self.at += LOCK_MODES[found].len() + 1;
            mode = found as u8 + 1;
        }
        let nowait = self.accept("nowait");
        Ok(Statement::Lock { names, mode, nowait })
    }

    fn prepare(&mut self) -> SqlResult<Statement> {
        self.at += 1;
        if self.is_word("transaction") {
            return Err(self.unsupported("two-phase commit"));
        }
        let name = self.name()?;
        let types = match self.accept_mark("(") {
            false => Vec::new(),
            true => {
                let types = self.list(Parser::type_name)?;
                self.expect_mark(")")?;
                types
            }
        };
        self.expect("as")?;
        let statement = self.query_statement()?;
        let statement = Box::new(Parsed { statement, text: self.text.clone() });
        Ok(Statement::Prepare { name, types, statement })
    }

    fn execute(&mut self) -> SqlResult<Statement> {
        self.at += 1;
        let name = self.name()?;
        let mut arguments = Vec::new();
        if self.accept_mark("(") {
            arguments = self.list(Parser::expr)?;
            self.expect_mark(")")?;
        }
        if arguments.len() > usize::from(u16::MAX) {
            return Err(SqlError::new("54023", "too many arguments"));
        }
        Ok(Statement::Execute { name, arguments })
    }
}
