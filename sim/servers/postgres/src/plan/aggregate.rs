//! Aggregates, and what may stand beside them.

use super::analyse::Analyser;
use super::{Aggregate, Node, Typed};
use crate::error::{SqlError, SqlResult};
use crate::sql::ast::Expr;
use crate::value::Type;

impl Analyser<'_> {
    /// The call as an aggregate, if its name is one.
    pub(super) fn aggregate(
        &mut self,
        name: &str,
        arguments: &[Expr],
        star: bool,
        at: usize,
    ) -> SqlResult<Option<Typed>> {
        let is_known =
            matches!(name, "count" | "sum" | "min" | "max" | "bool_and" | "bool_or" | "every");
        if matches!(name, "avg" | "array_agg" | "string_agg" | "json_agg" | "stddev") {
            return Err(SqlError::unsupported(at, format!("the aggregate {name}")));
        }
        if star && name != "count" {
            let told = format!("{name}(*) specified, but {name} is not an aggregate function");
            return Err(SqlError::new("42809", told).at(at));
        }
        if !is_known {
            return Ok(None);
        }
        let Some(outside) = self.aggregates.take() else {
            let told = "aggregate functions are not allowed here";
            return Err(SqlError::new("42803", told).at(at));
        };
        // Inside of its argument none may stand.
        let argument = match arguments {
            [] if star => None,
            [argument] => Some(self.expr(argument)?),
            _ => {
                let told = format!("function {name} does not exist with these arguments");
                return Err(SqlError::new("42883", told).at(at));
            }
        };
        self.aggregates = Some(outside);
        let (aggregate, node, data_type) = match (name, argument) {
            ("count", None) => (Aggregate::CountAll, None, Type::Int8),
            ("count", Some(argument)) => {
                let argument = self.settle_one(argument, Type::Text)?;
                (Aggregate::Count, Some(argument.node), Type::Int8)
            }
            ("sum", Some(argument)) => {
                let result = match argument.data_type {
                    Type::Int2 | Type::Int4 => Type::Int8,
                    Type::Int8 | Type::Numeric => Type::Numeric,
                    Type::Float8 => Type::Float8,
                    Type::Interval => Type::Interval,
                    other => {
                        let told = format!("function sum({}) does not exist", other.name());
                        let hint = "No function matches the given name and argument types. \
                                    You might need to add explicit type casts.";
                        return Err(SqlError::new("42883", told).hint(hint).at(at));
                    }
                };
                (Aggregate::Sum(result), Some(argument.node), result)
            }
            ("min" | "max", Some(argument)) => {
                let argument = self.settle_one(argument, Type::Text)?;
                let data_type = match argument.data_type {
                    Type::Varchar => Type::Text,
                    Type::Bool | Type::Void => {
                        let told = format!(
                            "function {name}({}) does not exist",
                            argument.data_type.name()
                        );
                        let hint = "No function matches the given name and argument types. \
                                    You might need to add explicit type casts.";
                        return Err(SqlError::new("42883", told).hint(hint).at(at));
                    }
                    other => other,
                };
                let which = if name == "min" { Aggregate::Min } else { Aggregate::Max };
                (which, Some(argument.node), data_type)
            }
            (_, Some(argument)) => {
                let argument = self.settle_one(argument, Type::Bool)?;
                if argument.data_type != Type::Bool {
                    let told =
                        format!("function {name}({}) does not exist", argument.data_type.name());
                    return Err(SqlError::new("42883", told).at(at));
                }
                let which = if name == "bool_or" { Aggregate::Some } else { Aggregate::All };
                (which, Some(argument.node), Type::Bool)
            }
            (_, None) => return Ok(None),
        };
        let all = self.aggregates.get_or_insert_default();
        let number = all.iter().position(|known| *known == (aggregate, node.clone()));
        let number = number.unwrap_or_else(|| {
            all.push((aggregate, node));
            all.len() - 1
        });
        Ok(Some(Typed { node: Node::Aggregate(number), data_type, at }))
    }

    /// Columns may stand beside aggregates only as GROUP BY has them.
    pub(super) fn group_node(&self, node: Node, group: &[Node], at: usize) -> SqlResult<Node> {
        if let Some(number) = group.iter().position(|known| *known == node) {
            return Ok(Node::Group(number));
        }
        if let Node::Column(index) = node {
            let shown = match self.scope.get(index) {
                Some(visible) => format!("{}.{}", visible.table, visible.field.name),
                None => String::new(),
            };
            let told = format!(
                "column \"{shown}\" must appear in the GROUP BY clause \
                 or be used in an aggregate function"
            );
            return Err(SqlError::new("42803", told).at(at));
        }
        node.map_children(&mut |child| self.group_node(child, group, at))
    }
}

impl Node {
    /// The same node over other children.
    pub(super) fn map_children(
        self,
        map: &mut dyn FnMut(Node) -> SqlResult<Node>,
    ) -> SqlResult<Node> {
        let mut one = |node: Box<Node>| map(*node).map(Box::new);
        Ok(match self {
            Node::Arithmetic(operator, to, left, right) => {
                Node::Arithmetic(operator, to, one(left)?, one(right)?)
            }
            Node::Negative(to, operand) => Node::Negative(to, one(operand)?),
            Node::Compare(comparison, left, right) => {
                Node::Compare(comparison, one(left)?, one(right)?)
            }
            Node::Not(operand) => Node::Not(one(operand)?),
            Node::IsNull(operand, negated) => Node::IsNull(one(operand)?, negated),
            Node::IsBool(operand, value, negated) => Node::IsBool(one(operand)?, value, negated),
            Node::IsDistinct(left, right, negated) => {
                Node::IsDistinct(one(left)?, one(right)?, negated)
            }
            Node::InQuery(operand, number, negated) => {
                Node::InQuery(one(operand)?, number, negated)
            }
            Node::Any(comparison, left, right) => Node::Any(comparison, one(left)?, one(right)?),
            Node::Like(left, right, negated, folds) => {
                Node::Like(one(left)?, one(right)?, negated, folds)
            }
            Node::Concatenate(left, right) => Node::Concatenate(one(left)?, one(right)?),
            Node::NullIf(left, right) => Node::NullIf(one(left)?, one(right)?),
            Node::Convert { from, to, length, explicit, operand } => {
                Node::Convert { from, to, length, explicit, operand: one(operand)? }
            }
            Node::And(all) => Node::And(each(all, map)?),
            Node::Or(all) => Node::Or(each(all, map)?),
            Node::Coalesce(all) => Node::Coalesce(each(all, map)?),
            Node::Extreme(greatest, all) => Node::Extreme(greatest, each(all, map)?),
            Node::Array(all) => Node::Array(each(all, map)?),
            Node::Call(function, all) => Node::Call(function, each(all, map)?),
            Node::In(operand, list, negated) => {
                let operand = Box::new(map(*operand)?);
                Node::In(operand, each(list, map)?, negated)
            }
            Node::Case(arms, otherwise) => {
                let mut mapped = Vec::new();
                for (when, then) in arms {
                    mapped.push((map(when)?, map(then)?));
                }
                Node::Case(mapped, Box::new(map(*otherwise)?))
            }
            leaf => leaf,
        })
    }

    /// Whether any node of it is one of these.
    pub(super) fn any(&self, is_it: &mut dyn FnMut(&Node) -> bool) -> bool {
        if is_it(self) {
            return true;
        }
        let mut found = false;
        let _: SqlResult<Node> = self.clone().map_children(&mut |child| {
            found |= child.any(is_it);
            Ok(child)
        });
        found
    }
}

fn each(all: Vec<Node>, map: &mut dyn FnMut(Node) -> SqlResult<Node>) -> SqlResult<Vec<Node>> {
    all.into_iter().map(map).collect()
}
