//! The contents of a capture, and its gaps.

use std::collections::BTreeMap;

use crate::cluster::capture::{Index, ReadOutcome};
use crate::view::text::{self, Text};
use crate::view::{count, plural};

const MIB: f64 = (1u64 << 20) as f64;

pub fn of(index: &Index, size: u64) -> Text {
    let mut text = Text::new();
    let size = match size as f64 / MIB {
        small if small < 0.1 => format!("{} KiB", count(size.div_ceil(1024) as usize)),
        mib => format!("{mib:.1} MiB"),
    };
    text.paragraph(format!("Collected {}: {size}.", contents(index)));
    let logs = index.sources.iter().find(|s| s.name == "logs");
    if let Some(message) = logs.and_then(|logs| logs.message.as_ref()) {
        text.paragraph(format!("{message}."));
    }
    for (what, why) in missing(index) {
        text.item("- ", text::warning("missing: ") + format!("{what}: {why}"));
    }
    let whole = if index.is_whole() { "" } else { " Commands that read this file report what is missing." };
    text.paragraph(format!(
        "Recognized secrets are replaced by placeholders; review the file before you share \
         it.{whole}"
    ));
    text
}

fn contents(index: &Index) -> String {
    let number = |names: &[&str]| {
        let sources = index.sources.iter();
        let named = sources.filter(|source| names.contains(&source.name.as_str()));
        named.filter_map(|source| source.items).sum::<usize>()
    };
    let parts = [
        plural(number(&["nodes"]), "node"),
        plural(number(&["skyhooks", "nodewrights"]), "custom resource"),
        plural(number(&["package-pods"]), "package pod"),
        plural(number(&["logs"]), "log"),
    ];
    parts.join(", ")
}

/// The missing sources with reasons; logs with equal reasons are combined.
fn missing(index: &Index) -> Vec<(String, String)> {
    let is_missing = |outcome: ReadOutcome| !outcome.is_whole();
    let sources = index.sources.iter().filter(|s| is_missing(s.outcome));
    let mut missing: Vec<(String, String)> =
        sources.map(|s| (s.name.replace('-', " "), s.message.clone().unwrap_or_default())).collect();
    let mut logs: BTreeMap<&str, usize> = BTreeMap::new();
    for log in index.logs.iter().filter(|log| is_missing(log.outcome)) {
        *logs.entry(log.message.as_deref().unwrap_or_default()).or_default() += 1;
    }
    missing.extend(logs.into_iter().map(|(why, n)| (plural(n, "log"), why.to_owned())));
    missing
}
