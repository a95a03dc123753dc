//! How far a long task is: a bar where a terminal watches, elsewhere a line now and then.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lockstorm_sim::report::layout::grouped;

/// How often a line comes where no terminal watches, real time: a log of a night has a
/// thousand of them.
const EVERY: Duration = Duration::from_secs(30);

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
    message: String,
}

impl Progress {
    /// Begins; `length` is how much there is, if that is known.
    pub fn new(what: &'static str, length: Option<u64>) -> Progress {
        let said = Arc::new(Mutex::new(Said::default()));
        if !stderr().is_terminal() {
            let (sender, receiver) = channel();
            let telling = said.clone();
            std::thread::spawn(move || tell(what, length, &telling, &receiver));
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

    /// One more is done.
    pub fn inc(&self) {
        self.bar.inc(1);
        self.said.lock().unwrap_or_else(PoisonError::into_inner).done += 1;
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

/// Says a line now and then, until it is over.
fn tell(what: &str, length: Option<u64>, said: &Mutex<Said>, is_over: &Receiver<()>) {
    let mut seconds = 0;
    while is_over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        seconds += EVERY.as_secs();
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("{}", line(what, length, &said, seconds));
    }
}

/// `runs: 1,200 of 5,000 after 30 s, 3 distinct failures`.
fn line(what: &str, length: Option<u64>, said: &Said, seconds: u64) -> String {
    let of = length.map_or_else(String::new, |length| format!(" of {}", grouped(length)));
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
        let said = Said { done: 1_200, message: "3 distinct failures".to_owned() };
        let told = line("runs", Some(5_000), &said, 30);
        assert_eq!(told, "runs: 1,200 of 5,000 after 30 s, 3 distinct failures");
        assert_eq!(line("hunts", None, &Said::default(), 60), "hunts: 0 after 60 s");
    }
}
