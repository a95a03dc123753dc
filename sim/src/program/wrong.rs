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
    let mend = is_of_a_file(error).then_some(OF_A_FILE);
    (!is_page).then(|| told(&error.render().to_string(), mend))
}

/// What to write instead of a flag that a file has in its own text.
const OF_A_FILE: &str = "the file says that itself: leave out one of the two, or change what it \
                         says with --set KEY=VALUE (--set seed=0x3), --lock or --fence";

/// Whether a file conflicts with nothing but flags that say what is in it.
fn is_of_a_file(error: &clap::Error) -> bool {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    let named = [named(ContextKind::InvalidArg), named(ContextKind::PriorArg)].concat();
    let is_file = |name: &&String| name.contains("[FILE]") || name.contains("<FILE>");
    let (files, others): (Vec<&String>, Vec<&String>) = named.iter().partition(is_file);
    let is_in_it = |name: &&String| {
        let flag = name.split_whitespace().next();
        flag.is_some_and(|flag| ["--seed", "--scenario", "--draws"].contains(&flag))
    };
    error.kind() == ErrorKind::ArgumentConflict
        && !files.is_empty()
        && !others.is_empty()
        && others.iter().all(is_in_it)
}

/// Of what clap says in several paragraphs: the first with the mend, the tips, and where help is.
fn told(text: &str, mend: Option<&str>) -> String {
    let mut paragraphs = text.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
    let first = paragraphs.next().unwrap_or("error: the command line cannot be read");
    let mut line = first.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    if let Some((what, values)) = line.clone().split_once(" [possible values: ") {
        line = format!("{what}; allowed: {}", values.trim_end_matches(']'));
    }
    if let Some(mend) = mend {
        line.push_str(&format!("; {mend}"));
    }
    let mut verbs = String::from("lockstorm");
    for paragraph in paragraphs {
        for tip in paragraph.lines().filter_map(|line| line.trim().strip_prefix("tip: ")) {
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
