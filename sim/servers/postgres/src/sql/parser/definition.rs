//! CREATE and DROP.

use super::Parser;
use crate::error::SqlResult;
use crate::sql::ast::{
    ColumnConstraint, ColumnDefinition, CreateTable, DropKind, SequenceOptions, Statement,
    TableConstraint,
};
use crate::sql::lexer::Token;

impl Parser {
    pub(super) fn create(&mut self) -> SqlResult<Statement> {
        self.expect("create")?;
        if self.accept("table") || self.accept_all(&["unlogged", "table"]) {
            // An unlogged table would survive a crash here, so it is not taken.
            if self.tokens[self.at - 2].token == Token::Word("unlogged".to_owned()) {
                self.at -= 2;
                return Err(self.unsupported("unlogged tables"));
            }
            return self.create_table();
        }
        if self.is_words(&["unique", "index"]) || self.is_word("index") {
            return self.create_index();
        }
        if self.accept("sequence") {
            let if_not_exists = self.accept_all(&["if", "not", "exists"]);
            let name = self.qualified()?;
            let options = self.sequence_options()?;
            return Ok(Statement::CreateSequence { name, if_not_exists, options });
        }
        match self.peek() {
            Token::Word(word) => {
                let what = format!("CREATE {}", word.to_ascii_uppercase());
                Err(self.unsupported(&what))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn create_table(&mut self) -> SqlResult<Statement> {
        let if_not_exists = self.accept_all(&["if", "not", "exists"]);
        let name = self.qualified()?;
        if self.is_word("as") || self.is_word("of") || self.is_word("partition") {
            return Err(self.unsupported("this form of CREATE TABLE"));
        }
        self.expect_mark("(")?;
        let (mut columns, mut constraints) = (Vec::new(), Vec::new());
        if !self.is_mark(")") {
            loop {
                if self.is_word("like") {
                    return Err(self.unsupported("LIKE"));
                }
                let is_constraint = ["constraint", "primary", "unique", "check", "foreign"]
                    .iter()
                    .any(|word| self.is_word(word))
                    || self.is_word("exclude");
                if is_constraint {
                    constraints.push(self.table_constraint()?);
                } else {
                    columns.push(self.column()?);
                }
                if !self.accept_mark(",") {
                    break;
                }
            }
        }
        self.expect_mark(")")?;
        if self.accept("with") {
            // Storage parameters do not change what is seen.
            self.expect_mark("(")?;
            self.list(|parser| {
                parser.label()?;
                if parser.accept_operator("=") {
                    parser.next();
                }
                Ok(())
            })?;
            self.expect_mark(")")?;
        }
        if !matches!(self.peek(), Token::End | Token::Mark(";")) {
            return Err(self.unsupported("this option of CREATE TABLE"));
        }
        let table = CreateTable { name, if_not_exists, columns, constraints };
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn column(&mut self) -> SqlResult<ColumnDefinition> {
        let (at, name) = self.placed_name()?;
        let data_type = self.type_name()?;
        let mut constraints = Vec::new();
        loop {
            let at = self.place();
            let name = match self.accept("constraint") {
                true => Some(self.name()?),
                false => None,
            };
            let constraint = if self.accept_all(&["not", "null"]) {
                ColumnConstraint::NotNull
            } else if self.accept("null") {
                ColumnConstraint::Null
            } else if self.accept("default") {
                let from = self.place();
                self.expr()?;
                let to = self.place();
                ColumnConstraint::Default(self.text[from..to].trim_end().to_owned())
            } else if self.accept_all(&["primary", "key"]) {
                ColumnConstraint::PrimaryKey { name, at }
            } else if self.accept("unique") {
                ColumnConstraint::Unique { name, at }
            } else if self.accept("check") {
                ColumnConstraint::Check { name, text: self.check()? }
            } else if self.accept("generated") {
                let always = self.accept("always") || {
                    self.expect("by")?;
                    self.expect("default")?;
                    false
                };
                self.expect("as")?;
                if !self.accept("identity") {
                    return Err(self.unsupported("generated columns"));
                }
                if self.is_mark("(") {
                    return Err(self.unsupported("options of identity columns"));
                }
                ColumnConstraint::Identity { always }
            } else if self.is_word("references") {
                return Err(self.unsupported("foreign keys"));
            } else if self.is_word("collate") || self.is_word("deferrable") {
                return Err(self.unsupported("this option of columns"));
            } else if name.is_some() {
                return Err(self.unexpected());
            } else {
                break;
            };
            constraints.push(constraint);
        }
        Ok(ColumnDefinition { at, name, data_type, constraints })
    }

    /// The text of the condition.
    fn check(&mut self) -> SqlResult<String> {
        self.expect_mark("(")?;
        let from = self.place();
        self.expr()?;
        let text = self.text[from..self.place()].trim_end().to_owned();
        self.expect_mark(")")?;
        Ok(text)
    }

    fn table_constraint(&mut self) -> SqlResult<TableConstraint> {
        let at = self.place();
        let name = match self.accept("constraint") {
            true => Some(self.name()?),
            false => None,
        };
        let constraint = if self.accept("check") {
            TableConstraint::Check { name, text: self.check()? }
        } else if self.is_words(&["primary", "key"]) || self.is_word("unique") {
            let is_primary = self.accept_all(&["primary", "key"]);
            if !is_primary {
                self.expect("unique")?;
            }
            if self.is_word("using") || self.is_word("nulls") {
                return Err(self.unsupported("this form of constraint"));
            }
            let columns = self.placed_names()?;
            // What an index holds beside its key changes nothing that is seen.
            if is_primary && self.accept("include") {
                self.placed_names()?;
            }
            TableConstraint::Key { name, columns, is_primary, at }
        } else if self.is_word("foreign") || self.is_word("exclude") {
            return Err(self.unsupported("foreign keys and exclusion constraints"));
        } else {
            return Err(self.unexpected());
        };
        if self.is_word("deferrable") || self.is_word("initially") || self.is_word("include") {
            return Err(self.unsupported("deferrable constraints"));
        }
        Ok(constraint)
    }

    fn create_index(&mut self) -> SqlResult<Statement> {
        let unique = self.accept("unique");
        self.expect("index")?;
        if self.is_word("concurrently") {
            return Err(self.unsupported("CREATE INDEX CONCURRENTLY"));
        }
        let if_not_exists = self.accept_all(&["if", "not", "exists"]);
        let name = match self.is_word("on") {
            true => None,
            false => Some(self.name()?),
        };
        self.expect("on")?;
        self.accept("only");
        let table = self.qualified()?;
        if self.accept("using") && !self.accept("btree") {
            return Err(self.unsupported("indexes other than btree"));
        }
        self.expect_mark("(")?;
        let columns = self.list(|parser| {
            if parser.is_mark("(") {
                return Err(parser.unsupported("indexes on expressions"));
            }
            let column = parser.placed_name()?;
            if parser.is_mark("(") {
                return Err(parser.unsupported("indexes on expressions"));
            }
            if !parser.accept("asc") {
                parser.accept("desc");
            }
            if parser.accept("nulls") && !parser.accept("first") {
                parser.expect("last")?;
            }
            Ok(column)
        })?;
        self.expect_mark(")")?;
        if !matches!(self.peek(), Token::End | Token::Mark(";")) {
            return Err(self.unsupported("partial indexes and other options of indexes"));
        }
        Ok(Statement::CreateIndex { name, table, columns, unique, if_not_exists })
    }

    fn sequence_options(&mut self) -> SqlResult<SequenceOptions> {
        let mut options = SequenceOptions::default();
        loop {
            if self.accept("start") {
                self.accept("with");
                options.start = Some(self.signed_integer()?);
            } else if self.accept("increment") {
                self.accept("by");
                options.increment = Some(self.signed_integer()?);
            } else if self.accept("minvalue") {
                options.minimum = Some(self.signed_integer()?);
            } else if self.accept("maxvalue") {
                options.maximum = Some(self.signed_integer()?);
            } else if self.accept("no") {
                if !self.accept("minvalue") && !self.accept("maxvalue") {
                    self.expect("cycle")?;
                }
            } else if self.accept("cycle") {
                options.cycle = true;
            } else if matches!(self.peek(), Token::End | Token::Mark(";")) {
                return Ok(options);
            } else {
                return Err(self.unsupported("this option of sequences"));
            }
        }
    }

    pub(super) fn drop(&mut self) -> SqlResult<Statement> {
        self.expect("drop")?;
        let kind = if self.accept("table") {
            DropKind::Table
        } else if self.accept("index") {
            DropKind::Index
        } else if self.accept("sequence") {
            DropKind::Sequence
        } else {
            return match self.peek() {
                Token::Word(word) => {
                    let what = format!("DROP {}", word.to_ascii_uppercase());
                    Err(self.unsupported(&what))
                }
                _ => Err(self.unexpected()),
            };
        };
        let if_exists = self.accept_all(&["if", "exists"]);
        let names = self.list(Parser::qualified)?;
        if !self.accept("cascade") {
            self.accept("restrict");
        }
        Ok(Statement::Drop { kind, names, if_exists })
    }
}
