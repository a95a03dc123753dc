//! Capsules: a whole plan on one line, to be pasted into a chat, an issue or a command.
//!
//! `storm1:` and then, in base64 of the URL alphabet without padding: the first four
//! bytes of the BLAKE3 hash of the plan's canonical text, and that text deflated. The number
//! is the version of this form; the plan inside has its own schema, like a file. Every
//! place that takes a plan file takes a capsule as well ([`file::load`]).
//!
//! Bad input gives one error: cut off or mistyped, of a later version, or beyond the
//! bounds, which hold before anything is unpacked.

use std::io::{Read, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::complaint::quoted;
use super::{Complaint, Plan, PlanError, file};

/// What a capsule begins with, before its version.
const KIND: &str = "storm";

/// The version that is written.
const VERSION: u32 = 1;

/// No capsule is longer, in bytes.
const LONGEST_BYTES: usize = 64 << 10;

/// No plan inside is longer, in bytes.
const LONGEST_TEXT_BYTES: u64 = 512 << 10;

/// Bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;

/// The plan as a capsule; [`parse`] gives the same plan back.
pub fn write(plan: &Plan) -> String {
    let text = file::write(plan);
    let mut bytes = checksum(text.as_bytes()).to_vec();
    let mut encoder = DeflateEncoder::new(&mut bytes, Compression::best());
    // Writing to a vector does not fail.
    let _ = encoder.write_all(text.as_bytes());
    let _ = encoder.finish();
    format!("{KIND}{VERSION}:{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Whether `text` begins like a capsule, of this version or another.
pub fn is_capsule(text: &str) -> bool {
    version(text).is_some()
}

/// Whether a path on the command line is a capsule in truth.
pub fn of_path(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| is_capsule(text))
}

/// Reads a capsule.
///
/// # Errors
/// What is wrong with it, or with the plan inside.
pub fn parse(capsule: &str) -> Result<Plan, PlanError> {
    let text = text(capsule)?;
    file::parse(&name(capsule), &text)
}

/// What errors call a capsule.
pub(super) fn name(capsule: &str) -> String {
    const SHOWN_CHARS: usize = 20;
    let shown: String = capsule.trim().chars().take(SHOWN_CHARS).collect();
    format!("capsule {shown}…")
}

/// The plan inside, as TOML.
pub(super) fn text(capsule: &str) -> Result<String, PlanError> {
    let at = |what: &str, mend: &str| PlanError::named(name(capsule), Complaint::new(what, mend));
    let whole = "copy the whole line again, from storm1: to its end";
    let Some((number, packed)) = version(capsule) else {
        return Err(at("this is no capsule", whole));
    };
    if number != VERSION {
        let what =
            format!("a capsule of version {} is not known here", quoted(&number.to_string()));
        return Err(at(&what, "update lockstorm, or ask for the plan as a file"));
    }
    if packed.len() > LONGEST_BYTES {
        return Err(at("it is longer than any capsule", "keep such a plan in a file"));
    }
    let bytes = URL_SAFE_NO_PAD
        .decode(packed)
        .map_err(|error| at(&format!("it is damaged ({error})"), whole))?;
    let Some((sum, deflated)) = bytes.split_at_checked(CHECKSUM_BYTES) else {
        return Err(at("it is cut off", whole));
    };
    let mut text = Vec::new();
    let mut decoder = DeflateDecoder::new(deflated).take(LONGEST_TEXT_BYTES + 1);
    let read = decoder.read_to_end(&mut text);
    if text.len() as u64 > LONGEST_TEXT_BYTES {
        return Err(at("the plan inside is longer than any plan", "keep such a plan in a file"));
    }
    let behind = decoder.into_inner().into_inner();
    if read.is_err() || sum != checksum(&text) || !behind.is_empty() {
        return Err(at("it is damaged: its checksum does not fit", whole));
    }
    String::from_utf8(text).map_err(|_| at("the plan inside is not UTF-8", whole))
}

/// The version, and what comes after it.
fn version(capsule: &str) -> Option<(u32, &str)> {
    let (number, packed) = capsule.trim().strip_prefix(KIND)?.split_once(':')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (number.parse().unwrap_or(u32::MAX), packed))
}

fn checksum(text: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&blake3::hash(text).as_bytes()[..CHECKSUM_BYTES]);
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::{Fence, Seed};

    fn drawn(seed: u64) -> Plan {
        Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(seed)).unwrap()
    }

    #[test]
    fn damaged_and_future_capsules_give_one_error() {
        let good = write(&drawn(7));
        assert!(good.len() < 1_500, "{} bytes", good.len());
        let mut flipped = good.clone().into_bytes();
        flipped[200] = if flipped[200] == b'A' { b'B' } else { b'A' };
        let flipped = String::from_utf8(flipped).unwrap();
        let errors: Vec<String> = [
            &good[..good.len() - 40],
            &flipped,
            &format!("{good}AAAA"),
            "storm1:",
            "storm1:ab c",
            &good.replacen("storm1", "storm2", 1),
            &good.replacen("storm1", "storm99999999999999", 1),
            &format!("storm1:{}", "A".repeat(LONGEST_BYTES + 1)),
            &packed("#".repeat(600 << 10).as_bytes()),
            &packed(b"schema = 9\n"),
            &packed(b"\xff"),
            "strom1:AAAA",
        ]
        .iter()
        .map(|capsule| parse(capsule).unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }

    /// A capsule of anything.
    fn packed(text: &[u8]) -> String {
        let mut bytes = checksum(text).to_vec();
        let mut encoder = DeflateEncoder::new(&mut bytes, Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap();
        format!("storm1:{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    #[test]
    fn a_path_that_is_a_capsule_is_read_as_one() {
        let capsule = write(&drawn(3));
        let read = file::load(Path::new(&capsule)).unwrap();
        assert_eq!(read, drawn(3));
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("capsule.txt");
        std::fs::write(&kept, format!("{capsule}\n")).unwrap();
        assert_eq!(file::load(&kept).unwrap(), drawn(3), "also one that is in a file");
        assert!(of_path(Path::new("storm/plan.toml")).is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(seed: u64) {
            let plan = drawn(seed);
            prop_assert_eq!(parse(&write(&plan)).unwrap(), plan);
        }

        #[test]
        fn no_text_makes_it_panic(text in "storm[0-9]{0,3}:[A-Za-z0-9_-]{0,90}|.{0,60}") {
            let _ = parse(&text);
        }
    }
}
