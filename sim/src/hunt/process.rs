//! One worker process: started, asked, heard within a limit, killed when it is not
//! needed any more.
//!
//! A thread of its own reads what the worker says, so that whoever waits for it can
//! give up. The limit is real time: it guards the hunt against a run that never ends
//! and is not part of any run.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::worker::{Answer, Request};

/// Why a worker brought nothing.
#[derive(Debug)]
pub enum Trouble {
    /// The worker died, hung, or answered nonsense, and how: the plan's doing, or ours.
    Lost(String),
    /// There is no worker, or it refused the request: nobody else would do better.
    Failed(io::Error),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Lost(why) => formatter.write_str(why),
            Trouble::Failed(error) => error.fmt(formatter),
        }
    }
}

impl Trouble {
    /// A request that cannot be met, and why.
    pub fn refused(why: String) -> Self {
        Trouble::Failed(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

/// How much longer than a run may take one waits for its worker: the worker's own
/// watchdog comes first and says more.
pub const GRACE: Duration = Duration::from_secs(2);

/// One worker process.
pub struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<io::Result<String>>,
}

impl Worker {
    /// Starts `program worker`.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(program: &PathBuf) -> io::Result<Worker> {
        let mut child = Command::new(program)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let why = format!("no worker could be started: {}: {error}", program.display());
                io::Error::new(error.kind(), why)
            })?;
        let missing = || io::Error::other("the worker's pipes are missing");
        let requests = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        // One answer ahead is enough; a worker that is not heard waits at its pipe.
        let (sender, answers) = sync_channel(1);
        std::thread::spawn(move || read(output, &sender));
        Ok(Worker { child, requests, answers })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`Trouble::Lost`] when the worker has died.
    pub fn ask(&mut self, request: &Request) -> Result<(), Trouble> {
        let mut write = || -> io::Result<()> {
            serde_json::to_writer(&mut self.requests, request)?;
            self.requests.write_all(b"\n")?;
            self.requests.flush()
        };
        write().map_err(|error| Trouble::Lost(error.to_string()))
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// [`Trouble::Lost`] when the worker has died, says nothing within `limit`, or
    /// nothing that can be read; the text says which. It is of no more use then.
    pub fn hear(&mut self, limit: Duration) -> Result<Answer, Trouble> {
        let line = match self.answers.recv_timeout(limit) {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => return Err(Trouble::Lost(error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                let seconds = limit.as_secs_f64();
                let why = format!("the worker gave no answer in {seconds} s and was stopped");
                return Err(Trouble::Lost(why));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = self.child.wait().map_or_else(|e| e.to_string(), |how| how.to_string());
                return Err(Trouble::Lost(format!("the worker died ({how})")));
            }
        };
        serde_json::from_str(&line).map_err(|error| Trouble::Lost(error.to_string()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that is not needed any more has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Worker").field("process", &self.child.id()).finish_non_exhaustive()
    }
}

/// Passes on what the worker says, until it ends or nobody listens.
fn read(output: ChildStdout, sender: &SyncSender<io::Result<String>>) {
    for line in BufReader::new(output).lines() {
        let is_over = line.is_err();
        if sender.send(line).is_err() || is_over {
            return;
        }
    }
}
