//! Is the engine in this build?

#[test]
fn the_flags_of_the_workspace_are_on() {
    if let Err(why) = lockstorm_madsim::engine() {
        panic!("{why}");
    }
}
