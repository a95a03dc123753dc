//! What is wrong with a piece of text or a value, and the mend: two clauses, without
//! a place. [`PlanError`](super::PlanError) adds the place.

use std::fmt::Write as _;

use crate::visible::is_hidden;

/// What is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {mend}")]
pub struct Complaint {
    /// A clause that says what is wrong.
    pub what: String,
    /// A clause that says how it is mended: allowed values, a guess at what was meant.
    pub mend: String,
}

impl Complaint {
    /// A complaint of these two clauses.
    pub fn new(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Complaint { what: what.into(), mend: mend.into() }
    }

    /// `name` is none of `known`: guesses what was meant, and lists them.
    pub fn unknown<'a>(
        noun: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        let what = format!("there is no {noun} {}", quoted(name));
        let list = listed(known.clone());
        let mend = match nearest(name, known) {
            Some(near) => format!("did you mean {}? allowed: {list}", quoted(near)),
            None => format!("allowed: {list}"),
        };
        Complaint { what, mend }
    }
}

/// `name` in quotation marks, on one line and not longer than a reader can bear: it
/// may be anything that a file can hold.
pub fn quoted(name: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let mut text = String::from("\"");
    for (position, character) in name.chars().enumerate() {
        if position == SHOWN_CHARS {
            text.push('…');
            break;
        }
        if is_hidden(character) || character == '"' || character == '\\' {
            // Writing to a string does not fail.
            let _ = write!(text, "{}", character.escape_default());
        } else {
            text.push(character);
        }
    }
    text.push('"');
    text
}

/// `a, b, c`; of very many only the first.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 24;
    let names: Vec<&str> = names.into_iter().collect();
    let mut list = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        // Writing to a string does not fail.
        let _ = write!(list, ", … ({} in all)", names.len());
    }
    list
}

/// The name that was probably meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Beyond this length nobody misspelt a name of ours, and comparing costs.
    const LONGEST_BYTES: usize = 64;
    if name.len() > LONGEST_BYTES {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        // `redis-4` is no misspelt `redis-1`.
        .filter(|(_, candidate)| without_number(name) != without_number(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn without_number(name: &str) -> &str {
    name.trim_end_matches(|digit: char| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_guessed_and_a_strange_one_is_not() {
        assert_eq!(nearest("leese", ["lease", "margin"]), Some("lease"));
        assert_eq!(nearest("zookeeper", ["lease", "margin"]), None);
        assert_eq!(nearest("redis-4", ["redis-1", "redis-2"]), None);
        assert_eq!(nearest("redi-1", ["redis-1", "redis-2"]), Some("redis-1"));
    }

    #[test]
    fn quoted_stays_on_one_line() {
        assert_eq!(quoted("a\nb\"\u{1b}[0m"), "\"a\\nb\\\"\\u{1b}[0m\"");
        assert!(quoted(&"长".repeat(500)).chars().count() < 70);
    }
}
