//! Recursive descent over the tokens of one text.

mod definition;
mod expression;
mod query;
mod statement;

use std::sync::Arc;

use super::ast::{Name, Parsed, TypeName};
use super::lexer::{Placed, Token, tokens};
use crate::error::{SqlError, SqlResult};

/// How deep parentheses and queries may nest; PostgreSQL's limit is its stack, and so is
/// this, of a thread of 2 MiB with room for what is below it.
const DEPTH: u16 = 80;
/// How many operators may stand in a row, and how deep an expression may be in all.
const OPERATORS: u16 = 250;

/// All statements of a text.
pub(crate) fn parse(text: &Arc<str>) -> SqlResult<Vec<Parsed>> {
    let mut parser = Parser { text: text.clone(), tokens: tokens(text)?, at: 0, depth: 0 };
    let mut statements = Vec::new();
    loop {
        while parser.accept_mark(";") {}
        if parser.peek() == &Token::End {
            return Ok(statements);
        }
        let statement = parser.statement()?;
        statements.push(Parsed { statement, text: text.clone() });
        if parser.peek() != &Token::End && !parser.accept_mark(";") {
            return Err(parser.unexpected());
        }
    }
}

pub(super) struct Parser {
    text: Arc<str>,
    tokens: Vec<Placed>,
    at: usize,
    depth: u16,
}

/// Words that name nothing unless quoted.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Words that may name a column but no function or type, and no table's alias without AS.
const JOINING: &[&str] = &[
    "authorization",
    "binary",
    "collation",
    "concurrently",
    "cross",
    "current_schema",
    "freeze",
    "full",
    "ilike",
    "inner",
    "is",
    "isnull",
    "join",
    "left",
    "like",
    "natural",
    "notnull",
    "outer",
    "overlaps",
    "right",
    "similar",
    "tablesample",
    "verbose",
];

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].token
    }

    /// Where the next token stands.
    fn place(&self) -> usize {
        self.tokens[self.at].at
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].token.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn unexpected(&self) -> SqlError {
        let placed = &self.tokens[self.at];
        if placed.token == Token::End {
            return SqlError::new("42601", "syntax error at end of input").at(placed.at);
        }
        let shown = &self.text[placed.at..placed.end];
        SqlError::new("42601", format!("syntax error at or near \"{shown}\"")).at(placed.at)
    }

    fn unsupported(&self, what: &str) -> SqlError {
        SqlError::unsupported(self.place(), what)
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), Token::Word(found) if found == word)
    }

    fn is_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.is_word_at(ahead, word))
    }

    fn accept(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        self.at += usize::from(is_it);
        is_it
    }

    fn accept_all(&mut self, words: &[&str]) -> bool {
        let is_it = self.is_words(words);
        if is_it {
            self.at += words.len();
        }
        is_it
    }

    fn expect(&mut self, word: &str) -> SqlResult<()> {
        if self.accept(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_mark(&self, mark: &str) -> bool {
        matches!(self.peek(), Token::Mark(found) if *found == mark)
    }

    fn accept_mark(&mut self, mark: &str) -> bool {
        let is_it = self.is_mark(mark);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect_mark(&mut self, mark: &str) -> SqlResult<()> {
        if self.accept_mark(mark) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_operator(&self, operator: &str) -> bool {
        matches!(self.peek(), Token::Operator(found) if found == operator)
    }

    fn accept_operator(&mut self, operator: &str) -> bool {
        let is_it = self.is_operator(operator);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect_operator(&mut self, operator: &str) -> SqlResult<()> {
        if self.accept_operator(operator) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Runs `part` one level deeper.
    fn deeper<T>(&mut self, part: impl FnOnce(&mut Parser) -> SqlResult<T>) -> SqlResult<T> {
        if self.depth >= DEPTH {
            return Err(too_deep(self.place()));
        }
        self.depth += 1;
        let parsed = part(self);
        self.depth -= 1;
        parsed
    }

    /// The next token as a name that passes `is_taken`.
    fn name_unless(&mut self, is_taken: impl Fn(&str) -> bool) -> SqlResult<String> {
        match self.peek().clone() {
            Token::Word(word) if !is_taken(&word) => {
                self.at += 1;
                Ok(word)
            }
            Token::Quoted(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A name of a column, a table, a cursor.
    fn name(&mut self) -> SqlResult<String> {
        self.name_unless(|word| RESERVED.contains(&word) || JOINING.contains(&word))
    }

    /// Any word at all, as after AS.
    fn label(&mut self) -> SqlResult<String> {
        self.name_unless(|_| false)
    }

    fn is_name(&self) -> bool {
        match self.peek() {
            Token::Word(word) => {
                !RESERVED.contains(&word.as_str()) && !JOINING.contains(&word.as_str())
            }
            Token::Quoted(_) => true,
            _ => false,
        }
    }

    fn qualified(&mut self) -> SqlResult<Name> {
        let at = self.place();
        let first = self.name()?;
        if !self.accept_mark(".") {
            return Ok(Name { at, schema: None, name: first });
        }
        let name = self.label()?;
        if self.is_mark(".") {
            return Err(self.unsupported("names of other databases"));
        }
        Ok(Name { at, schema: Some(first), name })
    }

    fn placed_name(&mut self) -> SqlResult<(usize, String)> {
        Ok((self.place(), self.name()?))
    }

    /// `( name, … )`.
    fn placed_names(&mut self) -> SqlResult<Vec<(usize, String)>> {
        self.expect_mark("(")?;
        let names = self.list(Parser::placed_name)?;
        self.expect_mark(")")?;
        Ok(names)
    }

    fn list<T>(&mut self, part: impl Fn(&mut Parser) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        let mut all = vec![part(self)?];
        while self.accept_mark(",") {
            all.push(part(self)?);
        }
        Ok(all)
    }

    fn text_constant(&mut self) -> SqlResult<String> {
        match self.peek().clone() {
            Token::Text(text) => {
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn signed_integer(&mut self) -> SqlResult<i64> {
        let at = self.place();
        let is_negative = self.accept_operator("-") || {
            self.accept_operator("+");
            false
        };
        let Token::Integer(digits) = self.peek().clone() else { return Err(self.unexpected()) };
        self.at += 1;
        let shown = if is_negative { format!("-{digits}") } else { digits };
        let out = format!("value \"{shown}\" is out of range for type bigint");
        shown.parse().map_err(|_| SqlError::new("22003", out).at(at))
    }

    /// A type with its length: words of several are made one.
    fn type_name(&mut self) -> SqlResult<TypeName> {
        let at = self.place();
        let mut name = self.name_unless(|word| RESERVED.contains(&word))?;
        if self.accept_mark(".") {
            if name != "pg_catalog" {
                return Err(SqlError::unsupported(at, "types of other schemas"));
            }
            name = self.label()?;
        }
        match name.as_str() {
            "double" => {
                self.expect("precision")?;
                name = "float8".to_owned();
            }
            "character" | "char" if self.accept("varying") => name = "varchar".to_owned(),
            _ => {}
        }
        let length = match self.accept_mark("(") {
            false => None,
            true => {
                let length = self.signed_integer()?;
                if self.is_mark(",") {
                    return Err(SqlError::unsupported(at, "types with a scale"));
                }
                self.expect_mark(")")?;
                Some(i32::try_from(length).map_err(|_| self.unexpected())?)
            }
        };
        if name == "timestamp" || name == "time" {
            if self.accept_all(&["with", "time", "zone"]) {
                name.push_str("tz");
            } else {
                self.accept_all(&["without", "time", "zone"]);
            }
        }
        let name = match name.as_str() {
            "int" | "integer" => "int4".to_owned(),
            "bigint" => "int8".to_owned(),
            "smallint" => "int2".to_owned(),
            "boolean" => "bool".to_owned(),
            "decimal" | "dec" => "numeric".to_owned(),
            "float" => "float8".to_owned(),
            "character" | "char" => "bpchar".to_owned(),
            _ => name,
        };
        let mut is_array = self.accept("array");
        while self.accept_mark("[") {
            if let Token::Integer(_) = self.peek() {
                self.at += 1;
            }
            self.expect_mark("]")?;
            if is_array {
                return Err(SqlError::unsupported(at, "arrays of several dimensions"));
            }
            is_array = true;
        }
        Ok(TypeName { at, name, length, is_array })
    }
}

fn too_deep(at: usize) -> SqlError {
    SqlError::new("54001", "stack depth limit exceeded")
        .hint("The simulated server nests parentheses and queries 80 deep, operators 250.")
        .at(at)
}
