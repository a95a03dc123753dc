//! SQL text as statements: lexer, syntax tree, parser.
//!
//! The grammar is the part of PostgreSQL's that this server executes. What PostgreSQL
//! has beyond it is refused with 0A000, what is no SQL with 42601, each at its place.

pub(crate) mod ast;
mod lexer;
mod parser;

pub(crate) use parser::parse;
