use proptest::prelude::*;

use super::*;
use crate::plan::rules::first_problem;
use crate::plan::{
    Anchor, ClockPlan, Fault, FaultKind, Fence, Micros, Operation, Seed, When, scenario,
};

const SHORT: &str = r#"schema = 1
scenario = "redis-failover"

[lock]
lease = "2s"

[[fault]]
kind = "machine-crash"
node = "redis-1"
after = "app-1 acquire 3 applied"
"#;

#[test]
fn what_is_left_out_takes_the_default() {
    let mut expected = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
    expected.lock.lease = Micros::from_secs(2);
    expected.faults.push(Fault {
        kind: FaultKind::MachineCrash { node: "redis-1".to_owned() },
        when: When::After { anchor: "app-1 acquire 3 applied".parse().unwrap(), delay: Micros(0) },
        lasts: None,
    });
    assert_eq!(parse("short.toml", SHORT).unwrap(), expected);
}

#[test]
fn the_written_form() {
    let mut plan = parse("short.toml", SHORT).unwrap();
    plan.seed = Seed(42);
    plan.clocks.push(ClockPlan { node: "redis-2".to_owned(), offset_us: -250_000, rate_ppm: 500 });
    plan.faults[0].lasts = Some(Micros::from_millis(400));
    plan.faults.push(Fault {
        kind: FaultKind::Partition {
            from: vec!["redis-1".to_owned()],
            to: vec!["redis-2".to_owned(), "redis-3".to_owned()],
            one_way: true,
        },
        when: When::At(Micros::from_millis(2_100)),
        lasts: None,
    });
    insta::assert_snapshot!(write(&plan));
}

/// A whole plan of which one line is replaced: (name, line to replace, by what).
/// An empty line to replace means that the text is appended.
const BAD: &[(&str, &str, &str)] = &[
    ("wrong key", "lease = \"2s\"", "leese = \"2s\""),
    ("key of another table", "lease = \"2s\"", "think = \"2s\""),
    ("wrong type", "lease = \"2s\"", "lease = 2"),
    ("no unit", "lease = \"2s\"", "lease = \"2\""),
    ("negative time", "lease = \"2s\"", "lease = \"-2s\""),
    ("lease too short", "lease = \"2s\"", "lease = \"1ms\""),
    ("lease too long", "lease = \"2s\"", "lease = \"48h\""),
    ("margin over lease", "lease = \"2s\"", "margin = \"120%\""),
    ("unknown lock", "lease = \"2s\"", "name = \"rediss\""),
    ("unknown scenario", "scenario = \"redis-failover\"", "scenario = \"redis-failovr\""),
    ("no scenario", "scenario = \"redis-failover\"", ""),
    ("unknown fence", "[lock]", "fence = \"half\"\n[lock]"),
    ("fence without tokens", "lease = \"2s\"", "name = \"none\""),
    ("zero duration", "[lock]", "duration = \"0s\"\n[lock]"),
    ("seed as a number", "[lock]", "seed = 42\n[lock]"),
    ("future schema", "schema = 1", "schema = 2"),
    ("no schema", "schema = 1", ""),
    ("schema as text", "schema = 1", "schema = \"1\""),
    ("unknown node", "node = \"redis-1\"", "node = \"redis-4\""),
    ("crash of the stock", "node = \"redis-1\"", "node = \"stock-1\""),
    ("no node", "node = \"redis-1\"", ""),
    ("unknown kind", "kind = \"machine-crash\"", "kind = \"machine-crush\""),
    ("key of another kind", "node = \"redis-1\"", "node = \"redis-1\"\nextra = \"5ms\""),
    ("both begins", "node = \"redis-1\"", "node = \"redis-1\"\nat = \"1s\""),
    ("no begin", "after = \"app-1 acquire 3 applied\"", ""),
    ("after the end", "after = \"app-1 acquire 3 applied\"", "at = \"10s\""),
    ("lasts too long", "after = \"app-1 acquire 3 applied\"", "at = \"9s\"\nfor = \"2s\""),
    ("delay of a time", "after = \"app-1 acquire 3 applied\"", "at = \"1s\"\ndelay = \"1s\""),
    (
        "unknown client",
        "after = \"app-1 acquire 3 applied\"",
        "after = \"app-7 acquire 3 applied\"",
    ),
    ("bad anchor", "after = \"app-1 acquire 3 applied\"", "after = \"app-1 read 3 returned\""),
    ("sentinel alone", "[lock]", "[topology]\nredis = 1\n[lock]"),
    ("no sentinel", "node = \"redis-1\"", "node = \"sentinel-1\""),
    ("sentinel as a flag", "[lock]", "[topology]\nsentinel = true\n[lock]"),
    ("no record", "lease = \"2s\"", "name = \"none\""),
    ("single brackets", "[[fault]]", "[fault]"),
    ("duplicate key", "lease = \"2s\"", "lease = \"2s\"\nlease = \"3s\""),
    ("duplicate table", "[lock]", "[lock]\n[lock]"),
    ("truncated text", "after = \"app-1 acquire 3 applied\"", "after = \"app-1 acq"),
    ("truncated key", "after = \"app-1 acquire 3 applied\"", "after ="),
    ("too many redis", "[lock]", "[topology]\nredis = 70000\n[lock]"),
    ("sigma", "[lock]", "[topology]\nlatency-sigma = 1e9\n[lock]"),
    ("wide sigma", "[lock]", "[topology]\nlatency-sigma = 3.5\n[lock]"),
    ("cut in a list", "after = \"app-1 acquire 3 applied\"", "from = [\"redis-1\",\n"),
    ("lock as text", "[lock]", "lock = \"redis\"\n[topology]"),
    ("two clocks", "[lock]", "[[clock]]\nnode = \"app-1\"\n[[clock]]\nnode = \"app-1\"\n[lock]"),
    ("clock too fast", "[lock]", "[[clock]]\nnode = \"app-1\"\nrate = \"+200%\"\n[lock]"),
    ("clock key", "[lock]", "[[clock]]\nnode = \"app-1\"\nratio = \"+2%\"\n[lock]"),
    ("not TOML", "schema = 1", "{\"schema\": 1}"),
    ("unknown group", KIND, "kind = \"pause\"\ngroup = \"renewer\""),
    ("misspelt group", KIND, "kind = \"pause\"\ngroup = \"redis-conection\""),
    ("hang of a server", KIND, "kind = \"hang\""),
    ("reset that lasts", KIND, "kind = \"reset\"\nfor = \"1s\""),
    ("reset of a node", KIND, "kind = \"reset\""),
    ("slew that lasts", KIND, "kind = \"clock-slew\"\nby = \"1ms\"\nfor = \"1s\""),
    ("slew beyond the storm", KIND, "kind = \"clock-slew\"\nby = \"+10ms\""),
    ("slew of nothing", KIND, "kind = \"clock-slew\"\nby = \"0s\""),
    ("slew against itself", KIND, "kind = \"clock-slew\"\nby = \"1ms\"\nrate = \"-500ppm\""),
    ("slew too fast", KIND, "kind = \"clock-slew\"\nby = \"1ms\"\nrate = \"20%\""),
    ("slew by nothing", KIND, "kind = \"clock-slew\""),
    ("freeze at a rate", KIND, "kind = \"clock-freeze\"\nrate = \"5%\""),
    ("slow disk by nothing", KIND, "kind = \"disk-slow\"\nextra = \"0s\""),
    ("slow disk without a time", KIND, "kind = \"disk-slow\""),
    ("stalled disk of nobody", "node = \"redis-1\"", "node = \"redis-9\""),
    ("cancel after an event", KIND, "kind = \"cancel\""),
    ("cancel of a server", CANCEL, "ordinal = 3\nawait = 1"),
    ("cancel of a read", CANCEL, "ordinal = 3\nawait = 1"),
    ("cancel of the zeroth", CANCEL, "ordinal = 0\nawait = 1"),
    ("cancel at no await", CANCEL, "ordinal = 3\nawait = 0"),
    ("cancel without an await", CANCEL, "ordinal = 3"),
    ("cancel late", CANCEL, "ordinal = 3\nawait = 1\ndelay = \"20s\""),
];

const KIND: &str = "kind = \"machine-crash\"";

/// Replaced in a plan whose fault is a cancel.
const CANCEL: &str = "after = \"app-1 acquire 3 applied\"";

/// What a fault ends by itself may not be told, from a file as from a value.
#[test]
fn what_ends_by_itself_does_not_last() {
    for kind in [
        FaultKind::Reset { from: vec!["app-1".to_owned()], to: vec!["redis-1".to_owned()] },
        FaultKind::ClockSlew { node: "app-1".to_owned(), by_us: 5, ppm: 500 },
    ] {
        let mut plan = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
        let mut fault = Fault::new(kind, When::At(Micros(0)));
        plan.faults.push(fault.clone());
        assert_eq!(first_problem(&plan), Ok(()));
        fault.lasts = Some(Micros(5));
        plan.faults[0] = fault;
        assert_eq!(first_problem(&plan).unwrap_err().at[0], "fault[0].for");
        assert!(parse("plan.toml", &write(&plan)).is_err());
    }
}

#[test]
fn slews_that_would_stop_a_clock_together_are_refused() {
    let with_at = |whens: Vec<When>, rate: i64| {
        let mut plan = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
        plan.clocks.push(ClockPlan { node: "app-1".to_owned(), offset_us: 0, rate_ppm: rate });
        for when in whens {
            let slew = FaultKind::ClockSlew { node: "app-1".to_owned(), by_us: -5, ppm: 100_000 };
            plan.faults.push(Fault::new(slew, when));
        }
        first_problem(&plan)
    };
    let with = |faults: usize, rate: i64| with_at(vec![When::At(Micros(0)); faults], rate);
    assert_eq!((with(9, 0), with(4, -500_000)), (Ok(()), Ok(())));
    assert_eq!(with(5, -500_000), with(10, -500_000));
    let problem = with(10, 0).unwrap_err();
    assert_eq!(problem.at[0], "fault[0].by");
    let told = format!("{}; {}", problem.complaint.what, problem.complaint.mend);
    insta::assert_snapshot!(told, @"with all its slews that can run at once, app-1's clock would stand still or run backwards; write fewer of them, or lower rates");

    // Each takes 50 µs: one after the other they are fine, as long as it is known when they are.
    let at =
        |step_us: u64| -> Vec<When> { (0..10).map(|n| When::At(Micros(n * step_us))).collect() };
    assert_eq!((with_at(at(6), 0), with_at(at(5), 0).is_err()), (Ok(()), true));
    // One that waits for an event may come upon any of them.
    let anchor = "app-1 acquire 3 applied".parse().unwrap();
    let anchored = When::After { anchor, delay: Micros(0) };
    let nine_and_one: Vec<When> = at(6).into_iter().skip(1).chain([anchored]).collect();
    assert!(with_at(nine_and_one, 0).is_err());
}

#[test]
fn every_new_kind_in_its_written_form() {
    let text = r#"schema = 1
scenario = "redis-failover"

[[fault]]
kind = "reset"
from = "app-1"
to = ["redis-1"]
after = "app-1 acquire 3 applied"

[[fault]]
kind = "clock-freeze"
node = "redis-1"
at = "1s"
for = "2s"

[[fault]]
kind = "clock-slew"
node = "redis-1"
by = "-2ms"
at = "1s"

[[fault]]
kind = "cancel"
node = "app-2"
operation = "acquire"
ordinal = 3
await = 2
delay = "100us"

[[fault]]
kind = "hang"
node = "app-1"
at = "1s"
for = "500ms"

[[fault]]
kind = "disk-slow"
node = "redis-2"
extra = "80ms"
at = "1s"

[[fault]]
kind = "disk-stall"
node = "redis-2"
at = "1s"

[[fault]]
kind = "disk-error"
node = "redis-2"
at = "1s"
"#;
    let plan = parse("plan.toml", text).unwrap();
    let written = write(&plan);
    assert_eq!(parse("written.toml", &written).unwrap(), plan);
    let faults = &written[written.find("[[fault]]").unwrap()..];
    let told: Vec<String> =
        plan.faults.iter().map(|fault| crate::fault::narration(&fault.kind)).collect();
    insta::assert_snapshot!(format!("{faults}\n{}", told.join("\n")));
}

#[test]
fn bad_files_give_one_error_with_place_and_mend() {
    let mut lines = Vec::new();
    for (name, from, to) in BAD {
        assert!(SHORT.contains(from), "{name}");
        let text = SHORT.replacen(from, to, 1);
        let text = match *name {
            "fence without tokens" => {
                text.replacen("schema = 1", "schema = 1\nfence = \"full\"", 1)
            }
            "cancel of a server" => text
                .replace("machine-crash", "cancel")
                .replace("ordinal", "operation = \"acquire\"\nordinal"),
            "stalled disk of nobody" => text.replace("machine-crash", "disk-stall"),
            cancel if cancel.starts_with("cancel ") && *from == CANCEL => {
                text.replace("machine-crash", "cancel").replace("redis-1", "app-1").replace(
                    "ordinal",
                    match cancel {
                        "cancel of a read" => "operation = \"read\"\nordinal",
                        _ => "operation = \"acquire\"\nordinal",
                    },
                )
            }
            "no sentinel" => text.replacen("[lock]", "[topology]\nsentinels = 0\n[lock]", 1),
            _ => text,
        };
        match parse("plan.toml", &text) {
            Ok(plan) => panic!("{name} was read: {plan:?}"),
            Err(error) => lines.push(format!("{name}:\n  {error}")),
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn sides_of_partitions_are_judged() {
    let with = |sides: &str| {
        let text = format!(
            "schema = 1\nscenario = \"redis-failover\"\n[[fault]]\nkind = \"partition\"\nat = \
             \"1s\"\n{sides}\n"
        );
        parse("plan.toml", &text).map(|_| ())
    };
    assert!(with("from = \"redis-1\"\nto = [\"redis-2\", \"redis-3\"]").is_ok());
    let errors = [
        with("from = []\nto = [\"redis-2\"]"),
        with("from = [\"redis-1\"]\nto = [\"redis-2\", \"redis-1\"]"),
        with("from = [\"redis-1\"]\nto = [\"redis-2\",\n  \"redis-9\"]"),
        with("from = [\"redis-1\"]\nto = [7]"),
        with("from = [\"redis-1\"]\nto = 7"),
        with("to = [\"redis-1\"]"),
    ]
    .map(|result| result.unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}

/// What the program prints on a terminal without colours.
#[test]
fn the_error_with_its_snippet() {
    let text = SHORT.replace("node = \"redis-1\"", "node = \"redis-4\"");
    let error = parse("plan.toml", &text).unwrap_err();
    let theme = miette::GraphicalTheme::unicode_nocolor();
    let mut out = String::new();
    miette::GraphicalReportHandler::new_themed(theme)
        .with_width(100)
        .render_report(&mut out, &error)
        .unwrap();
    insta::assert_snapshot!(out);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = load(&folder.path().join("missing.toml")).unwrap_err().to_string();
    assert!(missing.contains("missing.toml: cannot be read"), "{missing}");
    assert!(load(folder.path()).unwrap_err().to_string().contains("name a file"));
    let binary = folder.path().join("binary.toml");
    std::fs::write(&binary, b"schema = 1\n\xff\xfe").unwrap();
    let error = load(&binary).unwrap_err();
    assert_eq!(error.position(), Some((2, 1)), "{error}");
    let huge = " ".repeat(2 << 20);
    assert!(parse("huge.toml", &huge).unwrap_err().to_string().contains("bytes"));
}

#[test]
fn deep_nesting_is_refused() {
    for text in [
        format!("{}1", "a.".repeat(50_000)),
        format!("{}1 = 1", "a.".repeat(50_000)),
        format!("a = {}", "[".repeat(50_000)),
        format!("a = {}", "{a=".repeat(50_000)),
        format!("[{}a]", "a.".repeat(50_000)),
        format!("{}a", "[".repeat(50_000)),
    ] {
        assert!(parse("deep.toml", &text).is_err());
    }
}

fn times() -> impl Strategy<Value = Micros> {
    prop_oneof![
        (0u64..5_000).prop_map(Micros),
        (0u64..5_000).prop_map(Micros::from_millis),
        (0u64..5).prop_map(Micros::from_secs)
    ]
}

fn nodes() -> impl Strategy<Value = Vec<String>> {
    let all = scenario::default_plan("redis-failover", "redis", Fence::Off).unwrap();
    Just(all.topology.nodes()).prop_shuffle()
}

fn begins() -> impl Strategy<Value = When> {
    let anchors = (1u16..=3, 0usize..4, 1u32.., 0usize..4, times()).prop_map(
        |(app, operation, ordinal, phase, delay)| {
            let operation = Operation::ALL[operation];
            let phases = operation.phases();
            let phase = phases[phase % phases.len()];
            When::After {
                anchor: Anchor::new(&format!("app-{app}"), operation, ordinal, phase),
                delay,
            }
        },
    );
    prop_oneof![times().prop_map(When::At), anchors]
}

fn kinds() -> impl Strategy<Value = FaultKind> {
    (0u8..17, nodes(), 1usize..4, any::<bool>(), times(), 1i64..500_000).prop_map(
        |(kind, nodes, cut, flag, time, number)| {
            let (from, to) = (nodes[..cut].to_vec(), nodes[cut..].to_vec());
            let node = nodes[0].clone();
            let signed = if flag { number } else { -number };
            match kind {
                0 => FaultKind::ProcessCrash { node },
                1 => FaultKind::MachineCrash { node },
                2 => FaultKind::Pause { node, group: flag.then(|| "release".to_owned()) },
                3 => FaultKind::Partition { from, to, one_way: flag },
                4 => FaultKind::SlowLink { from, to, extra: time },
                5 => FaultKind::ReplicationStall { node: "redis-2".to_owned() },
                6 => FaultKind::ClockRate { node, ppm: signed },
                7 => FaultKind::ClockStep { node, by_us: signed * 1_000 + 1 },
                8 => FaultKind::Reset { from, to },
                9 => FaultKind::ClockFreeze { node },
                10 => FaultKind::ClockSlew { node, by_us: signed, ppm: number as u32 },
                11 => FaultKind::Cancel {
                    node,
                    operation: FaultKind::CANCELLABLE[usize::from(flag)],
                    ordinal: number as u32 % 7,
                    suspension: number as u32 % 5,
                    delay: time,
                },
                12 => FaultKind::Hang { node },
                13 => FaultKind::DiskSlow { node, extra: time },
                14 => FaultKind::DiskStall { node },
                15 => FaultKind::Promote { node },
                _ => FaultKind::DiskError { node },
            }
        },
    )
}

/// What ends by itself is not told for how long it lasts: its file has no place for it.
fn fault_of(kind: FaultKind, when: When, lasts: Option<Micros>) -> Fault {
    let lasts = lasts.filter(|_| !kind.ends_by_itself());
    Fault { lasts, ..Fault::new(kind, when) }
}

prop_compose! {
    fn plans()(
        seed: u64,
        fence in 0usize..3,
        scenario in 0usize..3,
        numbers in prop::collection::vec(times(), 8),
        margin_ppm in 0u32..1_000_000,
        sigma in 0u32..=3_000,
        deadline_check: bool,
        units in 1u32..1_000,
        offset in any::<i32>(),
        faults in prop::collection::vec((kinds(), begins(), prop::option::of(times())), 0..5),
    ) -> Plan {
        let name = scenario::SCENARIOS[scenario].name;
        let mut plan = scenario::default_plan(name, "redis", Fence::ALL[fence]).unwrap();
        plan.seed = Seed(seed);
        plan.lock.margin_ppm = margin_ppm;
        plan.lock.command_timeout = numbers[0];
        plan.lock.retry = numbers[1];
        plan.topology.down_after = numbers[2];
        plan.topology.latency = numbers[3];
        plan.topology.latency_sigma_milli = sigma;
        plan.workload.think = numbers[4];
        plan.workload.work = numbers[5];
        plan.workload.slow_work = numbers[6];
        plan.workload.patience = numbers[7];
        plan.workload.deadline_check = deadline_check;
        plan.workload.units = units;
        plan.clocks = vec![ClockPlan {
            node: "redis-1".to_owned(),
            offset_us: i64::from(offset),
            rate_ppm: i64::from(offset) % 400_000,
        }];
        plan.faults =
            faults.into_iter().map(|(kind, when, lasts)| fault_of(kind, when, lasts)).collect();
        plan
    }
}

proptest! {
    /// A possible plan is read back as it was; an impossible one is refused from its
    /// file just as it is as a value.
    #[test]
    fn what_is_written_is_read_back(plan in plans()) {
        let text = write(&plan);
        match (first_problem(&plan), parse("plan.toml", &text)) {
            (Ok(()), Ok(read)) => {
                prop_assert_eq!(write(&read), text);
                prop_assert_eq!(read, plan);
            }
            (Err(problem), Err(error)) => prop_assert_eq!(&problem.complaint, error.complaint()),
            (problem, read) => prop_assert!(false, "{:?} {:?}\n{}", problem, read, text),
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}") {
        let _ = parse("plan.toml", &text);
    }

    /// Plans with a few characters changed, taken out, or cut off at the end.
    #[test]
    fn no_mutated_plan_makes_it_panic(
        seed: u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<char>(), 0u8..3), 0..6),
        end in any::<prop::sample::Index>(),
        cut: bool,
    ) {
        let plan =
            Plan::from_seed("redis-failover", "redis", Fence::Off, Seed(seed)).unwrap();
        let mut text: Vec<char> = write(&plan).chars().collect();
        for (at, character, change) in changes {
            let at = at.index(text.len());
            match change {
                0 => text[at] = character,
                1 => text.insert(at, character),
                _ => {
                    text.remove(at);
                }
            }
        }
        if cut {
            text.truncate(end.index(text.len()));
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = parse("plan.toml", &text) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
