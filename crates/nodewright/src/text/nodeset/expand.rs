//! Parsing of printed sets of names: the inverse of [`super::NodeSet`].

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
struct NameGroup<'a> {
    prefix: &'a str,
    runs: Vec<Run<'a>>,
    suffix: &'a str,
}

impl NameGroup<'_> {
    fn expand(&self, names: &mut Vec<String>) -> Result<(), NoSet> {
        let NameGroup { prefix, suffix, .. } = self;
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

fn groups(text: &str) -> Option<Vec<NameGroup<'_>>> {
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
fn group(text: &str) -> Option<(NameGroup<'_>, &str)> {
    let (prefix, rest) = plain(text);
    let Some(inside) = rest.strip_prefix('[') else {
        let group = NameGroup { prefix, runs: Vec::new(), suffix: "" };
        return (!prefix.is_empty()).then_some((group, rest));
    };
    let (inside, rest) = inside.split_once(']')?;
    let runs: Option<Vec<_>> = inside.split(',').map(run).collect();
    let (suffix, rest) = plain(rest);
    let group = NameGroup { prefix, runs: runs?, suffix };
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
    use super::*;

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
