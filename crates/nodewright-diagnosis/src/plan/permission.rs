//! The permissions that a plan needs.

use std::fmt;

/// A permission that the user of a plan needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
    pub namespace: Option<String>,
}

impl Permission {
    /// The command that checks the permission.
    pub fn question(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        let mut words = format!("kubectl auth can-i {} {}{dot}{}", self.verb, self.resource, self.group);
        if let Some(subresource) = self.subresource {
            words.push_str(&format!(" --subresource={subresource}"));
        }
        if let Some(namespace) = &self.namespace {
            words.push_str(&format!(" -n {namespace}"));
        }
        words
    }
}

/// Formats the permission: `patch nodes/status`, `delete jobs.batch in namespace skyhook`.
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}
