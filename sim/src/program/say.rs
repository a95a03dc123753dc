//! Standard output: whoever reads it may leave early (`| head`), and that is no error.

use std::io::{self, IsTerminal, Write};

use lockstorm_sim::report::manner::{Manner, Style};

/// Prints a line, or lines. A reader that has left is not told any more.
pub fn say(text: impl AsRef<str>) {
    let mut output = io::stdout().lock();
    // Whatever fails here, there is nobody left to tell it to; the exit code stands.
    let _ = writeln!(output, "{}", text.as_ref());
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
