//! The flags of lists.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use serde_json::Value;

use crate::api::{Status, quantity};
use crate::view::{FormatError, SortBy};

const HEADING: &str = "Output options";

// No doc comment: clap would use it as the description of commands that have none.
#[derive(Debug, Clone, Default, Args)]
pub struct Sorting {
    /// Sort by the value of a JSONPath in each item of -o json
    ///
    /// A JSONPath as in kubectl, such as .node or '{.status}'. Numbers inside strings are compared by value.
    #[arg(long, value_name = "JSONPATH", help_heading = HEADING)]
    pub sort_by: Option<SortBy>,
}

impl Sorting {
    /// Sorts items; `document` returns the JSON that `-o json` prints for an item.
    ///
    /// # Errors
    ///
    /// See [`SortBy::sort`].
    pub fn sort<T>(&self, items: &mut Vec<T>, document: impl Fn(&T) -> Value) -> Result<(), FormatError> {
        match &self.sort_by {
            Some(by) => by.sort(items, document),
            None => Ok(()),
        }
    }
}

// No doc comment: see `Sorting`.
#[derive(Debug, Clone, Default, Args)]
pub struct Labels {
    /// Show the labels of each node as the last column
    #[arg(long, help_heading = HEADING)]
    pub show_labels: bool,
}

// No doc comment: see `Sorting`.
#[derive(Debug, Clone, Default, Args)]
pub struct RowFilter {
    /// Show only rows with this status; may be repeated
    ///
    /// A package row has the state of the package; before its first stage, it has the status of the node.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = statuses())]
    pub status: Vec<Status>,

    /// Show only failures
    #[arg(long)]
    pub failed_only: bool,

    /// Show only cordoned nodes
    #[arg(long)]
    pub cordoned: bool,
}

impl RowFilter {
    /// Whether a row with this status is shown.
    pub fn has_status(&self, status: &str) -> bool {
        self.status.is_empty() || self.status.iter().any(|one| one.as_str() == status)
    }

    /// Whether no filter is set.
    pub fn is_empty(&self) -> bool {
        self.status.is_empty() && !self.failed_only && !self.cordoned
    }
}

fn statuses() -> impl clap::builder::TypedValueParser<Value = Status> {
    let value = |word: &'static str| match word {
        // A word of `status` and of other tools.
        "erroring" => PossibleValue::new(word).alias("failed"),
        word => PossibleValue::new(word),
    };
    PossibleValuesParser::new(Status::KNOWN.iter().copied().map(value)).map(|word| match word.as_str() {
        "failed" => Status::Erroring,
        word => Status::from(word),
    })
}

/// Parses a number of bytes in the notation of Kubernetes quantities: `100Mi`, `1Gi`, `500k`.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = quantity::parse_text(text);
    let bytes = bytes.filter(|bytes| (1.0..1e15).contains(bytes));
    bytes.map(|bytes| bytes as u64).ok_or_else(|| "expected a size such as 100Mi or 1Gi".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities() {
        assert_eq!(size("100Mi"), Ok(104_857_600));
        assert_eq!(size("1G"), Ok(1_000_000_000));
        for wrong in ["", "0", "-1", "some", "1e30", "100 Mi"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
