//! Which types the operators take.

use super::analyse::Analyser;
use super::coerce::{Context, convert};
use super::{Arithmetic, Comparison, Node, Typed};
use crate::error::{SqlError, SqlResult};
use crate::value::Type;

pub(super) fn comparison(operator: &str) -> Option<Comparison> {
    Some(match operator {
        "=" => Comparison::Equal,
        "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        ">" => Comparison::Greater,
        "<=" => Comparison::LessOrEqual,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn missing(operator: &str, left: Type, right: Type, at: usize) -> SqlError {
    let (left, right) = (left.name(), right.name());
    let told = format!("operator does not exist: {left} {operator} {right}");
    SqlError::new("42883", told)
        .hint(
            "No operator matches the given name and argument types. \
             You might need to add explicit type casts.",
        )
        .at(at)
}

impl Analyser<'_> {
    /// Both operands as one type that can be compared.
    pub(super) fn comparable(
        &mut self,
        operator: &str,
        left: Typed,
        right: Typed,
        at: usize,
    ) -> SqlResult<(Typed, Typed)> {
        let (left, right) = self.settle(left, right, Type::Text)?;
        let (one, other) = (left.data_type, right.data_type);
        let to = match (one.rank(), other.rank()) {
            (Some(left), Some(right)) => {
                if left >= right {
                    one
                } else {
                    other
                }
            }
            _ if one.is_text() && other.is_text() => Type::Text,
            _ if one == other && one != Type::Void => one,
            _ if one == Type::Oid && other.is_integer() => Type::Oid,
            _ if other == Type::Oid && one.is_integer() => Type::Oid,
            _ => return Err(missing(operator, one, other, at)),
        };
        let left = convert(left, to, None, Context::Implicit)?;
        Ok((left, convert(right, to, None, Context::Implicit)?))
    }

    /// Constants and parameters without a type take that of the other operand.
    fn settle(&mut self, left: Typed, right: Typed, both: Type) -> SqlResult<(Typed, Typed)> {
        let (left_type, right_type) = (left.data_type, right.data_type);
        let (left_to, right_to) = match (left_type, right_type) {
            (Type::Unknown, Type::Unknown) => (both, both),
            (Type::Unknown, known) => (known, known),
            (known, Type::Unknown) => (known, known),
            (left, right) => (left, right),
        };
        Ok((self.settle_one(left, left_to)?, self.settle_one(right, right_to)?))
    }

    pub(super) fn settle_one(&mut self, typed: Typed, to: Type) -> SqlResult<Typed> {
        if typed.data_type != Type::Unknown {
            return Ok(typed);
        }
        if let Node::Parameter(number) = typed.node {
            return Ok(self.decide_parameter(number, to, typed.at));
        }
        convert(typed, to, None, Context::Implicit)
    }

    pub(super) fn compare(
        &mut self,
        operator: &str,
        left: Typed,
        right: Typed,
        at: usize,
    ) -> SqlResult<Typed> {
        let Some(comparison) = comparison(operator) else {
            return Err(missing(operator, left.data_type, right.data_type, at));
        };
        let (left, right) = self.comparable(operator, left, right, at)?;
        let node = Node::Compare(comparison, Box::new(left.node), Box::new(right.node));
        Ok(Typed { node, data_type: Type::Bool, at })
    }

    pub(super) fn binary(
        &mut self,
        operator: &str,
        left: Typed,
        right: Typed,
        at: usize,
    ) -> SqlResult<Typed> {
        if comparison(operator).is_some() {
            return self.compare(operator, left, right, at);
        }
        if operator == "||" {
            return self.concatenate(left, right, at);
        }
        let arithmetic = match operator {
            "+" => Arithmetic::Plus,
            "-" => Arithmetic::Minus,
            "*" => Arithmetic::Times,
            "/" => Arithmetic::Divide,
            "%" => Arithmetic::Remainder,
            _ => return Err(missing(operator, left.data_type, right.data_type, at)),
        };
        // A constant beside a moment is a span, unless a moment is taken from a moment.
        let (left, right) = match (left.data_type, right.data_type, arithmetic) {
            (Type::Timestamptz, Type::Unknown, Arithmetic::Plus) => {
                (left, self.settle_one(right, Type::Interval)?)
            }
            (Type::Unknown, Type::Unknown, _) => {
                let told = format!("operator is not unique: unknown {operator} unknown");
                let hint = "Could not choose a best candidate operator. \
                            You might need to add explicit type casts.";
                return Err(SqlError::new("42725", told).hint(hint).at(at));
            }
            _ => self.settle(left, right, Type::Unknown)?,
        };
        let (one, other) = (left.data_type, right.data_type);
        use Arithmetic::{Divide, Minus, Plus, Remainder, Times};
        let (left_to, right_to, result) = match (one, arithmetic, other) {
            _ if one.rank().is_some() && other.rank().is_some() => {
                let to = if one.rank() >= other.rank() { one } else { other };
                match (to, arithmetic) {
                    (Type::Numeric, Divide) => {
                        return Err(SqlError::unsupported(at, "division of numeric"));
                    }
                    (Type::Float8, Remainder) => return Err(missing(operator, one, other, at)),
                    _ => (to, to, to),
                }
            }
            (Type::Timestamptz, Plus | Minus, Type::Interval)
            | (Type::Interval, Plus, Type::Timestamptz) => (one, other, Type::Timestamptz),
            (Type::Timestamptz, Minus, Type::Timestamptz) => (one, other, Type::Interval),
            (Type::Interval, Plus | Minus, Type::Interval) => (one, other, Type::Interval),
            (Type::Interval, Times | Divide, _) if other.rank().is_some() => {
                (one, Type::Float8, Type::Interval)
            }
            (_, Times, Type::Interval) if one.rank().is_some() => {
                (Type::Float8, other, Type::Interval)
            }
            _ => return Err(missing(operator, one, other, at)),
        };
        let left = Box::new(convert(left, left_to, None, Context::Implicit)?.node);
        let right = Box::new(convert(right, right_to, None, Context::Implicit)?.node);
        let node = Node::Arithmetic(arithmetic, result, left, right);
        Ok(Typed { node, data_type: result, at })
    }

    fn concatenate(&mut self, left: Typed, right: Typed, at: usize) -> SqlResult<Typed> {
        let is_text = |typed: &Typed| typed.data_type.is_text() || typed.data_type == Type::Unknown;
        if !is_text(&left) && !is_text(&right) {
            return Err(missing("||", left.data_type, right.data_type, at));
        }
        if left.data_type.element().is_some() || right.data_type.element().is_some() {
            return Err(SqlError::unsupported(at, "concatenation of arrays"));
        }
        let mut sides = Vec::new();
        for side in [left, right] {
            let side = self.settle_one(side, Type::Text)?;
            sides.push(Box::new(convert(side, Type::Text, None, Context::Assignment)?.node));
        }
        let (Some(right), Some(left)) = (sides.pop(), sides.pop()) else {
            return Err(missing("||", Type::Text, Type::Text, at));
        };
        let node = Node::Concatenate(left, right);
        Ok(Typed { node, data_type: Type::Text, at })
    }

    pub(super) fn unary(&mut self, operator: &str, operand: Typed, at: usize) -> SqlResult<Typed> {
        let operand = self.settle_one(operand, Type::Float8)?;
        let data_type = operand.data_type;
        if data_type.rank().is_none() && data_type != Type::Interval {
            let told = format!("operator does not exist: {operator} {}", data_type.name());
            let hint = "No operator matches the given name and argument type. \
                        You might need to add an explicit type cast.";
            return Err(SqlError::new("42883", told).hint(hint).at(at));
        }
        let node = match operator {
            "-" => Node::Negative(data_type, Box::new(operand.node)),
            _ => operand.node,
        };
        Ok(Typed { node, data_type, at })
    }
}
