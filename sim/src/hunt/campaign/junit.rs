//! `junit.xml`, for CI that shows test results: each distinct failure is a failed case with
//! its seed as a property, and what was clean is a passed case.

use std::fmt::Write as _;

use super::Identity;
use super::markdown::Told;
use crate::check::Verdict;
use crate::hunt::book::Book;
use crate::report::table::Tally;
use crate::visible::is_hidden;

/// The document.
pub fn junit(identity: &Identity, book: &Book, told: &[Told]) -> String {
    let quarry = &identity.quarry;
    let suite = format!("{}.{}.fence-{}", quarry.scenario, quarry.lock, quarry.fence.name());
    let clean = [
        ("fault-free runs", &book.calm),
        ("single faults", &book.singles),
        ("single faults in weather", &book.again),
        ("pairs", &book.pairs),
        ("seeds", &book.drawn),
    ];
    let is_clean = |tally: &Tally| tally.runs > 0 && tally.ended(Verdict::Violation) == 0;
    let clean: Vec<String> = clean
        .into_iter()
        .filter(|(_, tally)| is_clean(tally))
        .map(|(name, tally)| format!("{name}: {} runs without a violation", tally.runs))
        .collect();
    let failures = told.iter().filter(|failure| is_failed(failure)).count();
    let skipped = told.len() - failures;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<testsuites name=\"lockstorm\">\n  <testsuite name=\"{}\" tests=\"{}\" \
         failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">",
        escaped(&suite),
        clean.len() + told.len()
    );
    for name in clean {
        let _ = writeln!(
            out,
            "    <testcase classname=\"{}\" name=\"{}\"/>",
            escaped(&suite),
            escaped(&name)
        );
    }
    for failure in told {
        let element = if is_failed(failure) { "failure" } else { "skipped" };
        let _ = writeln!(
            out,
            "    <testcase classname=\"{}\" name=\"{}\">\n      <properties>\n        \
             <property name=\"seed\" value=\"{}\"/>\n        <property name=\"runs\" \
             value=\"{}\"/>\n        <property name=\"reproduce\" value=\"{}\"/>\n      \
             </properties>\n      <{element} message=\"{}\">{}</{element}>\n    </testcase>",
            escaped(&suite),
            escaped(&failure.signature),
            escaped(&failure.seed),
            failure.runs,
            escaped(&failure.reproduce),
            escaped(&failure.label),
            escaped(&failure.block),
        );
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// What proves nothing is skipped.
fn is_failed(failure: &Told) -> bool {
    !matches!(failure.verdict, Verdict::Inert | Verdict::NotExpressible | Verdict::Unknown)
}

/// For text and attributes of XML 1.0, which has no control characters.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if is_hidden(c) => out.extend(c.escape_default()),
            // Not in XML 1.0, however it is written.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
