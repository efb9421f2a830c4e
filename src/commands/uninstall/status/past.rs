//! The history of packages without a record on a node.

use std::collections::HashMap;

use super::Uninstall;
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::cluster::history::{History, StageTrace, versions};

/// The history of an absent package, computed once for all nodes.
pub(super) struct Past {
    /// The last trace of the package, by node.
    by_node: HashMap<String, StageTrace>,
    /// The result for nodes without a trace.
    elsewhere: (Uninstall, String),
}

impl Past {
    pub(super) fn of(cluster: &Cluster, skyhook: Option<&Skyhook>, package: &str) -> Past {
        let history = skyhook.map(|s| cluster.history(s, package));
        let mut by_node = HashMap::new();
        let elsewhere = match history {
            Some(History::Never(why)) => (Uninstall::NeverInstalled, why),
            Some(History::OnlyOther(traces)) => (
                Uninstall::NeverInstalled,
                format!("only {} ever installed", versions(&traces, ["was", "were"])),
            ),
            Some(History::Present(mut traces)) => {
                let once = match &traces[0] {
                    StageTrace { node: Some(_), object, .. } => {
                        format!("recorded only on another node ({object})")
                    }
                    StageTrace { object, .. } => {
                        format!("it was once installed on a node ({object})")
                    }
                };
                // The times have a resolution of one second: among equal times, the uninstall came last.
                traces.sort_by_key(|t| (t.at, t.uninstalled));
                let on_nodes = traces.into_iter().filter_map(|t| Some((t.node.clone()?, t)));
                by_node.extend(on_nodes);
                (Uninstall::Absent, once)
            }
            Some(History::Unknown(why)) => (Uninstall::Absent, why),
            None => (Uninstall::Absent, "the custom resource is gone".to_owned()),
        };
        Past { by_node, elsewhere }
    }

    pub(super) fn result_on(&self, node: &str) -> (Uninstall, String) {
        match self.by_node.get(node) {
            Some(trace) if trace.uninstalled => {
                (Uninstall::Uninstalled, format!("{}: {}", trace.object, trace.message))
            }
            Some(trace) => (
                Uninstall::Absent,
                format!(
                    "it was once installed on this node ({}); nothing shows that it was uninstalled",
                    trace.object
                ),
            ),
            None => self.elsewhere.clone(),
        }
    }
}
