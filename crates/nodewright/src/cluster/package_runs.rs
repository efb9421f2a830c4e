//! All package runs of a cluster: Pods grouped by Job, indexed by custom resource and node.

use std::collections::HashMap;
use std::sync::OnceLock;

use foldhash::fast::RandomState;
use jiff::{SignedDuration, Timestamp};

use super::package_run::{PackageRun, RunReader, StageOfPackage};
use super::{Certainty, Cluster, Job, Node, Placement, Pod};
use crate::api::{ApiFlavor, Entry, Executor, Skyhook, State};

/// All package runs of a cluster, by custom resource and node.
#[derive(Debug)]
pub struct PackageRuns<'a> {
    all: Vec<PackageRun<'a>>,
    by_skyhook: HashMap<String, SkyhookRuns<'a>, RandomState>,
    longest: OnceLock<HashMap<StageOfPackage, SignedDuration>>,
}

/// Package runs of one custom resource, as positions in the list of all runs.
#[derive(Debug, Default)]
struct SkyhookRuns<'a> {
    all: Vec<usize>,
    by_node: HashMap<&'a str, Vec<usize>, RandomState>,
}

/// Positions of Jobs and of pods, by custom resource.
pub(super) type RunObjects = HashMap<String, [Vec<usize>; 2]>;

impl<'a> PackageRuns<'a> {
    fn new(all: Vec<PackageRun<'a>>) -> PackageRuns<'a> {
        let mut by_skyhook: HashMap<String, SkyhookRuns<'_>, _> = HashMap::default();
        for (at, run) in all.iter().enumerate() {
            let runs = match by_skyhook.get_mut(&run.skyhook) {
                Some(runs) => runs,
                None => by_skyhook.entry(run.skyhook.clone()).or_default(),
            };
            runs.all.push(at);
            runs.by_node.entry(run.node).or_default().push(at);
        }
        PackageRuns { all, by_skyhook, longest: OnceLock::new() }
    }

    pub fn all(&self) -> &[PackageRun<'a>] {
        &self.all
    }

    /// Package runs of a custom resource.
    pub fn of<'s>(&'s self, skyhook: &str) -> impl Iterator<Item = &'s PackageRun<'a>> + use<'s, 'a> {
        let places = self.by_skyhook.get(skyhook).map(|runs| &runs.all);
        places.into_iter().flatten().map(|&at| &self.all[at])
    }

    /// Package runs of a custom resource on a node.
    pub fn of_skyhook_on<'s>(
        &'s self,
        skyhook: &str,
        node: &str,
    ) -> impl Iterator<Item = &'s PackageRun<'a>> + use<'s, 'a> {
        let runs = self.by_skyhook.get(skyhook);
        let places = runs.and_then(|runs| runs.by_node.get(node));
        places.into_iter().flatten().map(|&at| &self.all[at])
    }

    /// Package runs of all custom resources on a node.
    pub fn on_node<'s>(&'s self, node: &str) -> impl Iterator<Item = &'s PackageRun<'a>> + use<'s, 'a> {
        let all = self.by_skyhook.values();
        let here = all.filter_map(|runs| runs.by_node.get(node)).flatten();
        let mut here: Vec<usize> = here.copied().collect();
        here.sort_unstable();
        here.into_iter().map(|at| &self.all[at])
    }

    /// Longest duration of a successful Job for the same stage of the same package version, on any node.
    pub(super) fn longest_of(&self, package_run: &PackageRun<'_>) -> Option<SignedDuration> {
        let longest = self.longest.get_or_init(|| {
            let mut longest: HashMap<StageOfPackage, SignedDuration> = HashMap::new();
            let ended = self.all.iter().filter_map(|run| Some((run, run.took()?)));
            for (run, took) in ended {
                let known = longest.entry(run.stage_of_package()).or_insert(took);
                *known = took.max(*known);
            }
            longest
        });
        longest.get(&package_run.stage_of_package()).copied()
    }

    /// Whether a package run of the custom resource is alive.
    pub fn any_alive(&self, skyhook: &str) -> bool {
        self.of(skyhook).any(PackageRun::alive)
    }

    /// Whether a package run of the custom resource is alive on the node.
    pub fn any_alive_on(&self, skyhook: &Skyhook, node: &'a Node) -> bool {
        self.of_skyhook_on(skyhook.name(), &node.name).any(PackageRun::alive)
    }

    /// The live run that uninstalls a package on its node.
    pub fn uninstall_of(&self, placement: &Placement<'a>) -> Option<&PackageRun<'a>> {
        let mut here = self.of_skyhook_on(placement.skyhook, &placement.node.name);
        here.find(|run| run.package == placement.package && run.stage.is_uninstall() && run.alive())
    }

    /// Start of the package's current stage, from its live Pods and Jobs. Suspended Jobs do not count.
    pub fn since(&self, placement: &Placement<'a>) -> Option<Timestamp> {
        let here = self.at_stage(placement)?;
        let suspended = |run: &&PackageRun<'_>| run.job.is_some_and(|j| j.spec.suspend);
        here.filter(|e| !suspended(e)).filter_map(PackageRun::created).min()
    }

    /// Time since which the pod of the package's stage waits for the kubelet to acknowledge it.
    pub fn unacknowledged_since(&self, placement: &Placement<'a>) -> Option<Timestamp> {
        let mut pods = self.at_stage(placement)?.filter_map(|run| run.unacknowledged());
        pods.find_map(|pod| pod.metadata.creation_timestamp)
    }

    /// Live runs of a package's recorded stage.
    fn at_stage(&self, placement: &Placement<'a>) -> Option<impl Iterator<Item = &PackageRun<'a>>> {
        let entry = placement.entry?;
        let here = self.of_skyhook_on(placement.skyhook, &placement.node.name);
        Some(here.filter(move |run| run.is_of_version(entry) && run.stage == entry.stage && run.alive()))
    }
}

impl Cluster {
    /// All package runs of the active API.
    pub fn package_runs(&self) -> PackageRuns<'_> {
        PackageRuns::new(self.package_runs_of(self.flavor()))
    }

    /// Package runs of one custom resource in the active API. The cost does not depend on the number of other
    /// custom resources.
    pub fn package_runs_for(&self, skyhook: &str) -> PackageRuns<'_> {
        let objects = self.indexes.run_objects.get_or_init(|| self.run_objects());
        let [jobs, pods] = objects.get(skyhook).cloned().unwrap_or_default();
        let jobs = jobs.into_iter().map(|at| &self.jobs.indexed()[at]);
        let pods = pods.into_iter().map(|at| &self.pods.indexed()[at]);
        PackageRuns::new(joined(self.flavor(), jobs, pods))
    }

    fn run_objects(&self) -> RunObjects {
        let mut objects = RunObjects::new();
        let (all_jobs, all_pods) = (self.jobs.indexed(), self.pods.indexed());
        for run in self.package_runs().all {
            let [jobs, pods] = objects.entry(run.skyhook).or_default();
            jobs.extend(run.job.map(|job| position(all_jobs, job)));
            pods.extend(run.pods.into_iter().map(|pod| position(all_pods, pod)));
        }
        for positions in objects.values_mut().flatten() {
            positions.sort_unstable();
        }
        objects
    }

    /// How certain it is that a package run that was not read does not exist.
    pub fn certainty_of_no_package_run(&self) -> Certainty {
        match self.active_api.flavor.executor() {
            Executor::Pod => self.pods.absence(),
            Executor::Job => self.pods.absence().min(self.jobs.absence()),
        }
    }

    /// All package runs of an API: Jobs with their pods, then bare pods.
    pub fn package_runs_of(&self, flavor: ApiFlavor) -> Vec<PackageRun<'_>> {
        joined(flavor, self.jobs.items().iter(), self.pods.items().iter())
    }
}

/// Position of an item in its list.
fn position<T>(list: &[T], item: &T) -> usize {
    (std::ptr::from_ref(item).addr() - list.as_ptr().addr()) / size_of::<T>()
}

/// Groups Jobs with their pods, then bare pods, into package runs.
fn joined<'a>(
    flavor: ApiFlavor,
    jobs: impl Iterator<Item = &'a Job>,
    pods: impl Iterator<Item = &'a Pod>,
) -> Vec<PackageRun<'a>> {
    let mut reader = RunReader::of(flavor);
    let jobs = jobs.filter_map(|job| PackageRun::from_job(&mut reader, job));
    let mut package_runs: Vec<PackageRun<'_>> = jobs.collect();
    let mut by_uid: HashMap<&str, usize, RandomState> = HashMap::default();
    for (at, package_run) in package_runs.iter().enumerate() {
        if let Some(uid) = package_run.job.and_then(|j| j.metadata.uid.as_deref()) {
            by_uid.insert(uid, at);
        }
    }
    let mut bare = Vec::new();
    for pod in pods {
        let uid = pod.metadata.controller_uid();
        if let Some(&at) = uid.and_then(|uid| by_uid.get(uid)) {
            package_runs[at].pods.push(pod);
            continue;
        }
        let Some(mut package_run) = PackageRun::from_pod(&mut reader, pod) else {
            continue;
        };
        match uid.filter(|_| pod.metadata.is_of_job()) {
            Some(uid) => {
                by_uid.insert(uid, package_runs.len());
                package_run.job_unseen = true;
                package_runs.push(package_run);
            }
            None => bare.push(package_run),
        }
    }
    for package_run in &mut package_runs {
        package_run.pods.sort_by_key(|p| std::cmp::Reverse(p.metadata.creation_timestamp));
    }
    package_runs.extend(bare);
    package_runs
}

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
    /// The packages of the spec that have failed permanently on a node, each with its failed Job: the operator starts nothing
    /// more for the custom resource on the node until someone intervenes.
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
