//! What the grammar of the command line refuses, as all our errors are: one line, what is wrong
//! and the mend.

use clap::error::ErrorKind;

/// The line; `None` for what is no error (help, the version) or is a page of help.
pub fn one_line(error: &clap::Error) -> Option<String> {
    let is_page = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    (!is_page).then(|| told(&error.render().to_string(), error.kind()))
}

/// What to write instead of a flag that a file has in its own text.
const OF_A_FILE: &str = "the file says that itself: leave out one of the two, or change what it \
                         says with --set KEY=VALUE (--set seed=0x3), --lock or --fence";

/// Of what clap says in several paragraphs: the first, the tips, and where help is.
fn told(text: &str, kind: ErrorKind) -> String {
    let mut paragraphs = text.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
    let first = paragraphs.next().unwrap_or("error: the command line cannot be read");
    let mut line = first.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    if let Some((what, values)) = line.clone().split_once(" [possible values: ") {
        line = format!("{what}; allowed: {}", values.trim_end_matches(']'));
    }
    let is_of_a_file = ["[FILE]", "<FILE>"].iter().any(|file| line.contains(file));
    if kind == ErrorKind::ArgumentConflict && is_of_a_file {
        line.push_str(&format!("; {OF_A_FILE}"));
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
        ];
        let told = refusals.map(|words| {
            let words = ["lockstorm"].iter().chain(words);
            one_line(&Arguments::try_parse_from(words).unwrap_err()).unwrap()
        });
        insta::assert_snapshot!(told.join("\n"));
    }
}
