//! Random files, annotations and command lines cause no panic, and printed values can be read back.
//!
//! Each target takes a few seconds with the suite. `FUZZ_CASES=N cargo test --test it -- fuzz:: --nocapture`
//! runs N cases of each, from a new seed each time; under `ulimit -v` it also proves that memory is bounded.
//! JSONPath and custom-columns are in `view::jsonpath::tests`, which read FUZZ_CASES, too.
//!
//! Inputs that failed once, or are likely to, are in `tests/corpora`, one JSON string a line, and run first.

mod files;
mod mutate;
mod text;

use std::path::Path;

use proptest::strategy::Strategy;
use proptest::test_runner::TestCaseError;

use crate::support::fuzz::fuzz;

/// The texts of a corpus, which run before random ones.
fn corpus(name: &str) -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora");
    let text = std::fs::read_to_string(directory.join(name).with_extension("jsonl"));
    let text = text.expect("a corpus");
    let line = |line: &str| serde_json::from_str(line).expect("a JSON string a line");
    text.lines().map(line).collect()
}

/// Runs [`fuzz`] on texts, the corpus first.
fn fuzz_texts<S: Strategy<Value = String>>(
    target: &str,
    cases: u32,
    strategy: &S,
    test: impl Fn(String) -> Result<(), TestCaseError>,
) {
    for text in corpus(&target.replace(' ', "-")) {
        if let Err(why) = test(text.clone()) {
            panic!("{target}: {why}\nwith {text:?}");
        }
    }
    fuzz(target, cases, strategy, test);
}
