//! Every text of a report in Chinese, from its English.
//!
//! A report is told once, in English, by whoever knows what happened; here each form of a
//! sentence has its Chinese beside it, with `{}` for what differs from run to run, and what
//! stands in such a place is looked up in turn. So no second teller can drift from the
//! first. What has no form here stays English, and a test over the kept failures and many
//! drawn storms (`sim/tests/report_pages.rs`) fails on it.
//!
//! Order of things: [`told`] has sentences of findings and reasons, [`saved`] what kept a run
//! from harm, [`steps`] what events and faults are called.

mod saved;
mod steps;
mod told;

use std::sync::OnceLock;

use serde::Serialize;

use crate::check::Language;
use crate::visible::visible;

/// A form of a sentence: English, with `{}` for what differs; Chinese, with `{0}`, `{1}` …
/// for the same in whatever order.
pub(super) type Form = (&'static str, &'static str);

/// The longest text that is taken over from a history, characters.
const LONGEST: usize = 200;
/// So deep what stands in a form is looked up.
const DEEPEST: usize = 4;

/// A text in both languages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Both {
    /// English.
    pub en: String,
    /// Chinese, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zh: Option<String>,
}

impl Both {
    /// An English text, and what it is in Chinese.
    pub fn of(english: &str) -> Both {
        let english = cut(english, 8 * LONGEST);
        Both { zh: chinese(&english), en: english }
    }

    /// A word of the table of words.
    pub fn word(word: impl Fn(Language) -> &'static str) -> Both {
        Both {
            en: word(Language::English).to_owned(),
            zh: Some(word(Language::Chinese).to_owned()),
        }
    }
}

/// A name as it is shown: cut where it is too long, with nothing hidden in it.
pub fn bounded(name: &str) -> String {
    cut(name, LONGEST)
}

/// The beginning of `text`, in which everything is seen: no name turns the writing around it.
fn cut(text: &str, most: usize) -> String {
    let text = &*visible(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What an English text is in Chinese; `None` where no form fits, or where it is the same.
pub fn chinese(english: &str) -> Option<String> {
    within(english, 0)
}

fn within(english: &str, depth: usize) -> Option<String> {
    if depth > DEEPEST || english.is_empty() {
        return None;
    }
    for (form, chinese) in forms() {
        if let Some(holes) = holes(form, english) {
            let filled: Vec<String> = holes
                .into_iter()
                .map(|hole| within(hole, depth + 1).unwrap_or_else(|| hole.to_owned()))
                .collect();
            return Some(fill(chinese, &filled));
        }
    }
    // A list, each of whose parts has a form.
    let (first, rest) = english.split_once("; ")?;
    Some(format!("{}；{}", within(first, depth + 1)?, within(rest, depth + 1)?))
}

/// All forms, the one with the most letters first: it says most.
fn forms() -> &'static [Form] {
    static FORMS: OnceLock<Vec<Form>> = OnceLock::new();
    FORMS.get_or_init(|| {
        let reasons = [told::REASONS, saved::SAVED];
        let steps = [steps::STEPS, steps::FAULTS, steps::NAMES];
        let tables = [told::SENTENCES].into_iter().chain(reasons).chain(steps);
        let mut forms: Vec<Form> = tables.flatten().copied().collect();
        forms.sort_by_key(|(form, _)| std::cmp::Reverse(form.replace("{}", "").len()));
        forms
    })
}

/// What stands in the places of `form` if `text` is of it.
fn holes<'t>(form: &str, text: &'t str) -> Option<Vec<&'t str>> {
    let mut parts = form.split("{}");
    let mut rest = text.strip_prefix(parts.next()?)?;
    let mut holes = Vec::new();
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else {
        return rest.is_empty().then_some(holes);
    };
    for part in between {
        let (hole, after) = rest.split_once(part)?;
        holes.push(hole);
        rest = after;
    }
    holes.push(rest.strip_suffix(last)?);
    holes.iter().all(|hole| !hole.is_empty()).then_some(holes)
}

fn fill(chinese: &str, holes: &[String]) -> String {
    let mut filled = String::new();
    let mut rest = chinese;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((number, after)) = after.split_once('}') else { break };
        filled.push_str(before);
        let hole = number.parse().ok().and_then(|number: usize| holes.get(number));
        filled.push_str(hole.map_or("", String::as_str));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_form_is_itself_in_both_languages() {
        let mut seen = BTreeSet::new();
        for (english, chinese) in forms() {
            assert!(seen.insert(english), "twice: {english}");
            let many = english.matches("{}").count();
            let places: BTreeSet<usize> =
                (0..9).filter(|n| chinese.contains(&format!("{{{n}}}"))).collect();
            assert_eq!(places, (0..many).collect(), "{english} / {chinese}");
            let holes: Vec<String> = (0..many).map(|n| format!("Q{n}")).collect();
            let mut filled = english.to_string();
            for hole in &holes {
                filled = filled.replacen("{}", hole, 1);
            }
            assert_eq!(chinese_of(&filled), fill(chinese, &holes), "{filled}");
        }
    }

    fn chinese_of(english: &str) -> String {
        chinese(english).unwrap_or_default()
    }

    #[test]
    fn what_stands_in_a_form_is_looked_up_in_turn() {
        let english = "The record of app-1/1 for lock:a was missing when redis-2 became master, \
                       0.025 s before its promise ended.";
        let told = chinese_of(english);
        assert!(told.contains("redis-2 升为主节点时没有这条记录"), "{told}");
        assert_eq!(chinese("app-1/1"), None);
        assert_eq!(Both::of("app-1/1").zh, None);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(bounded(&"锁".repeat(500)).chars().count(), LONGEST + 1);
        assert_eq!(bounded("lock:a"), "lock:a");
    }
}
