//! SQL text as tokens, by PostgreSQL's lexical rules.
//!
//! Every token knows where it stands, so that errors can. Text is UTF-8.

use crate::error::{SqlError, SqlResult};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Folded to lower case.
    Word(String),
    /// In double quotes.
    Quoted(String),
    Integer(String),
    Decimal(String),
    Text(String),
    Parameter(u16),
    Operator(String),
    /// One of `( ) , ; . [ ] : ::`.
    Mark(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    /// Bytes from the beginning of the text.
    pub(crate) at: usize,
    pub(crate) end: usize,
}

const OPERATOR: &[u8] = b"+-*/<>=~!@#%^&|`?";
/// An operator with one of these may end in `+` or `-`.
const SPECIAL: &[u8] = b"~!@#%^&|`?";
/// Longer names are cut, as PostgreSQL does.
const NAME_BYTES: usize = 63;
/// So many tokens may one message have: a parsed one takes a hundred times its bytes.
const MOST_TOKENS: usize = 1_000_000;

pub(crate) fn tokens(text: &str) -> SqlResult<Vec<Placed>> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0 };
    let mut all = Vec::new();
    loop {
        lexer.skip_blank()?;
        let at = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Token::End;
        if all.len() >= MOST_TOKENS && !is_end {
            let told = "The simulated server reads statements of at most 1000000 tokens.";
            return Err(SqlError::new("53200", "out of memory").detail(told).at(at));
        }
        all.push(Placed { token, at, end: lexer.at });
        if is_end {
            return Ok(all);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn in_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn cut(mut name: String) -> String {
    if name.len() > NAME_BYTES {
        let mut end = NAME_BYTES;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
    name
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn while_is(&mut self, is: impl Fn(u8) -> bool) -> &str {
        let from = self.at;
        while !self.is_over() && is(self.bytes[self.at]) {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    fn error(&self, at: usize, what: &str) -> SqlError {
        let rest = &self.text[at..];
        SqlError::new("42601", format!("{what} at or near \"{rest}\"")).at(at)
    }

    fn skip_blank(&mut self) -> SqlResult<()> {
        loop {
            self.while_is(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b));
            if self.peek(0) == b'-' && self.peek(1) == b'-' {
                self.while_is(|byte| byte != b'\n' && byte != b'\r');
            } else if self.peek(0) == b'/' && self.peek(1) == b'*' {
                let from = self.at;
                let mut depth = 0usize;
                loop {
                    if self.is_over() {
                        return Err(self.error(from, "unterminated /* comment"));
                    }
                    match (self.peek(0), self.peek(1)) {
                        (b'/', b'*') => {
                            depth += 1;
                            self.at += 2;
                        }
                        (b'*', b'/') => {
                            depth -= 1;
                            self.at += 2;
                            if depth == 0 {
                                break;
                            }
                        }
                        _ => self.at += 1,
                    }
                }
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> SqlResult<Token> {
        if self.is_over() {
            return Ok(Token::End);
        }
        let at = self.at;
        let byte = self.peek(0);
        match byte {
            b'\'' => self.quoted_text(false),
            b'e' | b'E' if self.peek(1) == b'\'' => {
                self.at += 1;
                self.quoted_text(true)
            }
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if self.peek(1) == b'\'' => {
                Err(SqlError::unsupported(at, "bit strings and national characters"))
            }
            b'u' | b'U' if self.peek(1) == b'&' && matches!(self.peek(2), b'\'' | b'"') => {
                Err(SqlError::unsupported(at, "Unicode escapes"))
            }
            b'"' => self.quoted_name(),
            b'$' if self.peek(1).is_ascii_digit() => self.parameter(),
            b'$' if self.peek(1) == b'$' || begins_name(self.peek(1)) => self.dollar_text(),
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() => self.number(),
            b'(' | b')' | b',' | b';' | b'.' | b'[' | b']' => {
                self.at += 1;
                Ok(Token::Mark(match byte {
                    b'(' => "(",
                    b')' => ")",
                    b',' => ",",
                    b';' => ";",
                    b'.' => ".",
                    b'[' => "[",
                    _ => "]",
                }))
            }
            b':' if self.peek(1) == b':' => {
                self.at += 2;
                Ok(Token::Mark("::"))
            }
            b':' => {
                self.at += 1;
                Ok(Token::Mark(":"))
            }
            _ if begins_name(byte) => {
                let name = self.while_is(in_name).to_ascii_lowercase();
                Ok(Token::Word(cut(name)))
            }
            _ if OPERATOR.contains(&byte) => Ok(self.operator()),
            _ => {
                let rest = &self.text[at..];
                let shown: String = rest.chars().take(1).collect();
                let text = format!("syntax error at or near \"{shown}\"");
                Err(SqlError::new("42601", text).at(at))
            }
        }
    }

    fn operator(&mut self) -> Token {
        let from = self.at;
        let mut end = from;
        while end < self.bytes.len() && OPERATOR.contains(&self.bytes[end]) {
            let is_comment = matches!(self.bytes.get(end..end + 2), Some(b"--" | b"/*"));
            if is_comment && end > from {
                break;
            }
            end += 1;
        }
        // `a=-1` is `=` and `-1`: only unusual operators may end in a sign.
        while end > from + 1
            && matches!(self.bytes[end - 1], b'+' | b'-')
            && !self.bytes[from..end - 1].iter().any(|byte| SPECIAL.contains(byte))
        {
            end -= 1;
        }
        self.at = end;
        let text = &self.text[from..end];
        Token::Operator(if text == "!=" { "<>".to_owned() } else { text.to_owned() })
    }

    fn quoted_name(&mut self) -> SqlResult<Token> {
        let from = self.at;
        self.at += 1;
        let mut name = String::new();
        loop {
            let part = self.while_is(|byte| byte != b'"').to_owned();
            name.push_str(&part);
            if self.is_over() {
                return Err(self.error(from, "unterminated quoted identifier"));
            }
            self.at += 1;
            if self.peek(0) != b'"' {
                break;
            }
            name.push('"');
            self.at += 1;
        }
        if name.is_empty() {
            let text = "zero-length delimited identifier at or near \"\"\"\"";
            return Err(SqlError::new("42601", text).at(from));
        }
        Ok(Token::Quoted(cut(name)))
    }

    fn parameter(&mut self) -> SqlResult<Token> {
        let from = self.at;
        self.at += 1;
        let digits = self.while_is(|byte| byte.is_ascii_digit()).to_owned();
        if begins_name(self.peek(0)) {
            let shown = &self.text[from..=self.at];
            let text = format!("trailing junk after parameter at or near \"{shown}\"");
            return Err(SqlError::new("42601", text).at(from));
        }
        match digits.parse::<u16>() {
            Ok(number) => Ok(Token::Parameter(number)),
            Err(_) => {
                let text = format!("there is no parameter ${digits}");
                Err(SqlError::new("42P02", text).at(from))
            }
        }
    }

    fn number(&mut self) -> SqlResult<Token> {
        let from = self.at;
        let is_digit = |byte: u8| byte.is_ascii_digit();
        self.while_is(is_digit);
        let mut is_integer = true;
        if self.peek(0) == b'.' && self.peek(1) != b'.' {
            is_integer = false;
            self.at += 1;
            self.while_is(is_digit);
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let signed = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + signed).is_ascii_digit() {
                is_integer = false;
                self.at += 1 + signed;
                self.while_is(is_digit);
            }
        }
        if begins_name(self.peek(0)) {
            let mut end = self.at + 1;
            while !self.text.is_char_boundary(end) {
                end += 1;
            }
            let shown = &self.text[from..end];
            let text = format!("trailing junk after numeric literal at or near \"{shown}\"");
            return Err(SqlError::new("42601", text).at(from));
        }
        let text = self.text[from..self.at].to_owned();
        Ok(if is_integer { Token::Integer(text) } else { Token::Decimal(text) })
    }

    fn dollar_text(&mut self) -> SqlResult<Token> {
        let from = self.at;
        self.at += 1;
        self.while_is(|byte| in_name(byte) && byte != b'$');
        if self.peek(0) != b'$' {
            let text = "syntax error at or near \"$\"";
            return Err(SqlError::new("42601", text).at(from));
        }
        self.at += 1;
        let tag = &self.text[from..self.at];
        let Some(length) = self.text[self.at..].find(tag) else {
            return Err(self.error(from, "unterminated dollar-quoted string"));
        };
        let text = self.text[self.at..self.at + length].to_owned();
        self.at += length + tag.len();
        Ok(Token::Text(text))
    }

    fn quoted_text(&mut self, escapes: bool) -> SqlResult<Token> {
        let from = self.at;
        self.at += 1;
        let mut text: Vec<u8> = Vec::new();
        loop {
            if self.is_over() {
                return Err(self.error(from, "unterminated quoted string"));
            }
            match self.peek(0) {
                b'\'' if self.peek(1) == b'\'' => {
                    text.push(b'\'');
                    self.at += 2;
                }
                b'\'' => {
                    self.at += 1;
                    if !self.goes_on_in_next_line() {
                        break;
                    }
                }
                b'\\' if escapes => {
                    self.at += 1;
                    self.escape(from, &mut text)?;
                }
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        let text = String::from_utf8(text);
        text.map(Token::Text).map_err(|_| self.error(from, "invalid Unicode escape"))
    }

    /// `'a'` newline `'b'` is one string.
    fn goes_on_in_next_line(&mut self) -> bool {
        let rest = &self.bytes[self.at..];
        let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let has_line = rest[..blank].contains(&b'\n') || rest[..blank].contains(&b'\r');
        let goes_on = has_line && rest.get(blank) == Some(&b'\'');
        if goes_on {
            self.at += blank + 1;
        }
        goes_on
    }

    fn escape(&mut self, from: usize, text: &mut Vec<u8>) -> SqlResult<()> {
        let byte = self.peek(0);
        let plain = match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'0'..=b'7' | b'x' | b'u' | b'U' => {
                return Err(SqlError::unsupported(from, "numeric escapes in strings"));
            }
            0 if self.is_over() => return Err(self.error(from, "unterminated quoted string")),
            other => other,
        };
        text.push(plain);
        self.at += 1;
        Ok(())
    }
}
