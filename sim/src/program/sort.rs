//! What sort of file somebody named, when it is not the one that a verb reads: an error then
//! says which verb does.

use std::path::Path;

use crate::history::edn;
use crate::history::file::lines::Lines;
use crate::plan::capsule;

use super::exit::Failure;

/// A sort of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A plan file, a seed file, a capsule.
    Plan,
    /// A recorded history.
    History,
    /// A certificate.
    Certificate,
    /// A part of a campaign's folder.
    Campaign,
}

impl Sort {
    /// Of the file at `path`, by how it begins; `None` for what is none of these.
    pub fn of(path: &Path) -> Option<Sort> {
        if capsule::of_path(path).is_some() {
            return Some(Sort::Plan);
        }
        let mut lines = Lines::of(std::fs::File::open(path).ok()?).ok()?;
        let start = lines.peek().ok()?;
        if edn::looks_like_edn(start) && !start.starts_with(b"[") {
            return Some(Sort::History);
        }
        Sort::of_text(&String::from_utf8_lossy(start))
    }

    fn of_text(start: &str) -> Option<Sort> {
        if start.starts_with("# A certificate of lockstorm") {
            return Some(Sort::Certificate);
        }
        if start.trim_start().starts_with('{') {
            let is_campaign = start.contains("\"quarry\"") || start.contains("\"number\"");
            return match start.contains("lockstorm-history") {
                true => Some(Sort::History),
                false => is_campaign.then_some(Sort::Campaign),
            };
        }
        let is_key = |line: &str| {
            ["schema =", "scenario =", "[plan]", "[plan."].iter().any(|key| line.starts_with(key))
        };
        start.lines().any(is_key).then_some(Sort::Plan)
    }

    /// The error of a verb that reads `wanted`, if this is another sort of file.
    pub fn instead_of(path: &Path, wanted: Sort) -> Option<Failure> {
        let sort = Sort::of(path).filter(|sort| *sort != wanted)?;
        let (name, folder) = (path.display(), path.parent().unwrap_or(Path::new(".")).display());
        let (what, verb) = match sort {
            Sort::Plan => ("a plan", format!("`lockstorm replay {name}` runs it")),
            Sort::History => ("a history", format!("`lockstorm check {name}` judges it")),
            Sort::Certificate => (
                "a certificate",
                format!("`lockstorm hunt --strategy certify --against {name}` compares it"),
            ),
            Sort::Campaign => (
                "a part of a campaign",
                format!("`lockstorm hunt --for … --out {folder}` goes on with that"),
            ),
        };
        let wanted = match wanted {
            Sort::Plan => "a plan",
            Sort::History => "a history",
            Sort::Certificate => "a certificate",
            Sort::Campaign => "a campaign",
        };
        Some(Failure::usage(format!("{name}: this is {what}, and {wanted} is wanted; {verb}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_how_they_begin() {
        for (text, sort) in [
            ("# found\n\nschema = 1\nscenario = \"redis-single\"\n", Some(Sort::Plan)),
            ("schema = 1\nid = \"x\"\n[plan]\n", Some(Sort::Plan)),
            ("{\"format\":\"lockstorm-history\",\"schema\":1}\n", Some(Sort::History)),
            ("{\"number\":0,\"verdict\":\"safe\"}\n", Some(Sort::Campaign)),
            ("# A certificate of lockstorm: every\n", Some(Sort::Certificate)),
            ("[package]\nname = \"x\"\n", None),
            ("", None),
        ] {
            assert_eq!(Sort::of_text(text), sort, "{text}");
        }
    }
}
