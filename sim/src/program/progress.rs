//! How far a long task is: a bar where a terminal watches, elsewhere a line now and then, or
//! nothing. With `--quiet` nothing is said anywhere.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lockstorm_sim::report::layout::grouped;
use lockstorm_sim::storm::place::place;

use super::say::{complain, mutter};

/// How often a line comes where no terminal watches, real time: a log of a night has a
/// thousand of them.
const EVERY: Duration = Duration::from_secs(30);

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Says nothing from now on: `--quiet`.
pub fn hush() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Whether nothing is to be said of how far it is.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// How it is said how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Bar,
    /// Now and then.
    Lines,
    Nothing,
}

impl Way {
    fn of(is_quiet: bool, is_terminal: bool) -> Way {
        match (is_quiet, is_terminal) {
            (true, _) => Way::Nothing,
            (false, true) => Way::Bar,
            (false, false) => Way::Lines,
        }
    }

    fn here() -> Way {
        Way::of(is_quiet(), stderr().is_terminal())
    }
}

/// Whether somebody watches who wants to know how far it is.
pub fn is_watched() -> bool {
    Way::here() == Way::Bar
}

/// What is under way.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    said: Arc<Mutex<Said>>,
    /// Its end ends the thread that tells.
    _is_over: Option<Sender<()>>,
}

/// What a line says.
#[derive(Debug, Default)]
struct Said {
    done: u64,
    length: Option<u64>,
    message: String,
}

impl Progress {
    /// Begins; `length` is how much there is, if that is known.
    pub fn new(what: &'static str, length: Option<u64>) -> Progress {
        let said = Arc::new(Mutex::new(Said { length, ..Said::default() }));
        match Way::here() {
            Way::Bar => {}
            Way::Lines => {
                let (sender, receiver) = channel();
                let telling = said.clone();
                let say = |line: String| complain(line);
                std::thread::spawn(move || tell(what, &telling, &receiver, EVERY, say));
                return Progress { bar: ProgressBar::hidden(), said, _is_over: Some(sender) };
            }
            Way::Nothing => {
                return Progress { bar: ProgressBar::hidden(), said, _is_over: None };
            }
        }
        let (bar, template) = match length {
            Some(length) => (
                ProgressBar::new(length),
                "{bar:30} {pos}/{len} {prefix}  {per_sec}  {eta} left  {msg}",
            ),
            None => {
                (ProgressBar::new_spinner(), "{pos} {prefix}  {per_sec}  {elapsed} so far  {msg}")
            }
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        Progress { bar, said, _is_over: None }
    }

    /// One more is done.
    pub fn inc(&self) {
        self.bar.inc(1);
        self.said.lock().unwrap_or_else(PoisonError::into_inner).done += 1;
    }

    /// How much there is, now that it is known.
    pub fn set_length(&self, length: u64) {
        if self.bar.length() != Some(length) {
            self.bar.set_length(length);
        }
        self.said.lock().unwrap_or_else(PoisonError::into_inner).length = Some(length);
    }

    /// What is to be said beside the numbers.
    pub fn set_message(&self, message: String) {
        self.bar.set_message(message.clone());
        self.said.lock().unwrap_or_else(PoisonError::into_inner).message = message;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Says where the storm of this process is, as long as somebody waits for it.
#[derive(Debug)]
pub struct Waiting {
    is_over: Option<Sender<()>>,
    telling: Option<JoinHandle<()>>,
}

impl Waiting {
    /// One waits from now on.
    pub fn begin() -> Waiting {
        if is_quiet() {
            return Waiting { is_over: None, telling: None };
        }
        let (sender, receiver) = channel();
        let is_watched = stderr().is_terminal();
        let telling = std::thread::spawn(move || wait(is_watched, &receiver));
        Waiting { is_over: Some(sender), telling: Some(telling) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.is_over.take());
        // It ends at once, and has panicked if at all.
        let _ = self.telling.take().map(JoinHandle::join);
    }
}

fn wait(is_watched: bool, is_over: &Receiver<()>) {
    let every = if is_watched { Duration::from_secs(2) } else { EVERY };
    let mut has_told = false;
    while is_over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let Some(place) = place() else { continue };
        match is_watched {
            true => mutter(format!("\r\x1b[Kstill running: {place}")),
            false => complain(format!("still running: {place}")),
        }
        has_told = is_watched;
    }
    if has_told {
        mutter("\r\x1b[K");
    }
}

/// Says a line now and then, until it is over.
fn tell(
    what: &str,
    said: &Mutex<Said>,
    is_over: &Receiver<()>,
    every: Duration,
    mut say: impl FnMut(String),
) {
    let mut so_far = Duration::ZERO;
    while is_over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        so_far += every;
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        say(line(what, &said, so_far.as_secs()));
    }
}

/// `runs: 1,200 of 5,000 after 30 s, 3 distinct failures`.
fn line(what: &str, said: &Said, seconds: u64) -> String {
    let of = said.length.map_or_else(String::new, |length| format!(" of {}", grouped(length)));
    let message = match said.message.as_str() {
        "" => String::new(),
        message => format!(", {message}"),
    };
    format!("{what}: {}{of} after {} s{message}", grouped(said.done), grouped(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal has a bar, a log a line now and then, and whoever wants quiet has it anywhere.
    #[test]
    fn who_watches_decides_how_it_is_said() {
        assert_eq!(Way::of(false, true), Way::Bar);
        assert_eq!(Way::of(false, false), Way::Lines);
        assert_eq!([true, false].map(|terminal| Way::of(true, terminal)), [Way::Nothing; 2]);
    }

    #[test]
    fn lines_come_until_it_is_over() {
        let (sender, is_over) = channel();
        let mut sender = Some(sender);
        let said = Mutex::new(Said { done: 3, length: Some(4), ..Said::default() });
        let mut lines = Vec::new();
        tell("runs", &said, &is_over, Duration::from_millis(1), |line| {
            lines.push(line);
            if lines.len() == 2 {
                drop(sender.take());
            }
        });
        assert_eq!(lines, ["runs: 3 of 4 after 0 s", "runs: 3 of 4 after 0 s"]);
    }

    #[test]
    fn a_line_says_how_much_of_what_is_done() {
        let message = "3 distinct failures".to_owned();
        let said = Said { done: 1_200, length: Some(5_000), message };
        let told = line("runs", &said, 30);
        assert_eq!(told, "runs: 1,200 of 5,000 after 30 s, 3 distinct failures");
        assert_eq!(line("hunts", &Said::default(), 60), "hunts: 0 after 60 s");
    }
}
