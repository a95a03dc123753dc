//! Statements whose names are resolved and whose types are known: what can be executed.
//!
//! [`analyse`] makes them from a syntax tree and the catalogue. A plan names the tables
//! that it needs and how they must be locked; it is good for one version of the catalogue.

mod aggregate;
mod analyse;
mod coerce;
mod definition;
mod expression;
mod function;
mod modify;
mod operator;
mod select;

use std::sync::Arc;

use super::catalogue::{RelationId, Table};
use super::locks::Mode;
use super::sql::ast::{DropKind, Joining, Parsed, Patience, RowLock};
use super::value::{Type, Value};

pub(crate) use analyse::{analyse, constant};
pub(crate) use coerce::change;
pub(crate) use definition::{NewIndex, NewTable};
pub(crate) use function::Function;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
}

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Constant(Value),
    /// Counted from 0.
    Parameter(usize),
    /// Of the row at hand.
    Column(usize),
    /// What a subquery gave that ran before: one value.
    Scalar(usize),
    /// Whether that subquery gave a row.
    Exists(usize),
    /// The result of an aggregate of the group at hand.
    Aggregate(usize),
    /// An expression of GROUP BY.
    Group(usize),
    Arithmetic(Arithmetic, Type, Box<Node>, Box<Node>),
    Negative(Type, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    IsNull(Box<Node>, bool),
    IsBool(Box<Node>, Option<bool>, bool),
    IsDistinct(Box<Node>, Box<Node>, bool),
    In(Box<Node>, Vec<Node>, bool),
    InQuery(Box<Node>, usize, bool),
    Any(Comparison, Box<Node>, Box<Node>),
    Like(Box<Node>, Box<Node>, bool, bool),
    Concatenate(Box<Node>, Box<Node>),
    Case(Vec<(Node, Node)>, Box<Node>),
    Coalesce(Vec<Node>),
    NullIf(Box<Node>, Box<Node>),
    /// Greatest, or least.
    Extreme(bool, Vec<Node>),
    Convert {
        from: Type,
        to: Type,
        length: Option<i32>,
        explicit: bool,
        operand: Box<Node>,
    },
    Call(Function, Vec<Node>),
    Array(Vec<Node>),
}

/// An expression with its type and its place.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) node: Node,
    pub(crate) data_type: Type,
    pub(crate) at: usize,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) data_type: Type,
    pub(crate) length: Option<i32>,
    /// The table and the column's number in it, if it is one.
    pub(crate) origin: Option<(RelationId, i16)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    CountAll,
    Count,
    /// Of this type.
    Sum(Type),
    Min,
    Max,
    All,
    Some,
}

/// What a FROM item reads.
#[derive(Clone, Debug)]
pub(crate) enum Reads {
    Table(Arc<Table>),
    /// The result of a subquery that ran before.
    Query(usize),
    /// A view of the server's state.
    View(View),
    /// `generate_series(from, to, step)`.
    Series(Box<Node>, Box<Node>, Box<Node>),
    /// A function of one value.
    Call(Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Locks,
    Activity,
    Replication,
    Settings,
}

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) reads: Reads,
    pub(crate) joining: Joining,
    pub(crate) on: Option<Node>,
    /// Its columns in the joined row.
    pub(crate) first_column: usize,
    pub(crate) columns: usize,
    /// An index with a value for each of its columns, if the filter has them.
    pub(crate) lookup: Option<(RelationId, Vec<Node>)>,
    pub(crate) locking: Option<(RowLock, Patience)>,
}

/// A subquery that runs before the statement.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    pub(crate) plan: Plan,
    /// At most one row, else 21000.
    pub(crate) is_scalar: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Select {
    pub(crate) sources: Vec<Source>,
    pub(crate) filter: Option<Node>,
    /// Rows of VALUES.
    pub(crate) values: Option<Vec<Vec<Node>>>,
    pub(crate) is_grouped: bool,
    pub(crate) group: Vec<Node>,
    pub(crate) aggregates: Vec<(Aggregate, Option<Node>)>,
    pub(crate) having: Option<Node>,
    pub(crate) outputs: Vec<Node>,
    pub(crate) distinct: bool,
    pub(crate) order: Vec<Sort>,
    pub(crate) limit: Option<Node>,
    pub(crate) offset: Option<Node>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(crate) node: Node,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub(crate) table: Arc<Table>,
    /// Gives a value for each column of the table.
    pub(crate) rows: Rows,
    pub(crate) conflict: Option<Conflict>,
    pub(crate) checks: Vec<(String, Node)>,
    pub(crate) returning: Option<Vec<Node>>,
}

/// Where an INSERT has its rows from.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    /// Each written out.
    Values(Vec<Vec<Node>>),
    /// A query; then for each column an expression over its row.
    Query(Box<Select>, Vec<Node>),
}

/// Columns and what they become, and of which rows.
pub(crate) type Assignments = (Vec<(usize, Node)>, Option<Node>);

#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    /// The indexes that decide; of DO NOTHING without a target all.
    pub(crate) arbiters: Vec<RelationId>,
    /// What becomes of the row that is there: column and value over it and `excluded`.
    pub(crate) update: Option<Assignments>,
}

#[derive(Clone, Debug)]
pub(crate) struct Modify {
    pub(crate) table: Arc<Table>,
    /// The table itself is the first source.
    pub(crate) select: Select,
    /// Column and value over the joined row; none for DELETE.
    pub(crate) set: Vec<(usize, Node)>,
    pub(crate) deletes: bool,
    pub(crate) checks: Vec<(String, Node)>,
    /// Over the joined row, the table's columns being those written.
    pub(crate) returning: Option<Vec<Node>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Select(Box<Select>),
    Insert(Box<Insert>),
    Modify(Box<Modify>),
    CreateTable(Box<NewTable>),
    CreateIndex {
        table: RelationId,
        index: NewIndex,
        if_not_exists: bool,
    },
    Drop {
        kind: DropKind,
        relations: Vec<RelationId>,
    },
    Truncate {
        tables: Vec<RelationId>,
        restart: bool,
    },
    LockTables {
        tables: Vec<RelationId>,
        mode: Mode,
        nowait: bool,
    },
    /// Anything that needs no names: executed as it was written.
    Utility(Arc<Parsed>),
    /// It has nothing to do: IF EXISTS.
    Nothing,
}

/// A statement that can be executed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) action: Action,
    pub(crate) earlier: Vec<Earlier>,
    /// The columns of the result; `None`: it gives no rows.
    pub(crate) fields: Option<Vec<Field>>,
    pub(crate) parameters: Vec<Type>,
    /// The tables that must be locked, in order.
    pub(crate) tables: Vec<(RelationId, Mode)>,
    /// The command's word in its completion.
    pub(crate) tag: &'static str,
    /// It changes data or locks rows: refused where only reading is allowed.
    pub(crate) writes: bool,
    /// Of the catalogue.
    pub(crate) version: u64,
    /// What to tell before it runs.
    pub(crate) notices: Vec<super::error::SqlError>,
}
