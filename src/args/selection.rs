//! Arguments that select a custom resource and its nodes.

use super::named;
use super::nodes::{NodeQuery, OnNodes};

/// The custom resource that a package belongs to.
#[derive(Debug, Clone, clap::Args)]
pub struct OfSkyhook {
    /// The custom resource
    #[arg(long, value_name = "NAME", alias = "nodewright", required = true, value_parser = named::skyhook)]
    pub skyhook: String,
}

/// The custom resource of a command; by default, the only one that fits.
#[derive(Debug, Clone, clap::Args)]
pub struct OnlySkyhook {
    /// The custom resource; required if several fit
    #[arg(long, value_name = "NAME", alias = "nodewright", value_parser = named::skyhook)]
    pub skyhook: Option<String>,
}

/// The nodes of a change; by default, all nodes with keys of the custom resource.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Node options")]
pub struct Selection {
    #[command(flatten)]
    on: OnNodes,

    /// Only failed nodes
    #[arg(long)]
    pub failed_only: bool,
}

impl Selection {
    pub fn query(&self) -> NodeQuery<'_> {
        self.on.query()
    }

    /// Whether no flag restricts the nodes.
    pub fn is_everything(&self) -> bool {
        self.query().is_empty() && !self.failed_only
    }
}
