//! Operator and package versions.

use std::fmt;

/// A semantic version, with or without a leading `v`, ordered by its numbers.
///
/// A pre-release orders before its release; build metadata is ignored, as semver asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    pre_release: String,
}

impl Version {
    /// Parses `v0.18.0`, `0.18.0` or `0.18.0-rc1`; `None` if it is not a version.
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split('+').next()?;
        let (core, pre_release) = text.split_once('-').unwrap_or((text, ""));
        let mut numbers = core.split('.').map(|n| n.parse::<u64>().ok());
        let version = Version {
            numbers: [numbers.next()??, numbers.next()??, numbers.next()??],
            pre_release: pre_release.to_owned(),
        };
        numbers.next().is_none().then_some(version)
    }

    /// Whether this is at least `major.minor`, counting pre-releases of it in.
    ///
    /// A release candidate already behaves as the release it precedes.
    pub fn at_least(&self, major: u64, minor: u64) -> bool {
        (self.numbers[0], self.numbers[1]) >= (major, minor)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
                (true, false) => std::cmp::Ordering::Greater,
                (false, true) => std::cmp::Ordering::Less,
                _ => self.pre_release.cmp(&other.pre_release),
            }
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "v{major}.{minor}.{patch}")?;
        if !self.pre_release.is_empty() {
            write!(f, "-{}", self.pre_release)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn orders_by_numbers_and_puts_pre_releases_first() {
        let parse = |t| Version::parse(t).expect(t);
        assert!(parse("v0.9.0") < parse("0.18.0"));
        assert!(parse("v0.18.0-rc1") < parse("v0.18.0"));
        assert!(parse("v0.18.0-rc1").at_least(0, 18));
        assert!(!parse("v0.17.9").at_least(0, 18));
        assert_eq!(parse("1.2.3+build"), parse("v1.2.3"));
    }

    #[test]
    fn refuses_what_is_not_a_version() {
        for text in [
            "",
            "latest",
            "1.2",
            "1.2.3.4",
            "5000/skyhook-operator",
            "v1.x.0",
        ] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
