//! A behaviour: two programs, a script, and what Linux makes of it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use lockstorm::host::BoxFuture;
use lockstorm_sim::engine::Kernel;

use crate::actor::Actor;

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Listens, as a rule.
    Server,
    /// Connects, as a rule.
    Client,
}

pub const ROLES: [Role; 2] = [Role::Server, Role::Client];

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Client => "client",
        }
    }

    pub fn index(self) -> usize {
        self as usize
    }

    pub fn other(self) -> Role {
        ROLES[1 - self.index()]
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What is done to the nodes.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    CrashProcess(Role),
    CrashMachine(Role),
    Start(Role),
    Pause(Role),
    Resume(Role),
    /// Nothing crosses, in either direction.
    Cut,
    /// Nothing crosses from this role to the other.
    CutFrom(Role),
    /// Everything crosses again.
    Heal,
    /// Every connection is reset at both ends.
    Reset,
}

/// A step of the script. The script is over after its last one.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Waits for a line of this role that begins so, after those heard before.
    Hear(Role, &'static str),
    /// Strikes at once.
    Strike(Fault),
    /// Gives a cue, which programs wait for.
    Cue(&'static str),
    /// Lets this much time pass, ms.
    Pass(u64),
}

pub type Program = Arc<dyn Fn(Actor) -> BoxFuture<'static, ()> + Send + Sync>;

/// One behaviour.
pub struct Behaviour {
    /// Its name as a test.
    pub name: &'static str,
    /// The part of the table it stands in.
    pub group: &'static str,
    /// What is asked, for people.
    pub question: &'static str,
    /// What Linux does, for people.
    pub answer: &'static str,
    pub kernel: Kernel,
    pub programs: [Program; 2],
    pub script: Vec<Step>,
    /// The lines of the server, then those of the client.
    pub expected: Vec<&'static str>,
}

impl Behaviour {
    pub fn new(name: &'static str, question: &'static str, answer: &'static str) -> Self {
        let idle = || -> Program { Arc::new(|me: Actor| Box::pin(idle(me))) };
        Behaviour {
            name,
            group: "",
            question,
            answer,
            kernel: Kernel::default(),
            programs: [idle(), idle()],
            script: Vec::new(),
            expected: Vec::new(),
        }
    }

    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    pub fn server<F>(self, program: impl Fn(Actor) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.program(Role::Server, program)
    }

    pub fn client<F>(self, program: impl Fn(Actor) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.program(Role::Client, program)
    }

    fn program<F>(
        mut self,
        role: Role,
        program: impl Fn(Actor) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // A program that has nothing to do any more stays, as a service would: its end
        // would close its connections.
        self.programs[role.index()] = Arc::new(move |me| {
            let played = program(me);
            Box::pin(async move {
                played.await;
                std::future::pending::<()>().await;
            })
        });
        self
    }

    pub fn script(mut self, script: impl IntoIterator<Item = Step>) -> Self {
        self.script = script.into_iter().collect();
        self
    }

    pub fn expect(mut self, lines: impl IntoIterator<Item = &'static str>) -> Self {
        self.expected = lines.into_iter().collect();
        self
    }
}

/// A node that is there and does nothing.
async fn idle(me: Actor) {
    me.ready();
    std::future::pending::<()>().await;
}

/// What the programs said, and how far the script came: kept by both arms.
#[derive(Default)]
pub struct Score {
    lines: Vec<(Role, String)>,
    heard: [usize; 2],
}

impl Score {
    pub fn say(&mut self, role: Role, line: String) {
        self.lines.push((role, line));
    }

    /// How many lines were said.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether the role has said a line that begins so, since the last one heard of it.
    pub fn hear(&mut self, role: Role, beginning: &str) -> bool {
        let heard = &mut self.heard[role.index()];
        let lines = self.lines.iter().filter(|(of, _)| *of == role).enumerate();
        let found = lines.skip(*heard).find(|(_, (_, line))| line.starts_with(beginning));
        let Some((position, _)) = found else { return false };
        *heard = position + 1;
        true
    }

    /// The server's lines, then the client's, then what the script waited for in vain.
    pub fn outcome(&self, stopped_at: Option<&Step>) -> Vec<String> {
        let mut outcome = Vec::new();
        for role in ROLES {
            let lines = self.lines.iter().filter(|(of, _)| *of == role);
            outcome.extend(lines.map(|(_, line)| format!("{role}: {line}")));
        }
        if let Some(Step::Hear(role, line)) = stopped_at {
            outcome.push(format!("script: waited in vain for {role}: {line}"));
        }
        outcome
    }
}
