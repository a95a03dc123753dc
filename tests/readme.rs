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
