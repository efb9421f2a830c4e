//! Runs many cases of a strategy: the same cases in each test run, or new ones with `FUZZ_CASES`.

use std::time::{Duration, Instant};

use proptest::sample::{Select, select};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// The time limit of a target without `FUZZ_CASES`; the remaining cases are skipped.
const MOST_TIME: Duration = Duration::from_secs(3);

/// Runs this many cases, always the same, for at most [`MOST_TIME`]. With `FUZZ_CASES`, runs that many new
/// cases, without a time limit.
pub fn fuzz<S: Strategy>(
    target: &str,
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let asked = std::env::var("FUZZ_CASES").ok().and_then(|n| n.parse().ok());
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
        say(&format!("{target}: {} cases in {:.0?}", tried.get(), began.elapsed()));
    }
    match done {
        Ok(()) => {}
        Err(TestError::Fail(why, value)) => panic!("{target}: {why}\nwith {value:?}"),
        Err(TestError::Abort(why)) => panic!("{target}: {why}"),
    }
}

/// Tokens of label selectors, and similar text.
pub fn selector_pieces() -> Select<&'static str> {
    select(vec![
        "a",
        "b.c/d",
        "zone",
        "in",
        "notin",
        "=",
        "==",
        "!=",
        "!",
        ">",
        "<",
        "(",
        ")",
        ",",
        " ",
        "\t",
        "1",
        "-5",
        "x_y",
        "é",
        "/",
        "..",
        "99999999999999999999",
        "A-1",
    ])
}

#[expect(clippy::print_stderr, reason = "figures, for those who ask for them")]
fn say(text: &str) {
    eprintln!("{text}");
}
