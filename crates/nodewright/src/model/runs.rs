//! Jobs and Pods of package stages, with the operator's annotations on them.

use crate::api::{ApiFlavor, Executor, Skyhook};
use crate::cluster::{Cluster, PackageRun, PackageRuns};

pub(super) struct Runs<'a> {
    flavor: ApiFlavor,
    pub all: PackageRuns<'a>,
    /// Key of the annotation on a Job whose outcome is recorded.
    recorded: String,
    /// Key of the label with the generation for which a Job was created.
    generation: String,
}

impl<'a> Runs<'a> {
    pub fn new(cluster: &'a Cluster) -> Runs<'a> {
        let flavor = cluster.flavor();
        Runs {
            flavor,
            all: cluster.package_runs(),
            recorded: flavor.key("state-recorded"),
            generation: flavor.key("generation"),
        }
    }

    /// Whether a Job has finished or the containers of a bare Pod have succeeded, and the outcome is probably
    /// not recorded: the operator would have marked the Job, or deleted the Pod.
    pub fn ended(&self, run: &PackageRun<'_>) -> bool {
        match run.job {
            Some(job) => {
                job.finished().is_some()
                    && !job.metadata.deleting()
                    && !job.metadata.annotations.contains_key(&self.recorded)
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

    /// Whether a run is for another version than the spec's, or its Job was created for an older spec, so that the operator
    /// deletes it (operator `ValidateRunningPackages`). Uninstalls of another version, and Jobs of interrupts, are kept.
    pub fn outdated(&self, run: &PackageRun<'_>, skyhook: &Skyhook) -> bool {
        let created_for = run.job.and_then(|job| job.metadata.labels.get(&self.generation));
        let package = skyhook.package(&run.package);
        let is_older = || created_for.is_some_and(|of| *of != skyhook.metadata.generation.to_string());
        run.alive()
            && (!run.stage.is_uninstall() && package.is_some_and(|package| package.version != run.version)
                || self.flavor.executor() == Executor::Job && !run.interrupt && is_older())
    }
}
