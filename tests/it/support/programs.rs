//! Other programs that a test needs.

use std::path::Path;

/// Whether a program on the PATH, or a file given by its absolute path, exists. Without the program, its
/// tests print a note and pass; with `EVERY_PROGRAM`, which `.ci/run` sets after it has installed all
/// programs, they fail.
#[expect(clippy::print_stderr, reason = "printed by a test, and shown with --nocapture")]
pub fn is_installed(what: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = if what.starts_with('/') {
        Path::new(what).exists()
    } else {
        std::env::split_paths(&path).any(|dir| dir.join(what).is_file())
    };
    let every = std::env::var_os("EVERY_PROGRAM").is_some_and(|v| !v.is_empty());
    assert!(found || !every, "{what} is missing");
    if !found {
        eprintln!("not tested: there is no {what} on this machine");
    }
    found
}
