//! Sentinels name servers as the simulated network knows them. A client outside must hear of
//! their doors instead: what a sentinel says passes through here, as through the gateway of a
//! private network.
//!
//! Replies are read frame by frame, as far as that: lines go out as they came, and of each bulk
//! string the words are looked at. A word that is a server's name is the address of its door,
//! and the server's port, which follows it, is the port of the door. Words are what stands
//! between blanks, ends of lines, and the signs of `INFO` (`address=redis-1:6379,slaves=2`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The port of a server, and its door.
type Door = (u16, SocketAddr);

/// How many words may stand between an address and its port: `port`, as a field's name.
const BETWEEN: u8 = 2;

/// What words end with.
const BEHIND_WORDS: &[u8] = b" ,=\r\n";

/// The longest line that is waited for: a reply of a sentinel has none that is nearly so long.
const MOST_LINE_BYTES: usize = 64 * 1024;

/// What a sentinel says to one client.
pub(super) struct Translator {
    doors: BTreeMap<String, Door>,
    /// What has come and is not a whole frame yet.
    held: Vec<u8>,
    /// The door whose port is to follow, and in how many words at most.
    follows: Option<(Door, u8)>,
}

impl Translator {
    /// For a client to which the servers are behind these doors.
    pub(super) fn new(doors: BTreeMap<String, Door>) -> Self {
        Translator { doors, held: Vec::new(), follows: None }
    }

    /// What the client is to hear, of what has come.
    pub(super) fn translate(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let mut heard = Vec::with_capacity(bytes.len());
        let held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        while let Some(length) = line_length(rest) {
            let (line, after) = rest.split_at(length);
            let Some(bulk) = bulk_length(line) else {
                heard.extend_from_slice(line);
                rest = after;
                continue;
            };
            let Some(body) = after.get(..bulk) else { break };
            let said = self.words(body);
            heard
                .extend_from_slice(format!("{}{}\r\n", char::from(line[0]), said.len()).as_bytes());
            heard.extend_from_slice(&said);
            rest = &after[bulk..];
        }
        if rest.len() > MOST_LINE_BYTES && line_length(rest).is_none() {
            // No frame of a sentinel's: it goes out as it is.
            heard.extend_from_slice(rest);
            rest = &[];
        }
        self.held = rest.to_vec();
        heard
    }

    fn words(&mut self, text: &[u8]) -> Vec<u8> {
        let mut said = Vec::with_capacity(text.len());
        for part in text.split_inclusive(|byte| BEHIND_WORDS.contains(byte)) {
            let is_behind = part.last().is_some_and(|byte| BEHIND_WORDS.contains(byte));
            let (word, behind) = part.split_at(part.len() - usize::from(is_behind));
            match std::str::from_utf8(word) {
                Ok(word) if !word.is_empty() => said.extend_from_slice(self.word(word).as_bytes()),
                _ => said.extend_from_slice(word),
            }
            said.extend_from_slice(behind);
        }
        said
    }

    fn word(&mut self, word: &str) -> String {
        if let Some((_, door)) = self.doors.get(word).copied() {
            self.follows = self.doors.get(word).map(|door| (*door, BETWEEN));
            return door.ip().to_string();
        }
        if let Some((name, port)) = word.rsplit_once(':')
            && let Some((own, door)) = self.doors.get(name)
            && port == own.to_string()
        {
            return door.to_string();
        }
        match self.follows.take() {
            Some(((port, door), _)) if word == port.to_string() => door.port().to_string(),
            Some((door, left)) if left > 1 => {
                self.follows = Some((door, left - 1));
                word.to_owned()
            }
            _ => word.to_owned(),
        }
    }
}

/// The length of the first line, its end included.
fn line_length(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|end| end == b"\r\n").map(|at| at + 2)
}

/// How long the string is that a line announces; `None` if it announces none. Its end is left
/// to be the next line, which is empty.
fn bulk_length(line: &[u8]) -> Option<usize> {
    let (b'$' | b'=' | b'!', length) = line.split_first()? else { return None };
    std::str::from_utf8(length).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translator() -> Translator {
        let door = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let doors = [("redis-1", (6_379, door(41))), ("sentinel-2", (26_379, door(42)))];
        Translator::new(doors.into_iter().map(|(name, door)| (name.to_owned(), door)).collect())
    }

    fn heard(said: &str) -> String {
        let mut whole = translator();
        let at_once = whole.translate(said.as_bytes());
        let mut by_bytes = translator();
        let bytes = said.as_bytes().chunks(1);
        let one_by_one: Vec<u8> = bytes.flat_map(|byte| by_bytes.translate(byte)).collect();
        assert_eq!(at_once, one_by_one);
        String::from_utf8(at_once).unwrap()
    }

    #[test]
    fn an_address_is_that_of_the_door() {
        let said = "*2\r\n$7\r\nredis-1\r\n$4\r\n6379\r\n";
        assert_eq!(heard(said), "*2\r\n$9\r\n127.0.0.1\r\n$2\r\n41\r\n");
    }

    #[test]
    fn fields_and_messages_have_addresses_too() {
        let said = "*4\r\n$2\r\nip\r\n$10\r\nsentinel-2\r\n$4\r\nport\r\n$5\r\n26379\r\n";
        assert_eq!(heard(said), "*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$2\r\n42\r\n");
        let said = "$47\r\nmymaster redis-1 6379 redis-1:6379 redis-9 6379\r\n";
        assert!(heard(said).contains("mymaster 127.0.0.1 41 127.0.0.1:41 redis-9 6379"));
    }

    #[test]
    fn addresses_in_info_are_those_of_doors() {
        let info = "# Sentinel\r\nsentinel_masters:1\r\n\
                    master0:name=mymaster,status=ok,address=redis-1:6379,slaves=2,sentinels=3\r\n";
        let told = info.replace("redis-1:6379", "127.0.0.1:41");
        for (sign, before) in [("$", ""), ("=", "txt:")] {
            let said = format!("{sign}{}\r\n{before}{info}\r\n", before.len() + info.len());
            let wanted = format!("{sign}{}\r\n{before}{told}\r\n", before.len() + told.len());
            assert_eq!(heard(&said), wanted);
        }
        // Bytes that are no text are nobody's name.
        let mut whole = translator();
        assert_eq!(whole.translate(b"$3\r\n\xff\0=\r\n"), b"$3\r\n\xff\0=\r\n");
    }

    #[test]
    fn other_replies_go_out_as_they_came() {
        for said in
            ["+PONG\r\n", "$-1\r\n", "*-1\r\n", ":6379\r\n", "$4\r\n6379\r\n", "-ERR no\r\n"]
        {
            assert_eq!(heard(said), said);
        }
    }
}
