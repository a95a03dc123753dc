//! A statement as it was written. Names are not resolved, types not known.

use std::sync::Arc;

/// An expression and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// Bytes from the beginning of the text.
    pub(crate) at: usize,
    /// How many expressions it is deep: bounded by the parser.
    pub(crate) depth: u16,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Null,
    Default,
    Bool(bool),
    Integer(String),
    Decimal(String),
    Text(String),
    Parameter(u16),
    Column(Vec<String>),
    Unary(String, Box<Expr>),
    Binary(String, Box<Expr>, Box<Expr>),
    /// All of them: true of none.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        operand: Box<Expr>,
        negated: bool,
    },
    /// `IS [NOT] TRUE | FALSE`; `None` is UNKNOWN.
    IsBool {
        operand: Box<Expr>,
        value: Option<bool>,
        negated: bool,
    },
    IsDistinct {
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    In {
        operand: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    InQuery {
        operand: Box<Expr>,
        query: Box<Select>,
        negated: bool,
    },
    Exists(Box<Select>),
    Scalar(Box<Select>),
    /// `operand operator ANY (array)`.
    Any {
        operator: String,
        operand: Box<Expr>,
        array: Box<Expr>,
    },
    Between {
        operand: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
        negated: bool,
    },
    Like {
        operand: Box<Expr>,
        pattern: Box<Expr>,
        negated: bool,
        folds_case: bool,
    },
    Call {
        name: Vec<String>,
        arguments: Vec<Expr>,
        star: bool,
    },
    Cast {
        operand: Box<Expr>,
        to: TypeName,
    },
    Case {
        operand: Option<Box<Expr>>,
        arms: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Array(Vec<Expr>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeName {
    pub(crate) at: usize,
    /// In lower case, of one word: `timestamptz`, not `timestamp with time zone`.
    pub(crate) name: String,
    pub(crate) length: Option<i32>,
    pub(crate) is_array: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// `*` or `t.*`.
    Star {
        at: usize,
        table: Option<String>,
    },
    Expr {
        expr: Expr,
        name: Option<String>,
    },
}

/// The strengths of row locks, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowLock {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

/// What to do about a lock that somebody else has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Wait,
    Skip,
    Fail,
}

#[derive(Clone, Debug)]
pub(crate) struct Locking {
    pub(crate) at: usize,
    pub(crate) lock: RowLock,
    pub(crate) of: Vec<(usize, String)>,
    pub(crate) patience: Patience,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joining {
    Inner,
    Left,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Table { name: Name, alias: Option<Alias> },
    Query { query: Box<Select>, alias: Alias },
    Call { at: usize, call: Expr, alias: Option<Alias> },
}

#[derive(Clone, Debug)]
pub(crate) struct Alias {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
}

/// A source and how it joins what stands before it.
#[derive(Clone, Debug)]
pub(crate) struct From {
    pub(crate) source: Source,
    pub(crate) joining: Joining,
    pub(crate) on: Option<Expr>,
}

/// A name that may be qualified by a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) at: usize,
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Select {
    pub(crate) with: Vec<Common>,
    pub(crate) outputs: Vec<Output>,
    /// `VALUES` in place of all else.
    pub(crate) values: Option<Vec<Vec<Expr>>>,
    pub(crate) distinct: bool,
    pub(crate) from: Vec<From>,
    pub(crate) filter: Option<Expr>,
    pub(crate) group: Vec<Expr>,
    pub(crate) having: Option<Expr>,
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) locking: Vec<Locking>,
}

/// A common table expression.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    pub(crate) statement: Box<Statement>,
}

#[derive(Clone, Debug)]
pub(crate) enum OnConflict {
    Nothing { target: Vec<(usize, String)> },
    Update { target: Vec<(usize, String)>, set: Vec<Assignment>, filter: Option<Expr> },
}

#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) at: usize,
    pub(crate) column: String,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub(crate) with: Vec<Common>,
    pub(crate) table: Name,
    pub(crate) alias: Option<String>,
    pub(crate) columns: Vec<(usize, String)>,
    /// `None`: DEFAULT VALUES.
    pub(crate) source: Option<Select>,
    pub(crate) on_conflict: Option<OnConflict>,
    pub(crate) returning: Vec<Output>,
    pub(crate) overriding: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) with: Vec<Common>,
    pub(crate) table: Name,
    pub(crate) alias: Option<String>,
    pub(crate) set: Vec<Assignment>,
    pub(crate) from: Vec<From>,
    pub(crate) filter: Option<Expr>,
    pub(crate) returning: Vec<Output>,
}

#[derive(Clone, Debug)]
pub(crate) struct Delete {
    pub(crate) with: Vec<Common>,
    pub(crate) table: Name,
    pub(crate) alias: Option<String>,
    pub(crate) using: Vec<From>,
    pub(crate) filter: Option<Expr>,
    pub(crate) returning: Vec<Output>,
}

#[derive(Clone, Debug)]
pub(crate) struct ColumnDefinition {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) data_type: TypeName,
    pub(crate) constraints: Vec<ColumnConstraint>,
}

#[derive(Clone, Debug)]
pub(crate) enum ColumnConstraint {
    NotNull,
    Null,
    /// The text of the expression.
    Default(String),
    PrimaryKey {
        name: Option<String>,
        at: usize,
    },
    Unique {
        name: Option<String>,
        at: usize,
    },
    Check {
        name: Option<String>,
        text: String,
    },
    /// GENERATED … AS IDENTITY.
    Identity {
        always: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum TableConstraint {
    Key { name: Option<String>, columns: Vec<(usize, String)>, is_primary: bool, at: usize },
    Check { name: Option<String>, text: String },
}

#[derive(Clone, Debug)]
pub(crate) struct CreateTable {
    pub(crate) name: Name,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) constraints: Vec<TableConstraint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Modes {
    pub(crate) isolation: Option<(usize, Isolation)>,
    pub(crate) read_only: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetValue {
    Default,
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropKind {
    Table,
    Index,
    Sequence,
}

/// Options of CREATE SEQUENCE.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceOptions {
    pub(crate) start: Option<i64>,
    pub(crate) increment: Option<i64>,
    pub(crate) minimum: Option<i64>,
    pub(crate) maximum: Option<i64>,
    pub(crate) cycle: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Select(Box<Select>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    CreateTable(Box<CreateTable>),
    CreateIndex {
        name: Option<String>,
        table: Name,
        columns: Vec<(usize, String)>,
        unique: bool,
        if_not_exists: bool,
    },
    CreateSequence {
        name: Name,
        if_not_exists: bool,
        options: SequenceOptions,
    },
    Drop {
        kind: DropKind,
        names: Vec<Name>,
        if_exists: bool,
    },
    Truncate {
        names: Vec<Name>,
        restart: bool,
    },
    Begin {
        modes: Modes,
        is_start: bool,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Set {
        local: bool,
        name: String,
        value: SetValue,
    },
    SetTransaction {
        modes: Modes,
        session: bool,
    },
    Show(String),
    /// `None`: all.
    Reset(Option<String>),
    Lock {
        names: Vec<Name>,
        mode: u8,
        nowait: bool,
    },
    Prepare {
        name: String,
        types: Vec<TypeName>,
        statement: Box<Parsed>,
    },
    Execute {
        name: String,
        arguments: Vec<Expr>,
    },
    /// `None`: all.
    Deallocate(Option<String>),
    DiscardAll,
    /// VACUUM, ANALYZE, CHECKPOINT.
    Maintain(&'static str),
    Listen(String),
    Notify {
        channel: String,
        payload: String,
    },
    /// `None`: all.
    Unlisten(Option<String>),
}

/// A statement with its text.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    pub(crate) statement: Statement,
    /// The whole text in which it stands: positions count from its beginning.
    pub(crate) text: Arc<str>,
}
