//! `lockstorm lesson`: storms to learn from, in the terminal or as a site.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use lockstorm_sim::check::{Language, Verdict};
use lockstorm_sim::lesson::{self, Lesson, Point, change, curve};
use lockstorm_sim::plan::{Complaint, Plan, PlanError};
use lockstorm_sim::report::block;
use lockstorm_sim::report::lesson::site::{Taught, site};
use lockstorm_sim::report::lesson::words::words;
use lockstorm_sim::report::lesson::{Shown, Teller, letter};
use lockstorm_sim::storm::confirm::Confirmation;
use lockstorm_sim::storm::{self, Run};
use lockstorm_sim::whole_file;

use super::arguments::{Format, key_and_value};
use super::exit::{self, Failure};
use super::report::{Files, shown};
use super::run::confirmed;
use super::say::{complain, manner, say};

/// `lesson`.
#[derive(Debug, Subcommand)]
pub enum LessonVerb {
    /// What there is to learn.
    List(ListArguments),
    /// Ask, run, tell why, turn a knob, leave something to mend.
    Run(LessonArguments),
    /// Write all of it as pages that open without a network, in English and Chinese.
    Export(ExportArguments),
}

/// `lesson list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// In which language; that of the locale where nothing is said.
    #[arg(long, value_enum)]
    pub lang: Option<LanguageArgument>,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `lesson run`.
#[derive(Debug, Args)]
pub struct LessonArguments {
    /// Which: its name, or its number.
    pub lesson: String,
    /// The answer to its question, a letter; asked for where a terminal listens.
    #[arg(long, value_name = "LETTER")]
    pub answer: Option<char>,
    /// Change the plan: a setting such as `lock.lease=2s`, or of the n-th fault a field, such
    /// as `fault.1.for=3s`, or `fault.1=none`; may be repeated. The exit code is then the
    /// verdict's.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub settings: Vec<(String, String)>,
    /// Also show what others tried, and what came of it.
    #[arg(long, conflicts_with = "settings")]
    pub solution: bool,
    /// Leave the curves out.
    #[arg(long)]
    pub no_curves: bool,
    /// In which language; that of the locale where nothing is said.
    #[arg(long, value_enum)]
    pub lang: Option<LanguageArgument>,
    /// What else to write.
    #[command(flatten)]
    pub files: Files,
}

/// `lesson export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// The folder; made where there is none. Files of an earlier export are replaced.
    pub folder: PathBuf,
}

/// `--lang`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LanguageArgument {
    /// English.
    En,
    /// Chinese.
    Zh,
}

/// `lockstorm lesson`.
pub fn lesson(verb: &LessonVerb) -> Result<u8, Failure> {
    let lessons = lesson::all().map_err(Failure::internal)?;
    match verb {
        LessonVerb::List(arguments) => list(&lessons, arguments),
        LessonVerb::Run(arguments) => {
            let number = find(&lessons, &arguments.lesson)?;
            match arguments.settings.is_empty() {
                true => run(&lessons, number, arguments),
                false => changed(&lessons[number], arguments),
            }
        }
        LessonVerb::Export(arguments) => export(&lessons, &arguments.folder),
    }
}

/// The language that was asked for, or else the locale's.
pub fn language(said: Option<LanguageArgument>) -> Language {
    let of_locale = || {
        let variables = ["LC_ALL", "LC_MESSAGES", "LANG"];
        let set = variables.iter().filter_map(|name| std::env::var(name).ok());
        set.into_iter().find(|value| !value.is_empty()).is_some_and(|value| value.starts_with("zh"))
    };
    match said {
        Some(LanguageArgument::Zh) => Language::Chinese,
        Some(LanguageArgument::En) => Language::English,
        None if of_locale() => Language::Chinese,
        None => Language::English,
    }
}

fn list(lessons: &[Lesson], arguments: &ListArguments) -> Result<u8, Failure> {
    match arguments.format {
        Format::Text => {
            say(Teller::new(manner(), language(arguments.lang)).list(lessons));
        }
        Format::Json => {
            let lessons = lessons.iter().map(|lesson| {
                serde_json::json!({
                    "id": lesson.id,
                    "title": { "en": lesson.title.en, "zh": lesson.title.zh },
                    "verdict": lesson.expect.verdict,
                    "kinds": lesson.expect.kinds,
                    "turmoil": lesson.turmoil.to_string(),
                })
            });
            let lessons: Vec<serde_json::Value> = lessons.collect();
            say(format!("{:#}", serde_json::json!({ "schema": 1, "lessons": lessons })));
        }
    }
    Ok(exit::SAFE)
}

/// The position of the lesson of this name, or of this number from 1.
fn find(lessons: &[Lesson], name: &str) -> Result<usize, Failure> {
    let by_number = name.parse().ok().and_then(|number: usize| number.checked_sub(1));
    let by_number = by_number.filter(|position| *position < lessons.len());
    let by_name = lessons.iter().position(|lesson| lesson.id == name);
    by_name.or(by_number).ok_or_else(|| {
        let known = lessons.iter().map(|lesson| lesson.id.as_str());
        let complaint = Complaint::unknown("lesson", name, known);
        Failure::from(PlanError::named("lesson run", complaint))
    })
}

fn event() -> Result<std::sync::Arc<dyn lockstorm_sim::engine::Engine>, Failure> {
    storm::engine("event").ok_or_else(|| Failure::internal("the engine is missing"))
}

fn ran(plan: &Plan) -> Result<Run, Failure> {
    Ok(storm::run(plan, event()?.as_ref()))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}

fn curves(lesson: &Lesson) -> Result<Vec<Vec<Point>>, Failure> {
    let measured = |knob| curve::measured(&lesson.plan, knob, threads());
    lesson.knobs.iter().map(measured).collect::<Result<_, _>>().map_err(Failure::from)
}

fn run(lessons: &[Lesson], number: usize, arguments: &LessonArguments) -> Result<u8, Failure> {
    let lesson = &lessons[number];
    let language = language(arguments.lang);
    let teller = Teller::new(manner(), language);
    say(teller.question(lesson, number + 1, lessons.len()));
    let chosen = chosen(lesson, arguments.answer, language)?;
    let run = ran(&lesson.plan)?;
    let said = confirmed(&run);
    say(teller.storm(&Shown { run: &run, confirmation: Some(&said) }));
    say(teller.answer(lesson, chosen));
    let curves = if arguments.no_curves { Vec::new() } else { curves(lesson)? };
    say(teller.lesson(lesson, &curves));
    if arguments.solution {
        say(teller.fixes(lesson, &fixes(lesson)?));
    }
    write_files(&arguments.files, lesson, &run, &said)?;
    as_said(lesson, &run, &said, language)
}

fn fixes(lesson: &Lesson) -> Result<Vec<Verdict>, Failure> {
    let verdict = |fix: &lesson::Fix| -> Result<Verdict, Failure> {
        let plan = change::changed(&lesson.plan, &change::split_all(&fix.set)?)?;
        Ok(ran(&plan)?.judgement.verdict)
    };
    lesson.fixes.iter().map(verdict).collect()
}

fn write_files(
    files: &Files,
    lesson: &Lesson,
    run: &Run,
    said: &Confirmation,
) -> Result<(), Failure> {
    let failure = block::Failure {
        run,
        position: None,
        repetition: None,
        confirmation: Some(said),
        reproduce: &format!("lockstorm lesson run {}", lesson.id),
    };
    files.of_run(&failure, None)
}

/// Safe (0) if the run and the reference engine are as the lesson says.
fn as_said(
    lesson: &Lesson,
    run: &Run,
    said: &Confirmation,
    language: Language,
) -> Result<u8, Failure> {
    let kinds: Vec<&str> = run.judgement.kinds().into_iter().map(|kind| kind.id()).collect();
    let verdict = run.judgement.verdict.id();
    if let Err(difference) = lesson.expect.met_by(verdict, &kinds) {
        return Err(Failure::internal(format!("{} {difference}", words(language).not_as_said)));
    }
    match said.is_settled() {
        true => Ok(exit::SAFE),
        false => Err(Failure::internal(format!("{} {said}", words(language).not_as_said))),
    }
}

/// A reader's change: what comes of it, and whether the lesson knows it.
fn changed(lesson: &Lesson, arguments: &LessonArguments) -> Result<u8, Failure> {
    let language = language(arguments.lang);
    let teller = Teller::new(manner(), language);
    let plan = change::changed(&lesson.plan, &arguments.settings)?;
    let run = ran(&plan)?;
    let said = confirmed(&run);
    say(teller.storm(&Shown { run: &run, confirmation: Some(&said) }));
    let settings: Vec<String> =
        arguments.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if let Some(fix) = lesson.fixes.iter().find(|fix| fix.set == settings) {
        say("");
        say(teller.paragraph(&fix.because));
    }
    write_files(&arguments.files, lesson, &run, &said)?;
    Ok(run.judgement.verdict.exit_code())
}

/// The answer that was given: by the flag, else by whoever sits at the terminal.
fn chosen(
    lesson: &Lesson,
    flag: Option<char>,
    language: Language,
) -> Result<Option<usize>, Failure> {
    let position = |answer: char| {
        (0..lesson.choices.len()).find(|n| letter(*n) == answer.to_ascii_lowercase())
    };
    if let Some(answer) = flag {
        let last = letter(lesson.choices.len().saturating_sub(1));
        let none = || Failure::usage(format!("--answer {answer}: write a letter from a to {last}"));
        return position(answer).map(Some).ok_or_else(none);
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Ok(None);
    }
    loop {
        print!("\n{}: ", words(language).your_answer);
        let mut line = String::new();
        let asked = io::stdout().flush().and_then(|()| io::stdin().lock().read_line(&mut line));
        match (asked, line.trim().chars().next()) {
            (Err(_), _) | (Ok(0), _) | (Ok(_), None) => return Ok(None),
            (Ok(_), Some(answer)) => match position(answer) {
                Some(position) => return Ok(Some(position)),
                None => say(words(language).no_such_answer),
            },
        }
    }
}

fn export(lessons: &[Lesson], folder: &Path) -> Result<u8, Failure> {
    struct Ran {
        run: Run,
        said: Confirmation,
        curves: Vec<Vec<Point>>,
        fixes: Vec<Verdict>,
    }
    let cannot = |path: &Path, error: io::Error| {
        Failure::usage(format!(
            "{}: cannot be written: {error}; name a folder that you may write",
            path.display()
        ))
    };
    // Before anything is run for it.
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    let mut all = Vec::new();
    for lesson in lessons {
        complain(&lesson.id);
        let run = ran(&lesson.plan)?;
        let said = confirmed(&run);
        as_said(lesson, &run, &said, Language::English)?;
        let run = shown(&run).unwrap_or(run);
        all.push(Ran { run, said, curves: curves(lesson)?, fixes: fixes(lesson)? });
    }
    let taught: Vec<Taught<'_>> = (lessons.iter().zip(&all))
        .map(|(lesson, ran)| Taught {
            lesson,
            shown: Shown { run: &ran.run, confirmation: Some(&ran.said) },
            curves: &ran.curves,
            fixes: &ran.fixes,
        })
        .collect();
    for (name, text) in site(&taught) {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| cannot(parent, error))?;
        whole_file::write(&path, &text).map_err(|error| cannot(&path, error))?;
    }
    say(folder.join("index.html").display().to_string());
    Ok(exit::SAFE)
}
