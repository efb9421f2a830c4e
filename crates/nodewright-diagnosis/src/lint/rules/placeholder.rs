use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{Input, LintFindings};
use crate::api::skyhook::DEFAULT_COMPARTMENT;
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
            search(manifest, &[part], &manifest.value[part], findings);
        }
    }
}

fn search(manifest: &Manifest, path: &[&str], value: &Value, findings: &mut LintFindings) {
    match value {
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| !is_free_text(path, key)) {
                let path = [path, &[key.as_str()]].concat();
                if is_placeholder(key) {
                    report(manifest, &path, key, findings);
                }
                search(manifest, &path, value, findings);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                search(manifest, &[path, &[index.to_string().as_str()]].concat(), item, findings);
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

fn report(manifest: &Manifest, path: &[&str], text: &str, findings: &mut LintFindings) {
    findings
        .report(manifest, path, format!("placeholder {text:?}"))
        .fix("Replace the placeholder, or render the template first");
}

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| Regex::new(PATTERN).expect("a valid pattern"));

const PATTERN: &str = r"(?xs)
    # words
    (?i: (?:^|[/.:\s])
        (?: (?: change[-_]?me | replace[-_]?me | fill[-_]me | todo | tbd | fixme | placeholder | xxxx? ) (?:[/.:\s]|$)
          | your[-_] | replace[-_]with[-_] | insert[-_] | <your | change[-_]this ) )
    # template actions
    | \{\{ \s*[^\s}] .{0,59}? \}\}
    | \$\{ \s*[^\s}] .{0,59}? \}
    | \$\( \s*[^\s)] .{0,59}? \)
    | %%   \s*[^\s%] .{0,59}? %%
    | \[\[ \s*[^\s\]] .{0,59}? \]\]
    | ^__ .{1,60} __$
    # names
    | < [A-Za-z] [A-Za-z0-9_.\x20-]* >
    | (?:^|[/:]) (?: \$[A-Z_][A-Z0-9_]* | %[A-Z_][A-Z0-9_]*% | @[A-Z_][A-Z0-9_]*@ ) (?:[/:]|$)
";

/// Whether a text contains a placeholder: a word such as `changeme`, a template action or a variable.
pub(super) fn is_placeholder(text: &str) -> bool {
    text != DEFAULT_COMPARTMENT && PLACEHOLDER.is_match(text)
}
