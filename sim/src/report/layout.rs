//! Measures and folds text for a terminal: columns are cells, and a Chinese character
//! takes two of them.

use unicode_width::UnicodeWidthStr;

/// How wide a text is at most where no terminal says otherwise, in cells.
pub const WIDTH: usize = 100;

/// How many cells `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` with blanks up to `cells`.
pub fn pad(text: &str, cells: usize) -> String {
    let missing = cells.saturating_sub(width(text));
    format!("{text}{:missing$}", "")
}

/// `text` behind so many blanks that it takes `cells`.
pub fn pad_left(text: &str, cells: usize) -> String {
    let missing = cells.saturating_sub(width(text));
    format!("{:missing$}{text}", "")
}

/// `text` folded at blanks into lines of at most `cells`. A word that is wider has a
/// line of its own, and a flag stays beside its value. At least one line.
pub fn fold(text: &str, cells: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_flag =
            |last: &String| last.trim_start_matches('(').starts_with("--") && !last.contains(' ');
        match words.last_mut().filter(|last| is_flag(last)) {
            Some(flag) => *flag = format!("{flag} {word}"),
            None => words.push(word.to_owned()),
        }
    }
    for word in &words {
        let line = lines.last_mut().map_or(0, |line| width(line));
        match lines.last_mut() {
            Some(last) if line == 0 => last.push_str(word),
            Some(last) if line + 1 + width(word) <= cells => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.clone()),
        }
    }
    lines
}

/// `text` behind `label`, folded to `cells` with its further lines below its first.
/// `label` counts as `label_cells` wide.
pub fn labelled(label: &str, label_cells: usize, text: &str, cells: usize) -> String {
    let mut labelled = String::new();
    for (n, line) in fold(text, cells.saturating_sub(label_cells)).iter().enumerate() {
        if n > 0 {
            labelled.push('\n');
        }
        labelled.push_str(&pad(if n == 0 { label } else { "" }, label_cells));
        labelled.push_str(line);
    }
    labelled
}

/// `text`, and `…` for what does not fit into `cells`.
pub fn shorten(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut taken = 0;
    for character in text.chars() {
        taken += width(character.encode_utf8(&mut [0; 4]));
        if taken + 1 > cells {
            break;
        }
        short.push(character);
    }
    short.push('…');
    short
}

/// A number with its thousands parted: `1,207`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 seed`, `2 seeds`, `1,207 seeds`.
pub fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chinese_character_takes_two_cells() {
        assert_eq!(width("违反 x"), 6);
        assert_eq!(pad("违反", 6), "违反  ");
        assert_eq!(shorten("违反违反", 5), "违反…");
    }

    #[test]
    fn folding_keeps_every_word_and_the_width() {
        let text = "one two three four, a-word-that-is-wider-than-the-line five";
        let lines = fold(text, 12);
        assert_eq!(lines.join(" "), text);
        assert_eq!(lines[0], "one two");
        assert!(lines.iter().all(|line| width(line) <= 12 || !line.contains(' ')));
        assert_eq!(fold("", 12), [""]);
    }

    #[test]
    fn thousands_are_parted() {
        let shown = [0, 7, 999, 1_207, 1_000_000].map(grouped);
        assert_eq!(shown, ["0", "7", "999", "1,207", "1,000,000"]);
        assert_eq!(counted(1, "seed"), "1 seed");
        assert_eq!(counted(2_000, "seed"), "2,000 seeds");
    }
}
