//! Output of commands in every format, independent of a terminal.
//!
//! A command builds a [`View`]; [`OutputFormat`] selects its form; `screen` prints it. Text has labels with
//! its meaning ([`Label`]), never colors.

pub mod contexts;
pub mod format;
mod jsonpath;
pub mod monitoring;
pub mod outcome_view;
pub mod preview;
pub mod schema;
mod table;
pub mod text;
mod upstream;
mod yaml;

pub use format::{FormatError, OutputFormat};
pub use nodewright::text::{
    API_VERSION, CLOCK_SKEW, Items, ItemsAt, Joined, List, NodeSet, age, ago, count, distinct, document,
    duration_text, expand, for_how_long, harmless_json, harmless_lines, harmless_xml, human, is_harmless,
    list, natural, plural, sanitize, shell_words, some_of, time, to_json,
};
pub use outcome_view::{effects_text, result_words, to_come};
pub use table::{Columns, Table, cells};
pub use text::{Label, Layout, Line, Span, Text};
pub use upstream::{SortBy, Upstream};

use std::collections::HashSet;

/// The output of a command, printable in every format.
///
/// Text, names and document are required, so that every command supports `-o name` and `-o json`.
pub trait View {
    /// Text for people: the output of `-o table`, or with `wide` of `-o wide`.
    fn blocks(&self, wide: bool) -> Text;

    /// For `-o name`: one `resource/name` a line.
    fn names(&self) -> Vec<String>;

    /// Data for programs: the output of `-o json` and `yaml`, and the input of `jsonpath` and
    /// `custom-columns`.
    fn document(&self) -> serde_json::Value;

    /// Report for continuous integration: the output of `-o junit`, if the command supports it.
    fn junit(&self) -> Option<quick_junit::Report> {
        None
    }

    /// Report for code scanning: the output of `-o sarif`, if the command supports it.
    fn sarif(&self) -> Option<serde_json::Value> {
        None
    }

    /// Metrics for monitoring: the output of `-o openmetrics`, if the command supports it.
    fn openmetrics(&self) -> Option<monitoring::Metrics> {
        None
    }

    /// The document as a list that is printed item by item, if it may be long.
    fn list(&self) -> Option<List<'_>> {
        None
    }
}

/// `node/NAME` for each node, without duplicates, in the order of first appearance.
pub fn node_names<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    nodes.into_iter().filter(|name| seen.insert(*name)).map(|name| format!("node/{name}")).collect()
}
