//! Whether the third-party I/O crates of this program are the shims or the published ones.
//!
//! A client library on the published crates would leave the run: it would open real sockets
//! and sleep by the real clock. Cargo's `[patch]` decides, and is not inherited, so a program
//! that was built outside of a workspace with the patch has them (docs/shims.md). Then what
//! needs them is refused before it runs.
//!
//! It is known without running anything: each shim has a method of its own that the
//! published crate has not, and Rust prefers it to that of a trait.

/// What the published crates answer.
#[allow(dead_code, reason = "whoever has the shims needs it for nothing")]
trait Published {
    fn is_of_lockstorm() -> bool {
        false
    }
}

impl Published for async_io::Timer {}
impl Published for async_net::TcpStream {}
impl Published for asyncs::task::Builder {}

/// The I/O crates that are not patched, by name; empty where all are.
pub fn missing() -> Vec<&'static str> {
    let crates = [
        ("async-io", async_io::Timer::is_of_lockstorm()),
        ("async-net", async_net::TcpStream::is_of_lockstorm()),
        ("asyncs", asyncs::task::Builder::is_of_lockstorm()),
    ];
    crates.into_iter().filter(|(_, shimmed)| !shimmed).map(|(name, _)| name).collect()
}

/// Why a client library on these crates cannot run in a storm of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is in the way, as a clause.
    pub clause: String,
    /// What whoever builds or starts the program can do about it.
    pub mend: String,
}

/// What is in the way of a client library on these crates; `None` if nothing is.
/// `are_answered`: whether the engine answers by itself what libraries ask the C library.
pub fn refusal(are_answered: bool) -> Option<Refusal> {
    let missing = missing();
    if !missing.is_empty() {
        return Some(Refusal {
            clause: format!(
                "the ZooKeeper client of this program would open real sockets: it was built \
                 without the shims for {}",
                missing.join(", ")
            ),
            mend: "build the program where [patch.crates-io] names the shims (docs/shims.md)"
                .to_owned(),
        });
    }
    (!are_answered && !super::senses::reach_libraries()).then(|| Refusal {
        clause: "the ZooKeeper client reads the C library's clock, which is the real one in this \
                 program"
            .to_owned(),
        mend: "call lockstorm_interpose::install before the first storm (docs/shims.md)".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_workspace_has_the_shims() {
        assert_eq!(super::missing(), [""; 0]);
    }
}
