//! Standard output: whoever reads it may leave early (`| head`), and that is no error;
//! a full disk is.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use lockstorm_sim::report::manner::{Manner, Style};

static UNSAID: AtomicBool = AtomicBool::new(false);

/// Prints a line, or lines. A reader that has left is not told any more.
pub fn say(text: impl AsRef<str>) {
    let mut output = io::stdout().lock();
    let written = writeln!(output, "{}", text.as_ref()).and_then(|()| output.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && !UNSAID.swap(true, Ordering::Relaxed)
    {
        eprintln!("error: standard output cannot be written: {error}");
    }
}

/// Whether something could not be said to a reader who is still there.
pub fn is_unsaid() -> bool {
    UNSAID.load(Ordering::Relaxed)
}

/// How texts look here: in colours where a terminal watches and does not mind.
pub fn manner() -> Manner {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let minds = is_set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let manner = Manner::from_environment();
    if io::stdout().is_terminal() && !minds { manner.styled(Style::Coloured) } else { manner }
}
