//! Every file of `seeds/` is a test of its own name.

fn main() {}
