//! The watchdog of a worker, or of a test: when a run does not come back in time it says where the run is
//! and ends the process. A blocking call or an endless loop inside a program cannot be
//! stopped otherwise.
//!
//! The time is real time. It is no part of any run: a run that comes back is never
//! changed by it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The exit code of a worker that its watchdog ended.
const ENDED: i32 = 70;

/// Watches one run after the other.
#[derive(Debug)]
pub struct Watchdog(Sender<Watch>);

#[derive(Debug)]
enum Watch {
    Begin(Duration),
    End,
}

impl Watchdog {
    /// Starts watching. `tell` is called on the watchdog's own thread, just before it
    /// ends the process, with the limit that has passed.
    pub fn start(tell: impl FnOnce(Duration) + Send + 'static) -> Watchdog {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            if let Some(limit) = watch(&receiver) {
                tell(limit);
                std::process::exit(ENDED);
            }
        });
        Watchdog(sender)
    }

    /// A run begins that may take so long.
    pub fn begin(&self, limit: Duration) {
        // Without its thread nobody watches: the parent's own limit remains.
        let _ = self.0.send(Watch::Begin(limit));
    }

    /// The run is over.
    pub fn end(&self) {
        let _ = self.0.send(Watch::End);
    }
}

/// Returns the limit of the first run that exceeds it; `None` when nobody is left to watch.
fn watch(watches: &Receiver<Watch>) -> Option<Duration> {
    loop {
        let Ok(Watch::Begin(limit)) = watches.recv() else { return None };
        match watches.recv_timeout(limit) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return Some(limit),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_come_back_is_told() {
        let (sender, receiver) = channel();
        let limit = Duration::from_millis(1);
        sender.send(Watch::Begin(limit)).unwrap();
        assert_eq!(watch(&receiver), Some(limit));
    }

    #[test]
    fn runs_that_come_back_are_not() {
        let (sender, receiver) = channel();
        for _ in 0..3 {
            sender.send(Watch::Begin(Duration::from_secs(3_600))).unwrap();
            sender.send(Watch::End).unwrap();
        }
        drop(sender);
        assert_eq!(watch(&receiver), None);
    }
}
