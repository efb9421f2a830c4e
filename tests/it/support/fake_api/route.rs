//! Parses the method, path and query of a request.

use std::collections::BTreeMap;

use super::kind::{Kind, Kinds};

/// A request for objects.
#[derive(Debug, Clone)]
pub struct Route {
    /// The RBAC verb: `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    pub kind: Kind,
    /// Empty for all namespaces and for cluster-scoped kinds.
    pub namespace: String,
    /// Empty for lists, watches and creations.
    pub name: String,
    pub subresource: String,
}

impl Route {
    /// Parses a request for objects; `None` if no kind is served at the path.
    pub fn parse(kinds: &Kinds, method: &str, path: &str, query: &BTreeMap<String, String>) -> Option<Route> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if rest.first().is_some_and(|r| *r != "status") => {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return None,
        };
        let verb = match (method, name.is_empty()) {
            ("GET", true) if query.get("watch").is_some_and(|w| w == "true" || w == "1") => "watch",
            ("GET", true) => "list",
            ("GET", false) => "get",
            ("POST", _) => "create",
            ("PUT", false) => "update",
            ("PATCH", false) => "patch",
            ("DELETE", false) => "delete",
            _ => return None,
        };
        Some(Route {
            verb,
            kind: kinds.find(group, version, plural)?.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }
}

/// The decoded parameters of a query; the last value of a repeated parameter counts.
pub fn query(text: &str) -> BTreeMap<String, String> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
        .collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || {
                    let digit = rest.next().map(char::from).and_then(|c| c.to_digit(16));
                    digit.expect("two hexadecimal digits after %") as u8
                };
                digit() * 16 + digit()
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).expect("a query of UTF-8")
}
