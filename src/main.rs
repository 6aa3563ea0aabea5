//! Error hooks, parse, choose a role, exit code; nothing else.

fn main() {}
