//! Durations as values of flags.

use std::time::Duration;

use jiff::SignedDuration;

/// Parses a number of seconds, or a duration in Go's notation: `90s`, `5m`, `1h30m`, `250ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let parsed = text.parse::<SignedDuration>().ok();
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "expected a duration such as 5s, 2m or 1h, or a number of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds_or_spelled_as_in_go() {
        let ms = |text| duration(text).map(|d| d.as_millis());
        assert_eq!(ms("0"), Ok(0));
        assert_eq!(ms("45"), Ok(45_000));
        assert_eq!(ms("90s"), Ok(90_000));
        assert_eq!(ms("1m30s"), Ok(90_000));
        assert_eq!(ms("1h2m3.5s"), Ok(3_723_500));
        assert_eq!(ms("250ms"), Ok(250));
        assert_eq!(ms("1.5h"), Ok(5_400_000));
        for wrong in ["", "-1", "-5s", "5x", "s", "soon", "1..5s", "5s3", "1e400h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
