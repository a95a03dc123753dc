//! Values of expressions.
//!
//! A function that must wait cannot, here: the state is locked. It stops the evaluation
//! and says what it needs; when that is there, the evaluation is done once more, and
//! calls that were made before give what they gave ([`Core::memo`]).

mod call;

use std::cmp::Ordering;

use super::error::{SqlError, SqlResult};
use super::heap::Row;
use super::locks::{Mode, Scope, Tag};
use super::plan::{Arithmetic, Comparison, Function, Node};
use super::session::Core;
use super::state::{Shared, State};
use super::value::{Numeric, Type, Value};

/// Why an evaluation ended without a value.
#[derive(Debug)]
pub(crate) enum Stop {
    Error(SqlError),
    Wait(Need),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(error)
    }
}

/// What a function waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// The session is in the queue of this lock.
    Lock { tag: Tag, mode: Mode, scope: Scope },
    /// This moment of the monotonic clock.
    Sleep(std::time::Duration),
    /// Nothing: it would wait in a circle with this session.
    Deadlock { tag: Tag, mode: Mode, other: super::transaction::Pid, other_mode: Mode },
    /// The standby is a primary.
    Promotion,
}

pub(crate) type Evaluated<T> = Result<T, Stop>;

/// Where an evaluation happens.
pub(crate) struct Environment<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) state: &'a mut State,
    pub(crate) core: &'a mut Core,
}

/// What an expression is evaluated over.
#[derive(Clone, Copy, Default)]
pub(crate) struct Frame<'a> {
    pub(crate) row: &'a [Value],
    pub(crate) parameters: &'a [Value],
    /// The results of the subqueries that ran before.
    pub(crate) earlier: &'a [Vec<Row>],
    pub(crate) group: &'a [Value],
    pub(crate) aggregates: &'a [Value],
}

fn out_of_range(data_type: Type) -> SqlError {
    SqlError::new("22003", format!("{} out of range", data_type.name()))
}

pub(crate) fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }
}

/// Three-valued: `None` is NULL.
fn truth(value: Option<bool>) -> Value {
    value.map_or(Value::Null, Value::Bool)
}

impl Environment<'_> {
    /// Counts what a statement has made on its way to its result: rows, and texts.
    ///
    /// # Errors
    /// 53200 when it is more than the server keeps.
    pub(crate) fn make(&mut self, bytes: usize) -> SqlResult<()> {
        self.core.made_bytes = self.core.made_bytes.saturating_add(bytes);
        match self.core.made_bytes > self.shared.settings.memory_bytes {
            true => Err(SqlError::new("53200", "out of memory")
                .detail("The simulated server has a limit on what a statement makes on its way.")),
            false => Ok(()),
        }
    }

    /// A text that was made, and is counted.
    fn made(&mut self, value: Value) -> SqlResult<Value> {
        self.make(value.str().len())?;
        Ok(value)
    }

    /// The values of one row of many, which are all kept.
    pub(crate) fn row(&mut self, nodes: &[Node], frame: Frame<'_>) -> Evaluated<Row> {
        let row = self.values(nodes, frame)?;
        self.make(size_of_val(&*row))?;
        Ok(row)
    }

    /// Whether a condition is true: neither false nor NULL.
    pub(crate) fn is_true(&mut self, node: &Node, frame: Frame<'_>) -> Evaluated<bool> {
        Ok(self.value(node, frame)?.bool() == Some(true))
    }

    pub(crate) fn values(&mut self, nodes: &[Node], frame: Frame<'_>) -> Evaluated<Row> {
        let mut row = Vec::with_capacity(nodes.len());
        for node in nodes {
            row.push(self.value(node, frame)?);
        }
        Ok(row.into())
    }

    pub(crate) fn value(&mut self, node: &Node, frame: Frame<'_>) -> Evaluated<Value> {
        Ok(match node {
            Node::Constant(value) => value.clone(),
            Node::Parameter(number) => {
                frame.parameters.get(*number).cloned().unwrap_or(Value::Null)
            }
            Node::Column(index) => frame.row.get(*index).cloned().unwrap_or(Value::Null),
            Node::Group(index) => frame.group.get(*index).cloned().unwrap_or(Value::Null),
            Node::Aggregate(index) => frame.aggregates.get(*index).cloned().unwrap_or(Value::Null),
            Node::Scalar(number) => {
                let row = frame.earlier.get(*number).and_then(|rows| rows.first());
                row.and_then(|row| row.first()).cloned().unwrap_or(Value::Null)
            }
            Node::Exists(number) => {
                Value::Bool(frame.earlier.get(*number).is_some_and(|rows| !rows.is_empty()))
            }
            Node::Arithmetic(operator, data_type, left, right) => {
                let (left, right) = (self.value(left, frame)?, self.value(right, frame)?);
                if left.is_null() || right.is_null() {
                    return Ok(Value::Null);
                }
                arithmetic(*operator, *data_type, &left, &right)?
            }
            Node::Negative(data_type, operand) => {
                negative(*data_type, self.value(operand, frame)?)?
            }
            Node::Compare(comparison, left, right) => {
                let (left, right) = (self.value(left, frame)?, self.value(right, frame)?);
                if left.is_null() || right.is_null() {
                    return Ok(Value::Null);
                }
                Value::Bool(holds(*comparison, left.cmp(&right)))
            }
            Node::And(all) => self.junction(all, false, frame)?,
            Node::Or(all) => self.junction(all, true, frame)?,
            Node::Not(operand) => truth(self.value(operand, frame)?.bool().map(|value| !value)),
            Node::IsNull(operand, negated) => {
                Value::Bool(self.value(operand, frame)?.is_null() != *negated)
            }
            Node::IsBool(operand, wanted, negated) => {
                Value::Bool((self.value(operand, frame)?.bool() == *wanted) != *negated)
            }
            Node::IsDistinct(left, right, negated) => {
                let (left, right) = (self.value(left, frame)?, self.value(right, frame)?);
                Value::Bool((left != right) != *negated)
            }
            Node::In(operand, list, negated) => {
                let operand = self.value(operand, frame)?;
                let mut list_values = Vec::with_capacity(list.len());
                for element in list {
                    list_values.push(self.value(element, frame)?);
                }
                among(&operand, Comparison::Equal, &list_values, *negated)
            }
            Node::InQuery(operand, number, negated) => {
                let operand = self.value(operand, frame)?;
                let rows = frame.earlier.get(*number).map_or(&[][..], Vec::as_slice);
                let list: Vec<Value> = rows.iter().filter_map(|row| row.first().cloned()).collect();
                among(&operand, Comparison::Equal, &list, *negated)
            }
            Node::Any(comparison, operand, array) => {
                let (operand, array) = (self.value(operand, frame)?, self.value(array, frame)?);
                match array {
                    Value::Array(elements) => among(&operand, *comparison, &elements, false),
                    _ => Value::Null,
                }
            }
            Node::Like(operand, pattern, negated, folds_case) => {
                let (operand, pattern) = (self.value(operand, frame)?, self.value(pattern, frame)?);
                if operand.is_null() || pattern.is_null() {
                    return Ok(Value::Null);
                }
                let fits = match folds_case {
                    true => like(&operand.str().to_lowercase(), &pattern.str().to_lowercase())?,
                    false => like(operand.str(), pattern.str())?,
                };
                Value::Bool(fits != *negated)
            }
            Node::Concatenate(left, right) => {
                let (left, right) = (self.value(left, frame)?, self.value(right, frame)?);
                if left.is_null() || right.is_null() {
                    return Ok(Value::Null);
                }
                self.make(left.str().len() + right.str().len())?;
                Value::text(format!("{}{}", left.str(), right.str()))
            }
            Node::Case(arms, otherwise) => {
                for (when, then) in arms {
                    if self.is_true(when, frame)? {
                        return self.value(then, frame);
                    }
                }
                self.value(otherwise, frame)?
            }
            Node::Coalesce(all) => {
                for node in all {
                    let value = self.value(node, frame)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Value::Null
            }
            Node::NullIf(left, right) => {
                let (left, right) = (self.value(left, frame)?, self.value(right, frame)?);
                if !left.is_null() && left == right { Value::Null } else { left }
            }
            Node::Extreme(greatest, all) => {
                let mut found = Value::Null;
                for node in all {
                    let value = self.value(node, frame)?;
                    let is_better = found.is_null()
                        || (!value.is_null() && (value > found) == *greatest && value != found);
                    if is_better {
                        found = value;
                    }
                }
                found
            }
            Node::Convert { from, to, length, explicit, operand } => {
                let value = self.value(operand, frame)?;
                if value.is_null() {
                    return Ok(Value::Null);
                }
                let changed = super::plan::change(*from, *to, *length, *explicit, &value)?;
                // A text that was one before is the same.
                if value.str().is_empty() { self.made(changed)? } else { changed }
            }
            Node::Array(all) => Value::Array(self.row(all, frame)?),
            Node::Call(function, arguments) => {
                let arguments = self.values(arguments, frame)?;
                if !function.takes_null() && arguments.iter().any(Value::is_null) {
                    return Ok(Value::Null);
                }
                self.remembered(*function, &arguments)?
            }
        })
    }

    fn remembered(&mut self, function: Function, arguments: &[Value]) -> Evaluated<Value> {
        if function.is_pure() {
            return Ok(self.made(call::pure(function, arguments)?)?);
        }
        if let Some(value) = self.core.memo.get(self.core.memo_at) {
            self.core.memo_at += 1;
            return Ok(value.clone());
        }
        let value = self.call(function, arguments)?;
        self.core.memo.push(value.clone());
        self.core.memo_at += 1;
        Ok(value)
    }

    /// AND, or OR: `decides` is the value that settles it.
    fn junction(&mut self, all: &[Node], decides: bool, frame: Frame<'_>) -> Evaluated<Value> {
        let mut is_known = true;
        for node in all {
            match self.value(node, frame)?.bool() {
                Some(value) if value == decides => return Ok(Value::Bool(decides)),
                Some(_) => {}
                None => is_known = false,
            }
        }
        Ok(truth(is_known.then_some(!decides)))
    }
}

/// Whether the operand compares so with any of the list, by SQL's logic of NULL.
fn among(operand: &Value, comparison: Comparison, list: &[Value], negated: bool) -> Value {
    if list.is_empty() {
        return Value::Bool(negated);
    }
    if operand.is_null() {
        return Value::Null;
    }
    let mut has_null = false;
    for element in list {
        if element.is_null() {
            has_null = true;
        } else if holds(comparison, operand.cmp(element)) {
            return Value::Bool(!negated);
        }
    }
    if has_null { Value::Null } else { Value::Bool(negated) }
}

fn negative(data_type: Type, value: Value) -> SqlResult<Value> {
    Ok(match value {
        Value::Int(number) => {
            let number = number
                .checked_neg()
                .filter(|number| super::value::text::in_range(data_type, *number));
            Value::Int(number.ok_or_else(|| out_of_range(data_type))?)
        }
        Value::Float(number) => Value::Float(-number),
        Value::Numeric(number) => Value::Numeric(number.negative()),
        Value::Interval(interval) => Value::Interval(interval.negative()?),
        other => other,
    })
}

fn arithmetic(
    operator: Arithmetic,
    data_type: Type,
    left: &Value,
    right: &Value,
) -> SqlResult<Value> {
    use Arithmetic::{Divide, Minus, Plus, Remainder, Times};
    let by_zero = || SqlError::new("22012", "division by zero");
    Ok(match (left, right) {
        (Value::Int(left), Value::Int(right)) => {
            if matches!(operator, Divide | Remainder) && *right == 0 {
                return Err(by_zero());
            }
            let number = match operator {
                Plus => left.checked_add(*right),
                Minus => left.checked_sub(*right),
                Times => left.checked_mul(*right),
                Divide => left.checked_div(*right),
                Remainder => Some(left.checked_rem(*right).unwrap_or(0)),
            };
            let number = number.filter(|number| super::value::text::in_range(data_type, *number));
            Value::Int(number.ok_or_else(|| out_of_range(data_type))?)
        }
        (Value::Numeric(left), Value::Numeric(right)) => Value::Numeric(match operator {
            Plus => left.plus(*right)?,
            Minus => left.minus(*right)?,
            Times => left.times(*right)?,
            _ => left.remainder(*right)?,
        }),
        (Value::Float(left), Value::Float(right)) => {
            if operator == Divide && *right == 0.0 {
                return Err(by_zero());
            }
            let number = match operator {
                Plus => left + right,
                Minus => left - right,
                Times => left * right,
                _ => left / right,
            };
            if number.is_infinite() && left.is_finite() && right.is_finite() {
                return Err(SqlError::new("22003", "value out of range: overflow"));
            }
            Value::Float(number)
        }
        (Value::Timestamp(moment), Value::Interval(interval)) => {
            let interval = if operator == Minus { interval.negative()? } else { *interval };
            Value::Timestamp(interval.after(*moment)?)
        }
        (Value::Interval(interval), Value::Timestamp(moment)) => {
            Value::Timestamp(interval.after(*moment)?)
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            let us = left
                .checked_sub(*right)
                .ok_or_else(|| SqlError::new("22008", "interval out of range"))?;
            let day = 86_400_000_000;
            Value::Interval(super::value::Interval {
                months: 0,
                days: (us / day) as i32,
                us: us % day,
            })
        }
        (Value::Interval(left), Value::Interval(right)) => Value::Interval(match operator {
            Minus => left.plus(right.negative()?)?,
            _ => left.plus(*right)?,
        }),
        (Value::Interval(interval), Value::Float(factor)) => {
            if operator == Divide && *factor == 0.0 {
                return Err(by_zero());
            }
            let factor = if operator == Divide { 1.0 / factor } else { *factor };
            Value::Interval(interval.times(factor)?)
        }
        (Value::Float(factor), Value::Interval(interval)) => {
            Value::Interval(interval.times(*factor)?)
        }
        _ => return Err(SqlError::new("XX000", "operands of other types than the analysis found")),
    })
}

/// LIKE: `%` any text, `_` any letter, `\` the next letter itself.
fn like(text: &str, pattern: &str) -> SqlResult<bool> {
    let text: Vec<char> = text.chars().collect();
    let mut parts: Vec<Option<Option<char>>> = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        parts.push(match letter {
            '%' => None,
            '_' => Some(None),
            '\\' => {
                let next = letters.next().ok_or_else(|| {
                    SqlError::new("22025", "LIKE pattern must not end with escape character")
                })?;
                Some(Some(next))
            }
            letter => Some(Some(letter)),
        });
    }
    // The last star is all that need be tried again.
    let (mut at, mut part, mut star, mut from) = (0, 0, None, 0);
    while at < text.len() {
        match parts.get(part) {
            Some(None) => {
                star = Some(part);
                from = at;
                part += 1;
            }
            Some(Some(wanted)) if wanted.is_none_or(|wanted| wanted == text[at]) => {
                at += 1;
                part += 1;
            }
            _ => match star {
                Some(place) => {
                    from += 1;
                    at = from;
                    part = place + 1;
                }
                None => return Ok(false),
            },
        }
    }
    Ok(parts[part..].iter().all(Option::is_none))
}

/// The sum of an aggregate so far and one more.
pub(crate) fn add(data_type: Type, sum: Value, value: &Value) -> SqlResult<Value> {
    let value = match (data_type, value) {
        (Type::Numeric, Value::Int(number)) => Value::Numeric(Numeric::from_int(*number)),
        _ => value.clone(),
    };
    if sum.is_null() { Ok(value) } else { arithmetic(Arithmetic::Plus, data_type, &sum, &value) }
}
