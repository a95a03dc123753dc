//! A real ZooKeeper for tests, from Debian's jars; and a wire to it that can be broken.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

const JAR: &str = "/usr/share/java/zookeeper.jar";

/// Its tick, ms. Sessions last from two to twenty of them.
pub const TICK_MS: u64 = 400;

/// A server that lives as long as this process: it is told by the end of its standard
/// input. Shared by all tests of a program; `None` where ZooKeeper is not installed.
pub fn server() -> Option<u16> {
    static SERVER: OnceLock<Option<(Child, u16)>> = OnceLock::new();
    SERVER.get_or_init(start).as_ref().map(|(_, port)| *port)
}

fn start() -> Option<(Child, u16)> {
    let has_java = Command::new("java").arg("-version").stderr(Stdio::null()).status().is_ok();
    if !has_java || !Path::new(JAR).exists() {
        eprintln!("SKIPPED: zookeeper is not installed");
        return None;
    }
    for _ in 0..5 {
        // Free now; should another program take it first, the next port is tried.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap().keep();
        let data = directory.display();
        let configuration = format!(
            "dataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime={TICK_MS}\n\
             maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
        );
        let file = directory.join("zoo.cfg");
        std::fs::write(&file, configuration).unwrap();
        let script = "java -Xmx256m -cp \"$1\" org.apache.zookeeper.server.quorum.QuorumPeerMain \
                      \"$2/zoo.cfg\" >\"$2/log\" 2>&1 </dev/null & server=$!
                      read ignored; kill $server; wait $server; rm -rf \"$2\"";
        #[expect(clippy::zombie_processes, reason = "it ends, and reaps its server, with our pipe")]
        let process = Command::new("sh")
            .args(["-c", script, "zookeeper", JAR])
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..400 {
            if tell(port, "srvr").is_some_and(|answer| answer.contains("Mode:")) {
                return Some((process, port));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    panic!("zookeeper does not serve");
}

/// The answer to a four-letter word.
pub fn tell(port: u16, word: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    // One that has only begun to listen may take a word, and never answer it.
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(word.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// A wire to the server: what goes over it can be held, or cut before a reply.
#[derive(Clone)]
pub struct Wire {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Nothing goes either way, new connections are not answered.
    held: AtomicBool,
    /// The next request that names this many bytes or more is handed over, and the
    /// connection ends without its reply.
    swallow: AtomicBool,
}

impl Wire {
    /// A wire to `server`.
    pub fn new(server: u16) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<State> = Arc::default();
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || carry(client, server, &state));
            }
        });
        Wire { port, state }
    }

    /// Holds what is sent from now on, or lets it go.
    pub fn hold(&self, held: bool) {
        self.state.held.store(held, Ordering::SeqCst);
    }

    /// The next request that creates something loses its reply, and its connection.
    pub fn lose_the_next_reply(&self) {
        self.state.swallow.store(true, Ordering::SeqCst);
    }
}

/// Bytes of a request that is no ping and no short question.
const LONG: usize = 60;

fn carry(client: TcpStream, server: u16, state: &Arc<State>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
    let cut = Arc::new(AtomicBool::new(false));
    let (up_from, up_to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (up_state, up_cut) = (state.clone(), cut.clone());
    let up = thread::spawn(move || {
        pump(up_from, up_to, &up_state, &up_cut, |bytes, state| {
            bytes.len() >= LONG && state.swallow.swap(false, Ordering::SeqCst)
        });
    });
    pump(server, client, state, &cut, |_, _| false);
    let _ = up.join();
}

fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    state: &State,
    cut: &AtomicBool,
    loses: impl Fn(&[u8], &State) -> bool,
) {
    let mut buffer = [0; 4096];
    while let Ok(length) = from.read(&mut buffer) {
        while state.held.load(Ordering::SeqCst) && !cut.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        if length == 0 || cut.load(Ordering::SeqCst) {
            break;
        }
        let lost = loses(&buffer[..length], state);
        if lost {
            // From here on nothing comes back.
            cut.store(true, Ordering::SeqCst);
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
        if lost {
            // Time for the server to do it.
            thread::sleep(Duration::from_millis(200));
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
