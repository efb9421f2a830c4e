//! The nodes that a change to one package is for; they must be specified.

use crate::api::LabelSelector;
use crate::args::named;
use crate::args::selection::selector as labels;
use crate::cluster::{Cluster, Node, Only, Source};
use crate::commands::shared::{scope, selection};
use crate::error::{Error, Result};

/// Which nodes a change to a package is for.
#[derive(Debug, clap::Args)]
pub struct WhichNodes {
    /// A node name, or a regular expression that matches full names; may be repeated
    #[arg(long, value_name = "NODE", value_parser = named::node, action = clap::ArgAction::Append)]
    node: Vec<String>,

    /// Nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = labels)]
    selector: Option<LabelSelector>,

    /// All nodes of the custom resource
    #[arg(long, conflicts_with_all = ["node", "selector"])]
    all_nodes: bool,
}

impl WhichNodes {
    /// The nodes, where they are named and the others need not be read.
    pub fn only(&self) -> Option<Only> {
        selection::only(&self.node, None, None)
    }

    /// The nodes that are chosen, whatever the custom resource did there.
    ///
    /// # Errors
    ///
    /// None were chosen, one does not exist, or the nodes could not be read.
    pub fn nodes<'a>(&self, cluster: &'a Cluster) -> Result<Vec<&'a Node>> {
        selection::readable(cluster, Source::Nodes)?;
        if self.node.is_empty() && self.selector.is_none() && !self.all_nodes {
            return Err(Error::usage(
                "no nodes specified; use --node, -l or --all-nodes",
            ));
        }
        scope::nodes(cluster, &self.node, self.selector.as_ref())
    }
}
