//! Two machines of this kernel: network namespaces on a bridge in a third one.
//!
//! A cut drops packets where they arrive, before TCP sees them, so that their sender's
//! kernel learns nothing. A dead machine's link is taken away behind such a cut, and
//! its namespace is made anew when it is started. Addresses of the link layer are
//! fixed, or the end of a neighbour entry would be told as "no route to host".

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use lockstorm_sim::engine::Kernel;

use crate::behaviour::{ROLES, Role};

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub struct Namespaces {
    name: String,
    kernel: Kernel,
    /// How often each machine was made.
    lives: [u32; 2],
    /// Directions, by their sender, in which nothing crosses.
    cut: [bool; 2],
    /// Machines that say and hear nothing.
    dead: [bool; 2],
    /// Machines that were taken away.
    gone: [bool; 2],
    /// Whether packets are answered with a reset.
    resetting: bool,
}

pub fn address(role: Role) -> String {
    format!("10.77.0.{}", role.index() + 1)
}

fn link_address(role: Role) -> String {
    format!("02:00:00:00:77:0{}", role.index() + 1)
}

impl Namespaces {
    pub fn new(kernel: Kernel) -> Result<Self, String> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("lockstorm-{}-{number}", std::process::id());
        let mut all = Namespaces {
            name,
            kernel,
            lives: [0; 2],
            cut: [false; 2],
            dead: [false; 2],
            gone: [true; 2],
            resetting: false,
        };
        let hub = all.hub();
        ip(&["netns", "add", &hub])?;
        ip(&["-n", &hub, "link", "add", "hub", "type", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "hub", "up"])?;
        for role in ROLES {
            all.add(role)?;
        }
        Ok(all)
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    pub fn machine(&self, role: Role) -> String {
        format!("{}-{role}-{}", self.name, self.lives[role.index()])
    }

    /// Makes a machine, with nothing in its kernel.
    fn add(&mut self, role: Role) -> Result<(), String> {
        self.lives[role.index()] += 1;
        let (hub, machine, peer) = (self.hub(), self.machine(role), role.other());
        ip(&["netns", "add", &machine])?;
        self.gone[role.index()] = false;
        let link = role.name();
        let pair = ["type", "veth", "peer", "name", "eth0", "netns", &machine];
        ip(&[&["-n", &hub, "link", "add", link], &pair[..]].concat())?;
        ip(&["-n", &hub, "link", "set", link, "master", "hub", "up"])?;
        let Kernel { syn_retries, syn_linear_timeouts, retries2, orphan_retries, somaxconn } =
            self.kernel;
        let script = format!(
            "set -e
            ip link set lo up
            ip link set eth0 address {own_link} up
            ip addr add {own}/24 dev eth0
            ip neigh replace {other} lladdr {other_link} dev eth0 nud permanent
            cd /proc/sys/net/ipv4
            echo {syn_retries} > tcp_syn_retries
            if test -e tcp_syn_linear_timeouts; then
                echo {syn_linear_timeouts} > tcp_syn_linear_timeouts
            fi
            echo {retries2} > tcp_retries2
            echo {orphan_retries} > tcp_orphan_retries
            echo {somaxconn} > ../core/somaxconn
            ",
            own = address(role),
            own_link = link_address(role),
            other = address(peer),
            other_link = link_address(peer),
        );
        self.inside(role, &["sh", "-c", &script], "")?;
        self.filter(role)
    }

    /// Runs a command on a machine.
    fn inside(&self, role: Role, command: &[&str], input: &str) -> Result<(), String> {
        let machine = self.machine(role);
        run(&[&["ip", "netns", "exec", &machine], command].concat(), input)
    }

    /// Writes the machine's packet filter anew, in one transaction.
    fn filter(&self, role: Role) -> Result<(), String> {
        let peer = role.other();
        let mut arriving = String::new();
        if self.dead[role.index()] {
            arriving.push_str("drop\n");
        }
        if self.dead[peer.index()] || self.cut[peer.index()] {
            arriving.push_str(&format!("ip saddr {} drop\n", address(peer)));
        }
        let leaving = match self.resetting {
            true => "tcp flags & rst == 0 reject with tcp reset",
            false => "",
        };
        let ruleset = format!(
            "flush ruleset
            table inet lockstorm {{
                chain arriving {{
                    type filter hook prerouting priority -300;
                    {arriving}
                }}
                chain leaving {{
                    type filter hook output priority 0;
                    {leaving}
                }}
            }}\n"
        );
        self.inside(role, &["nft", "-f", "-"], &ruleset)
    }

    fn filter_all(&self) -> Result<(), String> {
        let mut there = ROLES.into_iter().filter(|role| !self.gone[role.index()]);
        there.try_for_each(|role| self.filter(role))
    }

    /// Nothing crosses from these roles to the other.
    pub fn cut(&mut self, from: &[Role]) -> Result<(), String> {
        for role in from {
            self.cut[role.index()] = true;
        }
        self.filter_all()
    }

    pub fn heal(&mut self) -> Result<(), String> {
        self.cut = [false; 2];
        self.filter_all()
    }

    /// Answers everything that is sent from now on with a reset.
    pub fn reset(&mut self) -> Result<(), String> {
        self.resetting = true;
        self.filter_all()
    }

    /// Silences a machine: what its kernel still wants to say is not heard.
    pub fn silence(&mut self, role: Role) -> Result<(), String> {
        self.dead[role.index()] = true;
        self.filter_all()
    }

    /// Takes a silenced machine away, once its process is dead.
    pub fn remove(&mut self, role: Role) -> Result<(), String> {
        let (hub, machine) = (self.hub(), self.machine(role));
        self.gone[role.index()] = true;
        ip(&["-n", &hub, "link", "del", role.name()])?;
        ip(&["netns", "del", &machine])
    }

    /// Has the machine that was taken away again. Nothing if it is there.
    pub fn restore(&mut self, role: Role) -> Result<(), String> {
        self.dead[role.index()] = false;
        if self.gone[role.index()] {
            self.add(role)?;
        }
        self.filter_all()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for role in ROLES.into_iter().filter(|role| !self.gone[role.index()]) {
            let _ = ip(&["-n", &self.hub(), "link", "del", role.name()]);
            let _ = ip(&["netns", "del", &self.machine(role)]);
        }
        let _ = ip(&["netns", "del", &self.hub()]);
    }
}

/// Takes away what test programs have left that were killed.
fn sweep() {
    let Ok(listed) = Command::new("ip").args(["netns", "list"]).output() else { return };
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for name in listed.lines().filter_map(|line| line.split(' ').next()) {
        let of_us = name.strip_prefix("lockstorm-").and_then(|rest| rest.split('-').next());
        let pid = of_us.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

/// What is missing for namespaces here, if anything.
pub fn missing() -> Option<String> {
    sweep();
    let made = Namespaces::new(Kernel::default());
    made.err().map(|why| format!("{why} (root, iproute2, nftables and namespaces are needed)"))
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    run(&[&["ip"], arguments].concat(), "")
}

fn run(command: &[&str], input: &str) -> Result<(), String> {
    let failed = |why: String| format!("`{}`: {why}", command.join(" "));
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(|error| failed(error.to_string()))?;
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
