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

/// Whether somebody watches who wants to know how far it is.
pub fn is_watched() -> bool {
    stderr().is_terminal() && !is_quiet()
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
        if is_quiet() {
            return Progress { bar: ProgressBar::hidden(), said, _is_over: None };
        }
        if !stderr().is_terminal() {
            let (sender, receiver) = channel();
            let telling = said.clone();
            std::thread::spawn(move || tell(what, &telling, &receiver));
            return Progress { bar: ProgressBar::hidden(), said, _is_over: Some(sender) };
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

    /// The same, but where no terminal watches nothing is said.
    pub fn watched(what: &'static str, length: Option<u64>) -> Progress {
        match is_watched() {
            true => Progress::new(what, length),
            false => Progress { bar: ProgressBar::hidden(), said: Arc::default(), _is_over: None },
        }
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
            true => eprint!("\r\x1b[Kstill running: {place}"),
            false => eprintln!("still running: {place}"),
        }
        has_told = is_watched;
    }
    if has_told {
        eprint!("\r\x1b[K");
    }
}

/// Says a line now and then, until it is over.
fn tell(what: &str, said: &Mutex<Said>, is_over: &Receiver<()>) {
    let mut seconds = 0;
    while is_over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        seconds += EVERY.as_secs();
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("{}", line(what, &said, seconds));
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

    #[test]
    fn a_line_says_how_much_of_what_is_done() {
        let message = "3 distinct failures".to_owned();
        let said = Said { done: 1_200, length: Some(5_000), message };
        let told = line("runs", &said, 30);
        assert_eq!(told, "runs: 1,200 of 5,000 after 30 s, 3 distinct failures");
        assert_eq!(line("hunts", &Said::default(), 60), "hunts: 0 after 60 s");
    }
}
