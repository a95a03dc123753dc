//! Names of znodes: which are well-formed, and who is whose parent.

/// Whether a znode may be called so (`PathUtils.validatePath`). It counts in UTF-16, as
/// Java does: what is beyond the first plane is written with surrogates, which are refused.
pub fn is_valid(path: &str) -> bool {
    if path == "/" {
        return true;
    }
    let Some(names) = path.strip_prefix('/') else { return false };
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    names.split('/').all(is_name) && names.chars().all(is_allowed)
}

fn is_allowed(character: char) -> bool {
    !matches!(u32::from(character), 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..)
}

/// The path of the parent; `None` where there is no slash. The parent of the root is the root.
pub fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')?.0 {
        "" => Some("/"),
        parent => Some(parent),
    }
}

/// The last name of a path.
pub fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The path of a child.
pub fn child(parent: &str, name: &str) -> String {
    match parent {
        "/" => format!("/{name}"),
        parent => format!("{parent}/{name}"),
    }
}

/// Whether a znode is one of those that are always there.
pub fn is_special(path: &str) -> bool {
    matches!(path, "/" | "/zookeeper" | "/zookeeper/quota" | "/zookeeper/config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_judged_as_in_zookeeper() {
        for good in ["/", "/a", "/a/b", "/a.b", "/..a", "/a..", "/...", "/ä", "/a b", "/中"] {
            assert!(is_valid(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "a/b",
            "/a/",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/a/.",
            "/a/./b",
            "/..",
            "/a/..",
            "/a\0",
            "/\u{1}",
            "/\u{1f}",
            "/\u{7f}",
            "/\u{9f}",
            "/\u{f8ff}",
            "/\u{fffd}",
            "/\u{1f600}",
        ] {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }

    #[test]
    fn parents_and_names() {
        assert_eq!(parent("/a/b"), Some("/a"));
        assert_eq!(parent("/a"), Some("/"));
        assert_eq!(parent("/"), Some("/"));
        assert_eq!(parent("a"), None);
        assert_eq!((name("/a/b"), name("/")), ("b", ""));
        assert_eq!(child("/", "a"), "/a");
        assert_eq!(child("/a", "b"), "/a/b");
    }
}
