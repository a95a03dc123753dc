//! For every kind a planted bug that it catches and a mended twin that it passes:
//! `docs/checkers.md` is this table, written by `UPDATE_DOCS=1 cargo test`.

use std::fmt::Write as _;

use super::super::sample::KEY;
use super::*;
use crate::history::{OrderAnswer, Renewal};

struct Twin {
    kind: Kind,
    bug: &'static str,
    mend: &'static str,
    setting: Setting,
    planted: Sample,
    mended: Sample,
}

fn twin(
    kind: Kind,
    (bug, mend): (&'static str, &'static str),
    setting: Setting,
    make: impl Fn(bool) -> Sample,
) -> Twin {
    Twin { kind, bug, mend, setting, planted: make(true), mended: make(false) }
}

/// A clean section of each of two clients, so that every history has a handover.
fn handover(sample: Sample) -> Sample {
    sample.grant("app-8/1").let_go("app-8/1").grant("app-9/1").let_go("app-9/1")
}

fn sold(sample: Sample) -> Sample {
    let sample = sample.grant("app-1/1").read("app-1/1", 1).sell("app-1/1", 1).let_go("app-1/1");
    sample.at(200).grant("app-2/1").read("app-2/1", 2).sell("app-2/1", 2).let_go("app-2/1")
}

fn of_grants() -> Vec<Twin> {
    let ordered = Setting { ordered_tokens: true, ..setting(0) };
    vec![
        twin(
            Kind::DoubleGrant,
            ("the server grants a lock that is held", "it waits for the release"),
            setting(0),
            |bug| {
                let sample = Sample::new().at(100).grant("app-1/1").at(200);
                let sample = if bug { sample } else { sample.let_go("app-1/1") };
                sample.grant("app-2/1").at(300).let_go("app-2/1").release("app-1/1")
            },
        ),
        twin(
            Kind::EffectInterleaved,
            ("a holder sells after a pause beyond its lease", "it asks its own deadline first"),
            setting(0),
            |bug| {
                let sample = Sample::new().at(100).grant("app-1/1").read("app-1/1", 1).at(1_080);
                let sample =
                    if bug { sample } else { sample.belief_ends("app-1/1", BeliefEnd::Deadline) };
                let sample = sample.at(1_200).grant("app-2/1").read("app-2/1", 1);
                let sample = if bug { sample.sell("app-1/1", 1) } else { sample };
                sample.sell("app-2/1", 2).let_go("app-2/1").ledger(2, &[(2, "app-2/1")])
            },
        ),
        twin(
            Kind::StaleEffect,
            ("an older grant works after a newer one", "the older grant works first"),
            ordered,
            |bug| {
                let (one, two) = if bug { ("app-2/1", "app-1/1") } else { ("app-1/1", "app-2/1") };
                let sample = Sample::new().at(1).grant_token("app-1/1", 1).let_go("app-1/1");
                let sample = sample.at(2).grant_token("app-2/1", 2).let_go("app-2/1");
                sample.read(one, 1).at(3).read(two, 1)
            },
        ),
        twin(
            Kind::WrongRelease,
            ("a release deletes without comparing the owner", "it compares in the same step"),
            setting(0),
            |bug| {
                let sample = handover(Sample::new()).at(100).grant("app-1/1").at(200);
                let sample = match bug {
                    true => sample.lost("redis-1", "app-1/1", RecordLoss::Deleted),
                    false => sample.ask("app-2/1").returned("app-2/1", AcquireOutcome::Busy),
                };
                sample.let_go("app-1/1")
            },
        ),
        twin(
            Kind::LossNotTold,
            ("a renewal after expiry is answered \"renewed\"", "it is answered \"not held\""),
            setting(0),
            |bug| {
                let sample = handover(Sample::new()).at(10).grant("app-1/1").at(990);
                let sample = sample.belief_ends("app-1/1", BeliefEnd::Deadline).at(1_010);
                let sample = sample.expired("app-1/1").at(1_020).renew("app-1/1").at(1_030);
                let renewal = if bug { Renewal::Renewed } else { Renewal::NotHeld };
                sample.renewed("app-1/1", renewal)
            },
        ),
        twin(
            Kind::GrantLost,
            ("a server without the record becomes master", "it has the record"),
            setting(0),
            |bug| {
                let sample = handover(Sample::new()).at(100).grant("app-1/1").at(200);
                let records: &[&str] = if bug { &[] } else { &["app-1/1"] };
                sample.promoted("redis-2", records).at(300).let_go("app-1/1")
            },
        ),
        twin(
            Kind::Overstay,
            ("a holder goes on after its lease", "it stops at its deadline"),
            setting(0),
            |bug| {
                let sample = handover(Sample::new()).at(100).grant("app-1/1");
                let sample = sample.at(if bug { 1_500 } else { 1_050 });
                sample.belief_ends("app-1/1", BeliefEnd::Deadline)
            },
        ),
        twin(
            Kind::TokenRegression,
            ("the token counter goes back", "it only grows"),
            ordered,
            |bug| {
                let sample = Sample::new().at(1).grant_token("app-1/1", 7).let_go("app-1/1");
                sample.at(2).grant_token("app-2/1", if bug { 7 } else { 8 }).let_go("app-2/1")
            },
        ),
        twin(
            Kind::FalseReject,
            ("the fence refuses the newest holder", "it lets a larger token in"),
            Setting { fence: Fence::Full, ..setting(0) },
            |bug| {
                let sample =
                    Sample::new().at(1).grant_token("app-2/1", 7).fenced_read("app-2/1", 7, true);
                let sample = sample.let_go("app-2/1").at(2);
                let sample = match bug {
                    // Somebody who never held the lock has shown a larger token.
                    true => sample.fenced_read("app-3/1", 9, true).at(3),
                    false => sample.at(3),
                };
                sample.grant_token("app-1/1", 8).fenced_read("app-1/1", 8, !bug).let_go("app-1/1")
            },
        ),
    ]
}

fn of_the_stock() -> Vec<Twin> {
    vec![
        twin(
            Kind::Oversell,
            ("one unit is sold under two orders", "each order has its own unit"),
            setting(0),
            |bug| {
                let second = if bug { 1 } else { 2 };
                sold(Sample::new().at(100))
                    .at(300)
                    .ledger(2, &[(1, "app-1/1"), (second, "app-2/1")])
            },
        ),
        twin(
            Kind::Undersell,
            ("a buyer is told \"sold out\" from a stale copy", "a unit is left and it is told so"),
            setting(0),
            |bug| {
                let answer = if bug { OrderAnswer::SoldOut } else { OrderAnswer::Refused };
                let sample = sold(Sample::new().at(100)).at(250).answered("app-3/1", answer);
                sample.at(300).ledger(3, &[(1, "app-1/1"), (2, "app-2/1")])
            },
        ),
        twin(
            Kind::DuplicateOrder,
            ("a retried order buys a second unit", "the same order is the same sale"),
            setting(0),
            |bug| {
                let again = if bug { 3 } else { 1 };
                let books = [(1, "app-1/1"), (2, "app-2/1"), (again, "app-1/1")];
                sold(Sample::new().at(100)).at(300).ledger(3, &books)
            },
        ),
        twin(
            Kind::LostOrder,
            ("an accepted order is lost in a failover", "the books have it"),
            setting(0),
            |bug| {
                let sample = sold(Sample::new().at(100));
                let sample = sample.answered("app-1/1", OrderAnswer::Accepted).at(300);
                let books: &[(u32, &str)] = &[(2, "app-2/1"), (1, "app-1/1")];
                sample.ledger(2, if bug { &books[..1] } else { books })
            },
        ),
        twin(
            Kind::StockNotConserved,
            ("an update of the counter is lost", "every sale counts down"),
            setting(0),
            |bug| {
                let sample = sold(Sample::new().at(100)).at(300);
                let sample = sample.ledger(5, &[(1, "app-1/1"), (2, "app-2/1")]);
                sample.counted(5, if bug { 4 } else { 3 })
            },
        ),
    ]
}

fn of_liveness() -> Vec<Twin> {
    vec![
        twin(
            Kind::LeakedLock,
            ("a dead holder's record has no expiry", "its lease runs out"),
            setting(0),
            |bug| {
                let lease = if bug { None } else { Some(LEASE_MS) };
                let sample = handover(Sample::new()).healed().at(100).ask("app-1/1");
                let sample = sample.set_lease("redis-1", "app-1/1", lease).granted("app-1/1");
                let sample = sample.at(200).crash("app-1").at(1_300);
                if bug { sample } else { sample.expired("app-1/1") }
            },
        ),
        twin(
            Kind::StuckWaiter,
            ("the release wakes nobody", "the release wakes the waiter"),
            setting(0),
            |bug| {
                let sample = Sample::new().healed().at(100).grant("app-1/1").ask("app-2/1");
                let sample = sample.waits("app-2/1", KEY).at(200).let_go("app-1/1");
                let sample = sample.at(if bug { 2_900 } else { 210 });
                sample.set("app-2/1").granted("app-2/1").let_go("app-2/1")
            },
        ),
        twin(
            Kind::Deadlock,
            ("two clients take two locks in opposite order", "both take them in one order"),
            setting(0),
            |bug| {
                let sample = handover(Sample::new()).healed().at(10).grant_of("app-1/1", "a");
                let sample = match bug {
                    true => sample.grant_of("app-2/1", "b").ask_for("app-2/2", "a", false),
                    false => sample.ask_for("app-2/1", "a", false).grant_of("app-1/2", "b"),
                };
                let sample = sample.at(20);
                match bug {
                    true => sample.ask_for("app-1/2", "b", false).at(5_000),
                    false => sample.release("app-1/1").release("app-1/2").at(30),
                }
            },
        ),
        twin(
            Kind::BroadcastBroken,
            ("a new leader's log lacks what a client was answered for", "it has all of it"),
            setting(0),
            |bug| {
                let how = "a client was answered for 0x5".to_owned();
                let sample = handover(Sample::new());
                match bug {
                    true => sample.event("zk-2", What::BroadcastBroken { how }),
                    false => sample.event("zk-2", What::Leading { epoch: 2 }),
                }
            },
        ),
        twin(
            Kind::Unfair,
            ("newcomers are served before a waiter", "the queue keeps its order"),
            Setting { bypass_bound: Some(0), ..setting(0) },
            |bug| {
                let sample = Sample::new().at(1).grant("app-1/1").ask("app-2/1");
                let sample = sample.waits("app-2/1", KEY).at(2).ask("app-3/1");
                let sample = sample.waits("app-3/1", KEY).at(3).let_go("app-1/1");
                let order = if bug { ["app-3/1", "app-2/1"] } else { ["app-2/1", "app-3/1"] };
                order
                    .into_iter()
                    .fold(sample, |sample, who| sample.set(who).granted(who).let_go(who))
            },
        ),
    ]
}

#[test]
fn every_kind_catches_its_planted_bug_and_passes_the_mended_twin() {
    let twins: Vec<Twin> =
        of_grants().into_iter().chain(of_the_stock()).chain(of_liveness()).collect();
    let mut wrong = Vec::new();
    let mut table = String::from(
        "# Every checker, its planted bug and its mended twin\n\n\
         Written by the test `every_kind_catches_its_planted_bug_and_passes_the_mended_twin`\n\
         (`UPDATE_DOCS=1 cargo test -p lockstorm-sim --lib twins`), which compares it. What each\n\
         kind means is told in `check.md`.\n\n\
         | kind | planted bug | found | mended twin | found | verdicts |\n\
         |---|---|---|---|---|---|\n",
    );
    for kind in Kind::ALL {
        let mut of_kind = twins.iter().filter(|twin| twin.kind == kind);
        assert!(of_kind.next().is_some(), "{kind} has no planted bug");
        assert!(of_kind.next().is_none(), "{kind} has two");
    }
    let rank = |twin: &Twin| Kind::ALL.iter().position(|kind| *kind == twin.kind);
    let mut twins = twins;
    twins.sort_by_key(rank);
    for twin in twins {
        let planted = judge(&twin.planted.end(), &twin.setting);
        let mended = judge(&twin.mended.end(), &twin.setting);
        let found = |judgement: &Judgement| {
            let mut kinds = kinds(judgement);
            kinds.dedup();
            if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
        };
        if !planted.found(twin.kind) {
            wrong.push(format!("{} is not caught: {}", twin.kind, found(&planted)));
        }
        if found(&mended) != "nothing" || !mended.verdict.is_safe() {
            let (found, verdict) = (found(&mended), mended.verdict);
            wrong.push(format!("the twin of {} is not clean: {found}, {verdict}", twin.kind));
        }
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} | {} | {} · {} |",
            twin.kind.id(),
            twin.bug,
            found(&planted),
            twin.mend,
            found(&mended),
            planted.verdict,
            mended.verdict,
        );
    }
    assert_eq!(wrong, [""; 0]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/checkers.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(kept, table, "docs/checkers.md is not what the test found; see its first lines");
}
