//! A program of the real arm: a process of this same binary, told by its environment
//! whom to play. It hears cues on its standard input and speaks on its output.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use lockstorm::Host;
use lockstorm::host::BoxFuture;
use tokio::sync::Notify;

use crate::actor::{Actor, PORT, Surroundings};
use crate::behaviour::Role;
use crate::{behaviours, namespaces};

const BEHAVIOUR: &str = "LOCKSTORM_TEST_BEHAVIOUR";
const ROLE: &str = "LOCKSTORM_TEST_ROLE";
const LIFE: &str = "LOCKSTORM_TEST_LIFE";

/// How a process says that it is ready.
pub const READY: &str = "ready";
/// What precedes a line of its program.
pub const SAYS: &str = "says ";

/// The environment of a process that is to play a role.
pub fn environment(behaviour: &str, role: Role, life: u32) -> [(&'static str, String); 3] {
    [(BEHAVIOUR, behaviour.to_owned()), (ROLE, role.name().to_owned()), (LIFE, life.to_string())]
}

/// The role that this process was started for, if it was started for one.
pub fn role_of_this_process() -> Option<Role> {
    match env::var(ROLE).ok()?.as_str() {
        "server" => Some(Role::Server),
        _ => Some(Role::Client),
    }
}

/// Plays the role until the process is killed.
pub fn play(role: Role) -> ExitCode {
    let name = env::var(BEHAVIOUR).unwrap_or_default();
    let life = env::var(LIFE).ok().and_then(|life| life.parse().ok()).unwrap_or(1);
    let Some(behaviour) = behaviours::all().into_iter().find(|it| it.name == name) else {
        eprintln!("there is no behaviour `{name}`");
        return ExitCode::FAILURE;
    };
    let cues = Arc::new(Cues::default());
    let hearing = cues.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            hearing.given.lock().unwrap().insert(line);
            hearing.arrived.notify_waiters();
        }
        // Whoever started this process is gone.
        std::process::exit(1);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let host = Host::tokio_at(role.name(), Ipv4Addr::UNSPECIFIED.into());
        let actor = Actor::new(host, life, Arc::new(There { cues }));
        (behaviour.programs[role.index()])(actor).await;
    });
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Cues {
    given: Mutex<BTreeSet<String>>,
    arrived: Notify,
}

struct There {
    cues: Arc<Cues>,
}

impl Surroundings for There {
    fn say(&self, line: String) {
        tell(&format!("{SAYS}{line}"));
    }

    fn ready(&self) {
        tell(READY);
    }

    fn cue(&self, name: &'static str) -> BoxFuture<'static, ()> {
        let cues = self.cues.clone();
        Box::pin(async move {
            loop {
                let arrived = cues.arrived.notified();
                if cues.given.lock().unwrap().contains(name) {
                    return;
                }
                arrived.await;
            }
        })
    }

    fn server(&self) -> String {
        format!("{}:{PORT}", namespaces::address(Role::Server))
    }
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: the process is about to be killed.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
