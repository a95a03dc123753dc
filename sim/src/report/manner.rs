//! How a text may look: which characters, whether colours, built from what.
//!
//! The one place that asks the environment for the locale. Colours are off unless the
//! program, which knows its terminal, switches them on: a test's output is captured
//! and compared.

use owo_colors::OwoColorize;

use crate::engine::senses;
use crate::report::layout::WIDTH;
use crate::visible::visible_lines;

/// Below so many cells texts do not become narrower.
pub const NARROWEST: usize = 60;

/// Which characters a text may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// Marks, arrows and Chinese words.
    #[default]
    Unicode,
    /// What every terminal shows; Chinese words are left out.
    Ascii,
}

/// The characters that reports use beyond ASCII, other than Chinese, and what stands
/// for them.
const FALLBACKS: [(char, &str); 15] = [
    ('─', "-"),
    ('→', "->"),
    ('←', "<-"),
    ('…', "..."),
    ('·', "|"),
    ('×', "x"),
    ('µ', "u"),
    ('≥', ">="),
    ('≤', "<="),
    ('–', "-"),
    ('’', "'"),
    ('⚡', "!"),
    ('✗', "x"),
    ('✓', "+"),
    ('±', "+-"),
];

impl Charset {
    /// What the locale of this process can show.
    pub fn from_environment() -> Charset {
        Charset::from_locale(|name| std::env::var(name).ok())
    }

    /// What a locale can show, `variable` being the environment: the first of `LC_ALL`,
    /// `LC_CTYPE` and `LANG` that is set and not empty decides, as in POSIX. Without
    /// any it is the C locale, except on Windows, which has no such variables.
    pub fn from_locale(variable: impl Fn(&str) -> Option<String>) -> Charset {
        let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
        let is_utf8 = match locale {
            Some(locale) => {
                let locale = locale.to_ascii_lowercase();
                locale.contains("utf-8") || locale.contains("utf8")
            }
            None => cfg!(windows),
        };
        if is_utf8 { Charset::Unicode } else { Charset::Ascii }
    }

    /// `text` in these characters, and nothing hidden in it: it may have several lines, but
    /// no colours yet. What has no fallback becomes `?`.
    pub fn fit(self, text: &str) -> String {
        let text = visible_lines(text);
        if self == Charset::Unicode || text.is_ascii() {
            return text.into_owned();
        }
        let mut fitted = String::with_capacity(text.len());
        for character in text.chars() {
            let fallback = FALLBACKS.iter().find(|(known, _)| *known == character);
            match fallback {
                _ if character.is_ascii() => fitted.push(character),
                Some((_, instead)) => fitted.push_str(instead),
                None => fitted.push('?'),
            }
        }
        fitted
    }

    /// Whether Chinese words can be shown.
    pub fn has_chinese(self) -> bool {
        self == Charset::Unicode
    }
}

/// Whether a text has colours. Off unless switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// None.
    #[default]
    Plain,
    /// ANSI colours.
    Coloured,
}

impl Style {
    /// Something that is wrong.
    pub fn bad(self, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => text.red().bold().to_string(),
        }
    }

    /// Something that is well.
    pub fn good(self, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => text.green().bold().to_string(),
        }
    }

    /// A fault, or a verdict that says nothing.
    pub fn warning(self, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => text.yellow().to_string(),
        }
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => text.bold().to_string(),
        }
    }

    /// Something that one may skip.
    pub fn faint(self, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => text.dimmed().to_string(),
        }
    }
}

/// What the program was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The version of this crate.
    pub version: &'static str,
    /// `debug` or `release`.
    pub profile: &'static str,
    /// The processor's architecture.
    pub arch: &'static str,
    /// The operating system.
    pub os: &'static str,
    /// Whether tokio's unstable parts are in it: see [`Build::lacks`].
    pub tokio_unstable: bool,
    /// Whether an interposer answers third-party code; `None` where nobody has looked.
    pub interposer: Option<bool>,
}

impl Build {
    /// This build.
    pub const CURRENT: Build = Build {
        version: env!("CARGO_PKG_VERSION"),
        profile: if cfg!(debug_assertions) { "debug" } else { "release" },
        arch: std::env::consts::ARCH,
        os: std::env::consts::OS,
        tokio_unstable: cfg!(tokio_unstable),
        interposer: None,
    };

    /// This build, and whether an interposer is installed in this process.
    pub fn of_process() -> Build {
        Build { interposer: Some(senses::reach_libraries()), ..Build::CURRENT }
    }

    /// What this build does not have that makes more of a run the seed's, and what it
    /// would add.
    pub fn lacks(&self) -> Vec<&'static str> {
        let tokio = (!self.tokio_unstable).then_some(
            "`--cfg tokio_unstable` (it seeds tokio's `select!` and tells whose tasks are that \
             were spawned past their host)",
        );
        let interposer = (self.interposer == Some(false)).then_some(
            "lockstorm-interpose (it gives libraries the nodes' clocks and keyed entropy)",
        );
        tokio.into_iter().chain(interposer).collect()
    }
}

impl std::fmt::Display for Build {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Build { version, profile, arch, os, .. } = self;
        write!(formatter, "lockstorm {version} · {profile} · {arch}-{os}")
    }
}

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Its characters.
    pub charset: Charset,
    /// Its colours.
    pub style: Style,
    /// What it says that it was built from.
    pub build: Build,
    /// How wide its lines are at most, in cells. Commands that one copies are never
    /// broken.
    pub width: usize,
}

impl Manner {
    /// In the characters of this process's locale, without colours.
    pub fn from_environment() -> Manner {
        Manner { build: Build::of_process(), ..Manner::of(Charset::from_environment()) }
    }

    /// In these characters, without colours.
    pub const fn of(charset: Charset) -> Manner {
        Manner { charset, style: Style::Plain, build: Build::CURRENT, width: WIDTH }
    }

    /// For a terminal of so many columns: no narrower than [`NARROWEST`] cells and no
    /// wider than [`WIDTH`].
    #[must_use]
    pub fn within(self, columns: usize) -> Manner {
        Manner { width: columns.clamp(NARROWEST, WIDTH), ..self }
    }

    /// With colours if the terminal takes them.
    #[must_use]
    pub fn styled(self, style: Style) -> Manner {
        Manner { style, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Charset {
        Charset::from_locale(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_first_variable_that_says_something_decides() {
        assert_eq!(of(&[("LANG", "en_GB.UTF-8")]), Charset::Unicode);
        assert_eq!(of(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]), Charset::Ascii);
        assert_eq!(of(&[("LC_ALL", ""), ("LC_CTYPE", "zh_CN.utf8")]), Charset::Unicode);
        assert_eq!(of(&[("LC_CTYPE", "de_DE.ISO-8859-1")]), Charset::Ascii);
        assert_eq!(of(&[("LC_CTYPE", "UTF-8"), ("LANG", "C")]), Charset::Unicode);
    }

    #[test]
    fn every_character_has_a_fallback_and_strangers_do_not_get_through() {
        for (character, instead) in FALLBACKS {
            assert_eq!(Charset::Ascii.fit(&character.to_string()), instead);
        }
        assert_eq!(Charset::Ascii.fit("10 µs → 违反"), "10 us -> ??");
        assert_eq!(Charset::Unicode.fit("10 µs → 违反"), "10 µs → 违反");
    }

    #[test]
    fn a_name_can_neither_turn_the_writing_around_nor_command_the_terminal() {
        for charset in [Charset::Unicode, Charset::Ascii] {
            assert_eq!(charset.fit("a\u{202e}1-ppa"), "a\\u{202e}1-ppa");
            assert_eq!(charset.fit("\u{1b}[2J\u{61c}"), "\\u{1b}[2J\\u{61c}");
        }
    }

    #[test]
    fn plain_means_no_escapes() {
        assert_eq!(Style::default().bad("x"), "x");
        assert!(Style::Coloured.bad("x").contains('\u{1b}'));
    }
}
