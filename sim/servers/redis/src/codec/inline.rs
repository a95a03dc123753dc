//! Commands typed by hand: a line of words, with quotes.

use super::arguments::Span;

/// Splits a typed line into arguments as Redis' `sdssplitargs`: false when quotes
/// are unbalanced. The line holds no NUL: the search for its end stops at one.
pub(super) fn split_line(line: &[u8], bytes: &mut Vec<u8>, spans: &mut Vec<Span>) -> bool {
    let mut rest = line;
    loop {
        let blank = rest.iter().take_while(|byte| is_space(**byte)).count();
        rest = &rest[blank..];
        if rest.is_empty() {
            return true;
        }
        let from = bytes.len() as u32;
        if !split_argument(&mut rest, bytes) {
            return false;
        }
        spans.push(Span { from, to: bytes.len() as u32 });
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// One argument: quoted parts and plain parts, up to a space.
fn split_argument(rest: &mut &[u8], bytes: &mut Vec<u8>) -> bool {
    loop {
        match *rest {
            [] => return true,
            // Fewer than before a word and behind a quote.
            [b' ' | b'\t' | b'\n' | b'\r', ..] => return true,
            [quote @ (b'"' | b'\''), quoted @ ..] => {
                *rest = quoted;
                if !split_quoted(*quote, rest, bytes) {
                    return false;
                }
                // A closing quote ends its argument.
                return rest.first().is_none_or(|byte| is_space(*byte));
            }
            [byte, tail @ ..] => {
                bytes.push(*byte);
                *rest = tail;
            }
        }
    }
}

fn split_quoted(quote: u8, rest: &mut &[u8], bytes: &mut Vec<u8>) -> bool {
    loop {
        let (byte, taken) = match (quote, *rest) {
            (_, []) => return false,
            (b'"', [b'\\', b'x', high, low, ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                (hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0), 4)
            }
            (b'"', [b'\\', escaped, ..]) => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                };
                (byte, 2)
            }
            (b'\'', [b'\\', b'\'', ..]) => (b'\'', 2),
            (quote, [byte, tail @ ..]) if *byte == quote => {
                *rest = tail;
                return true;
            }
            (_, [byte, ..]) => (*byte, 1),
        };
        bytes.push(byte);
        *rest = &rest[taken..];
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}
