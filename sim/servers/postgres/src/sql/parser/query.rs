//! SELECT, VALUES, INSERT, UPDATE, DELETE.

use super::Parser;
use crate::error::{SqlError, SqlResult};
use crate::sql::ast::{
    Alias, Assignment, Common, Delete, Expr, ExprKind, From, Insert, Joining, Locking, OnConflict,
    Order, Output, Patience, RowLock, Select, Source, Statement, Update,
};
use crate::sql::lexer::Token;

impl Parser {
    /// WITH and what follows it.
    pub(super) fn with_statement(&mut self) -> SqlResult<Statement> {
        let with = self.with()?;
        if self.is_word("insert") {
            let mut insert = self.insert()?;
            insert.with = with;
            return Ok(Statement::Insert(Box::new(insert)));
        }
        if self.is_word("update") {
            let mut update = self.update()?;
            update.with = with;
            return Ok(Statement::Update(Box::new(update)));
        }
        if self.is_word("delete") {
            let mut delete = self.delete()?;
            delete.with = with;
            return Ok(Statement::Delete(Box::new(delete)));
        }
        let mut select = self.select()?;
        select.with = with;
        Ok(Statement::Select(Box::new(select)))
    }

    fn with(&mut self) -> SqlResult<Vec<Common>> {
        self.expect("with")?;
        if self.is_word("recursive") {
            return Err(self.unsupported("WITH RECURSIVE"));
        }
        self.list(|parser| {
            let (at, name) = parser.placed_name()?;
            let columns = match parser.is_mark("(") {
                true => parser.placed_names()?.into_iter().map(|(_, name)| name).collect(),
                false => Vec::new(),
            };
            parser.expect("as")?;
            if parser.is_word("not") || parser.is_word("materialized") {
                return Err(parser.unsupported("MATERIALIZED"));
            }
            parser.expect_mark("(")?;
            let statement = parser.deeper(Parser::query_statement)?;
            parser.expect_mark(")")?;
            Ok(Common { at, name, columns, statement: Box::new(statement) })
        })
    }

    /// What may stand in WITH, PREPARE.
    pub(super) fn query_statement(&mut self) -> SqlResult<Statement> {
        let Token::Word(word) = self.peek().clone() else {
            if self.is_mark("(") {
                return Ok(Statement::Select(Box::new(self.select()?)));
            }
            return Err(self.unexpected());
        };
        match word.as_str() {
            "select" | "values" => Ok(Statement::Select(Box::new(self.select()?))),
            "insert" => Ok(Statement::Insert(Box::new(self.insert()?))),
            "update" => Ok(Statement::Update(Box::new(self.update()?))),
            "delete" => Ok(Statement::Delete(Box::new(self.delete()?))),
            "with" => self.with_statement(),
            "merge" | "table" => Err(self.unsupported(&word.to_ascii_uppercase())),
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn select(&mut self) -> SqlResult<Select> {
        let with = match self.is_word("with") {
            true => self.with()?,
            false => Vec::new(),
        };
        let mut select = self.select_core()?;
        select.with = with;
        for word in ["union", "intersect", "except"] {
            if self.is_word(word) {
                return Err(self.unsupported(&word.to_ascii_uppercase()));
            }
        }
        if self.accept_all(&["order", "by"]) {
            select.order = self.list(Parser::order)?;
        }
        self.limits(&mut select)?;
        while self.is_word("for") {
            select.locking.push(self.locking()?);
            // LIMIT may stand behind FOR UPDATE.
            self.limits(&mut select)?;
        }
        Ok(select)
    }

    fn select_core(&mut self) -> SqlResult<Select> {
        if self.is_mark("(") {
            self.at += 1;
            let select = self.deeper(Parser::select)?;
            self.expect_mark(")")?;
            return Ok(select);
        }
        let mut select = Select::default();
        if self.accept("values") {
            let rows = self.list(|parser| {
                parser.expect_mark("(")?;
                let row = parser.list(Parser::expr)?;
                parser.expect_mark(")")?;
                Ok(row)
            })?;
            select.values = Some(rows);
            return Ok(select);
        }
        self.expect("select")?;
        self.accept("all");
        if self.accept("distinct") {
            if self.is_word("on") {
                return Err(self.unsupported("DISTINCT ON"));
            }
            select.distinct = true;
        }
        let is_empty = matches!(self.peek(), Token::End | Token::Mark(")" | ";"))
            || ["from", "where", "for"].iter().any(|word| self.is_word(word));
        if !is_empty {
            select.outputs = self.list(Parser::output)?;
        }
        if self.is_word("into") {
            return Err(self.unsupported("SELECT INTO"));
        }
        if self.accept("from") {
            select.from = self.from()?;
        }
        if self.accept("where") {
            select.filter = Some(self.expr()?);
        }
        if self.accept_all(&["group", "by"]) {
            select.group = self.list(|parser| {
                if parser.is_word("grouping") || parser.is_word("cube") || parser.is_word("rollup")
                {
                    return Err(parser.unsupported("grouping sets"));
                }
                parser.expr()
            })?;
        }
        if self.accept("having") {
            select.having = Some(self.expr()?);
        }
        if self.is_word("window") {
            return Err(self.unsupported("WINDOW"));
        }
        Ok(select)
    }

    fn limits(&mut self, select: &mut Select) -> SqlResult<()> {
        loop {
            if self.is_word("limit") && select.limit.is_none() {
                self.at += 1;
                if !self.accept("all") {
                    select.limit = Some(self.expr()?);
                }
            } else if self.is_word("offset") && select.offset.is_none() {
                self.at += 1;
                select.offset = Some(self.expr()?);
                if !self.accept("rows") {
                    self.accept("row");
                }
            } else if self.is_word("fetch") && select.limit.is_none() {
                self.fetch(select)?;
            } else {
                return Ok(());
            }
        }
    }

    /// FETCH FIRST n ROWS ONLY.
    fn fetch(&mut self, select: &mut Select) -> SqlResult<()> {
        let at = self.place();
        self.at += 1;
        if !self.accept("first") {
            self.expect("next")?;
        }
        select.limit = Some(match self.is_word("row") || self.is_word("rows") {
            true => Expr::new(at, ExprKind::Integer("1".to_owned()))?,
            false => self.expr()?,
        });
        if !self.accept("rows") {
            self.expect("row")?;
        }
        if self.is_word("with") {
            return Err(self.unsupported("WITH TIES"));
        }
        self.expect("only")
    }

    fn order(&mut self) -> SqlResult<Order> {
        let expr = self.expr()?;
        let descending = self.accept("desc") || {
            self.accept("asc");
            false
        };
        if self.is_word("using") {
            return Err(self.unsupported("ORDER BY … USING"));
        }
        let nulls_first = match self.accept("nulls") {
            false => descending,
            true => {
                self.accept("first") || {
                    self.expect("last")?;
                    false
                }
            }
        };
        Ok(Order { expr, descending, nulls_first })
    }

    fn locking(&mut self) -> SqlResult<Locking> {
        let at = self.place();
        self.expect("for")?;
        let lock = if self.accept("update") {
            RowLock::Update
        } else if self.accept_all(&["no", "key", "update"]) {
            RowLock::NoKeyUpdate
        } else if self.accept("share") {
            RowLock::Share
        } else if self.accept_all(&["key", "share"]) {
            RowLock::KeyShare
        } else {
            return Err(self.unexpected());
        };
        let of = match self.accept("of") {
            true => self.list(Parser::placed_name)?,
            false => Vec::new(),
        };
        let patience = if self.accept("nowait") {
            Patience::Fail
        } else if self.accept_all(&["skip", "locked"]) {
            Patience::Skip
        } else {
            Patience::Wait
        };
        Ok(Locking { at, lock, of, patience })
    }

    fn output(&mut self) -> SqlResult<Output> {
        let at = self.place();
        if self.accept_operator("*") {
            return Ok(Output::Star { at, table: None });
        }
        let is_table_star = self.is_name()
            && self.peek_at(1) == &Token::Mark(".")
            && self.peek_at(2) == &Token::Operator("*".to_owned());
        if is_table_star {
            let table = Some(self.name()?);
            self.at += 2;
            return Ok(Output::Star { at, table });
        }
        let expr = self.expr()?;
        let name =
            if self.accept("as") || self.is_bare_label() { Some(self.label()?) } else { None };
        Ok(Output::Expr { expr, name })
    }

    /// A word that is a column's label without AS.
    fn is_bare_label(&self) -> bool {
        match self.peek() {
            Token::Quoted(_) => true,
            Token::Word(word) => {
                const TAKEN: &[&str] = &[
                    "array",
                    "as",
                    "char",
                    "character",
                    "create",
                    "day",
                    "except",
                    "fetch",
                    "filter",
                    "for",
                    "from",
                    "grant",
                    "group",
                    "having",
                    "hour",
                    "intersect",
                    "into",
                    "isnull",
                    "limit",
                    "minute",
                    "month",
                    "notnull",
                    "offset",
                    "on",
                    "order",
                    "over",
                    "overlaps",
                    "precision",
                    "returning",
                    "second",
                    "to",
                    "union",
                    "varying",
                    "where",
                    "window",
                    "with",
                    "within",
                    "without",
                    "year",
                ];
                !TAKEN.contains(&word.as_str())
            }
            _ => false,
        }
    }

    fn from(&mut self) -> SqlResult<Vec<From>> {
        let mut all = Vec::new();
        loop {
            all.push(From { source: self.source()?, joining: Joining::Inner, on: None });
            loop {
                let joining = if self.accept("join") || self.accept_all(&["inner", "join"]) {
                    Joining::Inner
                } else if self.accept_all(&["left", "join"])
                    || self.accept_all(&["left", "outer", "join"])
                {
                    Joining::Left
                } else if self.accept_all(&["cross", "join"]) {
                    all.push(From { source: self.source()?, joining: Joining::Inner, on: None });
                    continue;
                } else if ["right", "full", "natural"].iter().any(|word| self.is_word(word)) {
                    return Err(self.unsupported("RIGHT, FULL and NATURAL joins"));
                } else {
                    break;
                };
                let source = self.source()?;
                if self.is_word("using") {
                    return Err(self.unsupported("JOIN … USING"));
                }
                self.expect("on")?;
                let on = Some(self.expr()?);
                all.push(From { source, joining, on });
            }
            if !self.accept_mark(",") {
                return Ok(all);
            }
        }
    }

    fn source(&mut self) -> SqlResult<Source> {
        let at = self.place();
        if self.is_word("lateral") {
            return Err(self.unsupported("LATERAL"));
        }
        if self.accept_mark("(") {
            let is_query = self.is_word("select") || self.is_word("values") || self.is_word("with");
            if !is_query {
                return Err(self.unsupported("joins in parentheses"));
            }
            let query = Box::new(self.deeper(Parser::select)?);
            self.expect_mark(")")?;
            let Some(alias) = self.alias()? else {
                return Err(SqlError::new("42601", "subquery in FROM must have an alias")
                    .hint("For example, FROM (SELECT ...) [AS] foo.")
                    .at(at));
            };
            return Ok(Source::Query { query, alias });
        }
        self.accept("only");
        let name = self.qualified()?;
        if self.is_mark("(") {
            // A function in FROM: parsed once more, as an expression.
            self.at -= if name.schema.is_some() { 3 } else { 1 };
            let call = self.expr()?;
            if self.is_words(&["with", "ordinality"]) {
                return Err(self.unsupported("WITH ORDINALITY"));
            }
            let alias = self.alias()?;
            return Ok(Source::Call { at, call, alias });
        }
        self.accept_operator("*");
        let alias = self.alias()?;
        if self.is_word("tablesample") {
            return Err(self.unsupported("TABLESAMPLE"));
        }
        Ok(Source::Table { name, alias })
    }

    fn alias(&mut self) -> SqlResult<Option<Alias>> {
        let name = if self.accept("as") || self.is_name() {
            self.name()?
        } else {
            return Ok(None);
        };
        let columns = match self.is_mark("(") {
            true => self.placed_names()?.into_iter().map(|(_, name)| name).collect(),
            false => Vec::new(),
        };
        Ok(Some(Alias { name, columns }))
    }

    pub(super) fn insert(&mut self) -> SqlResult<Insert> {
        self.expect("insert")?;
        self.expect("into")?;
        let table = self.qualified()?;
        let alias = match self.accept("as") {
            true => Some(self.name()?),
            false => None,
        };
        let columns = match self.is_mark("(") && !self.is_word_at(1, "select") {
            true => self.placed_names()?,
            false => Vec::new(),
        };
        let mut overriding = false;
        if self.accept("overriding") {
            if !self.accept("system") {
                return Err(self.unsupported("OVERRIDING USER VALUE"));
            }
            self.expect("value")?;
            overriding = true;
        }
        let source = match self.accept_all(&["default", "values"]) {
            true => None,
            false => Some(self.select()?),
        };
        let on_conflict = match self.is_words(&["on", "conflict"]) {
            true => Some(self.on_conflict()?),
            false => None,
        };
        let returning = self.returning()?;
        let with = Vec::new();
        Ok(Insert { with, table, alias, columns, source, on_conflict, returning, overriding })
    }

    fn on_conflict(&mut self) -> SqlResult<OnConflict> {
        let at = self.place();
        self.at += 2;
        if self.is_words(&["on", "constraint"]) {
            return Err(self.unsupported("ON CONFLICT ON CONSTRAINT"));
        }
        let target = match self.is_mark("(") {
            true => self.placed_names()?,
            false => Vec::new(),
        };
        if self.is_word("where") {
            return Err(self.unsupported("ON CONFLICT of partial indexes"));
        }
        self.expect("do")?;
        if self.accept("nothing") {
            return Ok(OnConflict::Nothing { target });
        }
        self.expect("update")?;
        if target.is_empty() {
            let text = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            let hint = "For example, ON CONFLICT (column_name).";
            return Err(SqlError::new("42601", text).hint(hint).at(at));
        }
        let set = self.set()?;
        let filter = match self.accept("where") {
            true => Some(self.expr()?),
            false => None,
        };
        Ok(OnConflict::Update { target, set, filter })
    }

    fn set(&mut self) -> SqlResult<Vec<Assignment>> {
        self.expect("set")?;
        self.list(|parser| {
            if parser.is_mark("(") {
                return Err(parser.unsupported("assignments of rows"));
            }
            let (at, column) = parser.placed_name()?;
            if parser.is_mark("[") || parser.is_mark(".") {
                return Err(parser.unsupported("assignments of parts of columns"));
            }
            parser.expect_operator("=")?;
            let value = parser.expr()?;
            Ok(Assignment { at, column, value })
        })
    }

    fn returning(&mut self) -> SqlResult<Vec<Output>> {
        match self.accept("returning") {
            true => self.list(Parser::output),
            false => Ok(Vec::new()),
        }
    }

    fn target_alias(&mut self) -> SqlResult<Option<String>> {
        if self.accept("as") || (self.is_name() && !self.is_word("set")) {
            return Ok(Some(self.name()?));
        }
        Ok(None)
    }

    pub(super) fn update(&mut self) -> SqlResult<Update> {
        self.expect("update")?;
        self.accept("only");
        let table = self.qualified()?;
        let alias = self.target_alias()?;
        let set = self.set()?;
        let from = match self.accept("from") {
            true => self.from()?,
            false => Vec::new(),
        };
        let filter = self.where_clause()?;
        let returning = self.returning()?;
        Ok(Update { with: Vec::new(), table, alias, set, from, filter, returning })
    }

    fn where_clause(&mut self) -> SqlResult<Option<Expr>> {
        if !self.accept("where") {
            return Ok(None);
        }
        if self.is_words(&["current", "of"]) {
            return Err(self.unsupported("WHERE CURRENT OF"));
        }
        self.expr().map(Some)
    }

    pub(super) fn delete(&mut self) -> SqlResult<Delete> {
        self.expect("delete")?;
        self.expect("from")?;
        self.accept("only");
        let table = self.qualified()?;
        let alias = self.target_alias()?;
        let using = match self.accept("using") {
            true => self.from()?,
            false => Vec::new(),
        };
        let filter = self.where_clause()?;
        let returning = self.returning()?;
        Ok(Delete { with: Vec::new(), table, alias, using, filter, returning })
    }
}
