//! The program `lockstorm`.

fn main() {}
