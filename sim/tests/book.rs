//! Is every command of the book one that works, with the exit code that stands beside it?

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::cargo::CommandCargoExt as _;

/// A command of the book.
#[derive(Debug)]
struct Told {
    words: Vec<String>,
    code: i32,
    /// Whether it goes on until it is ended.
    serves: bool,
}

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src")
}

/// The words of a line of a shell: blanks part them, but for what stands in single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in line.split('\'').enumerate() {
        match n % 2 {
            0 => words.extend(part.split_whitespace().map(ToOwned::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// The commands of a chapter: lines with a prompt in blocks for a console.
fn commands(chapter: &str) -> Vec<Told> {
    let mut found = Vec::new();
    let mut serves = None;
    for line in chapter.lines() {
        match line.strip_prefix("```") {
            Some("console") => serves = Some(false),
            Some("console serve") => serves = Some(true),
            Some(_) => serves = None,
            None => {}
        }
        if let (Some(serves), Some(command)) = (serves, line.strip_prefix("$ ")) {
            let (command, code) = match command.split_once(" # exit ") {
                Some((command, code)) => (command, code.trim().parse().unwrap()),
                None => (command, 0),
            };
            found.push(Told { words: words(command), code, serves });
        }
    }
    found
}

fn lockstorm(folder: &Path, told: &Told) -> Command {
    assert_eq!(told.words[0], "lockstorm", "{told:?}");
    let mut command = Command::cargo_bin("lockstorm").unwrap();
    command.args(&told.words[1..]).current_dir(folder).env("LC_ALL", "C.UTF-8");
    command.env_remove("CARGO_MANIFEST_DIR").stdin(Stdio::null());
    command
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copied(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Runs a chapter's commands one after another, in a folder of their own with the kept plans.
fn tried(chapter: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copied(&book().join("../../../seeds"), &here.join("seeds"));
    let text = fs::read_to_string(book().join(chapter)).unwrap();
    let mut failures = Vec::new();
    for told in commands(&text) {
        if told.serves {
            let mut child = lockstorm(here, &told).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            let said = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
            if said.is_err() || !line.contains("127.0.0.1") || child.try_wait().unwrap().is_some() {
                failures.push(format!("{chapter}: {:?} says {line:?}", told.words));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            continue;
        }
        let output = lockstorm(here, &told).output().unwrap();
        if output.status.code() != Some(told.code) {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            failures.push(format!("{chapter}: {:?} gives {}: {why}", told.words, output.status));
        }
    }
    failures
}

/// The chapters, as the summary lists them.
fn chapters() -> Vec<String> {
    let summary = fs::read_to_string(book().join("SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1);
    links.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

#[test]
fn every_chapter_is_in_the_summary_and_every_link_leads_somewhere() {
    let chapters = chapters();
    for entry in fs::read_dir(book()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "SUMMARY.md" || chapters.contains(&name), "{name}");
    }
    for chapter in &chapters {
        let text = fs::read_to_string(book().join(chapter)).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            assert!(
                link.starts_with("https://") || book().join(target).is_file(),
                "{chapter}: {link}"
            );
        }
        // What is named in the text is there.
        for name in text.split('`').filter(|name| name.starts_with("docs/") && !name.contains(' '))
        {
            assert!(book().join("../../..").join(name).exists(), "{chapter}: {name}");
        }
    }
}

#[test]
fn every_command_works_first_half() {
    let chapters = chapters();
    let (first, _) = chapters.split_at(chapters.len() / 2);
    let failures: Vec<String> = first.iter().flat_map(|chapter| tried(chapter)).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_command_works_second_half() {
    let chapters = chapters();
    let (_, second) = chapters.split_at(chapters.len() / 2);
    let failures: Vec<String> = second.iter().flat_map(|chapter| tried(chapter)).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn shells_and_manuals_know_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let told = Told {
            words: ["lockstorm", "completions", shell].map(ToOwned::to_owned).to_vec(),
            code: 0,
            serves: false,
        };
        let output = lockstorm(folder.path(), &told).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        for verb in ["lesson", "hunt", "report"] {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
    }
    let told = Told { words: words("lockstorm man pages"), code: 0, serves: false };
    assert!(lockstorm(folder.path(), &told).status().unwrap().success());
    for page in ["lockstorm.1", "lockstorm-hunt.1", "lockstorm-lesson-run.1"] {
        let text = fs::read_to_string(folder.path().join("pages").join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains(".SH SYNOPSIS"), "{page}");
    }
}
