//! Numbers, lists, and ages in kubectl's notation.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A number with its noun: `1 node`, `3 nodes`, `2 policies`, `0 batches`.
pub fn plural(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{} {}", count(number), nouns(noun)),
    }
}

/// A number with thousands separators: `870`, `15,000`.
pub fn count(number: impl Display) -> String {
    let text = number.to_string();
    let (sign, digits) = text.split_at(usize::from(text.starts_with('-')));
    let mut grouped = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A list for a sentence: `a`, `a and b`, `a, b and c`.
pub fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            format!("{} and {}", first.joined(", "), last.as_ref())
        }
    }
}

/// The items in order, each once.
pub fn distinct<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    Vec::from_iter(BTreeSet::from_iter(items))
}

/// Joins the items of an iterator, as `join` joins those of a slice.
pub trait Joined: IntoIterator<Item: AsRef<str>> + Sized {
    fn joined(self, separator: &str) -> String {
        let mut joined = String::new();
        for (at, item) in self.into_iter().enumerate() {
            if at > 0 {
                joined.push_str(separator);
            }
            joined.push_str(item.as_ref());
        }
        joined
    }
}

impl<I: IntoIterator<Item: AsRef<str>>> Joined for I {}

/// The first `most` names, and the number of other names.
pub fn some_of<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown = names.iter().take(most).joined(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {} more", count(more)),
    }
}

/// The plural of an English noun; of several words, the last word's plural.
fn nouns(noun: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| noun.ends_with(ending));
    match noun.strip_suffix('y') {
        Some(stem) if !ends(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends(&["s", "x", "ch", "sh"]) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// The age of a time: `45s`, `12m`, `5d3h`. `0s` if the time is in the future by at most [`CLOCK_SKEW`],
/// `<future>` if later, and `<unknown>` without a time.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    match since {
        None => "<unknown>".to_owned(),
        Some(since) if since.duration_since(now) > CLOCK_SKEW => "<future>".to_owned(),
        Some(since) => human(now.duration_since(since.min(now))),
    }
}

/// Maximum lead of the clock that wrote a time over the reader's clock.
pub const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The age of a time: `12m ago`. For a time in the future, `just now`, or the time itself if clock skew does
/// not explain it.
pub fn ago(at: Option<Timestamp>, now: Timestamp) -> String {
    match at {
        Some(at) if at > now => in_future(at, now).map_or("just now".to_owned(), |at| format!("at {at}")),
        at => format!("{} ago", age(at, now)),
    }
}

/// The time since `since`: `for 12m`. For a time in the future, see [`ago`].
pub fn for_how_long(since: Timestamp, now: Timestamp) -> String {
    let in_future = in_future(since, now).map(|at| format!("since {at}"));
    in_future.unwrap_or_else(|| format!("for {}", age(Some(since.min(now)), now)))
}

fn in_future(at: Timestamp, now: Timestamp) -> Option<String> {
    (at.duration_since(now) > CLOCK_SKEW).then(|| {
        let at = at.strftime("%Y-%m-%dT%H:%M:%SZ");
        format!("{at}, which is in the future (clocks differ)")
    })
}

/// A span of time in two or three significant figures.
///
/// The steps are those of `HumanDuration` in `k8s.io/apimachinery/pkg/util/duration`: a reader
/// who compares with `kubectl get` must see the same text.
pub fn human(span: SignedDuration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |big: i64, unit: char, small: i64, part: char| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{part}"),
    };
    match seconds {
        // Two clocks may differ by a second; a larger difference is an error.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 3 * 60 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two(years, 'y', days % 365, 'd'),
        _ => format!("{years}y"),
    }
}

/// A timeout: `30m`, or `300ms` if it is shorter than a second.
pub fn duration_text(time: Duration) -> String {
    match SignedDuration::try_from(time) {
        Ok(time) if time.as_secs() > 0 => human(time),
        _ => format!("{time:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_nouns() {
        let texts = [
            plural(0, "node"),
            plural(1, "node"),
            plural(3, "node"),
            plural(15_000, "custom resource"),
            plural(2, "deployment policy"),
            plural(2, "key"),
            plural(2, "batch"),
            plural(1_234_567, "pod"),
        ];
        assert_eq!(
            texts,
            [
                "0 nodes",
                "1 node",
                "3 nodes",
                "15,000 custom resources",
                "2 deployment policies",
                "2 keys",
                "2 batches",
                "1,234,567 pods",
            ]
        );
    }

    #[test]
    fn thousands_are_apart() {
        let numbers = [0_i64, 999, 1_000, 375_000, -12, -1_500].map(count);
        assert_eq!(numbers, ["0", "999", "1,000", "375,000", "-12", "-1,500"]);
    }

    #[test]
    fn lists_as_in_a_sentence() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn spells_ages_as_kubectl_does() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (1, "1s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (2 * MINUTE + 1, "2m1s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + MINUTE, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (48 * HOUR - 1, "47h"),
            (2 * DAY, "2d"),
            (5 * DAY + 3 * HOUR, "5d3h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR, "8y"),
            (20 * YEAR + 100 * DAY, "20y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected, "{seconds} seconds");
        }
    }

    #[test]
    fn says_when_it_is_not_known_since_when() {
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().expect("a timestamp");
        let since = "2026-05-01T11:48:00Z".parse().expect("a timestamp");
        assert_eq!(age(None, now), "<unknown>");
        assert_eq!(age(Some(since), now), "12m");
    }

    #[test]
    fn times_in_the_future_are_tolerated_and_named() {
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().expect("a timestamp");
        let at = |text: &str| text.parse::<Timestamp>().expect("a timestamp");
        for (time, since, lasting) in [
            ("2026-05-01T11:48:00Z", "12m ago", "for 12m"),
            ("2026-05-01T12:00:00Z", "0s ago", "for 0s"),
            ("2026-05-01T12:04:59Z", "just now", "for 0s"),
            (
                "2036-05-01T12:00:00.5Z",
                "at 2036-05-01T12:00:00Z, which is in the future (clocks differ)",
                "since 2036-05-01T12:00:00Z, which is in the future (clocks differ)",
            ),
        ] {
            assert_eq!(ago(Some(at(time)), now), since);
            assert_eq!(for_how_long(at(time), now), lasting);
            let in_table = lasting.strip_prefix("for ").unwrap_or("<future>");
            assert_eq!(age(Some(at(time)), now), in_table);
        }
        assert_eq!(ago(None, now), "<unknown> ago");
    }
}
