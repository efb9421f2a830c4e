//! Times that API servers store and [`Timestamp`] cannot hold.

use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Timestamp};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The time of a text that API servers store and [`Timestamp`] does not parse; `None` for all other texts. A
/// time beyond the range of [`Timestamp`] becomes the nearest end of the range.
///
/// API servers store the years 0 to 9999, at any offset from UTC. The `date-time` format of custom resources
/// also accepts offsets up to 99:99, any separator before the fraction, and any text after another `T`.
pub fn repaired(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once(['T', 't'])?;
    if text.len() < "0000-00-00T00:00:00Z".len() || text.parse::<Timestamp>().is_ok() {
        return None;
    }
    let rest = rest.split(['T', 't']).next()?;
    let time: Time = rest.get(..8)?.parse().ok()?;
    // Years beyond four digits come from an offset: Go prints UTC.
    if let Some((year @ ("10000" | "-0001"), _)) = date.rsplit_once('-').and_then(|(y, _)| y.rsplit_once('-'))
    {
        return Some(nearest(if year == "10000" { i64::MAX } else { i64::MIN }));
    }
    let offset = match rest.rfind(['+', '-']) {
        None => SignedDuration::ZERO,
        Some(at) => {
            let (hours, minutes) = rest[at + 1..].split_once(':')?;
            let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
            let ahead = SignedDuration::from_mins(i64::from(hours) * 60 + i64::from(minutes));
            if rest[at..].starts_with('-') { -ahead } else { ahead }
        }
    };
    let date: Date = date.parse().ok()?;
    let since = date.to_datetime(time).duration_since(EPOCH) - offset;
    Some(nearest(since.as_secs()))
}

/// The time of a number of seconds since 1970, or the nearest end of our range.
pub fn nearest(seconds: i64) -> Timestamp {
    let end = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(seconds).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_within_our_range_and_other_texts_stay() {
        for text in [
            "2026-11-28T09:00:00Z",
            "2026-11-28t09:00:00.123456z",
            "9999-12-30T22:00:00Z",
            "0001-01-01T00:00:00Z",
            "0000-01-01T00:00:00+01:00",
            "",
            "T",
            "driverT",
            "2026-11-28",
            "2026-11-28T",
            "2026-13-28T09:00:00Z",
            "9999-12-31T25:00:00Z",
            "the node was lost at 9999-12-31T23:59:59Z",
            "ÄÖÜTÄÖÜÄÖÜÄÖÜÄÖÜÄÖÜ",
        ] {
            assert_eq!(repaired(text), None, "{text}");
        }
    }

    #[test]
    fn times_beyond_our_range_become_its_end() {
        for text in [
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999999Z",
            "9999-12-31T23:59:59-12:00",
            "10000-01-01T11:59:59Z",
        ] {
            assert_eq!(repaired(text), Some(Timestamp::MAX), "{text}");
        }
        assert_eq!(repaired("-0001-12-31T23:00:00Z"), Some(Timestamp::MIN));
    }

    /// What the API server's `date-time` format of custom resources accepts.
    #[test]
    fn odd_times_of_custom_resources_are_read() {
        for (text, time) in [
            ("2026-11-28T09:00:00+99:99", "2026-11-24T04:21:00Z"),
            ("2026-11-28T09:00:00-99:99", "2026-12-02T13:39:00Z"),
            ("2026-11-28T09:00:00x5Z", "2026-11-28T09:00:00Z"),
            ("2026-11-28T09:00:00Zt", "2026-11-28T09:00:00Z"),
        ] {
            assert_eq!(repaired(text), time.parse().ok(), "{text}");
        }
    }
}
