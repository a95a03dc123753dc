//! Standard output: whoever reads it may leave early (`| head`), and that is no error;
//! a full disk is. Standard error is not missed where nobody reads it.

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
        complain(format!("error: standard output cannot be written: {error}"));
    }
}

/// Says a line on standard error. Where nobody reads that (`2>&1 | head`) it is lost, and the
/// exit code still says how it went: `eprintln!` would panic.
pub fn complain(line: impl AsRef<str>) {
    mutter(format!("{}\n", line.as_ref()));
}

/// Likewise, and the line goes on.
pub fn mutter(text: impl AsRef<str>) {
    let _ = io::stderr().lock().write_all(text.as_ref().as_bytes());
}

/// Whether something could not be said to a reader who is still there.
pub fn is_unsaid() -> bool {
    UNSAID.load(Ordering::Relaxed)
}

/// How texts look here: as wide as the terminal that watches, and in colours where it
/// has them and nobody minds.
pub fn manner() -> Manner {
    let manner = Manner::from_environment();
    if !io::stdout().is_terminal() {
        return manner;
    }
    let columns = console::Term::stdout().size_checked().map(|(_, columns)| columns);
    let manner = columns.map_or(manner, |columns| manner.within(usize::from(columns)));
    let is_set = |name: &str, value: &str| {
        std::env::var_os(name)
            .is_some_and(|set| !set.is_empty() && (value.is_empty() || set == value))
    };
    let minds = is_set("NO_COLOR", "") || is_set("TERM", "dumb");
    if minds { manner } else { manner.styled(Style::Coloured) }
}
