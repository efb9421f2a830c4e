//! The flags of lists.

use serde_json::Value;

use crate::view::{FormatError, SortBy};

const HEADING: &str = "Output options";

// No doc comment: clap would make it the description of commands without one.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Sorting {
    /// Sort by the value of a JSONPath in each item of -o json
    ///
    /// A JSONPath as in kubectl, such as .nodeName or '{.status}'. Numbers inside strings are compared by value.
    #[arg(long, value_name = "JSONPATH", help_heading = HEADING)]
    pub sort_by: Option<SortBy>,
}

impl Sorting {
    /// Sorts items; `document` returns an item as `-o json` has it.
    ///
    /// # Errors
    ///
    /// See [`SortBy::sort`].
    pub fn sort<T>(
        &self,
        items: &mut Vec<T>,
        document: impl Fn(&T) -> Value,
    ) -> Result<(), FormatError> {
        match &self.sort_by {
            Some(by) => by.sort(items, document),
            None => Ok(()),
        }
    }
}

// See above.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Labels {
    /// Show the labels of each node as the last column
    #[arg(long, help_heading = HEADING)]
    pub show_labels: bool,
}
