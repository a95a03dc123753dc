//! Is what the README shows the code that is tested?

const READMES: [&str; 2] = [include_str!("../README.md"), include_str!("../README.zh-CN.md")];

#[test]
fn the_turmoil_test_in_the_readme_is_the_one_that_runs() {
    let (_, code) = include_str!("plain_turmoil.rs").split_once("\n\n").unwrap();
    assert!(code.lines().count() <= 40);
    for readme in READMES {
        assert!(readme.contains(code.trim_end()));
    }
}

#[test]
fn the_plan_in_the_readme_loses_the_lock_and_oversells_on_both_engines() {
    use lockstorm_sim::check::Kind;
    use lockstorm_sim::engine::turmoil::Turmoil;

    for readme in READMES {
        let (_, rest) = readme.split_once("```toml\n").unwrap();
        let (plan, _) = rest.split_once("```").unwrap();
        let plan = lockstorm_sim::plan::file::parse("README.md", plan).unwrap();
        let run = lockstorm_sim::storm::run(&plan, &lockstorm_sim::engine::event::EventEngine);
        assert_eq!(run.judgement.goals.touched, [0, 1], "{:#?}", run.judgement);
        let there = lockstorm_sim::storm::run(&plan, &Turmoil::default());
        for run in [&run, &there] {
            let oversold = run.judgement.has_violation(Kind::Oversell);
            assert!(oversold, "{}: {:#?}", run.engine, run.judgement);
        }
    }
}

#[test]
fn the_own_lock_in_the_readme_is_the_one_of_the_example() {
    let example = include_str!("../examples/own-lock/tests/storm.rs");
    let (_, code) = example.split_once("\n\n").unwrap();
    let (code, _) = code.split_once("\nmod hasty").unwrap();
    let book = include_str!("../docs/book/src/your-lock.md");
    for page in READMES.into_iter().chain([book]) {
        assert!(page.contains(code.trim_end()));
    }
    let body = code.split_once("fn two_buyers").unwrap().1;
    assert!(body.lines().count() <= 15);
}

/// The README's snippet, word for word but for its imports.
#[test]
fn a_fully_fenced_stock_sells_nothing_twice() {
    use lockstorm_sim::plan::Fence;
    use lockstorm_sim::storm::Storm;

    Storm::new("redis-failover").lock("redis").fence(Fence::Full).seeds(50).run();
}

/// The cells of a matrix as `lockstorm matrix` tells them: lock, fence, family, what came of it.
fn cells(told: &str) -> Vec<[String; 4]> {
    let (mut cells, mut place) = (Vec::new(), None);
    for line in told.lines() {
        if let [lock, fence, _] = line.split(" · ").collect::<Vec<_>>()[..] {
            place = Some((lock.to_owned(), fence.replace("fence ", "")));
        } else if line.starts_with('#') {
            // Another run: its legend comes first.
            place = None;
        } else if let (Some((lock, fence)), Some((family, what))) = (&place, line.split_once(": "))
            && line.starts_with("  ")
            && !line.starts_with("   ")
        {
            cells.push([lock.clone(), fence.clone(), family.trim().to_owned(), what.to_owned()]);
        }
    }
    cells
}

/// A cell in few words: how many of how many, and within which bounds.
fn in_short(what: &str, by_the_fence: &str) -> String {
    let between = |from: &str, to: &str| {
        let (_, rest) = what.split_once(from)?;
        Some(rest.split_once(to)?.0.to_owned())
    };
    let effective = between(" tried, ", " had an effect").unwrap();
    match what.split_once(';').unwrap().0 {
        "violation" => {
            let failed = between("; ", " of them violated").unwrap();
            let failed = failed.rsplit(' ').next().unwrap().to_owned();
            let interval = between("%", ")").unwrap();
            format!("**{failed} of {effective}**{interval})")
        }
        safe @ ("safe" | "safe by fence") => {
            let most = between("fewer than ", " would").unwrap();
            let by = if safe == "safe" { "" } else { by_the_fence };
            format!("0 of {effective} (< {most}){by}")
        }
        _ => "?".to_owned(),
    }
}

/// The table of the README from a matrix, with `–` where a family is not at home.
fn table(told: &str, corner: &str, by_the_fence: &str) -> String {
    let cells = cells(told);
    let (mut families, mut rows): (Vec<&str>, Vec<[&str; 2]>) = Default::default();
    for [lock, fence, family, _] in &cells {
        if !families.contains(&family.as_str()) {
            families.push(family);
        }
        if !rows.contains(&[lock, fence]) {
            rows.push([lock, fence]);
        }
    }
    let mut table = format!("| {corner} | {} |\n", families.join(" | "));
    table.push_str(&format!("|{}\n", "---|".repeat(families.len() + 2)));
    for [lock, fence] in rows {
        let cell = |family: &&str| {
            let found = cells.iter().find(|cell| cell[..3] == [lock, fence, family]);
            found.map_or_else(|| "–".to_owned(), |cell| in_short(&cell[3], by_the_fence))
        };
        let row: Vec<String> = families.iter().map(cell).collect();
        table.push_str(&format!("| `{lock}` | {fence} | {} |\n", row.join(" | ")));
    }
    table
}

#[test]
fn the_measured_table_is_what_the_matrix_said() {
    let told = include_str!("../docs/evidence/matrix.txt");
    let command = told.lines().next().unwrap().trim_start_matches("# ");
    let [english, chinese] = READMES;
    // Behind the table's runs stands the one of more seeds, of what is rare.
    let rare = in_short(&cells(told).pop().unwrap()[3], "").replace("**", "");
    assert!(english.contains(&format!("fails in {rare}.")), "{rare}");
    assert!(chinese.contains(&format!(" {} 失败", rare.replace(" of ", "/"))), "{rare}");
    let tables = [
        (english, table(told, "lock | fence", ", by the fence")),
        (chinese, table(told, "锁 | 栅栏", "，凭栅栏").replace(" of ", "/")),
    ];
    for (readme, table) in tables {
        assert!(table.lines().count() > 10, "{table}");
        assert!(readme.contains(&table), "the README's table is not this one:\n{table}");
        assert!(readme.contains(command), "the README does not say how it was made: {command}");
    }
}

#[test]
fn the_picture_of_a_report_is_small_and_shown() {
    for (page, picture) in READMES.into_iter().zip(["report.png", "report.zh.png"]) {
        let path = format!("docs/book/src/{picture}");
        assert!(page.contains(&format!("]({path})")), "{path} is not shown");
        let bytes =
            std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&path)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() < 150_000, "{path}: {}", bytes.len());
    }
    assert!(include_str!("../docs/book/src/reports.md").contains("](report.png)"));
}
