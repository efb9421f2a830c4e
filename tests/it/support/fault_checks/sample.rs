//! The cases that run.

/// Selects the cases to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    /// About this many cases, spread over all.
    About(usize),
    /// The n-th of this many parts; part 2 of 6 is every sixth case from the second on.
    Part(usize, usize),
}

impl Sample {
    pub fn of<T>(self, all: &[T]) -> Vec<&T> {
        let (first, stride) = match self {
            Sample::About(wanted) => (0, (all.len() / wanted).max(1)),
            Sample::Part(part, parts) => (part - 1, parts),
        };
        all.iter().skip(first).step_by(stride).collect()
    }
}

/// A sample of this size, unless `FAULTS` selects another: `FAULTS=2000` for about that many cases,
/// `FAULTS=all` for all, and `FAULTS=2/6` for the second of six parts. `FAULTS_OF=teardown` selects the
/// commands that contain `teardown`.
pub fn sample(size: usize) -> Sample {
    let Ok(requested) = std::env::var("FAULTS") else {
        return Sample::About(size);
    };
    let number = |text: &str| text.parse().expect("FAULTS is all, a number, or two as in 2/6");
    match requested.split_once('/') {
        None if requested == "all" => Sample::Part(1, 1),
        None => Sample::About(number(&requested)),
        Some((part, parts)) => Sample::Part(number(part), number(parts)),
    }
}
