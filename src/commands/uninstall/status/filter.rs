//! The rows that `uninstall status` shows.

use std::collections::HashSet;

use super::{Uninstall, UninstallRow};
use crate::args::nodes::OnNodes;
use crate::cluster::Cluster;
use crate::commands::shared::nodes;
use crate::error::Result;

// No doc comment: clap would make it the description of the command.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Filter {
    #[command(flatten)]
    on: OnNodes,

    /// Show only rows with this progress; may be repeated
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<Uninstall>,

    /// Show only failures
    #[arg(long)]
    failed_only: bool,

    /// Show only cordoned nodes
    #[arg(long)]
    cordoned: bool,
}

impl Filter {
    /// Whether no filter is set.
    pub fn is_empty(&self) -> bool {
        let rows = self.status.is_empty() && !self.failed_only && !self.cordoned;
        rows && self.on.query().is_empty()
    }

    /// Removes the rows that the filter excludes.
    ///
    /// # Errors
    ///
    /// See [`nodes::selected`].
    pub fn apply(&self, cluster: &Cluster, rows: &mut Vec<UninstallRow>) -> Result<()> {
        rows.retain(|row| {
            (self.status.is_empty() || self.status.contains(&row.uninstall))
                && (!self.failed_only || row.uninstall.fails())
        });
        let mut nodes = nodes::selected(cluster, self.on.query())?;
        nodes.retain(|node| !self.cordoned || node.cordoned() == Some(true));
        let names: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        rows.retain(|row| names.contains(row.node.as_str()));
        Ok(())
    }
}
