//! The choice of logs to show.

use crate::api::{Skyhook, Stage, State};
use crate::cluster::attempts::{Choice, choice};
use crate::cluster::{Cluster, Node, PackageRun, Phase};
use crate::view::natural;

/// The criteria for the choice of logs.
#[derive(Debug, Clone, Copy)]
pub struct LogSelection<'a> {
    pub skyhook: &'a str,
    pub package: &'a str,
    pub stage: Option<&'a Stage>,
    /// Whether to show the attempt before the newest, or the container run before the current one.
    pub previous: bool,
}

/// The package runs with their logs, by node and then by time.
pub fn choose(cluster: &Cluster, nodes: &[&Node], wanted: LogSelection<'_>) -> Vec<Choice> {
    let package_runs = cluster.package_runs();
    let mut found: Vec<&PackageRun<'_>> = nodes
        .iter()
        .flat_map(|node| package_runs.of_skyhook_on(wanted.skyhook, &node.name))
        .filter(|run| wanted.is_for(cluster, run))
        .collect();
    found.sort_by(|a, b| {
        natural(a.node, b.node)
            .then_with(|| a.created().cmp(&b.created()))
            .then_with(|| a.reference().cmp(&b.reference()))
    });
    found.into_iter().map(|run| choice(cluster, run, wanted.previous)).collect()
}

impl LogSelection<'_> {
    fn is_for(&self, cluster: &Cluster, package_run: &PackageRun<'_>) -> bool {
        self.stage.is_none_or(|stage| *stage == package_run.stage)
            && (package_run.package == self.package || self.merged(cluster, package_run))
    }

    /// Whether an interrupt also runs for this package. A merged interrupt names only one package; the other packages
    /// wait at the same stage.
    fn merged(&self, cluster: &Cluster, package_run: &PackageRun<'_>) -> bool {
        let entries = || {
            let node = cluster.node(package_run.node)?;
            Some(cluster.on_node(node, self.skyhook)?.entries())
        };
        package_run.interrupt
            && entries().is_some_and(|entries| {
                entries.iter().any(|e| {
                    e.name == self.package && e.stage == package_run.stage && e.state != State::Complete
                })
            })
    }
}

/// Descriptions of the pending runs of a package on the nodes; empty if it is finished.
pub fn to_come(cluster: &Cluster, nodes: &[&Node], wanted: LogSelection<'_>) -> Vec<String> {
    let Some(skyhook) = cluster.skyhook(wanted.skyhook) else {
        return Vec::new();
    };
    if !skyhook.is_active() {
        return Vec::new();
    }
    let package_runs = cluster.package_runs();
    let expects = |node: &&&Node| {
        let given_up = package_runs
            .of_skyhook_on(wanted.skyhook, &node.name)
            .filter(|run| run.package == wanted.package)
            .max_by_key(|run| run.created())
            .is_some_and(|run| run.job.is_some_and(|j| j.failed().is_some()));
        !given_up && !node.ignored(cluster.flavor()) && more(cluster, skyhook, node, wanted)
    };
    let waiting = nodes.iter().filter(expects);
    waiting.map(|node| node.name.to_string()).collect()
}

fn more(cluster: &Cluster, skyhook: &Skyhook, node: &Node, wanted: LogSelection<'_>) -> bool {
    let mut all = cluster.placements_on(wanted.skyhook, node);
    all.retain(|p| p.package == wanted.package);
    let recorded = all.iter().filter_map(|p| Some((p, p.entry?)));
    let Some((placement, entry)) = recorded.max_by_key(|(p, _)| p.in_spec()) else {
        return !skyhook.deleting() && all.iter().any(|p| p.phase == Phase::NotStarted);
    };
    if placement.phase == Phase::Complete {
        return false;
    }
    match wanted.stage {
        None => entry.state != State::Complete || !skyhook.deleting(),
        Some(stage) => match order(&entry.stage).cmp(&order(stage)) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => entry.state != State::Complete,
            std::cmp::Ordering::Greater => false,
        },
    }
}

/// The position of a stage in the life of a package.
fn order(stage: &Stage) -> u8 {
    match stage {
        Stage::Upgrade | Stage::Apply => 0,
        Stage::Config => 1,
        Stage::Interrupt => 2,
        Stage::PostInterrupt => 3,
        Stage::Uninstall => 4,
        Stage::UninstallInterrupt => 5,
        Stage::Other(_) => 6,
    }
}
