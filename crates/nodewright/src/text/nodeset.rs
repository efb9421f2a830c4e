//! Many names on one line: `gpu-[0001-0870,0901]`, or `gpu-[0001-0871/2]` for every second number.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use unicode_width::UnicodeWidthStr;

use super::{Joined, count};

/// Names, folded if they differ in one number only.
///
/// Four or more numbers with equal gaps are one run, whose step is the gap.
///
/// ```
/// use nodewright::text::NodeSet;
///
/// let set = NodeSet::of(["gpu-0002", "gpu-0001", "gpu-0007", "cpu-9", "cpu-10"]);
/// assert_eq!(set.to_string(), "cpu-[9-10],gpu-[0001-0002,0007]");
/// assert_eq!(set.limited(2), "cpu-[9-10],gpu-[0001-0002] and 1 more");
/// assert_eq!(set.len(), 5);
/// assert_eq!(NodeSet::of(["n03", "n08", "n13", "n18"]).to_string(), "n[03-18/5]");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSet {
    groups: Vec<NameGroup>,
    len: usize,
}

/// Names that share all but one number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NameGroup {
    prefix: String,
    /// Empty if the group is a single unfolded name; the prefix is the name then.
    runs: Vec<NumberRange>,
    suffix: String,
}

impl NodeSet {
    /// Folds names, in any order; duplicates count once.
    pub fn of<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> NodeSet {
        let names: Vec<S> = names.into_iter().collect();
        let names: BTreeSet<&str> = names.iter().map(AsRef::as_ref).collect();
        let len = names.len();
        let mut shapes: BTreeMap<String, Vec<Vec<&str>>> = BTreeMap::new();
        for name in names {
            let tokens = tokens(name);
            shapes.entry(shape(&tokens)).or_default().push(tokens);
        }
        let mut groups: Vec<NameGroup> = shapes.into_values().flat_map(|names| fold(&names)).collect();
        groups.sort_by(|a, b| natural(&a.sample(), &b.sample()));
        NodeSet { groups, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of runs and of unfolded names in the printed set.
    pub fn runs(&self) -> usize {
        self.groups.iter().map(|group| group.runs.len().max(1)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The text with at most this many runs, and the number of other names: `gpu-[1-9] and 12 more`.
    pub fn limited(&self, runs: usize) -> String {
        let mut left = runs.max(1);
        let mut shown = 0;
        let mut pieces = Vec::new();
        for group in &self.groups {
            if left == 0 {
                break;
            }
            let runs = &group.runs[..group.runs.len().min(left)];
            left = left.saturating_sub(runs.len().max(1));
            shown += runs.iter().map(|run| run.len).sum::<usize>().max(1);
            pieces.push(group.text(runs));
        }
        let text = pieces.join(",");
        match self.len - shown.min(self.len) {
            0 => text,
            more => format!("{text} and {} more", count(more)),
        }
    }
}

impl NodeSet {
    /// The text with at most this many runs and columns. If the first run fits, the text is cut between two
    /// runs: a part of a run would name other nodes.
    pub fn fitting(&self, runs: usize, columns: usize) -> String {
        let Some(group) = self.groups.first() else {
            return String::new();
        };
        let limited = (1..=runs.min(self.runs())).rev().map(|runs| self.limited(runs));
        let first = group.text(&group.runs[..group.runs.len().min(1)]);
        let ellipses = [format!("{first} …"), format!("{} …", group.sample())];
        limited.chain(ellipses).find(|text| text.width() <= columns).unwrap_or(first)
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.limited(usize::MAX))
    }
}

impl NameGroup {
    fn text(&self, runs: &[NumberRange]) -> String {
        let spelled = runs
            .iter()
            .map(|run| match (run.len, run.step) {
                (1, _) => run.first.clone(),
                (_, 1) => format!("{}-{}", run.first, run.last),
                (_, step) => format!("{}-{}/{step}", run.first, run.last),
            })
            .joined(",");
        match runs {
            [run] if run.len == 1 => format!("{}{}{}", self.prefix, run.first, self.suffix),
            [] => self.prefix.clone(),
            _ => format!("{}[{spelled}]{}", self.prefix, self.suffix),
        }
    }

    /// The first name, by which groups are sorted.
    fn sample(&self) -> String {
        let first = self.runs.first().map_or("", |run| run.first.as_str());
        format!("{}{first}{}", self.prefix, self.suffix)
    }
}

/// Splits a name into text, number, text, number …
fn tokens(name: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - text);
        tokens.push(&rest[..text]);
        tokens.push(&rest[text..text + digits]);
        rest = &rest[text + digits..];
    }
    tokens
}

/// The texts of a name without its numbers: only names with equal texts are folded.
fn shape(tokens: &[&str]) -> String {
    tokens.iter().step_by(2).flat_map(|text| [*text, "\0"]).collect()
}

/// Folds names of one shape at the number that gives the fewest groups, or at the last such number.
fn fold(names: &[Vec<&str>]) -> Vec<NameGroup> {
    let places = (1..names.first().map_or(0, Vec::len))
        .step_by(2)
        .filter(|at| names.iter().all(|name| is_number(name[*at])));
    // Number of distinct names without the number at that position.
    let left =
        |at: usize| names.iter().map(|name| (&name[..at], &name[at + 1..])).collect::<BTreeSet<_>>().len();
    let place = match names {
        [_] => None,
        _ => places.rev().min_by_key(|at| left(*at)),
    };
    let Some(place) = place else {
        return names
            .iter()
            .map(|name| NameGroup { prefix: name.concat(), runs: Vec::new(), suffix: String::new() })
            .collect();
    };
    let mut groups: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for name in names {
        let key = (name[..place].concat(), name[place + 1..].concat());
        groups.entry(key).or_default().push(name[place]);
    }
    groups
        .into_iter()
        .map(|((prefix, suffix), numbers)| NameGroup { prefix, runs: runs(numbers), suffix })
        .collect()
}

fn is_number(digits: &str) -> bool {
    (1..=18).contains(&digits.len())
}

/// Compares names with numbers by value: `gpu-9` before `gpu-10`. Use this order for all sorted names.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (left, right) = (tokens(a), tokens(b));
    // Texts and numbers alternate. Without leading zeros, the longer number is greater.
    let by_token = left.iter().zip(&right).enumerate().map(|(i, (a, b))| match i % 2 {
        0 => a.cmp(b),
        _ => {
            let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
            a.len().cmp(&b.len()).then(a.cmp(b))
        }
    });
    by_token.fold(Ordering::Equal, Ordering::then).then(left.len().cmp(&right.len())).then(a.cmp(b))
}

/// Numbers in equal steps, 1 if consecutive; `first` and `last` are spelled as in the names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NumberRange {
    first: String,
    last: String,
    len: usize,
    step: u64,
}

/// Minimum number of single numbers with equal gaps that are written as a range with a step.
const STEPPED: usize = 4;

/// Joins numbers to runs. All numbers of a run are padded to one width, or have no leading zeros.
fn runs(mut numbers: Vec<&str>) -> Vec<NumberRange> {
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
        let mut gaps = rest.windows(2).take_while(lone).map(|two| gap(&two[0], &two[1])).peekable();
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

/// Maximum number of names in a set, more than any cluster has nodes.
pub const MOST_NAMES: usize = 100_000;

/// Why a text in set notation is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSet {
    #[error("range {0} is reversed")]
    Backwards(String),
    #[error("it expands to more than {MOST_NAMES} names")]
    TooMany,
}

/// Expands a set such as `cpu-9,gpu-[0001-0870,0901]` to its names, in the written order.
///
/// `None` without set notation: a single name, or an expression.
pub fn expand(text: &str) -> Option<Result<Vec<String>, NoSet>> {
    let groups = groups(text)?;
    if groups.len() == 1 && groups[0].runs.is_empty() {
        return None;
    }
    let mut names = Vec::new();
    for group in groups {
        if let Err(why) = group.expand(&mut names) {
            return Some(Err(why));
        }
    }
    Some(Ok(names))
}

/// `0001-0870`, or `0001-0870/2` for every second number. A single number is both ends.
struct Run<'a> {
    first: &'a str,
    last: &'a str,
    step: usize,
}

/// Names with a common prefix and suffix around their numbers.
struct ParsedGroup<'a> {
    prefix: &'a str,
    runs: Vec<Run<'a>>,
    suffix: &'a str,
}

impl ParsedGroup<'_> {
    fn expand(&self, names: &mut Vec<String>) -> Result<(), NoSet> {
        let ParsedGroup { prefix, suffix, .. } = self;
        if self.runs.is_empty() {
            names.push((*prefix).to_owned());
        }
        for Run { first, last, step } in &self.runs {
            let value = |digits: &str| digits.parse::<u64>().map_err(|_| NoSet::TooMany);
            let (from, to) = (value(first)?, value(last)?);
            if from > to {
                return Err(NoSet::Backwards(format!("{first}-{last}")));
            }
            if usize::try_from(to - from)
                .map_or(true, |more| more / step >= MOST_NAMES - names.len().min(MOST_NAMES))
            {
                return Err(NoSet::TooMany);
            }
            // Leading zeros keep the width.
            let width = if first.starts_with('0') { first.len() } else { 0 };
            let numbers = (from..=to).step_by(*step);
            names.extend(numbers.map(|n| format!("{prefix}{n:0width$}{suffix}")));
        }
        if names.len() > MOST_NAMES { Err(NoSet::TooMany) } else { Ok(()) }
    }
}

fn groups(text: &str) -> Option<Vec<ParsedGroup<'_>>> {
    let mut groups = Vec::new();
    let mut rest = text;
    loop {
        let (group, after) = group(rest)?;
        groups.push(group);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None => return after.is_empty().then_some(groups),
        }
    }
}

/// Parses one group; returns the rest.
fn group(text: &str) -> Option<(ParsedGroup<'_>, &str)> {
    let (prefix, rest) = plain(text);
    let Some(inside) = rest.strip_prefix('[') else {
        let group = ParsedGroup { prefix, runs: Vec::new(), suffix: "" };
        return (!prefix.is_empty()).then_some((group, rest));
    };
    let (inside, rest) = inside.split_once(']')?;
    let runs: Option<Vec<_>> = inside.split(',').map(run).collect();
    let (suffix, rest) = plain(rest);
    let group = ParsedGroup { prefix, runs: runs?, suffix };
    // Single numbers are printed without brackets; in brackets they are a character class.
    let lone = matches!(group.runs.as_slice(), [run] if run.first == run.last);
    (!lone).then_some((group, rest))
}

fn run(text: &str) -> Option<Run<'_>> {
    let (first, rest) = text.split_once('-').unwrap_or((text, text));
    let (last, step) = match rest.split_once('/') {
        Some((last, step)) => (last, step.parse().ok().filter(|step| *step > 0)?),
        None => (rest, 1),
    };
    let number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (number(first) && number(last)).then_some(Run { first, last, step })
}

/// Splits off the leading name characters.
fn plain(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.'));
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn folded(names: &[&str]) -> String {
        NodeSet::of(names.iter().copied()).to_string()
    }

    /// The names of a printed set.
    fn unfold(text: &str) -> BTreeSet<String> {
        match expand(text) {
            Some(names) => names.expect("few names").into_iter().collect(),
            // A single name is no set.
            None => Some(text.to_owned()).filter(|name| !name.is_empty()).into_iter().collect(),
        }
    }

    #[test]
    fn folds_what_differs_in_one_number() {
        assert_eq!(folded(&[]), "");
        assert_eq!(folded(&["gpu-0001"]), "gpu-0001");
        assert_eq!(folded(&["control-plane", "gpu-2", "gpu-2"]), "control-plane,gpu-2");
        assert_eq!(folded(&["gpu-3", "gpu-10", "gpu-9", "gpu-1"]), "gpu-[1,3,9-10]");
        assert_eq!(folded(&["gpu-099", "gpu-100", "gpu-98"]), "gpu-[98,099-100]");
        assert_eq!(folded(&["n0", "n00", "n1", "n01", "n10"]), "n[0-1,00-01,10]");
        assert_eq!(
            folded(&["gpu-0001", "gpu-0002", "cpu-0001", "gpu-0002-b", "gpu-0003-b"]),
            "cpu-0001,gpu-[0001-0002],gpu-[0002-0003]-b"
        );
        let ips: Vec<String> = (1..=9).map(|i| format!("ip-10-0-0-{i}.ec2.internal")).collect();
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        assert_eq!(folded(&ips), "ip-10-0-0-[1-9].ec2.internal");
        assert_eq!(folded(&["r1-n1", "r1-n2", "r2-n1", "r2-n2", "r10-n1"]), "r[1-2,10]-n1,r[1-2]-n2");
        assert_eq!(folded(&["r1-a", "r2-a", "r3-a"]), "r[1-3]-a");
        assert_eq!(
            folded(&["x99999999999999999999", "x99999999999999999998"]),
            "x99999999999999999998,x99999999999999999999"
        );
    }

    #[test]
    fn equal_gaps_are_steps() {
        assert_eq!(folded(&["n1", "n3", "n5"]), "n[1,3,5]");
        assert_eq!(folded(&["n1", "n3", "n5", "n7"]), "n[1-7/2]");
        assert_eq!(folded(&["n1", "n2", "n4", "n6", "n8", "n10", "n13"]), "n[1-2,4-10/2,13]");
        assert_eq!(folded(&["n07", "n08", "n98", "n99"]), "n[07-08,98-99]");
        assert_eq!(folded(&["n1", "n4", "n7", "n010", "n13"]), "n[1,4,7,13,010]");
        let fleet: Vec<String> = (1..3000).map(|i| format!("n{:05}", i * 5 + 4)).collect();
        let set = NodeSet::of(fleet.iter().filter(|name| *name != "n00104"));
        assert_eq!(set.to_string(), "n[00009-00099/5,00109-14999/5]");
        assert_eq!(set.limited(1), "n[00009-00099/5] and 2,979 more");
    }

    #[test]
    fn says_how_many_more_there_are() {
        let names: Vec<String> = (0..1500).map(|i| format!("gpu-{:07}", i * i)).collect();
        let set = NodeSet::of(names.iter().map(String::as_str).chain(["a"]));
        assert_eq!(set.len(), 1501);
        assert_eq!(set.limited(3), "a,gpu-[0000000-0000001,0000004] and 1,497 more");
        assert_eq!(set.limited(0), "a and 1,500 more");
        assert_eq!(NodeSet::of(["a", "b"]).limited(2), "a,b");
        assert_eq!(NodeSet::default().limited(2), "");
    }

    #[test]
    fn a_set_is_cut_between_its_runs() {
        let set = NodeSet::of((0..8).chain(20..30).chain([40, 50]).map(|n| format!("gpu-{n:05}")));
        for (columns, text) in [
            (60, "gpu-[00000-00007,00020-00029,00040] and 1 more"),
            (45, "gpu-[00000-00007,00020-00029] and 2 more"),
            (39, "gpu-[00000-00007] and 12 more"),
            (28, "gpu-[00000-00007] …"),
            (18, "gpu-00000 …"),
            (10, "gpu-[00000-00007]"),
        ] {
            assert_eq!(set.fitting(3, columns), text, "{columns}");
        }
        assert_eq!(NodeSet::default().fitting(3, 10), "");
    }

    #[test]
    fn sorts_as_people_do() {
        let mut names = ["gpu-10", "gpu-9", "cpu", "gpu", "gpu-9-b", "gpu-09"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["cpu", "gpu", "gpu-09", "gpu-9", "gpu-9-b", "gpu-10"]);
    }

    /// Takes about ten milliseconds in an optimized build; the limit suits a debug build on a busy machine.
    #[test]
    fn is_quick_with_a_large_cluster() {
        let names: Vec<String> =
            (0..15_000).map(|i| format!("ip-10-{}-{}-{}.ec2.internal", i % 7, i / 250, i % 250)).collect();
        let start = Instant::now();
        assert_eq!(NodeSet::of(names.iter().map(String::as_str)).len(), 15_000);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_made_up(
            names in prop::collection::vec("[a-c]{0,2}(-?0{0,2}[0-9]{0,3}){0,3}(\\.[a-b])?", 0..60)
        ) {
            let names: BTreeSet<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let set = NodeSet::of(names.iter().map(String::as_str));
            prop_assert_eq!(unfold(&set.to_string()), names, "{}", set);
        }

        #[test]
        fn the_order_is_total(mut names in prop::collection::vec("[a-b0-2]{0,4}", 3)) {
            names.sort_by(|a, b| natural(a, b));
            for pair in names.windows(2) {
                prop_assert_ne!(natural(&pair[0], &pair[1]), Ordering::Greater);
                prop_assert_eq!(natural(&pair[0], &pair[1]), natural(&pair[1], &pair[0]).reverse());
            }
            prop_assert_ne!(natural(&names[0], &names[2]), Ordering::Greater);
        }
    }

    #[test]
    fn what_is_printed_is_read() {
        let read = |text| expand(text).map(|names| names.map(|n| n.join(" ")));
        let names = |text: &str| Some(Ok(text.to_owned()));
        assert_eq!(read("gpu-[00097,00099-00101]"), names("gpu-00097 gpu-00099 gpu-00100 gpu-00101"));
        assert_eq!(read("n[0-2]"), names("n0 n1 n2"));
        assert_eq!(read("n[8-11].x"), names("n8.x n9.x n10.x n11.x"));
        assert_eq!(read("cpu,n[0-1,00-01],b-2"), names("cpu n0 n1 n00 n01 b-2"));
        assert_eq!(read("a,b"), names("a b"));
        assert_eq!(read("n[08-14/3,2]-x"), names("n08-x n11-x n14-x n2-x"));
        assert_eq!(read("n[1-6/2]"), names("n1 n3 n5"));
        for other in [
            "",
            "a",
            "a,",
            ",a",
            "n[12]",
            "n[a-b]",
            "n[0-",
            "n[0-1]*",
            "n[0-1]{2}",
            "a|b",
            "n[1-]",
            "n[1-9/0]",
            "n[1-9/]",
            "n[1/2]",
            "n[1-9]/2",
            "n[-1]",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn what_stands_for_too_much_is_refused_before_it_is_written_out() {
        for many in [
            "n[1-999999999999999999]",
            "n[0-99999999999999999999999]",
            "n[0-60000],m[0-60000]",
            "n[0-100000]",
        ] {
            assert_eq!(expand(many), Some(Err(NoSet::TooMany)), "{many}");
        }
        assert_eq!(expand("n[1-100000]").map(|n| n.map(|n| n.len())), Some(Ok(MOST_NAMES)));
        assert_eq!(expand("n[21-13]"), Some(Err(NoSet::Backwards("21-13".to_owned()))));
    }
}
