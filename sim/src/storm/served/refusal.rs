//! What of a plan cannot be done to programs outside: told by name before anything is opened,
//! never left out in silence.

use crate::plan::{Anchor, Fault, FaultKind, Operation, Phase, Plan, STOCK_NODE, Struck, When};

/// Why a plan cannot be served: what of it, and what to do about it.
///
/// # Errors
/// One sentence that names the fault, or the clock.
pub fn check(plan: &Plan) -> Result<(), String> {
    let apps = plan.topology.app_nodes();
    let is_app = |node: &str| apps.iter().any(|app| app == node);
    if let Some(clock) = plan.clocks.iter().find(|clock| is_app(&clock.node)) {
        return Err(format!(
            "the plan's clock of {}: your program's clock is not the storm's to change; take it \
             out, or change that of a server",
            clock.node
        ));
    }
    for (position, fault) in plan.faults.iter().enumerate() {
        if let Some(why) = refused(fault, &is_app) {
            let kind = crate::fault::narration(&fault.kind);
            return Err(format!("fault {} ({kind}): {why}", position + 1));
        }
    }
    Ok(())
}

fn refused(fault: &Fault, is_app: &impl Fn(&str) -> bool) -> Option<String> {
    if let When::After { anchor, .. } = &fault.when
        && let Some(why) = unseen(anchor)
    {
        return Some(why);
    }
    match fault.kind.struck() {
        Struck::Node(node) if is_app(node) => Some(at_program(&fault.kind, node)),
        Struck::Node(node) if node == STOCK_NODE => Some(stock()),
        Struck::Sides(from, to) => {
            let is_stock = |node: &String| node == STOCK_NODE;
            // Among others too: its part would be left out, and nobody would know.
            let is_there = from.iter().chain(to).any(is_stock);
            let is_alone = [from, to].iter().any(|side| side.iter().all(is_stock));
            is_there.then(|| if is_alone { stock() } else { stock_among_others() })
        }
        Struck::Node(_) => None,
    }
}

/// What a storm would do to a client, and whoever serves it cannot.
fn at_program(kind: &FaultKind, node: &str) -> String {
    let mend = match kind {
        FaultKind::ProcessCrash { .. } | FaultKind::MachineCrash { .. } => {
            "kill it yourself, or write a `reset` of its links"
        }
        FaultKind::Pause { .. } | FaultKind::Hang { .. } => "send it SIGSTOP and SIGCONT yourself",
        FaultKind::Cancel { .. } => "drop the operation in your program",
        _ => "take the fault out, or write one of a server",
    };
    format!("{node} is a program of yours, which the storm cannot reach; {mend}")
}

fn stock() -> String {
    format!("{STOCK_NODE} is not served; take the fault out")
}

fn stock_among_others() -> String {
    format!("{STOCK_NODE} is not served; take it out of the fault's sides")
}

/// Why an anchor is never seen, if so: of clients outside servers see what they ask for.
fn unseen(anchor: &Anchor) -> Option<String> {
    let is_seen = match anchor.operation {
        Operation::Acquire => true,
        Operation::Release => anchor.phase == Phase::Applied,
        Operation::Read | Operation::Sell => false,
    };
    let name = anchor.operation.name();
    (!is_seen).then(|| {
        format!(
            "what it waits for, \"{anchor}\", is not seen of a program outside: its {name} is \
             its own; write `acquire` with any phase, `release` with `applied`, or a time"
        )
    })
}
