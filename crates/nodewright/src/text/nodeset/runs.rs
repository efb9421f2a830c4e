//! Runs of numbers: `0001-0870`, or in equal steps `0001-0871/2`.

use std::collections::BTreeSet;

/// Numbers in equal steps, 1 if consecutive; `first` and `last` are spelled as in the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumberRange {
    pub first: String,
    pub last: String,
    pub len: usize,
    pub step: u64,
}

/// Minimum number of single numbers with equal gaps that are written as a range with a step.
const STEPPED: usize = 4;

/// Joins numbers to runs. All numbers of a run are padded to one width, or have no leading zeros.
pub(super) fn runs(mut numbers: Vec<&str>) -> Vec<NumberRange> {
    let padded: BTreeSet<usize> = numbers
        .iter()
        .filter(|digits| digits.len() > 1 && digits.starts_with('0'))
        .map(|digits| digits.len())
        .collect();
    // The width of a number if numbers of that width are padded, otherwise 0.
    let width = |digits: &str| {
        if padded.contains(&digits.len()) { digits.len() } else { 0 }
    };
    let value = |digits: &str| digits.parse::<u64>().unwrap_or_default();
    numbers.sort_by_key(|digits| (width(digits), value(digits)));
    let mut runs: Vec<NumberRange> = Vec::new();
    for digits in numbers {
        match runs.last_mut() {
            Some(run) if width(&run.last) == width(digits) && value(&run.last) + 1 == value(digits) => {
                run.last = digits.to_owned();
                run.len += 1;
            }
            _ => {
                runs.push(NumberRange { first: digits.to_owned(), last: digits.to_owned(), len: 1, step: 1 })
            }
        }
    }
    stepped(runs, |a, b| (width(&a.last) == width(&b.first)).then(|| value(&b.first) - value(&a.last)))
}

/// Joins single numbers with equal gaps. `gap` returns the gap between neighbors of the same width.
fn stepped(
    runs: Vec<NumberRange>,
    gap: impl Fn(&NumberRange, &NumberRange) -> Option<u64>,
) -> Vec<NumberRange> {
    let mut joined = Vec::with_capacity(runs.len());
    let mut rest = runs.as_slice();
    while let [first, ..] = rest {
        let lone = |two: &&[NumberRange]| two.iter().all(|run| run.len == 1);
        let gaps = rest.windows(2).take_while(lone);
        let mut gaps = gaps.map(|two| gap(&two[0], &two[1])).peekable();
        let step = gaps.peek().copied().flatten();
        let len = match step {
            Some(_) => 1 + gaps.take_while(|gap| *gap == step).count(),
            None => 1,
        };
        if let Some(step) = step.filter(|_| len >= STEPPED) {
            joined.push(NumberRange {
                first: first.first.clone(),
                last: rest[len - 1].last.clone(),
                len,
                step,
            });
            rest = &rest[len..];
        } else {
            joined.push(first.clone());
            rest = &rest[1..];
        }
    }
    joined
}
