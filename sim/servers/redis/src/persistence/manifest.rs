//! The manifest: which files make up the append-only file, in which order.
//!
//! `file NAME seq NUMBER type b|h|i`, a line each: a base, which is a snapshot, and what was
//! appended since, in one file or, while a rewrite is under way, in two.

/// The folder of the append-only file (`appenddirname`).
const FOLDER: &str = "appendonlydir";
/// Its name (`appendfilename`).
const NAME: &str = "appendonly.aof";

/// The files of an append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) base: Option<Part>,
    pub(super) increments: Vec<Part>,
    base_number: u64,
    increment_number: u64,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    name: String,
    number: u64,
}

impl Part {
    /// Its name on the disk.
    pub(super) fn path(&self) -> String {
        format!("{FOLDER}/{}", self.name)
    }
}

/// The manifest's own name on the disk.
pub(super) fn path() -> String {
    format!("{FOLDER}/{NAME}.manifest")
}

/// Where it is written before it takes its name.
pub(super) fn path_beside() -> String {
    format!("{FOLDER}/temp-{NAME}.manifest")
}

/// What is appended to while there is no base yet.
pub(super) fn path_waiting() -> String {
    format!("{FOLDER}/temp-{NAME}.incr")
}

impl Manifest {
    pub(super) fn is_empty(&self) -> bool {
        self.base.is_none() && self.increments.is_empty()
    }

    /// All files, in the order in which they are loaded.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.base.iter().chain(&self.increments)
    }

    /// With another base, in place of the one before.
    pub(super) fn add_base(&mut self) -> Part {
        self.base_number += 1;
        let number = self.base_number;
        let part = Part { name: format!("{NAME}.{number}.base.rdb"), number };
        self.base = Some(part.clone());
        part
    }

    /// With another file to append to, behind those before.
    pub(super) fn add_increment(&mut self) -> Part {
        self.increment_number += 1;
        let number = self.increment_number;
        let part = Part { name: format!("{NAME}.{number}.incr.aof"), number };
        self.increments.push(part.clone());
        part
    }

    /// As it stands on the disk.
    pub(super) fn text(&self) -> String {
        let line =
            |part: &Part, kind| format!("file {} seq {} type {kind}\n", part.name, part.number);
        let increments = self.increments.iter().map(|part| line(part, 'i'));
        self.base.iter().map(|part| line(part, 'b')).chain(increments).collect()
    }

    /// Reads what stands on the disk; `None` if it is damaged. Files that are history are
    /// left out.
    pub(super) fn parse(text: &[u8]) -> Option<Manifest> {
        let text = std::str::from_utf8(text).ok()?;
        let mut manifest = Manifest::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let mut value = |key| (words.next() == Some(key)).then(|| words.next()).flatten();
            let name = value("file")?.to_owned();
            let number: u64 = value("seq")?.parse().ok()?;
            let kind = value("type")?;
            if name.is_empty() || name.contains('/') || words.next().is_some() {
                return None;
            }
            let part = Part { name, number };
            match kind {
                "b" if manifest.base.is_none() => {
                    manifest.base_number = number;
                    manifest.base = Some(part);
                }
                "i" if number > manifest.increment_number => {
                    manifest.increment_number = number;
                    manifest.increments.push(part);
                }
                "h" => {}
                _ => return None,
            }
        }
        Some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut manifest = Manifest::default();
        manifest.add_base();
        manifest.add_increment();
        assert_eq!(
            manifest.text(),
            "file appendonly.aof.1.base.rdb seq 1 type b\n\
             file appendonly.aof.1.incr.aof seq 1 type i\n"
        );
        manifest.add_increment();
        let read = Manifest::parse(manifest.text().as_bytes());
        assert_eq!(read.as_ref(), Some(&manifest));
        let paths: Vec<_> = manifest.parts().map(Part::path).collect();
        assert_eq!(paths[0], "appendonlydir/appendonly.aof.1.base.rdb");
        assert_eq!(paths[2], "appendonlydir/appendonly.aof.2.incr.aof");
    }

    #[test]
    fn damaged_ones_are_refused() {
        for text in [
            "file a seq 1 type b\nfile b seq 2 type b\n",
            "file a seq 2 type i\nfile b seq 1 type i\n",
            "file a seq x type i\n",
            "file a/b seq 1 type i\n",
            "file a seq 1\n",
            "nonsense\n",
        ] {
            assert_eq!(Manifest::parse(text.as_bytes()), None, "{text}");
        }
        assert!(Manifest::parse(b"file a seq 1 type h\n").is_some_and(|read| read.is_empty()));
    }
}
