//! Can a test bring a lock of its own, and is it judged as ours are? Whose a record is is seen
//! whatever it says; what has no records is judged by its effects; what is misused is told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockstorm_sim::check::{Goal, Kind, Verdict};
use lockstorm_sim::engine::Engine;
use lockstorm_sim::engine::event::EventEngine;
use lockstorm_sim::engine::turmoil::Turmoil;
use lockstorm_sim::history::{AcquireOutcome, Attempt, What};
use lockstorm_sim::own::{self, Failure, Inside, Node, OwnLock};
use lockstorm_sim::plan::{Fence, Plan, Seed, file};
use lockstorm_sim::storm::{self, Run, Storm};
use redis::Script;
use redis::aio::MultiplexedConnection;

const GIVE_BACK: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// What a lock writes into its record.
#[derive(Clone, Copy, Debug)]
enum Naming {
    Drawn,
    Machine,
    TheSame,
}

/// `SET NX PX`, under a key of its own.
struct Plain {
    redis: MultiplexedConnection,
    node: Node,
    prefix: &'static str,
    naming: Naming,
}

impl Plain {
    fn owner(&self) -> String {
        match self.naming {
            Naming::Drawn => format!("{:016x}", self.node.host().random("owner of a test")),
            Naming::Machine => self.node.name().to_owned(),
            Naming::TheSame => "locked".to_owned(),
        }
    }

    fn key(&self, key: &str) -> String {
        match self.prefix {
            // Somewhere where nobody looks.
            "" => format!("{}/hidden", key.len()),
            prefix => format!("{prefix}{key}"),
        }
    }
}

impl OwnLock for Plain {
    type Held = String;

    async fn acquire(&self, key: &str) -> Result<Option<String>, Failure> {
        let (owner, lease) = (self.owner(), self.node.lease().as_millis());
        let mut taking = redis::cmd("SET");
        taking.arg(self.key(key)).arg(&owner).arg("NX").arg("PX").arg(lease.to_string());
        let taken: Option<String> = taking.query_async(&mut self.redis.clone()).await?;
        Ok(taken.map(|_| owner))
    }

    async fn release(&self, key: &str, held: String) -> Result<bool, Failure> {
        let script = Script::new(GIVE_BACK);
        let mut giving = script.key(self.key(key));
        Ok(giving.arg(held).invoke_async(&mut self.redis.clone()).await?)
    }
}

async fn plain(node: Node, prefix: &'static str, naming: Naming) -> Result<Plain, Failure> {
    let redis = node.redis_master().await?;
    Ok(Plain { redis, node, prefix, naming })
}

fn calm(scenario: &str) -> Plan {
    let build = |node| plain(node, "shop:", Naming::Drawn);
    Storm::new(scenario).own_lock(build).without_faults().plan_of(Seed(3)).unwrap()
}

fn run(plan: &Plan, naming: Naming, engine: &dyn Engine) -> Run {
    let factory = own::factory(move |node| plain(node, "shop:", naming));
    storm::run_with(plan, engine, &factory)
}

/// Everybody who was let in has a record, set in its name before it heard of it.
fn has_records(run: &Run) {
    let mut granted = 0;
    for event in run.history.iter() {
        let What::AcquireReturned { attempt, outcome: AcquireOutcome::Granted { .. }, .. } =
            &event.what
        else {
            continue;
        };
        granted += 1;
        let name = attempt.to_string();
        let set = run.history.iter().take_while(|earlier| earlier.id < event.id).any(
            |earlier| matches!(&earlier.what, What::RecordSet { owner, .. } if **owner == *name),
        );
        assert!(set, "no record of {name}");
    }
    assert!(granted > 5, "{granted}");
    for event in run.history.iter() {
        if let What::RecordSet { owner, key, .. } | What::RecordReplicated { owner, key } =
            &event.what
        {
            assert!(Attempt::parse(owner).is_some(), "a stranger's record: {owner}");
            assert_eq!(&**key, "lock:sku-42");
        }
    }
}

#[test]
fn whose_a_record_is_is_seen_whatever_it_says() {
    let engines: [&dyn Engine; 2] = [&EventEngine, &Turmoil::default()];
    for scenario in ["redis-single", "redis-failover"] {
        let plan = calm(scenario);
        for naming in [Naming::Drawn, Naming::Machine, Naming::TheSame] {
            for engine in engines {
                let run = run(&plan, naming, engine);
                assert!(run.judgement.verdict.is_safe(), "{naming:?}: {:#?}", run.judgement);
                assert!(run.setting.lock_has_records);
                has_records(&run);
            }
        }
    }
}

#[test]
fn what_it_draws_from_its_node_is_the_plans() {
    let plan = calm("redis-single");
    let runs = [(); 2].map(|()| run(&plan, Naming::Drawn, &EventEngine).trace_hash);
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn replication_lag_loses_it_as_it_loses_ours() {
    let build = |node| plain(node, "shop:", Naming::Drawn);
    let outcome = Storm::new("redis-failover").own_lock(build).seeds(60).outcome();
    assert!(outcome.violations_of(Kind::DoubleGrant) > 0, "{outcome:?}");
    assert_eq!(outcome.verdicts_of(Verdict::Internal), 0);
}

/// Says yes to everybody.
struct Open;

impl OwnLock for Open {
    type Held = ();

    async fn acquire(&self, _key: &str) -> Result<Option<()>, Failure> {
        Ok(Some(()))
    }

    async fn release(&self, _key: &str, (): ()) -> Result<bool, Failure> {
        Ok(true)
    }
}

/// What a test that runs it fails with; lines that were folded are one.
fn told(storm: &Storm) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| storm.clone().run())).unwrap_err();
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_lock_whose_records_are_nowhere_is_judged_by_what_was_done() {
    let build = |node| plain(node, "", Naming::Drawn);
    let hidden = Storm::new("redis-single").own_lock(build).without_faults().seeds(3);
    let outcome = hidden.outcome();
    assert_eq!(outcome.verdicts_of(Verdict::Safe), 3, "{outcome:?}");
    let open = Storm::new("redis-single").own_lock(|_| async { Ok(Open) }).without_faults();
    let told = told(&open.seeds(3).shrink(0));
    assert!(told.contains("effect-interleaved"), "{told}");
    assert!(told.contains("records none was seen at a server"), "{told}");
}

async fn twice(inside: Inside) -> Result<(), Failure> {
    inside.effect("debit");
    inside.node().host().sleep(Duration::from_millis(40)).await;
    inside.check()?;
    inside.effect("credit");
    Ok(())
}

/// Nobody is ever let in, but at an odd seed.
struct AtOddSeeds(bool);

impl OwnLock for AtOddSeeds {
    type Held = ();

    async fn acquire(&self, _key: &str) -> Result<Option<()>, Failure> {
        Ok(self.0.then_some(()))
    }

    async fn release(&self, _key: &str, (): ()) -> Result<bool, Failure> {
        Ok(true)
    }
}

#[test]
fn what_says_nothing_does_not_hide_what_fails() {
    let build = |node: Node| async move { Ok(AtOddSeeds(node.plan().seed.0 % 2 == 1)) };
    let storm = Storm::new("redis-single").own_lock(build).without_faults().seeds(4);
    let outcome = storm.outcome();
    assert_eq!(outcome.verdicts_of(Verdict::Unknown), 2, "{outcome:?}");
    assert_eq!(outcome.without_records, 4);
    let (position, run) = outcome.failure().unwrap();
    assert_eq!((*position, run.judgement.verdict), (2, Verdict::Violation));
}

#[test]
fn what_is_done_inside_may_be_the_tests_own() {
    let build = |node| plain(node, "shop:", Naming::Drawn);
    let storm = Storm::new("redis-single").own_lock(build).section(twice);
    let outcome = storm.clone().without_faults().seeds(5).outcome();
    assert_eq!(outcome.verdicts_of(Verdict::Safe), 5, "{outcome:?}");
    let open = Storm::new("redis-single").own_lock(|_| async { Ok(Open) }).section(twice);
    let told = told(&open.without_faults().seeds(5));
    for part in ["effect-interleaved", "credit as app-", "debit as app-", "LOCKSTORM_"] {
        assert!(told.contains(part), "no {part} in\n{told}");
    }
    // A lock of ours has an inside, too.
    let ours = Storm::new("redis-single").lock("redis").section(twice).without_faults().seeds(2);
    assert_eq!(ours.outcome().verdicts_of(Verdict::Safe), 2);
}

#[test]
fn a_section_that_does_nothing_proves_nothing() {
    let build = |node| plain(node, "shop:", Naming::Drawn);
    let idle = Storm::new("redis-single").own_lock(build).section(async |_| Ok(())).seeds(1);
    let outcome = idle.outcome();
    let (_, run) = outcome.first_failure.as_ref().unwrap();
    assert_eq!(run.judgement.verdict, Verdict::Unknown);
    assert!(run.judgement.goals.is_missed(Goal::ResourceTouched));
    let told = told(&idle);
    assert!(told.contains("Inside::effect"), "{told}");
}

#[test]
fn a_plan_that_is_written_down_names_the_lock_and_no_program_builds_it() {
    let plan = calm("redis-single");
    let text = file::write(&plan);
    assert!(text.contains("own"), "{text}");
    assert_eq!(file::parse("plan.toml", &text).unwrap(), plan);
    let run = storm::run(&plan, &EventEngine);
    let why = run.ending.stuck.unwrap();
    assert!(why.contains("LOCKSTORM_PLAN"), "{why}");
}

/// Its first release fails.
struct Breaks;

impl OwnLock for Breaks {
    type Held = ();

    async fn acquire(&self, _key: &str) -> Result<Option<()>, Failure> {
        Ok(Some(()))
    }

    async fn release(&self, _key: &str, (): ()) -> Result<bool, Failure> {
        Err("the connection is gone".into())
    }
}

#[test]
fn what_failed_to_be_given_back_is_built_anew() {
    let built = Arc::new(AtomicU32::new(0));
    let counted = built.clone();
    let build = move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Breaks) }
    };
    Storm::new("redis-single").own_lock(build).without_faults().seeds(1).outcome();
    // Three clients, some rounds each.
    assert!(built.load(Ordering::Relaxed) > 10, "{built:?}");
}

#[test]
fn what_is_never_built_is_not_waited_for() {
    let never = |_| std::future::pending::<Result<Open, Failure>>();
    let told = told(&Storm::new("redis-single").own_lock(never).without_faults().seeds(1));
    assert!(told.contains("it was not built within"), "{told}");
}

#[test]
fn what_cannot_be_built_says_why() {
    let refused = |_| async { Err::<Open, Failure>("no password".into()) };
    let told_refused = told(&Storm::new("redis-single").own_lock(refused).seeds(1));
    assert!(told_refused.contains("no password"), "{told_refused}");
    let panics = |node: Node| async move {
        if node.name() == "app-2" {
            panic!("the shop's configuration is missing");
        }
        Ok(Open)
    };
    let told_panics = told(&Storm::new("redis-single").own_lock(panics).seeds(1));
    assert!(told_panics.contains("the shop's configuration is missing"), "{told_panics}");
    assert!(told_panics.contains("app-2"), "{told_panics}");
}

#[test]
fn what_does_not_belong_into_a_run_is_told() {
    // Not wound up: a runtime of its own, which tokio refuses inside of another.
    let runtime = |_| async {
        let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
        runtime.block_on(async {});
        Ok(Open)
    };
    let told_runtime = told(&Storm::new("redis-single").own_lock(runtime).seeds(1));
    assert!(told_runtime.contains("start no other"), "{told_runtime}");
    let socket = |_| async {
        tokio::net::TcpStream::connect("127.0.0.1:9").await?;
        Ok(Open)
    };
    let told_socket = told(&Storm::new("redis-single").own_lock(socket).seeds(1));
    assert!(told_socket.contains("Node::connect"), "{told_socket}");
    let ensemble = |node: Node| async move {
        node.zookeeper().await?;
        Ok(Open)
    };
    let told_ensemble = told(&Storm::new("zookeeper-single").own_lock(ensemble).seeds(1));
    assert!(told_ensemble.contains("docs/shims.md"), "{told_ensemble}");
}

const AGAIN: &str = "the_line_of_a_shrunk_failure_shows_it_again";

#[test]
fn the_line_of_a_shrunk_failure_shows_it_again() {
    let storm = Storm::new("redis-single").own_lock(|_| async { Ok(Open) }).seeds(2);
    if std::env::var_os("LOCKSTORM_PLAN").is_some() {
        storm.run();
        return;
    }
    let first = told(&storm);
    let word = |sign: &str| {
        let mut words = first.split(' ').skip_while(|word| !word.starts_with(sign));
        words.next().unwrap_or_else(|| panic!("no {sign} in\n{first}")).to_owned()
    };
    let capsule = word("LOCKSTORM_PLAN=").replace("LOCKSTORM_PLAN=", "");
    assert!(first.contains(&format!("{capsule} cargo test {AGAIN}")), "{first}");
    let (_, trace) = first.split_once("trace ").unwrap();
    let trace = trace.split(' ').next().unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child = child.args([AGAIN, "--exact", "--nocapture"]).env("LOCKSTORM_PLAN", capsule);
    let child = child.output().unwrap();
    let again = String::from_utf8_lossy(&child.stderr);
    assert!(again.contains(&format!("trace {trace}")), "{again}");
    assert_eq!(child.status.code(), Some(101));
}

const FAILS: &str = "a_failing_test_prints_the_path_of_a_page_that_tells_it";

/// From a failing `cargo test` to the page in one printed path.
#[test]
fn a_failing_test_prints_the_path_of_a_page_that_tells_it() {
    if std::env::var_os("OWN_LOCKS_FAILS").is_some() {
        Storm::new("redis-single").own_lock(|_| async { Ok(Open) }).seeds(2).run();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // As `cargo test` runs it: what fails is shown from what was captured.
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child = child.args([FAILS, "--exact"]).env("OWN_LOCKS_FAILS", "1");
    let child = child.env("LOCKSTORM_REPORT", "html").env("LOCKSTORM_OUT", folder.path());
    let child = child.output().unwrap();
    assert_eq!(child.status.code(), Some(101));
    let told = String::from_utf8_lossy(&child.stdout);
    let paths: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("Report ")).collect();
    let [path] = paths[..] else { panic!("not one path in\n{told}") };
    let path = std::path::Path::new(path.trim());
    assert!(path.is_absolute() && path.starts_with(folder.path()), "{path:?}");
    // What the page says first is what the test said first.
    let page = std::fs::read_to_string(path).unwrap();
    let (_, title) = page.split_once("<title>").unwrap();
    let (title, _) = title.split_once("</title>").unwrap();
    let sentence = title.strip_prefix("violation: ").unwrap();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(sentence), "{sentence}\n{told}");
    let reproduce = told.split_once("LOCKSTORM_PLAN=").unwrap().1.split(' ').next().unwrap();
    assert!(page.contains(reproduce), "{reproduce}");
}

const BLOCKS: &str = "a_lock_that_blocks_its_thread_is_told_and_ended";

#[test]
fn a_lock_that_blocks_its_thread_is_told_and_ended() {
    let is_child = std::env::var_os("OWN_LOCKS_BLOCKS").is_some();
    if is_child {
        let blocks = |node: Node| async move {
            while node.name() == "app-2" {
                std::thread::park();
            }
            Ok(Open)
        };
        let storm = Storm::new("redis-single").own_lock(blocks).limit(Duration::from_millis(500));
        storm.run();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child = child.args([BLOCKS, "--exact"]).env("OWN_LOCKS_BLOCKS", "1").output().unwrap();
    let told = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.code(), Some(70), "{told}");
    assert!(told.contains("no end in 0.5 s of real time"), "{told}");
    assert!(told.contains("app-2"), "{told}");
}

#[test]
fn who_asks_side_by_side_is_not_told_apart_and_not_convicted() {
    let build = |node| plain(node, "shop:", Naming::Drawn);
    let storm = Storm::new("redis-single").own_lock(build).set("workload.buyers", "2");
    let outcome = storm.without_faults().seeds(5).twice().outcome();
    assert_eq!(outcome.verdicts_of(Verdict::Safe), 5, "{outcome:?}");
}

#[test]
fn behind_a_fence_grants_without_tokens_are_no_grants() {
    let build = |node| plain(node, "shop:", Naming::Drawn);
    let told = told(&Storm::new("redis-single").own_lock(build).fence(Fence::Full).seeds(2));
    assert!(told.contains("needs the token of each grant"), "{told}");
    let fenced = Storm::new("redis-single").lock("redis").section(twice).fence(Fence::Full);
    let told = self::told(&fenced.seeds(1));
    assert!(told.contains("take the fence off"), "{told}");
}

#[test]
fn a_guard_that_outlives_its_section_is_told() {
    let leak = |inside: Inside| async move {
        std::mem::forget(inside.clone());
        inside.effect("read");
        Ok(())
    };
    let told = told(&Storm::new("redis-single").lock("redis").section(leak).seeds(1));
    assert!(told.contains("kept what it was given beyond its own end"), "{told}");
}

#[test]
fn a_way_to_sell_has_no_inside() {
    let told = told(&Storm::new("postgres-single").lock("pg-conditional").section(twice));
    assert!(told.contains("is a way to sell, not a lock"), "{told}");
}
