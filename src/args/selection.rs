//! Which custom resource, and which of its nodes.

use regex::Regex;

pub use super::labels::selector;
use super::named;
use crate::api::LabelSelector;

/// The custom resource that a package belongs to.
#[derive(Debug, Clone, clap::Args)]
pub struct OfSkyhook {
    /// The custom resource
    #[arg(long, value_name = "NAME", alias = "nodewright", required = true, value_parser = named::skyhook)]
    pub skyhook: String,
}

/// Which nodes to look at; all, if none is named.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnNodes {
    /// Only this node, or nodes whose full name matches the regular expression; may be repeated
    #[arg(long = "node", value_name = "NODE", value_parser = named::node)]
    pub nodes: Vec<String>,

    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<LabelSelector>,
}

/// Which nodes a change is for. Nothing means all that carry keys of the custom resource.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Node options")]
pub struct Selection {
    /// Only this node; may be repeated
    #[arg(long, value_name = "NODE", value_parser = named::node, action = clap::ArgAction::Append)]
    pub node: Vec<String>,

    /// Only nodes whose full name matches the regular expression
    #[arg(long = "match", value_name = "REGEX", value_parser = pattern)]
    pub pattern: Option<Regex>,

    /// Only nodes with these labels
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<LabelSelector>,

    /// Only nodes where something fails
    #[arg(long)]
    pub failed_only: bool,
}

impl Selection {
    /// Whether it leaves the choice to the command.
    pub fn is_everything(&self) -> bool {
        !self.names_nodes() && !self.failed_only
    }

    /// Whether it says by name or label which nodes are meant.
    pub fn names_nodes(&self) -> bool {
        !self.node.is_empty() || self.pattern.is_some() || self.selector.is_some()
    }
}

/// A regular expression over a whole name.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(&format!("^(?:{text})$")).map_err(|e| e.to_string())
}
