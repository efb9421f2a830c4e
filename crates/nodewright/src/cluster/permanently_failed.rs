//! Permanently failed stages: a Job failed permanently and the operator recorded the failure. The operator
//! then starts nothing more for the custom resource on the node until someone intervenes.

use super::{Cluster, Node, PackageRun, PackageRuns};
use crate::api::{Entry, Executor, Skyhook, State};

impl<'a> PackageRuns<'a> {
    /// The newest run of the stage of an entry, or else of its package and version at any stage.
    pub fn newest<'s>(&'s self, skyhook: &str, node: &'a str, entry: &Entry) -> Option<&'s PackageRun<'a>> {
        let nearness = |run: &PackageRun<'_>| match (run.is_of_version(entry), run.carries_out(entry)) {
            (true, true) => Some(2),
            (false, true) => Some(1),
            (true, false) => Some(0),
            (false, false) => None,
        };
        let all = self.of_skyhook_on(skyhook, node);
        let near = all.filter_map(|run| nearness(run).map(|nearness| (nearness, run)));
        near.max_by_key(|(nearness, e)| (*nearness, e.created())).map(|(_, e)| e)
    }
}

impl Cluster {
    /// The packages of the spec that have failed permanently on a node, each with its failed Job.
    ///
    /// Packages stay failed when the node's status changes, by a pause or by hand: only the state of the
    /// package and its Job count.
    pub fn permanently_failed<'c, 's, 'a>(
        &'c self,
        package_runs: &'s PackageRuns<'a>,
        skyhook: &'c Skyhook,
        node: &'a Node,
    ) -> Vec<(&'c Entry, &'s PackageRun<'a>)>
    where
        'a: 'c,
    {
        let on = self.on_node(node, skyhook.name());
        let Some(on) = on.filter(|_| self.flavor().executor() == Executor::Job) else {
            return Vec::new();
        };
        let failed = on.entries().iter().filter(|e| {
            let package = skyhook.package(&e.name);
            e.state == State::Erroring && package.is_some_and(|p| p.version == e.version)
        });
        let permanently_failed = failed.filter_map(|entry| {
            let package_run = package_runs.newest(skyhook.name(), &node.name, entry)?;
            let job = package_run.job?;
            (job.failed().is_some() && !job.metadata.deleting()).then_some((entry, package_run))
        });
        permanently_failed.collect()
    }
}
