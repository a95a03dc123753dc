//! Speed, as ratios from one run.

fn main() {}
