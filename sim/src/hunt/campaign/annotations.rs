//! Annotations of GitHub's workflow commands: one for each distinct failure.

use super::markdown::Told;
use crate::check::Verdict;

/// The lines, to be printed where `GITHUB_ACTIONS` is set.
pub fn annotations(told: &[Told]) -> Vec<String> {
    told.iter().map(annotation).collect()
}

fn annotation(failure: &Told) -> String {
    let level = match failure.verdict {
        Verdict::Inert | Verdict::NotExpressible | Verdict::Unknown => "warning",
        _ => "error",
    };
    let title = property(&format!("lockstorm: {}", failure.signature));
    let message =
        data(&format!("{} runs; first: {}\n{}", failure.runs, failure.label, failure.reproduce));
    format!("::{level} title={title}::{message}")
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
