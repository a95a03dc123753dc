//! The arm that is this machine's kernel: real processes in network namespaces, struck
//! by signals and packet filters.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::behaviour::{Behaviour, Fault, ROLES, Role, Score, Step};
use crate::namespaces::Namespaces;
use crate::process::{self, READY, SAYS};

/// How long a line is waited for. Well above every wait of a script.
const LIMIT: Duration = Duration::from_secs(20);

/// How long lines are waited for that the script does not.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What a process said, or that it is ready.
enum News {
    Ready(Role),
    Said(Role, String),
}

struct Theatre<'a> {
    behaviour: &'a Behaviour,
    processes: [Option<Process>; 2],
    namespaces: Namespaces,
    lives: [u32; 2],
    cues: Vec<&'static str>,
    news: (Sender<News>, Receiver<News>),
    score: Score,
}

struct Process {
    child: Child,
    stdin: ChildStdin,
}

/// Runs the behaviour on real TCP; what the programs said.
pub fn run(behaviour: &Behaviour) -> Result<Vec<String>, String> {
    let mut theatre = Theatre {
        behaviour,
        namespaces: Namespaces::new(behaviour.kernel)?,
        processes: [None, None],
        lives: [0; 2],
        cues: Vec::new(),
        news: channel(),
        score: Score::default(),
    };
    theatre.start(Role::Server)?;
    theatre.await_ready()?;
    theatre.start(Role::Client)?;
    for step in &behaviour.script {
        if !theatre.play(step)? {
            return Ok(theatre.score.outcome(Some(step)));
        }
    }
    // What was said by one process before the last words of the other may come after
    // them: pipes have no common order.
    while theatre.score.len() < behaviour.expected.len() {
        match theatre.news.1.recv_timeout(LAST_WORDS) {
            Ok(News::Said(of, said)) => theatre.score.say(of, said),
            Ok(News::Ready(_)) => {}
            Err(_) => break,
        }
    }
    Ok(theatre.score.outcome(None))
}

impl Theatre<'_> {
    /// Plays a step; false if it waited in vain.
    fn play(&mut self, step: &Step) -> Result<bool, String> {
        match *step {
            Step::Hear(role, line) => {
                while !self.score.hear(role, line) {
                    match self.news.1.recv_timeout(LIMIT) {
                        Ok(News::Said(of, said)) => self.score.say(of, said),
                        Ok(News::Ready(_)) => {}
                        Err(_) => return Ok(false),
                    }
                }
            }
            Step::Cue(name) => {
                self.cues.push(name);
                for process in self.processes.iter_mut().flatten() {
                    cue(process, name)?;
                }
            }
            Step::Pass(ms) => std::thread::sleep(Duration::from_millis(ms)),
            Step::Strike(fault) => self.strike(fault)?,
        }
        Ok(true)
    }

    fn await_ready(&mut self) -> Result<(), String> {
        loop {
            match self.news.1.recv_timeout(LIMIT) {
                Ok(News::Ready(Role::Server)) => return Ok(()),
                Ok(News::Ready(_)) => {}
                Ok(News::Said(role, line)) => self.score.say(role, line),
                Err(_) => return Err("the server did not become ready".to_owned()),
            }
        }
    }

    fn start(&mut self, role: Role) -> Result<(), String> {
        self.namespaces.restore(role)?;
        self.lives[role.index()] += 1;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let life = self.lives[role.index()];
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.namespaces.machine(role)])
            .arg(program)
            .envs(process::environment(self.behaviour.name, role, life))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{role} did not start: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{role} has no pipes"));
        };
        let news = self.news.0.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let told = match line.strip_prefix(SAYS) {
                    Some(said) => News::Said(role, said.to_owned()),
                    None if line == READY => News::Ready(role),
                    None => continue,
                };
                if news.send(told).is_err() {
                    return;
                }
            }
        });
        let mut process = Process { child, stdin };
        for name in &self.cues {
            cue(&mut process, name)?;
        }
        self.processes[role.index()] = Some(process);
        Ok(())
    }

    /// SIGKILL, and the kernel's work done on it.
    fn kill(&mut self, role: Role) -> Result<(), String> {
        if let Some(mut process) = self.processes[role.index()].take() {
            let killed = process.child.kill().and_then(|()| process.child.wait());
            killed.map_err(|error| format!("{role} was not killed: {error}"))?;
        }
        Ok(())
    }

    fn signal(&self, role: Role, signal: &str) -> Result<(), String> {
        let Some(process) = &self.processes[role.index()] else { return Ok(()) };
        let pid = process.child.id();
        let status = Command::new("sh").args(["-c", &format!("kill {signal} {pid}")]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("kill {signal} {role}: {other:?}")),
        }
    }

    fn strike(&mut self, fault: Fault) -> Result<(), String> {
        match fault {
            Fault::CrashProcess(role) => self.kill(role),
            Fault::CrashMachine(role) => {
                self.namespaces.silence(role)?;
                self.kill(role)?;
                self.namespaces.remove(role)
            }
            Fault::Start(role) => self.start(role),
            Fault::Pause(role) => self.signal(role, "-STOP"),
            Fault::Resume(role) => self.signal(role, "-CONT"),
            Fault::Cut => self.namespaces.cut(&ROLES),
            Fault::CutFrom(role) => self.namespaces.cut(&[role]),
            Fault::Heal => self.namespaces.heal(),
            // The script lets time pass until probes have met it.
            Fault::Reset => self.namespaces.reset(),
        }
    }
}

fn cue(process: &mut Process, name: &str) -> Result<(), String> {
    writeln!(process.stdin, "{name}").map_err(|error| format!("cue {name}: {error}"))
}

impl Drop for Theatre<'_> {
    fn drop(&mut self) {
        for role in ROLES {
            let _ = self.kill(role);
        }
    }
}
