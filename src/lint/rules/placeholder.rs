use serde_json::Value;

use super::{Input, LintFindings};
use crate::lint::Manifest;

lint_rule! {
    /// A placeholder of a template was not replaced.
    ///
    /// # What it means
    ///
    /// The value is used as it is: a selector matches no node, an image cannot be pulled. Files in `configMap` are not
    /// checked, as scripts contain variables.
    ///
    /// # How to fix
    ///
    /// Replace the placeholder, or render the template first.
    SKY862 "placeholder" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for manifest in input.manifests() {
        for part in ["metadata", "spec"] {
            if let Some(value) = manifest.get(&[part]) {
                search(manifest, &mut vec![part], value, findings);
            }
        }
    }
}

fn search<'m>(
    manifest: &Manifest,
    path: &mut Vec<&'m str>,
    value: &'m Value,
    findings: &mut LintFindings,
) {
    match value {
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| *key != "configMap") {
                path.push(key);
                if is_placeholder(key) {
                    report(manifest, path, key, findings);
                }
                search(manifest, path, value, findings);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let index = index.to_string();
                let mut at = path.clone();
                at.push(&index);
                search_item(manifest, &at, item, findings);
            }
        }
        Value::String(text) if is_placeholder(text) => report(manifest, path, text, findings),
        _ => {}
    }
}

fn search_item(manifest: &Manifest, path: &[&str], item: &Value, findings: &mut LintFindings) {
    search(manifest, &mut path.to_vec(), item, findings);
}

fn report(manifest: &Manifest, path: &[&str], text: &str, findings: &mut LintFindings) {
    findings
        .report(manifest, path, format!("placeholder {text:?}"))
        .fix("Replace the placeholder, or render the template first");
}

/// Whether a text is, or contains, what a template leaves to be filled in.
fn is_placeholder(text: &str) -> bool {
    const WORDS: [&str; 9] = [
        "changeme",
        "change-me",
        "change_me",
        "replaceme",
        "replace-me",
        "replace_me",
        "todo",
        "fixme",
        "placeholder",
    ];
    let lower = text.to_lowercase();
    let mut words = lower.split(|c: char| c == '/' || c == '.' || c == ':' || c.is_whitespace());
    let between = |open: &str, close: &str| {
        let after = text.split_once(open).map(|(_, after)| after);
        let inner = after.and_then(|after| after.split_once(close));
        inner.is_some_and(|(inner, _)| !inner.trim().is_empty() && inner.len() <= 60)
    };
    words.any(|word| WORDS.contains(&word) || word.starts_with("your-"))
        || between("{{", "}}")
        || between("${", "}")
        || between("__", "__")
            && lower.starts_with("__")
            && lower.ends_with("__")
            && text != "__default__"
        || has_angle_brackets(text)
        || between("%%", "%%")
}

/// Whether a name stands between angle brackets: `<registry>/driver`.
fn has_angle_brackets(text: &str) -> bool {
    let after = text.split('<').skip(1);
    let mut inner = after.filter_map(|after| Some(after.split_once('>')?.0));
    inner.any(|name| {
        let letters = name.starts_with(|c: char| c.is_ascii_alphabetic());
        letters
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_ .".contains(c))
    })
}
