//! What messages on the wire were, for people: the first words of a Redis command or reply, a
//! line of the stock's, else how many bytes. No longer than a line, whatever was sent.

use std::fmt::Write as _;

/// The most characters that are told of one message.
const LONGEST: usize = 120;
/// How much of one message is looked at, bytes.
const LOOKED_AT: usize = 1_024;
/// The most commands or replies of one message that are told.
const MOST_PARTS: usize = 3;
/// The most words of one command that are told.
const MOST_WORDS: usize = 8;
/// The most characters of one word.
const LONGEST_WORD: usize = 40;

/// What `bytes` say.
pub fn told(bytes: &[u8]) -> String {
    let mut parts = Vec::new();
    let mut rest = &bytes[..bytes.len().min(LOOKED_AT)];
    while parts.len() < MOST_PARTS {
        let before = rest;
        let Some(part) = part(&mut rest) else {
            rest = before;
            break;
        };
        parts.push(part);
    }
    if parts.is_empty() {
        return counted(bytes.len());
    }
    let mut text = parts.join("; ");
    let left = bytes.len().min(LOOKED_AT) - rest.len();
    if left < bytes.len() {
        // Writing to a string does not fail.
        let _ = write!(text, "; … {}", counted(bytes.len() - left));
    }
    cut(&text, LONGEST)
}

fn counted(bytes: usize) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// One command, reply or line, taken from the front of `rest`; `None` for what is none.
fn part(rest: &mut &[u8]) -> Option<String> {
    match *rest.first()? {
        b'*' | b'>' | b'%' | b'~' => {
            let count = number(rest)?;
            let mut words = Vec::new();
            for _ in 0..count.min(64) {
                words.push(word(rest)?);
            }
            let more = words.len() > MOST_WORDS;
            words.truncate(MOST_WORDS);
            Some(words.join(" ") + if more { " …" } else { "" })
        }
        b'$' | b'+' | b'-' | b':' | b'_' | b'#' => word(rest),
        b'{' => {
            let line = line(rest)?;
            let text =
                std::str::from_utf8(line).ok().filter(|text| !text.contains(char::is_control));
            Some(text.map_or_else(|| format!("({})", counted(line.len())), ToOwned::to_owned))
        }
        _ => None,
    }
}

/// A line without its end, taken from the front.
fn line<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, after) = rest.split_at(end);
    *rest = &after[1..];
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

fn number(rest: &mut &[u8]) -> Option<i64> {
    std::str::from_utf8(line(rest)?.get(1..)?).ok()?.parse().ok()
}

/// A simple value, taken from the front.
fn word(rest: &mut &[u8]) -> Option<String> {
    let first = *rest.first()?;
    match first {
        b'$' => {
            let Ok(length) = usize::try_from(number(rest)?) else { return Some("nil".to_owned()) };
            let value = rest.get(..length)?;
            *rest = rest.get(length..)?.strip_prefix(b"\r\n")?;
            Some(shown(value))
        }
        b'_' => line(rest).map(|_| "nil".to_owned()),
        b'+' | b'-' | b':' | b'#' => Some(shown(line(rest)?.get(1..)?)),
        b'*' | b'>' | b'%' | b'~' => {
            let whole = *rest;
            let told = part(rest)?;
            // An empty list takes something off the front as well.
            (whole.len() > rest.len()).then(|| format!("[{told}]"))
        }
        _ => None,
    }
}

/// A value: text is told as it is, what is none by its length.
fn shown(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains(char::is_control) => cut(text, LONGEST_WORD),
        _ => format!("({})", counted(value.len())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_and_replies_are_told_in_their_words() {
        let set = b"*6\r\n$3\r\nSET\r\n$8\r\nlock:sku\r\n$7\r\napp-1/1\r\n$2\r\nNX\r\n$2\r\nPX\r\n$4\r\n5000\r\n";
        assert_eq!(told(set), "SET lock:sku app-1/1 NX PX 5000");
        assert_eq!(told(b"+OK\r\n"), "OK");
        assert_eq!(told(b":1\r\n$-1\r\n"), "1; nil");
        assert_eq!(told(b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n"), "1 [a]");
        assert_eq!(told(b"{\"operation\":\"read\"}\n"), "{\"operation\":\"read\"}");
        assert_eq!(told(b"$3\r\n\x1b[3\r\n"), "(3 bytes)");
        assert_eq!(told(&[0, 0, 0, 44]), "4 bytes");
        assert_eq!(told(b"*1\r\n$4\r\nPI"), "10 bytes", "half of a command");
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_one_short_line(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            head in "[*$+:>{-][0-9-]{0,3}\r\n",
        ) {
            let bytes = [head.as_bytes(), &bytes].concat();
            let text = told(&bytes);
            prop_assert!(text.chars().count() <= LONGEST + 1 && !text.contains(char::is_control), "{text:?}");
        }
    }
}
