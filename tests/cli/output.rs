//! Pipes that close and disks that are full, terminals that are not there (T-08).

use std::process::Stdio;

use crate::{Home, Run};

#[test]
fn x_01_a_closed_pipe_is_quiet() {
    let home = Home::new();
    let mut child = home
        .command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let run = Run::of(child.wait_with_output().expect("ends"));
    assert_eq!(run.stderr, "");
    assert_eq!(run.code, 0);
}

#[test]
fn x_01_a_full_disk_is_an_error() {
    let home = Home::new();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let output = home
        .command(&["completions", "bash"])
        .stdout(full)
        .output()
        .expect("runs");
    let run = Run::of(output).exits(1);
    assert!(run.stderr.contains("cannot be written"), "{}", run.stderr);
}
