//! Expressions: names become columns, operators and calls get their types.

use super::analyse::Analyser;
use super::coerce::{Context, change, common, convert, may_convert};
use super::function::SIGNATURES;
use super::operator::comparison;
use super::{Action, Field, Function, Node, Typed};
use crate::error::{SqlError, SqlResult};
use crate::sql::ast::{Expr, ExprKind, Select};
use crate::value::{Numeric, Type, Value};

/// More parameters than these the protocol cannot bind.
const MOST_PARAMETERS: u16 = 65_535;

impl Analyser<'_> {
    /// An expression that must be true or false.
    pub(super) fn condition(&mut self, expr: &Expr, clause: &str) -> SqlResult<Node> {
        let typed = self.expr(expr)?;
        let at = typed.at;
        let typed = self.settle_one(typed, Type::Bool)?;
        if typed.data_type != Type::Bool {
            let found = typed.data_type.name();
            let told = format!("argument of {clause} must be type boolean, not type {found}");
            return Err(SqlError::new("42804", told).at(at));
        }
        Ok(typed.node)
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> SqlResult<Typed> {
        let at = expr.at;
        let typed = |node, data_type| Ok(Typed { node, data_type, at });
        match &expr.kind {
            ExprKind::Null => typed(Node::Constant(Value::Null), Type::Unknown),
            ExprKind::Default => {
                Err(SqlError::new("42601", "DEFAULT is not allowed in this context").at(at))
            }
            ExprKind::Bool(value) => typed(Node::Constant(Value::Bool(*value)), Type::Bool),
            ExprKind::Integer(digits) => integer(digits, at),
            ExprKind::Decimal(digits) => decimal(digits, at),
            ExprKind::Text(text) => typed(Node::Constant(Value::text(text)), Type::Unknown),
            ExprKind::Parameter(number) => self.parameter(*number, at),
            ExprKind::Column(path) => self.column(path, at),
            ExprKind::Unary(operator, operand) => {
                let operand = self.expr(operand)?;
                self.unary(operator, operand, at)
            }
            ExprKind::Binary(operator, left, right) => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                self.binary(operator, left, right, at)
            }
            ExprKind::And(all) => typed(Node::And(self.conditions(all, "AND")?), Type::Bool),
            ExprKind::Or(all) => typed(Node::Or(self.conditions(all, "OR")?), Type::Bool),
            ExprKind::Not(operand) => {
                let operand = self.condition(operand, "NOT")?;
                typed(Node::Not(Box::new(operand)), Type::Bool)
            }
            ExprKind::IsNull { operand, negated } => {
                let operand = self.expr(operand)?;
                let operand = self.settle_one(operand, Type::Text)?;
                typed(Node::IsNull(Box::new(operand.node), *negated), Type::Bool)
            }
            ExprKind::IsBool { operand, value, negated } => {
                let clause = match value {
                    Some(true) => "IS TRUE",
                    Some(false) => "IS FALSE",
                    None => "IS UNKNOWN",
                };
                let operand = self.condition(operand, clause)?;
                typed(Node::IsBool(Box::new(operand), *value, *negated), Type::Bool)
            }
            ExprKind::IsDistinct { left, right, negated } => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                let (left, right) = self.comparable("=", left, right, at)?;
                let (left, right) = (Box::new(left.node), Box::new(right.node));
                typed(Node::IsDistinct(left, right, *negated), Type::Bool)
            }
            ExprKind::In { operand, list, negated } => self.in_list(operand, list, *negated, at),
            ExprKind::InQuery { operand, query, negated } => {
                self.in_query(operand, query, *negated, at)
            }
            ExprKind::Exists(query) => {
                let (number, _) = self.subquery(query, false)?;
                typed(Node::Exists(number), Type::Bool)
            }
            ExprKind::Scalar(query) => {
                let (number, fields) = self.subquery(query, true)?;
                let [field] = fields.as_slice() else {
                    return Err(
                        SqlError::new("42601", "subquery must return only one column").at(at)
                    );
                };
                typed(Node::Scalar(number), field.data_type)
            }
            ExprKind::Any { operator, operand, array } => self.any(operator, operand, array, at),
            ExprKind::Between { operand, low, high, negated } => {
                self.between(operand, [low, high], *negated, at)
            }
            ExprKind::Like { operand, pattern, negated, folds_case } => {
                let mut sides = Vec::new();
                for side in [operand, pattern] {
                    let side = self.expr(side)?;
                    let side = self.settle_one(side, Type::Text)?;
                    if !side.data_type.is_text() {
                        let told =
                            format!("operator does not exist: {} ~~ text", side.data_type.name());
                        return Err(SqlError::new("42883", told).at(at));
                    }
                    sides.push(Box::new(side.node));
                }
                let (pattern, operand) = (sides.remove(1), sides.remove(0));
                typed(Node::Like(operand, pattern, *negated, *folds_case), Type::Bool)
            }
            ExprKind::Call { name, arguments, star } => self.call(name, arguments, *star, at),
            ExprKind::Cast { operand, to } => self.cast(operand, to),
            ExprKind::Case { operand, arms, otherwise } => {
                self.case(operand.as_deref(), arms, otherwise.as_deref(), at)
            }
            ExprKind::Array(elements) => {
                let elements: Vec<Typed> =
                    elements.iter().map(|one| self.expr(one)).collect::<SqlResult<_>>()?;
                let (nodes, element) = self.alike(elements, "ARRAY")?;
                let Some(array) = element.array() else {
                    return Err(SqlError::unsupported(at, "arrays of this type"));
                };
                typed(Node::Array(nodes), array)
            }
        }
    }

    fn conditions(&mut self, all: &[Expr], clause: &str) -> SqlResult<Vec<Node>> {
        all.iter().map(|one| self.condition(one, clause)).collect()
    }

    fn parameter(&mut self, number: u16, at: usize) -> SqlResult<Typed> {
        if number == 0 || number == MOST_PARAMETERS {
            let told = format!("there is no parameter ${number}");
            return Err(SqlError::new("42P02", told).at(at));
        }
        let index = usize::from(number) - 1;
        if self.parameters.len() <= index {
            self.parameters.resize(index + 1, None);
        }
        let data_type = self.parameters[index].unwrap_or(Type::Unknown);
        Ok(Typed { node: Node::Parameter(index), data_type, at })
    }

    fn column(&mut self, path: &[String], at: usize) -> SqlResult<Typed> {
        let (table, name) = match path {
            [name] => (None, name),
            [table, name] => (Some(table), name),
            _ => return Err(SqlError::unsupported(at, "names of this many parts")),
        };
        let is_it = |visible: &super::analyse::Visible| {
            visible.field.name == *name && table.is_none_or(|table| *table == visible.table)
        };
        let found: Vec<usize> = self
            .scope
            .iter()
            .enumerate()
            .filter(|(_, visible)| is_it(visible))
            .map(|(index, _)| index)
            .collect();
        match found.as_slice() {
            [index] => {
                let data_type = self.scope[*index].field.data_type;
                Ok(Typed { node: Node::Column(*index), data_type, at })
            }
            [] => Err(self.missing_column(table.map(String::as_str), name, at, is_it)),
            _ => {
                let told = format!("column reference \"{name}\" is ambiguous");
                Err(SqlError::new("42702", told).at(at))
            }
        }
    }

    fn missing_column(
        &self,
        table: Option<&str>,
        name: &str,
        at: usize,
        is_it: impl Fn(&super::analyse::Visible) -> bool,
    ) -> SqlError {
        if self.outer.iter().flatten().any(is_it) {
            return SqlError::unsupported(at, "subqueries that depend on the query around them");
        }
        let Some(table) = table else {
            if self.scope.iter().any(|visible| visible.table == name) {
                return SqlError::unsupported(at, "whole rows");
            }
            return SqlError::new("42703", format!("column \"{name}\" does not exist")).at(at);
        };
        if self.scope.iter().any(|visible| visible.table == table) {
            return SqlError::new("42703", format!("column {table}.{name} does not exist")).at(at);
        }
        let told = format!("missing FROM-clause entry for table \"{table}\"");
        SqlError::new("42P01", told).at(at)
    }

    fn in_list(
        &mut self,
        operand: &Expr,
        list: &[Expr],
        negated: bool,
        at: usize,
    ) -> SqlResult<Typed> {
        let mut operand = self.expr(operand)?;
        let mut elements = Vec::new();
        for element in list {
            elements.push(self.expr(element)?);
        }
        // The operand takes the type of the first element that has one.
        if operand.data_type == Type::Unknown {
            let known = elements.iter().find(|one| one.data_type != Type::Unknown);
            let to = known.map_or(Type::Text, |known| known.data_type);
            operand = self.settle_one(operand, to)?;
        }
        let mut nodes = Vec::new();
        let mut left = None;
        let mut widest = operand.data_type;
        for element in &elements {
            if element.data_type.rank() > widest.rank() {
                widest = element.data_type;
            }
        }
        if widest != operand.data_type && operand.data_type.rank().is_some() {
            operand = convert(operand, widest, None, Context::Implicit)?;
        }
        for element in elements {
            let (one, element) = self.comparable("=", operand.clone(), element, at)?;
            left.get_or_insert(one.node);
            nodes.push(element.node);
        }
        let left = left.unwrap_or(operand.node);
        Ok(Typed { node: Node::In(Box::new(left), nodes, negated), data_type: Type::Bool, at })
    }

    fn in_query(
        &mut self,
        operand: &Expr,
        query: &Select,
        negated: bool,
        at: usize,
    ) -> SqlResult<Typed> {
        let operand = self.expr(operand)?;
        let (number, fields) = self.subquery(query, false)?;
        let [field] = fields.as_slice() else {
            return Err(SqlError::new("42601", "subquery has too many columns").at(at));
        };
        let probe = Typed { node: Node::Scalar(number), data_type: field.data_type, at };
        let (operand, probe) = self.comparable("=", operand, probe, at)?;
        if !matches!(probe.node, Node::Scalar(_)) {
            return Err(SqlError::unsupported(at, "IN of a query of another type"));
        }
        let node = Node::InQuery(Box::new(operand.node), number, negated);
        Ok(Typed { node, data_type: Type::Bool, at })
    }

    /// A subquery as a plan that runs earlier.
    fn subquery(&mut self, query: &Select, is_scalar: bool) -> SqlResult<(usize, Vec<Field>)> {
        let (select, fields) = self.nested(query)?;
        let action = Action::Select(Box::new(select));
        let number = self.add_earlier(action, Some(fields.clone()), is_scalar);
        Ok((number, fields))
    }

    /// A query inside of another: with a scope of its own.
    pub(super) fn nested(&mut self, query: &Select) -> SqlResult<(super::Select, Vec<Field>)> {
        self.outer.push(std::mem::take(&mut self.scope));
        let aggregates = self.aggregates.take();
        let commons = self.commons.len();
        let analysed = self.select(query);
        self.commons.truncate(commons);
        self.aggregates = aggregates;
        self.scope = self.outer.pop().unwrap_or_default();
        analysed
    }

    fn any(&mut self, operator: &str, operand: &Expr, array: &Expr, at: usize) -> SqlResult<Typed> {
        let operand = self.expr(operand)?;
        let mut array = self.expr(array)?;
        if array.data_type == Type::Unknown {
            let Some(wanted) = operand.data_type.array() else {
                return Err(SqlError::unsupported(at, "ANY of arrays of this type"));
            };
            array = self.settle_one(array, wanted)?;
        }
        let Some(element) = array.data_type.element() else {
            let told = "op ANY/ALL (array) requires array on right side";
            return Err(SqlError::new("42809", told).at(at));
        };
        let Some(comparison) = comparison(operator) else {
            return Err(SqlError::unsupported(at, "this operator with ANY"));
        };
        let probe = Typed { node: Node::Constant(Value::Null), data_type: element, at };
        let (operand, _) = self.comparable(operator, operand, probe, at)?;
        let node = Node::Any(comparison, Box::new(operand.node), Box::new(array.node));
        Ok(Typed { node, data_type: Type::Bool, at })
    }

    fn between(
        &mut self,
        operand: &Expr,
        limits: [&Expr; 2],
        negated: bool,
        at: usize,
    ) -> SqlResult<Typed> {
        let operand = self.expr(operand)?;
        let (low, high) = (self.expr(limits[0])?, self.expr(limits[1])?);
        let low = self.compare(">=", operand.clone(), low, at)?;
        let high = self.compare("<=", operand, high, at)?;
        let both = Node::And(vec![low.node, high.node]);
        let node = if negated { Node::Not(Box::new(both)) } else { both };
        Ok(Typed { node, data_type: Type::Bool, at })
    }

    fn cast(&mut self, operand: &Expr, to: &crate::sql::ast::TypeName) -> SqlResult<Typed> {
        // The name of a relation as a number: only where it becomes text again.
        if to.name == "regclass" && !to.is_array {
            return self.expr(operand);
        }
        let data_type = Type::of_name(to)?;
        let typed = self.expr(operand)?;
        let typed = match typed.node {
            Node::Parameter(_) => self.settle_one(typed, data_type)?,
            _ => typed,
        };
        let at = typed.at;
        if !may_convert(typed.data_type, data_type, Context::Explicit) {
            let (from, to_name) = (typed.data_type.name(), data_type.name());
            let told = format!("cannot cast type {from} to {to_name}");
            return Err(SqlError::new("42846", told).at(to.at));
        }
        // A plain varchar limits nothing.
        let mut typed = convert(typed, data_type, to.length, Context::Explicit)?;
        typed.at = at;
        Ok(typed)
    }

    /// Expressions that come to one type.
    pub(super) fn alike(&mut self, all: Vec<Typed>, what: &str) -> SqlResult<(Vec<Node>, Type)> {
        let to = common(all.iter().map(|one| (one.data_type, one.at)), what)?;
        let mut nodes = Vec::new();
        for one in all {
            let one = self.settle_one(one, to)?;
            nodes.push(convert(one, to, None, Context::Implicit)?.node);
        }
        Ok((nodes, to))
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        arms: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        at: usize,
    ) -> SqlResult<Typed> {
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
        let (mut conditions, mut results) = (Vec::new(), Vec::new());
        for (when, then) in arms {
            conditions.push(match &operand {
                None => self.condition(when, "CASE/WHEN")?,
                Some(operand) => {
                    let when = self.expr(when)?;
                    self.compare("=", operand.clone(), when, at)?.node
                }
            });
            results.push(self.expr(then)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => Typed { node: Node::Constant(Value::Null), data_type: Type::Unknown, at },
        });
        let (mut results, data_type) = self.alike(results, "CASE")?;
        let otherwise = results.pop().unwrap_or(Node::Constant(Value::Null));
        let arms = conditions.into_iter().zip(results).collect();
        Ok(Typed { node: Node::Case(arms, Box::new(otherwise)), data_type, at })
    }

    fn call(
        &mut self,
        name: &[String],
        arguments: &[Expr],
        star: bool,
        at: usize,
    ) -> SqlResult<Typed> {
        let name = match name {
            [name] => name.as_str(),
            [schema, name] if schema == "pg_catalog" => name.as_str(),
            [schema, _] => {
                let told = format!("schema \"{schema}\" does not exist");
                return Err(SqlError::new("3F000", told).at(at));
            }
            _ => return Err(SqlError::unsupported(at, "names of this many parts")),
        };
        if let Some(typed) = self.aggregate(name, arguments, star, at)? {
            return Ok(typed);
        }
        let mut all = Vec::new();
        for argument in arguments {
            all.push(self.expr(argument)?);
        }
        match name {
            "coalesce" if !all.is_empty() => {
                let (nodes, data_type) = self.alike(all, "COALESCE")?;
                return Ok(Typed { node: Node::Coalesce(nodes), data_type, at });
            }
            "greatest" | "least" if !all.is_empty() => {
                let (nodes, data_type) = self.alike(all, &name.to_ascii_uppercase())?;
                let node = Node::Extreme(name == "greatest", nodes);
                return Ok(Typed { node, data_type, at });
            }
            "nullif" if all.len() == 2 => {
                let (right, left) = (all.remove(1), all.remove(0));
                let (left, right) = self.comparable("=", left, right, at)?;
                let data_type = left.data_type;
                let node = Node::NullIf(Box::new(left.node), Box::new(right.node));
                return Ok(Typed { node, data_type, at });
            }
            "extract" | "date_part" if all.len() == 2 => return self.extract(all, at),
            _ => {}
        }
        self.resolve(name, all, at)
    }

    fn extract(&mut self, mut all: Vec<Typed>, at: usize) -> SqlResult<Typed> {
        let is_epoch = matches!(
            &all[0].node,
            Node::Constant(Value::Text(field)) if field.eq_ignore_ascii_case("epoch")
        );
        if !is_epoch {
            return Err(SqlError::unsupported(at, "fields of moments other than epoch"));
        }
        let moment = all.remove(1);
        self.resolve("extract_epoch", vec![moment], at)
    }

    /// The function that these arguments fit best.
    fn resolve(&mut self, name: &str, all: Vec<Typed>, at: usize) -> SqlResult<Typed> {
        let mut best: Option<(usize, &[Type], Type, Function)> = None;
        for (known, types, result, function) in SIGNATURES {
            let fits = *known == name
                && types.len() == all.len()
                && types.iter().zip(&all).all(|(to, one)| {
                    may_convert(one.data_type, *to, Context::Implicit)
                        || one.data_type.is_text() && *to == Type::Text
                });
            if !fits {
                continue;
            }
            let exact = types.iter().zip(&all).filter(|(to, one)| **to == one.data_type).count();
            if best.is_none_or(|(most, ..)| exact > most) {
                best = Some((exact, types, *result, *function));
            }
        }
        let Some((_, types, data_type, function)) = best else {
            return Err(self.missing_function(name, &all, at));
        };
        self.writes |= function.writes();
        let mut nodes = Vec::new();
        for (one, to) in all.into_iter().zip(types) {
            let one = self.settle_one(one, *to)?;
            nodes.push(convert(one, *to, None, Context::Implicit)?.node);
        }
        Ok(Typed { node: Node::Call(function, nodes), data_type, at })
    }

    fn missing_function(&self, name: &str, all: &[Typed], at: usize) -> SqlError {
        let types: Vec<&str> = all.iter().map(|one| one.data_type.name()).collect();
        let types = types.join(", ");
        let shown = if name == "extract_epoch" { "extract" } else { name };
        // PostgreSQL has some three thousand functions: an unknown one may well be one of them.
        let told = format!("function {shown}({types}) does not exist");
        SqlError::new("42883", told)
            .hint(
                "No function matches the given name and argument types. \
                 You might need to add explicit type casts.",
            )
            .at(at)
    }

    /// As [`expr`](Self::expr), for a column of this type: a value is assigned.
    pub(super) fn assigned(
        &mut self,
        expr: &Expr,
        column: &crate::catalogue::Column,
    ) -> SqlResult<Node> {
        let typed = self.expr(expr)?;
        self.assign(typed, column)
    }

    pub(super) fn assign(
        &mut self,
        typed: Typed,
        column: &crate::catalogue::Column,
    ) -> SqlResult<Node> {
        let at = typed.at;
        let typed = self.settle_one(typed, column.data_type)?;
        if !may_convert(typed.data_type, column.data_type, Context::Assignment) {
            let (to, from) = (column.data_type.name(), typed.data_type.name());
            let name = &column.name;
            let told =
                format!("column \"{name}\" is of type {to} but expression is of type {from}");
            return Err(SqlError::new("42804", told)
                .hint("You will need to rewrite or cast the expression.")
                .at(at));
        }
        if let (Node::Constant(value), Some(length)) = (&typed.node, column.length)
            && !value.is_null()
        {
            let kept = change(typed.data_type, column.data_type, Some(length), false, value);
            return Ok(Node::Constant(kept?));
        }
        Ok(convert(typed, column.data_type, column.length, Context::Assignment)?.node)
    }
}

fn integer(digits: &str, at: usize) -> SqlResult<Typed> {
    let Ok(number) = digits.parse::<i64>() else { return decimal(digits, at) };
    let data_type = if i32::try_from(number).is_ok() { Type::Int4 } else { Type::Int8 };
    Ok(Typed { node: Node::Constant(Value::Int(number)), data_type, at })
}

fn decimal(digits: &str, at: usize) -> SqlResult<Typed> {
    let number = Numeric::parse(digits).ok_or_else(|| {
        SqlError::new("22P02", format!("invalid input syntax for type numeric: \"{digits}\""))
    })?;
    let number = number.map_err(|error| error.or_at(at))?;
    Ok(Typed { node: Node::Constant(Value::Numeric(number)), data_type: Type::Numeric, at })
}
