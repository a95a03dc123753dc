//! Standard output: whoever reads it may leave early (`| head`), and that is no error.

use std::io::{self, IsTerminal, Write};

use lockstorm_sim::report::manner::{Manner, Style};

/// Prints a line, or lines. A reader that has left is not told any more.
pub fn say(text: impl AsRef<str>) {
    let mut output = io::stdout().lock();
    // Whatever fails here, there is nobody left to tell it to; the exit code stands.
    let _ = writeln!(output, "{}", text.as_ref());
}

/// How texts look here: in colours where a terminal watches and does not mind.
pub fn manner() -> Manner {
    let minds = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let manner = Manner::from_environment();
    if io::stdout().is_terminal() && !minds { manner.styled(Style::Coloured) } else { manner }
}
