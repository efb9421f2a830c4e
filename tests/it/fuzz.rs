//! Whatever stands in files, in annotations and on the command line: nothing panics, and what is printed reads back.
//!
//! Each target takes a few seconds with the suite. `FUZZ_CASES=N cargo test --test it -- fuzz:: --nocapture` tries N cases
//! of each, from another seed every time; under `ulimit -v` it also shows that memory is bounded. JSONPath and
//! custom-columns stand in `view::jsonpath::tests`, where FUZZ_CASES counts, too.
//!
//! What has once been wrong, or is likely to be, stands in `tests/corpora`, a JSON string a line, and is tried first.

mod files;
mod mutate;
mod words;

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// The longest that a target takes with the suite; what it has not tried by then it leaves.
const MOST_TIME: Duration = Duration::from_secs(3);

/// Tries so many cases; with the suite always the same, and no longer than [`MOST_TIME`].
pub fn fuzz<S: Strategy>(
    target: &str,
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let asked = std::env::var("FUZZ_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    let config = Config {
        cases: asked.unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => {
            let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
            TestRunner::new_with_rng(config, seed)
        }
    };
    let began = Instant::now();
    let tried = std::cell::Cell::new(0_u32);
    let done = runner.run(strategy, |value| {
        if asked.is_none() && began.elapsed() > MOST_TIME {
            return Ok(());
        }
        tried.set(tried.get() + 1);
        test(value)
    });
    if asked.is_some() {
        say(&format!(
            "{target}: {} cases in {:.0?}",
            tried.get(),
            began.elapsed()
        ));
    }
    match done {
        Ok(()) => {}
        Err(TestError::Fail(why, value)) => panic!("{target}: {why}\nwith {value:?}"),
        Err(TestError::Abort(why)) => panic!("{target}: {why}"),
    }
}

/// The texts that are tried first.
fn corpus(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora");
    let text = std::fs::read_to_string(folder.join(name).with_extension("jsonl"));
    let text = text.expect("a corpus");
    let line = |line: &str| serde_json::from_str(line).expect("a JSON string a line");
    text.lines().map(line).collect()
}

/// [`fuzz`] with texts, those of the corpus first.
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

#[expect(clippy::print_stderr, reason = "figures, for those who ask for them")]
fn say(text: &str) {
    eprintln!("{text}");
}
