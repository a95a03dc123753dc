use super::*;

/// The places and the complaint of what is wrong with the scenario's plan after `settings`.
fn refused(scenario: &str, lock: &str, settings: &[(&str, &str)]) -> (Vec<String>, String) {
    let mut plan = scenario::default_plan(scenario, lock, Fence::Off).unwrap();
    for (name, value) in settings {
        crate::plan::file::setting::apply(&mut plan, name, value).unwrap();
    }
    let Problem { at, complaint } = first_problem(&plan).unwrap_err();
    (at, format!("{}; {}", complaint.what, complaint.mend))
}

#[test]
fn a_planted_sale_is_refused_where_it_would_not_be_run() {
    for lock in ["planted/released-before-commit", "mended/unlocked-one-by-one"] {
        // As it stands it has what it needs.
        let plan = scenario::default_plan("postgres-single", lock, Fence::Off).unwrap();
        assert_eq!((plan.topology.redis, plan.workload.stock), (1, StockPlace::Sql));
        let (at, told) = refused("postgres-single", lock, &[("topology.redis", "0")]);
        assert_eq!(at, ["topology.redis", "lock.name"], "{told}");
    }
    for lock in ["planted/released-before-commit", "planted/state-goes-round"] {
        for (stock, place) in [("memory", "stock in SQL"), ("sql-for-update", "of its own")] {
            let (at, told) = refused("postgres-single", lock, &[("workload.stock", stock)]);
            assert_eq!(at, ["workload.stock", "lock.name"]);
            assert!(told.contains(place) && told.contains("stock = \"sql\""), "{told}");
        }
        let (at, told) = refused("postgres-pool", lock, &[("workload.stock", "sql-pooled")]);
        assert_eq!(at, ["workload.stock", "lock.name"]);
        assert!(told.contains("write stock = \"sql\", or take another lock"), "{told}");
        let (at, told) = refused("postgres-single", lock, &[("workload.locks", "2")]);
        assert_eq!(at, ["workload.locks", "lock.name"], "{told}");
    }
}

#[test]
fn connections_are_not_counted_where_there_are_none() {
    let (at, told) = refused("postgres-single", "pg-for-update", &[("workload.pool", "4")]);
    assert_eq!(at, ["workload.pool", "workload.stock"]);
    assert!(told.ends_with("leave it out, or write stock = \"sql-pooled\""), "{told}");
    let (at, told) = refused("redis-single", "redis", &[("topology.max-connections", "7")]);
    assert_eq!(at, ["topology.max-connections", "topology.postgres"]);
    assert!(told.ends_with("or take the scenario postgres-single"), "{told}");
    let pool = ("workload.pool", "6");
    let (at, _) = refused("postgres-pool", "none", &[("workload.stock", "sql"), pool]);
    assert_eq!(at[0], "workload.pool");
    let plan = scenario::default_plan("postgres-pool", "none", Fence::Off).unwrap();
    let plan = plan.with_settings(&[("workload.stock", "sql")]).unwrap();
    let again = crate::plan::file::parse("again", &crate::plan::file::write(&plan)).unwrap();
    assert_eq!(again, plan);
}
