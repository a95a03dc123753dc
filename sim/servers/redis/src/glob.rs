//! Patterns of `KEYS` and `CONFIG GET`: `*`, `?`, `[a-z]`, `[^…]`, `\`.

/// Whether `text` matches `pattern`, as Redis' `stringmatchlen`. Takes at most
/// pattern × text steps: only the last `*` is ever retried.
pub(super) fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while here < text.len() {
        if pattern.get(at) == Some(&b'*') {
            retry = Some((at + 1, here));
            at += 1;
            continue;
        }
        match one(&pattern[at.min(pattern.len())..], text[here], ignore_case) {
            Some(taken) => {
                at += taken;
                here += 1;
            }
            None => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                at = star;
                here = from + 1;
            }
        }
    }
    pattern[at.min(pattern.len())..].iter().all(|byte| *byte == b'*')
}

/// How much of the pattern's head matches `byte`.
fn one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => class(pattern, byte, fold),
        [b'\\', escaped, ..] => (fold(*escaped) == fold(byte)).then_some(2),
        [plain, ..] => (fold(*plain) == fold(byte)).then_some(1),
    }
}

fn class(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<usize> {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[at..] {
            // An unclosed class closes at the end of the pattern.
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                let (from, to) = (fold(*from).min(fold(*to)), fold(*from).max(fold(*to)));
                found |= (from..=to).contains(&fold(byte));
                at += 3;
            }
            [plain, ..] => {
                found |= fold(*plain) == fold(byte);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbcd", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hxllo", false),
            ("[", "a", false),
            ("[a", "a", true),
            ("a**b*c", "aXXbYYc", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern}");
        }
        assert!(matches(b"MAX*", b"maxclients", true));
        // Exponential in Redis' own matcher; here it must merely end.
        let hostile = format!("{}b", "a*".repeat(500));
        assert!(!matches(hostile.as_bytes(), &[b'a'; 2_000], false));
    }
}
