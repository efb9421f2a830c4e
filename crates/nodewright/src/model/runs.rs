//! Jobs and Pods of package stages, with the operator's annotations on them.

use std::rc::Rc;

use crate::api::{ApiFlavor, Executor, Skyhook, Stage};
use crate::cluster::{Cluster, PackageRun, PackageRuns};

pub(super) struct Runs<'a> {
    flavor: ApiFlavor,
    pub all: Rc<PackageRuns<'a>>,
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
            all: Rc::new(cluster.package_runs()),
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

    /// Whether the operator deletes a run because of the spec (operator `ValidateRunningPackages`): it is for another version
    /// of the package, or its Pod for a package that the spec lacks, except an uninstall; or its Job is for an older spec,
    /// except an interrupt.
    pub fn outdated(&self, run: &PackageRun<'_>, skyhook: &Skyhook) -> bool {
        let created_for = run.job.and_then(|job| job.metadata.labels.get(&self.generation));
        let package = skyhook.package(&run.package);
        let of_pods = self.flavor.executor() == Executor::Pod;
        let is_older = || created_for.is_some_and(|of| *of != skyhook.metadata.generation.to_string());
        run.alive()
            && (run.stage != Stage::Uninstall
                && package
                    .map_or(of_pods && !run.package.is_empty(), |package| package.version != run.version)
                || !of_pods && !run.interrupt && is_older())
    }
}
