//! Operator and package versions.

use std::fmt;

/// A semantic version, with or without a leading `v`.
///
/// A pre-release orders before its release; build metadata is ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(semver::Version);

impl Version {
    /// Parses `v0.18.0`, `0.18.0` or `0.18.0-rc1`; `None` if it is not a version.
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.trim();
        let mut version = semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()?;
        version.build = semver::BuildMetadata::EMPTY;
        Some(Version(version))
    }

    /// Whether this version is at least `major.minor`. Pre-releases of `major.minor` count as well.
    ///
    /// A release candidate behaves like its release.
    pub fn at_least(&self, major: u64, minor: u64) -> bool {
        (self.0.major, self.0.minor) >= (major, minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
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
        assert!(parse("v0.18.0-rc.9") < parse("v0.18.0-rc.10"));
        assert!(parse("v0.18.0-rc1").at_least(0, 18));
        assert!(!parse("v0.17.9").at_least(0, 18));
        assert_eq!(parse("1.2.3+build"), parse("v1.2.3"));
    }

    #[test]
    fn refuses_what_is_not_a_version() {
        for text in ["", "latest", "1.2", "1.2.3.4", "5000/skyhook-operator", "v1.x.0"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
