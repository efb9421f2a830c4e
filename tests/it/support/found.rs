//! Programs of others that a test needs.

use std::path::Path;

/// Whether a program on the PATH, or a file, is there. Where one is missing, its tests say so and pass; unless
/// `EVERY_PROGRAM` is set, as `.ci/run` does once it has installed them all.
#[expect(
    clippy::print_stderr,
    reason = "said by a test, and shown with --nocapture"
)]
pub fn found(what: &str) -> bool {
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
