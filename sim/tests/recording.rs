//! Do the recorders of `docs/check.md` write what `lockstorm check` reads? Each is taken
//! from the document, compiled into a small program and run with a lock that holds and
//! with one that lets everybody in.
//!
//! They need Go, a JDK and Python, so they are run by `.ci/nightly`:
//! `cargo test -p lockstorm-sim --test recording -- --ignored`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The code of this language in the document.
fn recorder(language: &str) -> String {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/check.md");
    let document = std::fs::read_to_string(document).unwrap();
    let begin = format!("```{language}\n");
    let (_, rest) = document.split_once(&begin).expect("the document has this language");
    assert!(!rest.contains(&begin), "one recorder a language");
    rest.split_once("```").expect("the code ends").0.to_owned()
}

/// What all three programs do: `a` is let in, `b` is not while `a` is in (unless the lock
/// is broken), `c` never gets an answer, `b` is let in after `a`.
const CLIENTS: [&str; 3] = ["a", "b", "c"];

const PYTHON: &str = r#"
import sys
folder, broken = sys.argv[1], sys.argv[2] == "broken"
door = threading.Lock()
a, b, c = (Recorder(f"{folder}/{name}.ndjson", name) for name in "abc")
take = lambda: door.acquire(blocking=False)
def silent(): raise TimeoutError("no reply")
assert a.acquire("k", 10_000_000, take)
assert b.acquire("k", 10_000_000, (lambda: True) if broken else take) == broken
time.sleep(0.002)
assert not c.acquire("k", 10_000_000, silent)
a.release(door.release)
if broken:
    b.release(lambda: None)
time.sleep(0.002)
assert b.acquire("k", 10_000_000, take)
b.release(door.release)
"#;

const GO: &str = r#"
func main() {
	folder, broken := os.Args[1], os.Args[2] == "broken"
	open := func(name string) *Recorder {
		out, err := os.Create(folder + "/" + name + ".ndjson")
		if err != nil {
			panic(err)
		}
		return &Recorder{out: out, client: name}
	}
	a, b, c := open("a"), open("b"), open("c")
	var door sync.Mutex
	take := func() (bool, error) { return door.TryLock(), nil }
	must := func(fact bool) {
		if !fact {
			panic("the lock did not do as it should")
		}
	}
	must(a.Acquire("k", 10_000_000, take))
	must(b.Acquire("k", 10_000_000, func() (bool, error) {
		if broken {
			return true, nil
		}
		return take()
	}) == broken)
	time.Sleep(2 * time.Millisecond)
	must(!c.Acquire("k", 10_000_000, func() (bool, error) { return false, errors.New("no reply") }))
	a.Release(door.Unlock)
	if broken {
		b.Release(func() {})
	}
	time.Sleep(2 * time.Millisecond)
	must(b.Acquire("k", 10_000_000, take))
	b.Release(door.Unlock)
}
"#;

const GO_HEAD: &str = "package main\n\nimport (\n\t\"encoding/json\"\n\t\"errors\"\n\t\"fmt\"\n\t\"os\"\n\t\"sync\"\n\t\"time\"\n)\n\n";

const JAVA_HEAD: &str =
    "import java.io.*;\nimport java.time.Instant;\nimport java.util.concurrent.*;\n\n";

/// The interface is that of Redisson's lock, as far as the recorder uses it.
const JAVA: &str = r#"
class Main {
  static final Semaphore door = new Semaphore(1);

  static RLock lock(Callable<Boolean> take, Runnable give) {
    return new RLock() {
      public boolean tryLock(long waitTime, long leaseTime, TimeUnit unit) {
        try { return take.call(); }
        catch (Exception error) { throw new IllegalStateException(error); }
      }
      public void unlock() { give.run(); }
    };
  }

  static void must(boolean fact) {
    if (!fact) throw new AssertionError("the lock did not do as it should");
  }

  public static void main(String[] arguments) throws Exception {
    String folder = arguments[0];
    boolean broken = arguments[1].equals("broken");
    Recorder a = new Recorder(new FileWriter(folder + "/a.ndjson"), "a");
    Recorder b = new Recorder(new FileWriter(folder + "/b.ndjson"), "b");
    Recorder c = new Recorder(new FileWriter(folder + "/c.ndjson"), "c");
    RLock sound = lock(() -> door.tryAcquire(), door::release);
    RLock open = lock(() -> true, () -> {});
    RLock silent = lock(() -> { throw new TimeoutException("no reply"); }, () -> {});
    must(a.acquire(sound, "k", 10_000_000));
    must(b.acquire(broken ? open : sound, "k", 10_000_000) == broken);
    Thread.sleep(2);
    try { c.acquire(silent, "k", 10_000_000); must(false); }
    catch (IllegalStateException expected) { }
    a.release(sound);
    if (broken) b.release(open);
    Thread.sleep(2);
    must(b.acquire(sound, "k", 10_000_000));
    b.release(sound);
  }
}

interface RLock {
  boolean tryLock(long waitTime, long leaseTime, TimeUnit unit) throws InterruptedException;
  void unlock();
}
"#;

/// The files of all clients as one history: sorted by time, each host's lines in order.
fn merged(folder: &Path) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for client in CLIENTS {
        let text = std::fs::read_to_string(folder.join(format!("{client}.ndjson"))).unwrap();
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            lines.push((event["at_us"].as_u64().unwrap(), line.to_owned()));
        }
    }
    lines.sort_by_key(|(at_us, _)| *at_us);
    let lines = lines.into_iter().map(|(_, line)| line);
    let header = r#"{"format":"lockstorm-history","schema":1}"#.to_owned();
    std::iter::once(header).chain(lines).map(|line| line + "\n").collect()
}

/// Runs `program` twice, with the sound lock and with the broken one, and has
/// `lockstorm check` judge what was recorded.
fn record_and_check(source: &str, text: &str, program: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(source);
    std::fs::write(&source, text).unwrap();
    for (lock, code) in [("sound", 0), ("broken", 1)] {
        let run = Command::new(program[0])
            .args(&program[1..])
            .arg(&source)
            .args([folder.path().as_os_str(), lock.as_ref()])
            .env("GOCACHE", folder.path().join("cache"))
            .output()
            .unwrap_or_else(|error| panic!("{} cannot be run: {error}", program[0]));
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let history = folder.path().join("history.ndjson");
        std::fs::write(&history, merged(folder.path())).unwrap();
        for client in CLIENTS {
            // The Python recorder goes on where a file ends.
            std::fs::remove_file(folder.path().join(format!("{client}.ndjson"))).unwrap();
        }
        let check = assert_cmd::Command::cargo_bin("lockstorm").unwrap();
        let check = { check }.arg("check").arg(&history).output().unwrap();
        let told = String::from_utf8_lossy(&check.stdout);
        assert_eq!(check.status.code(), Some(code), "{lock}: {told}");
        assert_eq!(told.contains("double-grant"), code == 1, "{lock}: {told}");
    }
}

#[test]
#[ignore = "needs Python: .ci/nightly runs it"]
fn the_recorder_in_python() {
    record_and_check("record.py", &(recorder("python") + PYTHON), &["python3"]);
}

#[test]
#[ignore = "needs Go: .ci/nightly runs it"]
fn the_recorder_in_go() {
    let text = GO_HEAD.to_owned() + &recorder("go") + GO;
    record_and_check("record.go", &text, &["go", "run"]);
}

#[test]
#[ignore = "needs a JDK: .ci/nightly runs it"]
fn the_recorder_in_java() {
    // A program in one file begins with the class that has `main`.
    let text = JAVA_HEAD.to_owned() + JAVA + &recorder("java");
    record_and_check("Main.java", &text, &["java"]);
}
