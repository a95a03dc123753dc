//! Names of nodes: the folder of a lock, and a place in its queue.
//!
//! A place is called `{mark}-{kind}-{sequence}`. The mark is drawn for it, so that whoever
//! asked for it knows it again although the reply was lost; the kind says what it waits for;
//! the sequence is the parent's counter, which the leader appends.

use crate::host::Host;

/// What a place in a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// For itself: it waits for everybody before it.
    Alone,
    /// With other readers: it waits for those before it that are for themselves.
    Shared,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Alone, Kind::Shared];

    fn infix(self) -> &'static str {
        match self {
            Kind::Alone => "-lock-",
            Kind::Shared => "-read-",
        }
    }

    /// Whether a place of this kind waits for one of `other` before it.
    fn waits_for(self, other: Kind) -> bool {
        self == Kind::Alone || other == Kind::Alone
    }
}

/// The mark of a place and its kind: all of its name but the sequence.
pub(super) fn mark(host: &Host, kind: Kind) -> String {
    let (high, low) = (host.random("place"), host.random("place"));
    format!("{high:016x}{low:016x}{}", kind.infix())
}

/// A place in a queue, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    kind: Kind,
    sequence: i32,
}

impl Standing {
    /// `None` for nodes of others.
    fn of(name: &str) -> Option<Standing> {
        Kind::ALL.into_iter().find_map(|kind| {
            let (_, sequence) = name.rsplit_once(kind.infix())?;
            // After two thousand million places the counter goes on below zero.
            let sequence = sequence.parse().ok()?;
            Some(Standing { kind, sequence })
        })
    }

    /// How far this is behind `other`; the counter wraps around, a queue is never half as
    /// long as it counts.
    fn behind(self, other: Standing) -> i32 {
        self.sequence.wrapping_sub(other.sequence)
    }
}

/// Whose turn it is, as one place sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its own.
    Ours,
    /// That of whoever is before this node, the nearest that it waits for.
    After(String),
    /// The place is not there.
    Gone,
}

/// Whose turn it is by these children of a lock's folder, as the place `own` sees it.
pub(super) fn turn(children: &[String], own: &str) -> Turn {
    let Some(own_standing) = Standing::of(own) else { return Turn::Gone };
    if !children.iter().any(|name| name == own) {
        return Turn::Gone;
    }
    let before = children.iter().filter_map(|name| {
        let standing = Standing::of(name)?;
        let behind = own_standing.behind(standing);
        (behind > 0 && own_standing.kind.waits_for(standing.kind)).then_some((behind, name))
    });
    match before.min() {
        Some((_, name)) => Turn::After(name.clone()),
        None => Turn::Ours,
    }
}

/// The first in the queue, by these children of its folder.
pub(super) fn first(children: &[String]) -> Option<&String> {
    let mut standing = children.iter().filter_map(|name| Some((Standing::of(name)?, name)));
    let begin = standing.next()?;
    let earlier = |one: (Standing, _), other: (Standing, _)| {
        if one.0.behind(other.0) > 0 { other } else { one }
    };
    Some(standing.fold(begin, earlier).1)
}

/// A key as one name of a node: what would part it, or what ZooKeeper does not take, is
/// written as `%` and two hex digits for each byte.
pub(super) fn folder(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for character in key.chars() {
        let plain = (character.is_ascii_graphic() && !matches!(character, '/' | '%'))
            || (character.is_alphanumeric() && !character.is_ascii());
        if plain {
            name.push(character);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in character.encode_utf8(&mut bytes).bytes() {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    match name.as_str() {
        // These two are steps in a path; the third cannot be written by the rule above.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        "" => "%".to_owned(),
        _ => name,
    }
}

/// Whether this is the absolute path of a node that is not the root.
pub(super) fn is_path(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|rest| {
        rest.split('/').all(|part| {
            !matches!(part, "" | "." | "..")
                && !part.chars().any(|character| character.is_control())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn who_stands_alone_waits_for_the_nearest_before_it() {
        let queue = names(&["b-lock-0000000007", "a-lock-0000000009", "c-lock-0000000003"]);
        assert_eq!(turn(&queue, "c-lock-0000000003"), Turn::Ours);
        assert_eq!(turn(&queue, "b-lock-0000000007"), Turn::After(queue[2].clone()));
        assert_eq!(turn(&queue, "a-lock-0000000009"), Turn::After(queue[0].clone()));
        assert_eq!(turn(&queue, "d-lock-0000000001"), Turn::Gone);
        assert_eq!(first(&queue), Some(&queue[2]));
    }

    #[test]
    fn readers_wait_for_writers_alone() {
        let queue = names(&[
            "a-read-0000000001",
            "b-read-0000000002",
            "c-lock-0000000003",
            "d-read-0000000004",
            "e-read-0000000005",
        ]);
        assert_eq!(turn(&queue, &queue[0]), Turn::Ours);
        assert_eq!(turn(&queue, &queue[1]), Turn::Ours);
        assert_eq!(turn(&queue, &queue[2]), Turn::After(queue[1].clone()));
        assert_eq!(turn(&queue, &queue[3]), Turn::After(queue[2].clone()));
        assert_eq!(turn(&queue, &queue[4]), Turn::After(queue[2].clone()));
    }

    #[test]
    fn nodes_of_others_are_nobodys_turn() {
        let queue = names(&["notes", "x-lock-abc", "a-lock-0000000001", "z-wait-0000000000"]);
        assert_eq!(turn(&queue, "a-lock-0000000001"), Turn::Ours);
        assert_eq!(first(&queue), Some(&queue[2]));
        assert_eq!(first(&[]), None);
    }

    #[test]
    fn a_counter_that_wraps_keeps_the_order() {
        let queue = names(&["b-lock--2147483648", "a-lock-2147483647", "c-lock--2147483647"]);
        assert_eq!(turn(&queue, &queue[1]), Turn::Ours);
        assert_eq!(turn(&queue, &queue[0]), Turn::After(queue[1].clone()));
        assert_eq!(turn(&queue, &queue[2]), Turn::After(queue[0].clone()));
        assert_eq!(first(&queue), Some(&queue[1]));
    }

    #[test]
    fn every_key_has_a_folder_of_its_own_that_servers_take() {
        let folders =
            ["stock:42", "a/b", "a%2Fb", ".", "..", "", "%", "订单", "a b", "\n"].map(folder);
        insta::assert_snapshot!(folders.join(" "),
            @"stock:42 a%2Fb a%252Fb %2E %2E%2E % %25 订单 a%20b %0A");
        for folder in folders {
            assert!(is_path(&format!("/{folder}")), "{folder}");
        }
    }
}
