//! What a request asks for, from its method and path.

use std::collections::BTreeMap;

use super::kind::{Kind, Kinds};

/// A request for objects.
#[derive(Debug, Clone)]
pub struct Route {
    /// As RBAC names it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: &'static str,
    pub kind: Kind,
    /// Empty for all namespaces and for what has none.
    pub namespace: String,
    /// Empty for a list or a creation.
    pub name: String,
    pub subresource: String,
}

impl Route {
    /// `None` if nothing is served there.
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

/// The parameters of a query, decoded. Where one comes twice the last counts.
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
