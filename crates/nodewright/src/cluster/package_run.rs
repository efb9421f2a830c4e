//! Package runs: one stage of one package on one node, carried out by a bare Pod or a Job.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use foldhash::fast::RandomState;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::pod::{ContainerTrouble, Ending};
use super::{Certainty, Cluster, Job, Node, Placement, Pod};
use crate::api::name::is_word;
use crate::api::{ApiFlavor, Entry, Executor, Meta, Package, Skyhook, Stage, State};

/// One stage of one package on one node, running or finished.
#[derive(Debug, Clone)]
pub struct PackageRun<'a> {
    pub skyhook: String,
    pub package: String,
    pub version: String,
    pub stage: Stage,
    pub node: &'a str,
    /// Whether the run interrupts the node. A merged interrupt of several packages names only one of them.
    pub interrupt: bool,
    /// Whether the operator is already removing the run.
    pub invalidated: bool,
    /// The package's image as requested by the operator, if recorded.
    pub image: Option<String>,
    /// The Job, if any and if it was read.
    pub job: Option<&'a Job>,
    /// Whether the pods belong to a Job that was not read: the Job was created or deleted between the reads
    /// of the two lists, or the files contain no Jobs.
    pub job_unseen: bool,
    /// Pods of the run, newest first.
    pub pods: Vec<&'a Pod>,
}

/// A custom resource, its package and version, and a stage.
pub(super) type StageOfPackage = [String; 4];

/// Decodes the labels and annotations of package runs, for one API.
pub(super) struct RunReader<'a> {
    /// Key of the label with the name of the custom resource.
    name: String,
    /// Key of the label with package and version, and of the annotation with the [`PackageNote`].
    package: String,
    stage: String,
    interrupt: String,
    /// Decoded notes by their text, which is equal on all nodes.
    notes: HashMap<&'a str, Option<PackageNote>, foldhash::fast::RandomState>,
}

impl<'a> RunReader<'a> {
    pub fn of(flavor: ApiFlavor) -> RunReader<'a> {
        let [name, package, stage, interrupt] =
            ["name", "package", "stage", "interrupt"].map(|key| flavor.key(key));
        RunReader { name, package, stage, interrupt, notes: HashMap::default() }
    }

    /// The decoded note; `None` if a name in it could be mistaken for a flag.
    fn note(&mut self, meta: &'a Meta) -> Option<PackageNote> {
        let text = meta.annotations.get(&self.package)?;
        let note = self.notes.entry(text).or_insert_with(|| {
            let note: Option<PackageNote> = serde_json::from_str(text).ok();
            note.filter(PackageNote::is_well_named)
        });
        note.clone()
    }
}

/// The operator's annotation with the purpose of a pod or Job.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct PackageNote {
    name: String,
    version: String,
    skyhook: String,
    stage: String,
    image: String,
    #[serde(rename = "containerSHA")]
    container_sha: String,
    invalid: bool,
}

impl PackageNote {
    /// Whether no name can be mistaken for a flag.
    fn is_well_named(&self) -> bool {
        let names = [&self.name, &self.version, &self.skyhook, &self.stage];
        names.into_iter().all(|name| is_word(name))
    }

    /// The package's image with its digest, or else with the version as tag.
    fn image(&self) -> Option<String> {
        let (image, sha) = (&self.image, &self.container_sha);
        match (image.is_empty(), sha.is_empty()) {
            (true, _) => None,
            (false, true) => Some(format!("{image}:{}", self.version)),
            (false, false) => Some(format!("{image}@{sha}")),
        }
    }
}

/// Formats the run as `pod/NAMESPACE/NAME` or `job/NAMESPACE/NAME`.
impl fmt::Display for PackageRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.job, self.pods.first()) {
            (Some(job), _) => write!(f, "job/{}", job.metadata.path()),
            (None, Some(pod)) => pod.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

impl<'a> PackageRun<'a> {
    /// The run, if the Job or a pod of it has this name; for a pod, with this pod only.
    pub fn of_object(&self, name: &str) -> Option<PackageRun<'a>> {
        if self.job.is_some_and(|job| job.metadata.name == name) {
            return Some(self.clone());
        }
        let pod = *self.pods.iter().find(|pod| pod.name() == name)?;
        Some(PackageRun { pods: vec![pod], ..self.clone() })
    }

    /// Kind and name of the Job, or else of the newest pod, for kubectl.
    pub fn kind_and_name(&self) -> Option<(&'static str, &'a str)> {
        let kind = if self.job.is_some() { "job" } else { "pod" };
        Some((kind, self.metadata()?.name.as_str()))
    }

    /// Whether the run is a pod without a Job.
    pub fn bare(&self) -> bool {
        self.job.is_none() && !self.job_unseen
    }

    /// Metadata of the Job, or else of the newest pod.
    pub(super) fn metadata(&self) -> Option<&'a Meta> {
        let of_pod = self.pods.first().map(|p| &p.metadata);
        self.job.map(|j| &j.metadata).or(of_pod)
    }

    pub fn namespace(&self) -> &str {
        self.metadata().and_then(|m| m.namespace.as_deref()).unwrap_or_default()
    }

    /// Whether the run is neither finished nor being deleted.
    pub fn alive(&self) -> bool {
        match self.job {
            Some(job) => job.finished().is_none() && !job.metadata.deleting(),
            None => self.pods.iter().any(|p| !p.ended() && !p.metadata.deleting()),
        }
    }

    /// Whether the run's Job is suspended: it has no pods, or they are terminating.
    pub fn suspended(&self) -> bool {
        self.job.is_some_and(|job| job.spec.suspend)
    }

    /// Whether the run is alive and not suspended.
    pub fn works(&self) -> bool {
        self.alive() && !self.suspended()
    }

    /// Whether the run has ended, successfully or not.
    pub fn finished(&self) -> bool {
        match self.job {
            Some(job) => job.finished().is_some(),
            None => self.pods.iter().all(|p| p.ended()),
        }
    }

    /// Whether the run has ended and is not retried: its Job has failed, or its bare pod has ended.
    ///
    /// A bare pod that succeeded counts, because the operator deletes a pod after it has recorded the
    /// outcome. The result of a Job that was not read is unknown.
    pub fn given_up(&self) -> bool {
        match self.job {
            None if self.job_unseen => false,
            Some(job) => job.gave_up(),
            None => {
                let mut pods = self.pods.iter();
                !self.pods.is_empty() && pods.all(|p| p.ended() && !p.metadata.deleting())
            }
        }
    }

    /// Whether the run is for the package and version of this entry, at any stage.
    pub fn is_of_version(&self, entry: &Entry) -> bool {
        (self.package.as_str(), self.version.as_str()) == entry.identity()
    }

    /// Whether the run carries out the stage of this entry. A merged interrupt serves several packages and
    /// names one.
    pub fn carries_out(&self, entry: &Entry) -> bool {
        self.interrupt && entry.stage.is_interrupt() || self.is_of_version(entry) && self.stage == entry.stage
    }

    /// Whether interrupts on the node, of any custom resource, wait for this run. The older operator also
    /// waits for ended pods (operator `HasRunningPackages`).
    pub fn delays_interrupts(&self) -> bool {
        self.alive() || self.bare()
    }

    /// Whether the operator waits for this run before it updates the ConfigMap of a package (operator `PodExists`).
    pub fn delays_config(&self, name: &str, package: &Package) -> bool {
        self.package == name && self.version == package.version && self.delays_interrupts()
    }

    /// The pod that the kubelet has not acknowledged.
    pub fn unacknowledged(&self) -> Option<&'a Pod> {
        self.pods.iter().copied().find(|p| p.unacknowledged())
    }

    pub fn created(&self) -> Option<Timestamp> {
        self.metadata()?.creation_timestamp
    }

    /// The start of the run, or its resumption after a pause.
    pub fn started(&self) -> Option<Timestamp> {
        self.job.and_then(|job| job.status.start_time).or_else(|| self.created())
    }

    /// Whether a container runs the agent's image, which the operator chooses, instead of the package's.
    pub fn runs_agent(&self, container: &str) -> bool {
        let names = super::attempts::containers(&self.package, &self.stage, self.interrupt);
        names.iter().any(|name| name == container)
    }

    /// Number of container restarts after which the operator (v0.20 and later) ended the Job of the
    /// interrupt.
    pub fn restart_limit_exceeded(&self, flavor: ApiFlavor) -> Option<i64> {
        self.annotated_number(flavor, "restart-limit-exceeded")
    }

    /// Number of restarts after which the operator ends the Job of an interrupt. Set since v0.20.0, except
    /// for reboots.
    pub fn restart_allowance(&self, flavor: ApiFlavor) -> Option<i64> {
        self.annotated_number(flavor, "restart-allowance")
    }

    fn annotated_number(&self, flavor: ApiFlavor, name: &str) -> Option<i64> {
        let annotations = &self.job?.metadata.annotations;
        annotations.get(&flavor.key(name))?.parse().ok()
    }

    /// Number of failed attempts: failed pods, and container runs that were restarted in their pod.
    ///
    /// For an interrupt, the node-state entry counts these runs as well, and remains after the pod is
    /// deleted.
    pub fn failed_attempts(&self, flavor: ApiFlavor, entry: &Entry) -> i64 {
        let Some(job) = self.job else {
            return 0;
        };
        let exceeded = self.restart_limit_exceeded(flavor).unwrap_or(0);
        let restarts = |p: &Pod| {
            let all = p.status.init_container_statuses.iter().chain(&p.status.container_statuses);
            all.map(|c| c.restart_count).max().unwrap_or(0)
        };
        let live = self.pods.iter().filter(|p| !p.ended());
        let counted = exceeded + live.map(|p| restarts(p)).sum::<i64>();
        let recorded = if self.interrupt { entry.restarts } else { 0 };
        job.status.failed + counted.max(recorded)
    }

    /// The Job's own deadline in seconds, if the operator has not set it: it limits each attempt of a package stage, and
    /// only the whole Job of an interrupt.
    pub fn foreign_deadline(&self) -> Option<i64> {
        self.job?.spec.active_deadline_seconds.filter(|_| !self.interrupt)
    }

    /// The newest attempt that exceeded the timeout of its stage.
    pub fn timed_out(&self) -> Option<&'a Pod> {
        let over = |p: &&&Pod| p.status.reason == "DeadlineExceeded";
        self.pods.iter().find(over).copied()
    }

    /// The newest failed attempt, if it ended as a whole; see [`Cluster::ending`].
    pub fn ended_as_a_whole(&self, cluster: &'a Cluster) -> Option<(&'a Pod, Ending<'a>)> {
        let pod = self.pods.iter().copied().find(|pod| pod.status.phase == "Failed")?;
        Some((pod, cluster.ending(pod)?))
    }

    /// The newest attempt that failed without a disruption, with the cause.
    pub fn trouble(&self) -> Option<(&'a Pod, ContainerTrouble<'a>)> {
        self.pods.iter().filter(|p| !p.disrupted()).find_map(|p| p.trouble().map(|t| (*p, t)))
    }

    pub(super) fn stage_of_package(&self) -> StageOfPackage {
        let stage = self.stage.as_str();
        [&self.skyhook, &self.package, &self.version, stage].map(str::to_owned)
    }

    pub(super) fn from_pod(reader: &mut RunReader<'a>, pod: &'a Pod) -> Option<PackageRun<'a>> {
        Self::from_meta(reader, &pod.metadata, &pod.spec.node_name)
            .map(|run| PackageRun { pods: vec![pod], ..run })
    }

    pub(super) fn from_job(reader: &mut RunReader<'a>, job: &'a Job) -> Option<PackageRun<'a>> {
        let node = &job.spec.template.spec.node_name;
        Self::from_meta(reader, &job.metadata, node).map(|run| PackageRun { job: Some(job), ..run })
    }

    fn from_meta(reader: &mut RunReader<'a>, meta: &'a Meta, node: &'a str) -> Option<PackageRun<'a>> {
        let label = |key: &String| meta.labels.get(key);
        let skyhook = label(&reader.name)?;
        // Prefer the annotation: the label joins name and version with `-`, which names may contain.
        let note = reader.note(meta);
        let interrupt = label(&reader.interrupt).is_some_and(|v| v == "True");
        let from_labels = || {
            let text = label(&reader.package).map(String::as_str).unwrap_or_default();
            let (name, version) = text.rsplit_once('-').unwrap_or((text, ""));
            PackageNote {
                name: name.to_owned(),
                version: version.to_owned(),
                stage: label(&reader.stage).cloned().unwrap_or_default(),
                ..PackageNote::default()
            }
        };
        let note = note.unwrap_or_else(from_labels);
        Some(PackageRun {
            image: note.image(),
            skyhook: if note.skyhook.is_empty() { skyhook.clone() } else { note.skyhook },
            package: note.name,
            version: note.version,
            stage: Stage::from(note.stage.as_str()),
            node,
            interrupt,
            invalidated: note.invalid,
            job: None,
            job_unseen: false,
            pods: Vec::new(),
        })
    }
}

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
        self.by_skyhook.get(skyhook).map(|runs| &runs.all).into_iter().flatten().map(|&at| &self.all[at])
    }

    /// Package runs of a custom resource on a node.
    pub fn of_skyhook_on<'s>(
        &'s self,
        skyhook: &str,
        node: &str,
    ) -> impl Iterator<Item = &'s PackageRun<'a>> + use<'s, 'a> {
        let runs = self.by_skyhook.get(skyhook);
        runs.and_then(|runs| runs.by_node.get(node)).into_iter().flatten().map(|&at| &self.all[at])
    }

    /// Package runs of all custom resources on a node.
    pub fn on_node<'s>(&'s self, node: &str) -> impl Iterator<Item = &'s PackageRun<'a>> + use<'s, 'a> {
        let mut here: Vec<usize> =
            self.by_skyhook.values().filter_map(|runs| runs.by_node.get(node)).flatten().copied().collect();
        here.sort_unstable();
        here.into_iter().map(|at| &self.all[at])
    }

    /// Longest duration of a successful Job for the same stage of the same package version, on any node.
    pub(super) fn longest_of(&self, package_run: &PackageRun<'_>) -> Option<SignedDuration> {
        let longest = self.longest.get_or_init(|| {
            let mut longest: HashMap<StageOfPackage, SignedDuration> = HashMap::new();
            for (run, took) in self.all.iter().filter_map(|run| Some((run, run.took()?))) {
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
    pub fn any_alive_on(&self, skyhook: &str, node: &str) -> bool {
        self.of_skyhook_on(skyhook, node).any(PackageRun::alive)
    }

    /// The live run that uninstalls a package on its node.
    pub fn uninstall_of(&self, placement: &Placement<'a>) -> Option<&PackageRun<'a>> {
        let mut here = self.of_skyhook_on(placement.skyhook, &placement.node.name);
        here.find(|run| run.package == placement.package && run.stage.is_uninstall() && run.alive())
    }

    /// Start of the package's current stage, from its live Pods and Jobs. Suspended Jobs do not count.
    pub fn since(&self, placement: &Placement<'a>) -> Option<Timestamp> {
        let here = self.at_stage(placement)?;
        here.filter(|run| !run.suspended()).filter_map(PackageRun::started).min()
    }

    /// Time since which the pod of the package's stage waits for the kubelet to acknowledge it.
    pub fn unacknowledged_since(&self, placement: &Placement<'a>) -> Option<Timestamp> {
        self.at_stage(placement)?
            .filter_map(|run| run.unacknowledged())
            .find_map(|pod| pod.metadata.creation_timestamp)
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
        joined(flavor, self.jobs.iter(), self.pods.iter())
    }
}

/// Position of an item in its list.
pub(super) fn position<T>(list: &[T], item: &T) -> usize {
    (std::ptr::from_ref(item).addr() - list.as_ptr().addr()) / size_of::<T>()
}

/// Groups Jobs with their pods, then bare pods, into package runs.
fn joined<'a>(
    flavor: ApiFlavor,
    jobs: impl Iterator<Item = &'a Job>,
    pods: impl Iterator<Item = &'a Pod>,
) -> Vec<PackageRun<'a>> {
    let mut reader = RunReader::of(flavor);
    let mut package_runs: Vec<PackageRun<'_>> =
        jobs.filter_map(|job| PackageRun::from_job(&mut reader, job)).collect();
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
        match pod.metadata.controller().filter(|owner| owner.kind == "Job") {
            Some(owner) => {
                by_uid.insert(&owner.uid, package_runs.len());
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
        all.filter_map(|run| nearness(run).map(|nearness| (nearness, run)))
            .max_by_key(|(nearness, e)| (*nearness, e.created()))
            .map(|(_, e)| e)
    }

    /// The packages of the spec that have failed permanently on a node, each with its failed Job: the operator starts nothing
    /// more for the custom resource on the node until someone intervenes.
    ///
    /// Packages stay failed when the node's status changes, by a pause or by hand: only the state of the
    /// package and its Job count.
    pub fn permanently_failed<'s>(
        &'s self,
        cluster: &Cluster,
        skyhook: &Skyhook,
        node: &'a Node,
    ) -> Vec<(&'a Entry, &'s PackageRun<'a>)> {
        let on = cluster.on_node(node, skyhook.name());
        let Some(on) = on.filter(|_| cluster.flavor().executor() == Executor::Job) else {
            return Vec::new();
        };
        let failed = on.entries().iter().filter(|e| {
            let package = skyhook.package(&e.name);
            e.state == State::Erroring && package.is_some_and(|p| p.version == e.version)
        });
        let permanently_failed = failed.filter_map(|entry| {
            let package_run = self.newest(skyhook.name(), &node.name, entry)?;
            let job = package_run.job?;
            job.gave_up().then_some((entry, package_run))
        });
        permanently_failed.collect()
    }
}

/// Limit for a stage without a timeout or a known duration on other nodes.
const USUAL: SignedDuration = SignedDuration::from_hours(1);
const TIMEOUT: &str = "its timeout";
const AN_HOUR: &str = "an hour";
/// Minimum limit, however fast the stage was on other nodes.
const LEAST: SignedDuration = SignedDuration::from_mins(10);
/// Factor between the longest duration on other nodes and the limit, and between the limit and a hopeless
/// duration.
const TIMES: i32 = 3;

/// A stage that runs longer than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overtime {
    pub since: Timestamp,
    pub runs: SignedDuration,
    pub usual: SignedDuration,
    pub reason: &'static str,
}

impl Overtime {
    /// The exceeded limit in words: `its timeout of 1h`.
    pub fn limit(&self) -> String {
        let (reason, usual) = (self.reason, self.usual);
        match reason {
            TIMEOUT => format!("{reason} of {usual:#}"),
            AN_HOUR => reason.to_owned(),
            _ => format!("{reason} ({usual:#})"),
        }
    }

    /// Whether the stage runs so long that it will hardly end without help.
    pub fn is_hopeless(&self) -> bool {
        self.runs >= self.usual * TIMES
    }
}

impl PackageRun<'_> {
    /// Start of the running container in the newest attempt.
    pub fn running_since(&self) -> Option<Timestamp> {
        let pod = self.pods.first().filter(|p| !p.ended() && !p.metadata.deleting())?;
        running_since(pod)
    }

    /// Duration of the run, if it succeeded.
    pub fn took(&self) -> Option<SignedDuration> {
        let status = &self.job.filter(|j| j.failed().is_none())?.status;
        Some(status.completion_time?.duration_since(status.start_time?))
    }

    /// How far the stage has exceeded its limit: its timeout, a multiple of the duration on other nodes, or an
    /// hour. `None` within the limit.
    pub fn overtime(&self, cluster: &Cluster, all: &PackageRuns<'_>) -> Option<Overtime> {
        // Without the annotation, the pod only has the label of a package and runs no stage.
        if self.stage == Stage::from("") {
            return None;
        }
        let since = self.running_since()?;
        let runs = cluster.taken_at.duration_since(since);
        if runs < LEAST {
            return None;
        }
        let (usual, reason) = usual(self, all);
        (runs >= usual).then_some(Overtime { since, runs, usual, reason })
    }
}

fn usual(package_run: &PackageRun<'_>, all: &PackageRuns<'_>) -> (SignedDuration, &'static str) {
    let timeout = package_run.job.and_then(Job::timeout);
    if let Some(seconds) = timeout {
        return (SignedDuration::from_secs(seconds), TIMEOUT);
    }
    match all.longest_of(package_run) {
        Some(longest) => ((longest * TIMES).max(LEAST), "three times the duration on other nodes"),
        None => (USUAL, AN_HOUR),
    }
}

/// Start of the pod's work, which init containers do. The main containers only keep the pod until the
/// operator has recorded its end.
fn running_since(pod: &Pod) -> Option<Timestamp> {
    let status = &pod.status;
    let works = if status.init_container_statuses.is_empty() {
        &status.container_statuses
    } else {
        &status.init_container_statuses
    };
    let started = works.iter().filter_map(|c| c.state.running.as_ref()).filter_map(|r| r.started_at).min();
    // Without container statuses, use the pod's own start.
    let nothing_said = status.init_container_statuses.is_empty() && status.container_statuses.is_empty();
    started.or(status.start_time.filter(|_| nothing_said))
}
