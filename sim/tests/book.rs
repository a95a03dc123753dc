//! Is every command of the book and of the README one that works, with the exit code that stands
//! beside it? Those that take too long for a test are in `.ci/documented`, word for word, and the
//! nightly runs them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::cargo::CommandCargoExt as _;
use lockstorm_sim::plan::scenario::LOCKS;

/// A command of a page.
#[derive(Debug)]
struct Told {
    words: Vec<String>,
    /// How it must end. The README says nothing of it: there it gives a verdict, or is done.
    codes: Vec<i32>,
    /// Whether it goes on until it is ended.
    serves: bool,
    /// The file that takes what it prints.
    into: Option<String>,
}

impl Told {
    fn line(&self) -> String {
        self.words.join(" ")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn book() -> PathBuf {
    root().join("docs/book/src")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
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

/// The lines of `page` that stand in blocks of `kind`.
fn lines<'p>(page: &'p str, kind: &'static str) -> impl Iterator<Item = &'p str> {
    let mut is_in = false;
    page.lines().filter(move |line| match line.strip_prefix("```") {
        Some(begun) => {
            is_in = begun == kind;
            false
        }
        None => is_in,
    })
}

/// A command of a console: what stands behind its prompt, with a remark or without.
fn command(line: &str, serves: bool, codes: Vec<i32>) -> Told {
    let (line, codes) = match line.split_once(" # ") {
        Some((command, remark)) => match remark.strip_prefix("exit ") {
            Some(code) => (command, vec![code.trim().parse().unwrap()]),
            None => (command, codes),
        },
        None => (line, codes),
    };
    let mut words = words(line);
    let into = words.iter().position(|word| word == ">").map(|at| words.split_off(at).remove(1));
    Told { words, codes, serves, into }
}

/// The commands of a chapter: lines with a prompt in blocks for a console.
fn commands(chapter: &str) -> Vec<Told> {
    let console = |kind, serves| {
        let typed = lines(chapter, kind).filter_map(|line| line.strip_prefix("$ "));
        typed.map(move |line| command(line, serves, vec![0]))
    };
    console("console", false).chain(console("console serve", true)).collect()
}

/// The commands of a README, as if the program were on the path; `cargo test` is not among them.
fn readme(page: &str) -> Vec<Told> {
    let typed = lines(page, "console").filter_map(|line| line.strip_prefix("$ cargo run"));
    let told = typed.map(|line| {
        let line = format!("lockstorm {}", line.trim_start().trim_start_matches("--").trim_start());
        command(&line, line.starts_with("lockstorm serve"), vec![0, 1])
    });
    told.collect()
}

/// The commands of pages that no test runs.
fn slow() -> Vec<String> {
    let script = read(".ci/documented");
    let lines = script.lines().map(|line| line.strip_prefix("killed ").unwrap_or(line));
    let commands =
        lines.filter(|line| line.starts_with("lockstorm ")).map(|line| words(line).join(" "));
    commands.collect()
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

/// Runs commands of a page one after another, in a folder of their own with the kept plans.
fn tried(page: &str, commands: &[Told]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copied(&root().join("seeds"), &here.join("seeds"));
    let mut failures = Vec::new();
    for told in commands {
        if told.serves {
            let mut child = lockstorm(here, told).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            let said = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
            if said.is_err() || !line.contains("127.0.0.1") || child.try_wait().unwrap().is_some() {
                failures.push(format!("{page}: {:?} says {line:?}", told.words));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            continue;
        }
        let output = lockstorm(here, told).output().unwrap();
        if let Some(file) = &told.into {
            fs::write(here.join(file), &output.stdout).unwrap();
        }
        if !told.codes.iter().any(|code| output.status.code() == Some(*code)) {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            failures.push(format!("{page}: {:?} gives {}: {why}", told.words, output.status));
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
        let is_picture = name.ends_with(".png");
        assert!(name == "SUMMARY.md" || is_picture || chapters.contains(&name), "{name}");
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

/// The chapters of the book with their commands.
fn told_in_chapters() -> Vec<(String, Vec<Told>)> {
    let commands = |chapter: String| {
        let told = commands(&fs::read_to_string(book().join(&chapter)).unwrap());
        (chapter, told)
    };
    chapters().into_iter().map(commands).collect()
}

#[test]
fn every_command_works_first_half() {
    let chapters = told_in_chapters();
    let (first, _) = chapters.split_at(chapters.len() / 2);
    let failures: Vec<_> = first.iter().flat_map(|(page, told)| tried(page, told)).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_command_works_second_half() {
    let chapters = told_in_chapters();
    let (_, second) = chapters.split_at(chapters.len() / 2);
    let failures: Vec<_> = second.iter().flat_map(|(page, told)| tried(page, told)).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_command_of_the_readme_works_or_is_one_of_the_slow() {
    let slow = slow();
    let (page, chinese) = (read("README.md"), read("README.zh-CN.md"));
    let lines = |page: &str| readme(page).iter().map(Told::line).collect::<Vec<_>>();
    assert_eq!(lines(&page), lines(&chinese), "the two READMEs");
    let mut quick = readme(&page);
    assert!(quick.len() > 20, "{}", quick.len());
    quick.retain(|told| !slow.contains(&told.line()));
    for served in quick.iter_mut().filter(|told| told.serves) {
        // Any free port will do here.
        let named = served.words.iter().position(|word| word == "--port");
        served.words.truncate(named.unwrap_or(served.words.len()));
        served.words.extend(["--port", "0"].map(ToOwned::to_owned));
    }
    let failures = tried("README.md", &quick);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_slow_command_is_told_somewhere_and_run_at_night() {
    let mut told: BTreeSet<String> = readme(&read("README.md")).iter().map(Told::line).collect();
    for chapter in chapters() {
        let text = fs::read_to_string(book().join(&chapter)).unwrap();
        // A block for a shell is what takes too long: all of it must be in the list.
        for line in lines(&text, "sh").filter(|line| line.starts_with("lockstorm ")) {
            let line = words(line).join(" ");
            assert!(slow().contains(&line), "{chapter}: .ci/documented lacks {line:?}");
            told.insert(line);
        }
    }
    for line in slow() {
        assert!(told.contains(&line), ".ci/documented: nobody tells {line:?} any more");
    }
    assert!(read(".ci/nightly").contains("\nLOCKSTORM=$lockstorm .ci/documented\n"));
    // The README's own test command is what every change is held to.
    assert!(read(".ci/run").contains("\ncargo test "));
}

#[test]
fn every_lock_has_its_row() {
    for page in ["docs/book/src/locks.md", "README.md", "README.zh-CN.md"] {
        let text = read(page);
        let (mut rows, mut last) = (BTreeSet::new(), String::new());
        let names = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        for name in names.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            // `-reentrant` behind `pg-lock-table` is short for both together; `-read` behind
            // `zookeeper-reentrant` for the family and that.
            if let Some(ending) = name.strip_prefix('-') {
                let family = last.strip_suffix("-reentrant").unwrap_or(&last);
                rows.insert(format!("{family}-{ending}"));
                continue;
            }
            last = name.to_owned();
            rows.insert(last.clone());
        }
        for lock in LOCKS.iter().filter(|lock| !lock.planted) {
            assert!(rows.contains(lock.name), "{page}: no row of {}", lock.name);
        }
    }
}

#[test]
fn shells_and_manuals_know_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let told = Told {
            words: ["lockstorm", "completions", shell].map(ToOwned::to_owned).to_vec(),
            codes: vec![0],
            serves: false,
            into: None,
        };
        let output = lockstorm(folder.path(), &told).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        for verb in ["lesson", "hunt", "report"] {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
    }
    let told = command("lockstorm man pages", false, vec![0]);
    assert!(lockstorm(folder.path(), &told).status().unwrap().success());
    for page in ["lockstorm.1", "lockstorm-hunt.1", "lockstorm-lesson-run.1"] {
        let text = fs::read_to_string(folder.path().join("pages").join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains(".SH SYNOPSIS"), "{page}");
    }
}
