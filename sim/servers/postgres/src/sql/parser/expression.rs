//! Expressions, by PostgreSQL's precedence.

use super::{JOINING, OPERATORS, Parser, RESERVED, too_deep};
use crate::error::{SqlError, SqlResult};
use crate::sql::ast::{Expr, ExprKind, TypeName};
use crate::sql::lexer::Token;

/// Words that call a function without parentheses.
const BARE_CALLS: &[&str] =
    &["current_timestamp", "current_user", "session_user", "user", "current_date"];

impl Expr {
    fn children(kind: &ExprKind) -> Vec<&Expr> {
        match kind {
            ExprKind::Unary(_, one) | ExprKind::Not(one) => vec![one],
            ExprKind::Binary(_, left, right) | ExprKind::IsDistinct { left, right, .. } => {
                vec![left, right]
            }
            ExprKind::And(all) | ExprKind::Or(all) | ExprKind::Array(all) => all.iter().collect(),
            ExprKind::IsNull { operand, .. }
            | ExprKind::IsBool { operand, .. }
            | ExprKind::Cast { operand, .. }
            | ExprKind::InQuery { operand, .. } => vec![operand],
            ExprKind::In { operand, list, .. } => std::iter::once(&**operand).chain(list).collect(),
            ExprKind::Any { operand, array, .. } => vec![operand, array],
            ExprKind::Between { operand, low, high, .. } => vec![operand, low, high],
            ExprKind::Like { operand, pattern, .. } => vec![operand, pattern],
            ExprKind::Call { arguments, .. } => arguments.iter().collect(),
            ExprKind::Case { operand, arms, otherwise } => {
                let arms = arms.iter().flat_map(|(when, then)| [when, then]);
                operand.as_deref().into_iter().chain(arms).chain(otherwise.as_deref()).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn new(at: usize, kind: ExprKind) -> SqlResult<Expr> {
        let deepest = Expr::children(&kind).iter().map(|child| child.depth).max().unwrap_or(0);
        if deepest >= OPERATORS {
            return Err(too_deep(at));
        }
        Ok(Expr { at, depth: deepest + 1, kind })
    }

    fn boxed(self) -> Box<Expr> {
        Box::new(self)
    }
}

impl Parser {
    pub(super) fn expr(&mut self) -> SqlResult<Expr> {
        self.deeper(Parser::or)
    }

    fn or(&mut self) -> SqlResult<Expr> {
        let at = self.place();
        let first = self.and()?;
        if !self.is_word("or") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept("or") {
            all.push(self.and()?);
        }
        Expr::new(at, ExprKind::Or(all))
    }

    fn and(&mut self) -> SqlResult<Expr> {
        let at = self.place();
        let first = self.not()?;
        if !self.is_word("and") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept("and") {
            all.push(self.not()?);
        }
        Expr::new(at, ExprKind::And(all))
    }

    fn not(&mut self) -> SqlResult<Expr> {
        let at = self.place();
        if self.accept("not") {
            let operand = self.deeper(Parser::not)?;
            return Expr::new(at, ExprKind::Not(operand.boxed()));
        }
        self.is()
    }

    fn is(&mut self) -> SqlResult<Expr> {
        let mut left = self.comparison()?;
        loop {
            let at = self.place();
            let kind = if self.accept("isnull") {
                ExprKind::IsNull { operand: left.boxed(), negated: false }
            } else if self.accept("notnull") {
                ExprKind::IsNull { operand: left.boxed(), negated: true }
            } else if self.accept("is") {
                let negated = self.accept("not");
                if self.accept("null") {
                    ExprKind::IsNull { operand: left.boxed(), negated }
                } else if self.accept_all(&["distinct", "from"]) {
                    let right = self.comparison()?;
                    ExprKind::IsDistinct { left: left.boxed(), right: right.boxed(), negated }
                } else {
                    let value = if self.accept("true") {
                        Some(true)
                    } else if self.accept("false") {
                        Some(false)
                    } else if self.accept("unknown") {
                        None
                    } else {
                        return Err(self.unexpected());
                    };
                    ExprKind::IsBool { operand: left.boxed(), value, negated }
                }
            } else {
                return Ok(left);
            };
            left = Expr::new(at, kind)?;
        }
    }

    fn comparison(&mut self) -> SqlResult<Expr> {
        let left = self.range()?;
        let at = self.place();
        let Token::Operator(operator) = self.peek().clone() else { return Ok(left) };
        if !matches!(operator.as_str(), "=" | "<>" | "<" | ">" | "<=" | ">=") {
            return Ok(left);
        }
        self.at += 1;
        if (self.is_word("any") || self.is_word("some") || self.is_word("all"))
            && self.peek_at(1) == &Token::Mark("(")
        {
            if self.is_word("all") {
                return Err(self.unsupported("comparisons with ALL"));
            }
            self.at += 2;
            if self.is_word("select") || self.is_word("with") || self.is_word("values") {
                return Err(self.unsupported("comparisons with ANY row of a query; use IN"));
            }
            let array = self.expr()?;
            self.expect_mark(")")?;
            let kind = ExprKind::Any { operator, operand: left.boxed(), array: array.boxed() };
            return Expr::new(at, kind);
        }
        let right = self.range()?;
        Expr::new(at, ExprKind::Binary(operator, left.boxed(), right.boxed()))
    }

    /// BETWEEN, IN, LIKE.
    fn range(&mut self) -> SqlResult<Expr> {
        let left = self.other()?;
        let at = self.place();
        let is_negated = self.is_word("not")
            && ["between", "in", "like", "ilike", "similar"]
                .iter()
                .any(|word| self.is_word_at(1, word));
        self.at += usize::from(is_negated);
        let negated = is_negated;
        if self.accept("between") {
            if self.is_word("symmetric") {
                return Err(self.unsupported("BETWEEN SYMMETRIC"));
            }
            self.accept("asymmetric");
            let low = self.other()?;
            self.expect("and")?;
            let high = self.other()?;
            let (low, high) = (low.boxed(), high.boxed());
            return Expr::new(at, ExprKind::Between { operand: left.boxed(), low, high, negated });
        }
        if self.accept("in") {
            self.expect_mark("(")?;
            let operand = left.boxed();
            let kind = if self.is_word("select") || self.is_word("with") || self.is_word("values") {
                let query = Box::new(self.deeper(Parser::select)?);
                ExprKind::InQuery { operand, query, negated }
            } else {
                ExprKind::In { operand, list: self.list(Parser::expr)?, negated }
            };
            self.expect_mark(")")?;
            return Expr::new(at, kind);
        }
        if self.is_word("like") || self.is_word("ilike") {
            let folds_case = self.is_word("ilike");
            self.at += 1;
            let pattern = self.other()?.boxed();
            if self.is_word("escape") {
                return Err(self.unsupported("LIKE … ESCAPE"));
            }
            let operand = left.boxed();
            return Expr::new(at, ExprKind::Like { operand, pattern, negated, folds_case });
        }
        if self.is_word("similar") {
            return Err(self.unsupported("SIMILAR TO"));
        }
        Ok(left)
    }

    /// Any operator that is neither comparison nor arithmetic.
    fn other(&mut self) -> SqlResult<Expr> {
        let mut left = self.sum()?;
        loop {
            let at = self.place();
            let Token::Operator(operator) = self.peek().clone() else { return Ok(left) };
            if matches!(
                operator.as_str(),
                "=" | "<>" | "<" | ">" | "<=" | ">=" | "+" | "-" | "*" | "/" | "%"
            ) {
                return Ok(left);
            }
            if operator != "||" {
                return Err(self.unsupported(&format!("the operator {operator}")));
            }
            self.at += 1;
            let right = self.sum()?;
            left = Expr::new(at, ExprKind::Binary(operator, left.boxed(), right.boxed()))?;
        }
    }

    fn sum(&mut self) -> SqlResult<Expr> {
        let mut left = self.product()?;
        loop {
            let at = self.place();
            let operator = match self.peek() {
                Token::Operator(operator) if operator == "+" || operator == "-" => operator.clone(),
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.product()?;
            left = Expr::new(at, ExprKind::Binary(operator, left.boxed(), right.boxed()))?;
        }
    }

    fn product(&mut self) -> SqlResult<Expr> {
        let mut left = self.signed()?;
        loop {
            let at = self.place();
            let operator = match self.peek() {
                Token::Operator(operator) if matches!(operator.as_str(), "*" | "/" | "%") => {
                    operator.clone()
                }
                Token::Operator(operator) if operator == "^" => {
                    return Err(self.unsupported("the operator ^"));
                }
                Token::Word(word) if word == "at" && self.is_words(&["at", "time", "zone"]) => {
                    return Err(self.unsupported("AT TIME ZONE"));
                }
                Token::Word(word) if word == "collate" => {
                    return Err(self.unsupported("COLLATE"));
                }
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.signed()?;
            left = Expr::new(at, ExprKind::Binary(operator, left.boxed(), right.boxed()))?;
        }
    }

    fn signed(&mut self) -> SqlResult<Expr> {
        let at = self.place();
        for sign in ["-", "+"] {
            if self.accept_operator(sign) {
                let operand = self.deeper(Parser::signed)?;
                // A constant keeps its sign, so that the smallest bigint can be written.
                let kind = match operand.kind {
                    ExprKind::Integer(digits) if sign == "-" && !digits.starts_with('-') => {
                        ExprKind::Integer(format!("-{digits}"))
                    }
                    ExprKind::Decimal(digits) if sign == "-" && !digits.starts_with('-') => {
                        ExprKind::Decimal(format!("-{digits}"))
                    }
                    _ => ExprKind::Unary(sign.to_owned(), operand.boxed()),
                };
                return Expr::new(at, kind);
            }
        }
        self.cast()
    }

    fn cast(&mut self) -> SqlResult<Expr> {
        let mut operand = self.primary()?;
        loop {
            let at = self.place();
            if self.accept_mark("::") {
                let to = self.type_name()?;
                operand = Expr::new(at, ExprKind::Cast { operand: operand.boxed(), to })?;
            } else if self.is_mark("[") {
                return Err(self.unsupported("elements of arrays"));
            } else {
                return Ok(operand);
            }
        }
    }

    fn primary(&mut self) -> SqlResult<Expr> {
        let at = self.place();
        let kind = match self.peek().clone() {
            Token::Integer(digits) => ExprKind::Integer(digits),
            Token::Decimal(digits) => ExprKind::Decimal(digits),
            Token::Text(text) => ExprKind::Text(text),
            Token::Parameter(number) => ExprKind::Parameter(number),
            Token::Mark("(") => {
                self.at += 1;
                return self.in_parentheses(at);
            }
            Token::Word(word) => return self.word(at, word),
            Token::Quoted(_) => return self.named(at),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Expr::new(at, kind)
    }

    fn in_parentheses(&mut self, at: usize) -> SqlResult<Expr> {
        if self.is_word("select") || self.is_word("with") || self.is_word("values") {
            let query = self.deeper(Parser::select)?;
            self.expect_mark(")")?;
            return Expr::new(at, ExprKind::Scalar(Box::new(query)));
        }
        let inner = self.expr()?;
        if self.is_mark(",") {
            return Err(SqlError::unsupported(at, "row constructors"));
        }
        self.expect_mark(")")?;
        Ok(inner)
    }

    fn word(&mut self, at: usize, word: String) -> SqlResult<Expr> {
        let kind = match word.as_str() {
            "null" => ExprKind::Null,
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            "default" => ExprKind::Default,
            "case" => return self.case(at),
            "cast" => {
                self.at += 1;
                self.expect_mark("(")?;
                let operand = self.expr()?;
                self.expect("as")?;
                let to = self.type_name()?;
                self.expect_mark(")")?;
                return Expr::new(at, ExprKind::Cast { operand: operand.boxed(), to });
            }
            "exists" if self.peek_at(1) == &Token::Mark("(") => {
                self.at += 2;
                let query = self.deeper(Parser::select)?;
                self.expect_mark(")")?;
                return Expr::new(at, ExprKind::Exists(Box::new(query)));
            }
            "array" => return self.array(at),
            "extract" if self.peek_at(1) == &Token::Mark("(") => return self.extract(at),
            bare if BARE_CALLS.contains(&bare) => {
                if self.peek_at(1) == &Token::Mark("(") {
                    return Err(self.unsupported(&format!("{bare} with a precision")));
                }
                ExprKind::Call { name: vec![word.clone()], arguments: Vec::new(), star: false }
            }
            reserved if RESERVED.contains(&reserved) => return Err(self.unexpected()),
            _ => return self.named(at),
        };
        self.at += 1;
        Expr::new(at, kind)
    }

    fn array(&mut self, at: usize) -> SqlResult<Expr> {
        self.at += 1;
        if !self.accept_mark("[") {
            return Err(self.unsupported("arrays of queries"));
        }
        let elements = if self.is_mark("]") { Vec::new() } else { self.list(Parser::expr)? };
        self.expect_mark("]")?;
        Expr::new(at, ExprKind::Array(elements))
    }

    /// `extract(field from value)` is the call `extract('field', value)`.
    fn extract(&mut self, at: usize) -> SqlResult<Expr> {
        self.at += 2;
        let field_at = self.place();
        let field = match self.next() {
            Token::Word(field) | Token::Text(field) => field,
            _ => {
                self.at -= 1;
                return Err(self.unexpected());
            }
        };
        self.expect("from")?;
        let operand = self.expr()?;
        self.expect_mark(")")?;
        let field = Expr::new(field_at, ExprKind::Text(field))?;
        let (name, arguments) = (vec!["extract".to_owned()], vec![field, operand]);
        Expr::new(at, ExprKind::Call { name, arguments, star: false })
    }

    fn case(&mut self, at: usize) -> SqlResult<Expr> {
        self.at += 1;
        let operand = match self.is_word("when") {
            true => None,
            false => Some(self.expr()?.boxed()),
        };
        let mut arms = Vec::new();
        while self.accept("when") {
            let when = self.expr()?;
            self.expect("then")?;
            arms.push((when, self.expr()?));
        }
        if arms.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = match self.accept("else") {
            true => Some(self.expr()?.boxed()),
            false => None,
        };
        self.expect("end")?;
        Expr::new(at, ExprKind::Case { operand, arms, otherwise })
    }

    /// A column, a call, or a constant with its type before it.
    fn named(&mut self, at: usize) -> SqlResult<Expr> {
        if let Some(literal) = self.typed_literal(at)? {
            return Ok(literal);
        }
        let is_joining = matches!(
            self.peek(),
            Token::Word(word) if JOINING.contains(&word.as_str())
        );
        if is_joining {
            let is_call = matches!(self.peek(), Token::Word(word) if word == "left" || word == "right")
                && self.peek_at(1) == &Token::Mark("(");
            if !is_call {
                return Err(self.unexpected());
            }
        }
        let mut path = vec![self.label()?];
        while self.accept_mark(".") {
            if self.is_operator("*") {
                return Err(self.unsupported("whole rows"));
            }
            path.push(self.label()?);
        }
        if !self.accept_mark("(") {
            return Expr::new(at, ExprKind::Column(path));
        }
        let mut star = false;
        let mut arguments = Vec::new();
        if self.accept_operator("*") {
            star = true;
        } else if !self.is_mark(")") {
            if self.is_word("distinct") || self.is_word("all") || self.is_word("variadic") {
                return Err(self.unsupported("modifiers of arguments"));
            }
            arguments = self.list(Parser::expr)?;
            if self.is_word("order") {
                return Err(self.unsupported("ordered aggregates"));
            }
        }
        self.expect_mark(")")?;
        if self.is_word("filter") || self.is_word("over") || self.is_word("within") {
            return Err(self.unsupported("window functions and filtered aggregates"));
        }
        Expr::new(at, ExprKind::Call { name: path, arguments, star })
    }

    /// `interval '1 second'`.
    fn typed_literal(&mut self, at: usize) -> SqlResult<Option<Expr>> {
        let Token::Word(word) = self.peek() else { return Ok(None) };
        let is_timestamp = word == "timestamp" && self.is_words(&["timestamp", "with"]);
        let is_literal = matches!(self.peek_at(1), Token::Text(_)) || is_timestamp;
        let is_type = matches!(
            word.as_str(),
            "interval"
                | "timestamptz"
                | "timestamp"
                | "int4"
                | "int8"
                | "int2"
                | "integer"
                | "bigint"
                | "smallint"
                | "text"
                | "bool"
                | "boolean"
                | "numeric"
                | "float8"
        );
        if !is_literal || !is_type {
            return Ok(None);
        }
        let to: TypeName = self.type_name()?;
        let text_at = self.place();
        let text = self.text_constant()?;
        if to.name == "interval"
            && ["year", "month", "day", "hour", "minute", "second"]
                .iter()
                .any(|field| self.is_word(field))
        {
            return Err(self.unsupported("intervals with fields"));
        }
        let operand = Expr::new(text_at, ExprKind::Text(text))?.boxed();
        Expr::new(at, ExprKind::Cast { operand, to }).map(Some)
    }
}
