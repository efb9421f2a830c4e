//! Jobs and Pods of package stages, by node.

use std::collections::HashMap;

use crate::api::{ApiFlavor, Executor, Skyhook};
use crate::cluster::{Cluster, PackageRun};

pub(super) struct Runs<'a> {
    flavor: ApiFlavor,
    all: Vec<PackageRun<'a>>,
    by_node: HashMap<&'a str, Vec<usize>, foldhash::fast::RandomState>,
}

impl<'a> Runs<'a> {
    pub fn new(cluster: &'a Cluster) -> Runs<'a> {
        let all = cluster.package_runs_of(cluster.flavor());
        let mut by_node: HashMap<&str, Vec<usize>, _> = HashMap::default();
        for (at, run) in all.iter().enumerate() {
            by_node.entry(run.node).or_default().push(at);
        }
        Runs {
            flavor: cluster.flavor(),
            all,
            by_node,
        }
    }

    /// All on a node.
    pub fn on(&self, node: &str) -> impl Iterator<Item = &PackageRun<'a>> {
        let here = self.by_node.get(node).map_or(&[][..], Vec::as_slice);
        here.iter().map(|at| &self.all[*at])
    }

    /// Those of a custom resource on a node.
    pub fn of(&self, skyhook: &str, node: &str) -> impl Iterator<Item = &PackageRun<'a>> {
        self.on(node).filter(move |run| run.skyhook == skyhook)
    }

    /// Whether a stage has ended and its run does not show that the outcome is recorded. The operator marks a Job, and
    /// deletes a Pod.
    pub fn ended(&self, run: &PackageRun<'_>) -> bool {
        match run.job {
            Some(job) => {
                let mark = self.flavor.key("state-recorded");
                job.finished().is_some()
                    && !job.metadata.deleting()
                    && !job.metadata.annotations.contains_key(&mark)
            }
            None => {
                let succeeded = |code: Option<i64>| code == Some(0);
                run.bare()
                    && run.pods.iter().any(|pod| {
                        let containers = &pod.status.init_container_statuses;
                        !pod.metadata.deleting()
                            && !containers.is_empty()
                            && containers.iter().all(|c| {
                                let ended = c.state.terminated.as_ref();
                                succeeded(ended.map(|ended| ended.exit_code))
                            })
                    })
            }
        }
    }

    /// Whether the Job of a package stage was created for an older spec: the operator deletes it (operator
    /// `ValidateRunningPackages`). Interrupts stay.
    pub fn outdated(&self, run: &PackageRun<'_>, skyhook: &Skyhook) -> bool {
        let label = self.flavor.key("generation");
        let created_for = run.job.and_then(|job| job.metadata.labels.get(&label));
        self.flavor.executor() == Executor::Job
            && run.alive()
            && !run.interrupt
            && created_for.is_some_and(|of| *of != skyhook.metadata.generation.to_string())
    }
}
