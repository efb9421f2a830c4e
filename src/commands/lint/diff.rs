//! The change that each manifest makes to a custom resource in the cluster.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::cluster::provenance::{applied, changeable};
use crate::lint::Input;
use crate::view::format::yaml;
use crate::view::text::{self, Label, Text};

/// Labels, annotations and spec of a custom resource before and after its manifest is applied.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ObjectChange {
    /// The kind of the custom resource.
    kind: String,
    /// The name of the custom resource.
    name: String,
    /// The path of the manifest's file, or `stdin`.
    file: String,
    /// The object in the cluster; absent if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    /// The object after the manifest is applied.
    after: Value,
}

/// The custom resources that are created or changed.
pub(super) fn changes(input: &Input<'_>) -> Vec<ObjectChange> {
    let changes = input.skyhooks().filter_map(|(manifest, _)| {
        let (before, after) = match input.live(manifest) {
            Some(live) => (Some(changeable(&live.whole)), changeable(&applied(live, &manifest.value))),
            None => (None, changeable(&manifest.value)),
        };
        (before.as_ref() != Some(&after)).then(|| ObjectChange {
            kind: manifest.kind.clone(),
            name: manifest.name.clone(),
            file: manifest.file.clone(),
            before,
            after,
        })
    });
    changes.collect()
}

/// The changes as unified diffs.
pub(super) fn text(changes: &[ObjectChange]) -> Text {
    let mut body = Text::new();
    for change in changes {
        let object = format!("{}/{}", change.kind.to_lowercase(), change.name);
        let lines = |value: &Value| yaml(value).unwrap_or_default();
        let (verb, before) = match &change.before {
            Some(before) => ("changes", lines(before)),
            None => ("is created", String::new()),
        };
        body.blank().line(text::heading(format!("{object} {verb}")));
        let after = lines(&change.after);
        let diff = TextDiff::from_lines(&before, &after);
        for (number, group) in diff.grouped_ops(3).iter().enumerate() {
            if number > 0 {
                body.line(text::dim("  ..."));
            }
            for line in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let (sign, label) = match line.tag() {
                    ChangeTag::Delete => ("-", Label::Error),
                    ChangeTag::Insert => ("+", Label::Good),
                    ChangeTag::Equal => (" ", Label::Plain),
                };
                body.line(label.span(format!("{sign} {}", line.value().trim_end_matches('\n'))));
            }
        }
    }
    body
}
