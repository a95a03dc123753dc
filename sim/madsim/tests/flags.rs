//! Is the engine in this build?

#[test]
fn the_flags_of_the_workspace_are_on() {
    assert!(lockstorm_madsim::AVAILABLE, "{}", lockstorm_madsim::ABSENT);
}
