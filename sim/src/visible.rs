//! Shows the characters of a foreign text that nobody would see, and that would move or hide
//! what stands around them.
//!
//! A name in a history is what somebody else wrote. A control character in it could colour a
//! terminal or go back over a line that stands already; one that switches the direction of
//! writing could make `app-1` look like `app-2`. Both become escapes of ASCII, as Rust writes
//! them (`\u{202e}`), so that whoever reads the report sees that they are there.

use std::borrow::Cow;

/// Whether a character would move or hide what stands around it: controls, ends of lines and
/// paragraphs, and the marks, embeddings, overrides and isolates of bidirectional writing.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// `text` in which everything is seen.
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, is_hidden)
}

/// `text`, which may have several lines, in which everything else is seen.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    shown(text, |character| character != '\n' && is_hidden(character))
}

fn shown(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_hidden(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_its_surroundings_is_shown() {
        let hostile = "a\u{202e}b\u{2066}c\u{200f}d\u{61c}e\u{1b}[31m\nf";
        let told = "a\\u{202e}b\\u{2066}c\\u{200f}d\\u{61c}e\\u{1b}[31m\\nf";
        assert_eq!(visible(hostile), told);
        assert_eq!(visible_lines("a\n\u{202e}"), "a\n\\u{202e}");
        for code in (0x202a..=0x202e).chain(0x2066..=0x2069).chain([0x200e, 0x200f, 0x61c]) {
            let character = char::from_u32(code).unwrap();
            assert!(visible(&character.to_string()).is_ascii(), "{code:x}");
        }
    }

    #[test]
    fn whatever_else_people_write_stays() {
        for text in ["lock:sku-42", "锁 µs → 违反", "🔒\u{301}\u{200d}锁", "שלום", ""]
        {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }
}
