//! Selects cases of tests that run many similar cases.
//!
//! `cargo test` runs a part of them, so that a person can wait for it. `tests/run --all` runs all, as does
//! `EVERY_CASE=1 cargo test -- --include-ignored`.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Whether all cases run, also those of 15,000 nodes.
pub fn every_case() -> bool {
    std::env::var_os("EVERY_CASE").is_some()
}

/// About this many of the cases, spread over all; with `EVERY_CASE` all. Different tests take different cases.
pub fn some<T>(cases: impl IntoIterator<Item = T>, wanted: usize) -> Vec<T> {
    let cases: Vec<T> = cases.into_iter().collect();
    if every_case() {
        return cases;
    }
    let stride = cases.len().div_ceil(wanted).max(1);
    let mut hasher = DefaultHasher::new();
    std::thread::current().name().hash(&mut hasher);
    let first = usize::try_from(hasher.finish() % stride as u64).expect("less than the stride");
    cases.into_iter().skip(first).step_by(stride).collect()
}

/// The numbers of nodes; 15,000 only with `EVERY_CASE`.
pub fn sizes<const N: usize>(nodes: [usize; N]) -> impl Iterator<Item = usize> {
    nodes.into_iter().filter(|nodes| *nodes < 15_000 || every_case())
}
