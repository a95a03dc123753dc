//! Files that are written as a whole: a reader finds the old text or the new one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Writes `text` beside `path` (with `.part` after its name), then renames it. A link stays
/// a link; a device, a pipe or a socket is written into, for a rename would put a file in
/// its place.
///
/// # Errors
/// When the file cannot be written; what was there stays, and nothing is left beside it.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let there = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&there).is_ok_and(|there| !there.is_file()) {
        return OpenOptions::new().write(true).open(&there)?.write_all(text.as_bytes());
    }
    let mut beside = there.clone().into_os_string();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, &there)).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_anew_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        for text in ["old", "new"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(folder.path(), "text").is_err(), "a folder");
        assert!(write(&folder.path().join("none/plan.toml"), "text").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_written_into_and_stays_what_it_is() {
        use std::os::unix::fs::{FileTypeExt as _, symlink};
        use std::os::unix::net::UnixListener;

        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(write(&socket, "text").is_err(), "nobody can write into a socket so");
        assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
        drop(listener);
        let nothing = folder.path().join("null");
        symlink("/dev/null", &nothing).unwrap();
        write(&nothing, "text").unwrap();
        assert!(fs::metadata(&nothing).unwrap().file_type().is_char_device());
        let link = folder.path().join("link");
        fs::write(folder.path().join("plan.toml"), "old").unwrap();
        symlink("plan.toml", &link).unwrap();
        write(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(folder.path().join("plan.toml")).unwrap(), "new");
    }
}
