//! Many cases of one strategy: always the same with the suite, others each time where `FUZZ_CASES` asks for so many.

use std::time::{Duration, Instant};

use proptest::sample::{Select, select};
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

/// What label selectors are made of, and what is likely to be mistaken for it.
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
