//! What the grammar of the command line refuses, as all our errors are: one line, what is wrong
//! and the mend.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The line; `None` for what is no error (help, the version) or is a page of help.
pub fn one_line(error: &clap::Error) -> Option<String> {
    let is_page = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    (!is_page).then(|| told(&error.render().to_string(), mend(error)))
}

/// What says of a drawn plan what a file has in its own text, and what to do over a file.
const OF_A_FILE: [(&str, &str); 3] = [
    ("--seed", "a file has its own seed: leave --seed out, or write --set seed=0x3 to change it"),
    (
        "--scenario",
        "a file has its own scenario, and no flag changes that: leave --scenario out, or the file",
    ),
    ("--draws", "nothing is drawn over a file: leave --draws out, or the file"),
];

/// The mend of flags that conflict with a file and nothing else, or that a verb for files alone
/// does not know.
fn mend(error: &clap::Error) -> Option<String> {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    let named = [named(ContextKind::InvalidArg), named(ContextKind::PriorArg)].concat();
    let is_file = |name: &&String| name.contains("[FILE]") || name.contains("<FILE>");
    let (files, others): (Vec<&String>, Vec<&String>) = named.iter().partition(is_file);
    let is_of_file = match error.kind() {
        ErrorKind::ArgumentConflict => !files.is_empty(),
        ErrorKind::UnknownArgument => takes_files_alone(&error.render().to_string()),
        _ => false,
    };
    let mends = others.iter().map(|name| {
        let flag = name.split_whitespace().next();
        OF_A_FILE.iter().find(|(of, _)| flag == Some(of)).map(|(_, mend)| *mend)
    });
    let mends: Vec<&str> = mends.collect::<Option<_>>()?;
    (is_of_file && !mends.is_empty()).then(|| mends.join("; "))
}

/// Whether what clap says is of a verb that reads a plan and draws none.
fn takes_files_alone(text: &str) -> bool {
    ["replay", "report"].iter().any(|verb| text.contains(&format!("Usage: lockstorm {verb} ")))
}

/// Of what clap says in several paragraphs: the first with the mend, the tips, and where help is.
fn told(text: &str, mend: Option<String>) -> String {
    let mut paragraphs = text.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
    let first = paragraphs.next().unwrap_or("error: the command line cannot be read");
    let mut line = first.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    if let Some((what, values)) = line.clone().split_once(" [possible values: ") {
        line = format!("{what}; allowed: {}", values.trim_end_matches(']'));
    }
    // What looks alike is no help where it is known what was meant.
    let has_mend = mend.is_some();
    if let Some(mend) = mend {
        line.push_str(&format!("; {mend}"));
    }
    let mut verbs = String::from("lockstorm");
    for paragraph in paragraphs {
        let tips = paragraph.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
        for tip in tips.filter(|_| !has_mend) {
            line.push_str(&format!("; {tip}"));
        }
        if let Some(usage) = paragraph.strip_prefix("Usage: ") {
            let is_verb = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            let words = usage.split_whitespace().skip(1).take_while(is_verb);
            words.for_each(|word| verbs.push_str(&format!(" {word}")));
        }
    }
    format!("{line}; see {verbs} --help")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::program::arguments::Arguments;

    #[test]
    fn every_refusal_is_one_line_with_the_mend() {
        let refusals = [
            &["fly"][..],
            &["run", "--sed", "5"],
            &["run", "--engine", "warp"],
            &["replay"],
            &["hunt", "--seeds", "0"],
            &["hunt", "--shard", "3/2", "--out", "new"],
            &["run", "--plan", "x", "--seed", "3"],
            &["run", "--plan", "x", "--scenario", "redis-single"],
            &["explain", "x", "--seed", "3"],
            &["shrink", "x", "--draws", "wide"],
            &["replay", "x", "--seed", "3"],
            &["replay", "x", "--scenario", "redis-single"],
            &["report", "x", "--draws", "wide"],
            &["report", "x", "--sed", "3"],
            &["serve", "redis", "--seed", "3"],
            &["run", "--print-plan", "--out", "x.ndjson"],
            &["seeds", "check", "x", "--foo"],
            // What is not in a file is not to be changed in it.
            &["seeds", "add", "--plan", "x", "--seed", "3"],
            &["seeds", "add", "--plan", "x", "--fence", "full"],
            &["hunt", "--against", "x", "--seeds", "3"],
            &["run", "--plan", "x", "--fault", "{ kind = \"pause\" }"],
        ];
        let told = refusals.map(|words| {
            let words = ["lockstorm"].iter().chain(words);
            one_line(&Arguments::try_parse_from(words).unwrap_err()).unwrap()
        });
        insta::assert_snapshot!(told.join("\n"));
    }
}
