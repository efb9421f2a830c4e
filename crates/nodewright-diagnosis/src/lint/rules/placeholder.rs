use serde_json::Value;

use super::{Input, LintFindings};
use crate::lint::Manifest;

lint_rule! {
    /// A placeholder of a template was not replaced.
    ///
    /// # What it means
    ///
    /// The value is used literally: a selector matches no node, an image cannot be pulled. Files in `configMap` and
    /// annotations are not checked: their syntax is unknown.
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

fn search<'m>(manifest: &Manifest, path: &mut Vec<&'m str>, value: &'m Value, findings: &mut LintFindings) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                if is_free_text(path, key) {
                    continue;
                }
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
        Value::String(text) if is_placeholder(text) && !is_expanded(path, text) => {
            report(manifest, path, text, findings);
        }
        _ => {}
    }
}

/// Whether a field is free text of any syntax, in which placeholders are not searched: annotations and files of
/// packages.
fn is_free_text(path: &[&str], key: &str) -> bool {
    matches!((path, key), (["metadata"], "annotations") | (["spec", "packages", _], "configMap"))
}

/// Whether a text is the value of an environment variable that refers to other variables, such as `$(POD_IP)`.
fn is_expanded(path: &[&str], text: &str) -> bool {
    let value = matches!(path, ["spec", "packages", _, "env", _, "value"]);
    value && !text.contains("${") && text.contains('$')
}

fn search_item(manifest: &Manifest, path: &[&str], item: &Value, findings: &mut LintFindings) {
    search(manifest, &mut path.to_vec(), item, findings);
}

fn report(manifest: &Manifest, path: &[&str], text: &str, findings: &mut LintFindings) {
    findings
        .report(manifest, path, format!("placeholder {text:?}"))
        .fix("Replace the placeholder, or render the template first");
}

/// Whether a text contains a placeholder: a word such as `changeme`, a template action or a variable.
pub(super) fn is_placeholder(text: &str) -> bool {
    const WORDS: [&str; 11] = [
        "changeme",
        "change-me",
        "replaceme",
        "replace-me",
        "todo",
        "tbd",
        "fixme",
        "placeholder",
        "xxx",
        "xxxx",
        "fill-me",
    ];
    const BEGINNINGS: [&str; 5] = ["your-", "replace-with-", "insert-", "<your", "change-this"];
    const BRACKETS: [(&str, &str); 5] = [("{{", "}}"), ("${", "}"), ("$(", ")"), ("%%", "%%"), ("[[", "]]")];
    let mut words = text.as_bytes().split(|b| matches!(b, b'/' | b'.' | b':') || b.is_ascii_whitespace());
    let is_word = |word: &[u8]| {
        let begins = |begin: &str| word.get(..begin.len()).is_some_and(|start| is_same(start, begin));
        WORDS.iter().any(|known| is_same(word, known)) || BEGINNINGS.iter().any(|begin| begins(begin))
    };
    words.any(is_word)
        || text.bytes().any(|b| b"{$%[_<@".contains(&b))
            && (BRACKETS.iter().any(|(open, close)| is_between(text, open, close))
                || text != "__default__" && is_enclosed(text, "__")
                || has_angle_brackets(text)
                || text.split(['/', ':']).any(is_variable))
}

/// Whether a word is this one, in any case, and with `_` as `-`.
fn is_same(word: &[u8], known: &str) -> bool {
    let same = |(a, b): (&u8, u8)| a.to_ascii_lowercase() == b || *a == b'_' && b == b'-';
    word.len() == known.len() && word.iter().zip(known.bytes()).all(same)
}

/// Whether the text contains `open` and `close` around at most 60 bytes that are not blank.
fn is_between(text: &str, open: &str, close: &str) -> bool {
    let after = text.split_once(open).map(|(_, after)| after);
    let inner = after.and_then(|after| after.split_once(close));
    inner.is_some_and(|(inner, _)| !inner.trim().is_empty() && inner.len() <= 60)
}

fn is_enclosed(text: &str, mark: &str) -> bool {
    let inner = text.strip_prefix(mark).and_then(|text| text.strip_suffix(mark));
    inner.is_some_and(|inner| !inner.is_empty() && inner.len() <= 60)
}

/// Whether a text is a variable: `$REGISTRY`, `%REGISTRY%` or `@REGISTRY@`.
fn is_variable(part: &str) -> bool {
    let marked = ["%", "@"].iter().find_map(|mark| part.strip_prefix(mark)?.strip_suffix(mark));
    let name = part.strip_prefix('$').or(marked);
    name.is_some_and(|name| {
        let upper = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_') && name.bytes().all(upper)
    })
}

/// Whether a text contains a name in angle brackets: `<registry>/driver`.
fn has_angle_brackets(text: &str) -> bool {
    let after = text.split('<').skip(1);
    after.filter_map(|after| Some(after.split_once('>')?.0)).any(|name| {
        let letters = name.starts_with(|c: char| c.is_ascii_alphabetic());
        letters && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_ .".contains(c))
    })
}
