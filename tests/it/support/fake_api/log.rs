//! The log of requests.

use std::collections::BTreeMap;
use std::fmt;

use http::HeaderMap;
use serde_json::Value;

/// A request as received.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    pub method: String,
    pub path: String,
    /// The decoded parameters.
    pub query: BTreeMap<String, String>,
    pub headers: HeaderMap,
    /// The body; null if there is none or it is not JSON.
    pub body: Value,
    /// The body as received.
    pub text: String,
}

impl Logged {
    /// The value of a header; empty if the header is absent, several values joined with commas.
    pub fn header(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter();
        let values: Vec<_> = values.map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
        values.join(",")
    }
}

/// `METHOD /path?query`, the query decoded.
impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (at, (key, value)) in self.query.iter().enumerate() {
            let sign = if at == 0 { '?' } else { '&' };
            write!(f, "{sign}{key}={value}")?;
        }
        Ok(())
    }
}
