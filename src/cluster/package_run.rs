//! Executions: one stage of one package on one node, whether a raw Pod or a Job carries it out.

use std::collections::HashMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use super::pod::{ContainerTrouble, Pod};
use super::{Certainty, Cluster, Job, Node, Placement};
use crate::api::{ApiFlavor, Entry, Executor, Meta, Skyhook, Stage};

/// One stage of one package on one node, at work or done.
#[derive(Debug)]
pub struct PackageRun<'a> {
    pub skyhook: String,
    pub package: String,
    pub version: String,
    pub stage: Stage,
    pub node: &'a str,
    /// Whether it interrupts the node. Merged interrupts name only the package that won.
    pub interrupt: bool,
    /// The operator is already tearing it down.
    pub invalidated: bool,
    /// The package's image as the operator asked for it, where it noted it.
    pub image: Option<String>,
    /// The Job, where there is one and it was seen.
    pub job: Option<&'a Job>,
    /// Whether its pods belong to a Job that was not seen: lists are read one after the other, and the Job was made, or
    /// deleted, in between; or files hold no Jobs.
    pub job_unseen: bool,
    /// The pods of it, newest first.
    pub pods: Vec<&'a Pod>,
}

/// The operator's note on what a pod or Job is for.
#[derive(Default, Deserialize)]
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
    /// A digest counts instead of the version.
    fn image(&self) -> Option<String> {
        let (image, sha) = (&self.image, &self.container_sha);
        match (image.is_empty(), sha.is_empty()) {
            (true, _) => None,
            (false, true) => Some(format!("{image}:{}", self.version)),
            (false, false) => Some(format!("{image}@{sha}")),
        }
    }
}

/// `pod/NAME` or `job/NAME`
impl fmt::Display for PackageRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.job, self.pods.first()) {
            (Some(job), _) => write!(f, "job/{}", job.metadata.name),
            (None, Some(pod)) => pod.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

impl<'a> PackageRun<'a> {
    /// `pod/NAME` or `job/NAME`.
    pub fn reference(&self) -> String {
        self.to_string()
    }

    /// Whether it is a pod that no Job stands behind.
    pub fn bare(&self) -> bool {
        self.job.is_none() && !self.job_unseen
    }

    /// The metadata of its Job, or else of its newest pod.
    fn metadata(&self) -> Option<&'a Meta> {
        let of_pod = self.pods.first().map(|p| &p.metadata);
        self.job.map(|j| &j.metadata).or(of_pod)
    }

    pub fn namespace(&self) -> &str {
        let namespace = self.metadata().and_then(|m| m.namespace.as_deref());
        namespace.unwrap_or_default()
    }

    /// Whether it may still do something: neither finished nor on its way out.
    pub fn alive(&self) -> bool {
        match self.job {
            Some(job) => job.finished().is_none() && !job.metadata.deleting(),
            None => self
                .pods
                .iter()
                .any(|p| !p.ended() && !p.metadata.deleting()),
        }
    }

    /// Whether it has ended, well or badly.
    pub fn finished(&self) -> bool {
        match self.job {
            Some(job) => job.finished().is_some(),
            None => self.pods.iter().all(|p| p.ended()),
        }
    }

    /// Whether it has ended without success and nothing tries it again: its Job has failed, or its bare pod has ended.
    ///
    /// A bare pod that succeeded counts, as the operator deletes those that it has taken note of. What a Job that was
    /// not seen has done is not known.
    pub fn given_up(&self) -> bool {
        match self.job {
            None if self.job_unseen => false,
            Some(job) => job.failed().is_some() && !job.metadata.deleting(),
            None => {
                let mut pods = self.pods.iter();
                !self.pods.is_empty() && pods.all(|p| p.ended() && !p.metadata.deleting())
            }
        }
    }

    /// Whether an interrupt on the node waits for it, of whatever custom resource: the older operator's pods count even
    /// where they have ended (operator `HasRunningPackages`).
    pub fn delays_interrupts(&self) -> bool {
        self.alive() || self.bare()
    }

    /// Its pod that the kubelet has not acknowledged.
    pub fn unacknowledged(&self) -> Option<&'a Pod> {
        self.pods.iter().copied().find(|p| p.unacknowledged())
    }

    pub fn created(&self) -> Option<Timestamp> {
        self.metadata()?.creation_timestamp
    }

    /// Whether a container runs the image of the agent, which the operator chooses, and not that of the package.
    pub fn runs_agent(&self, container: &str) -> bool {
        let names = super::attempts::containers(&self.package, &self.stage, self.interrupt);
        names.iter().any(|name| name == container)
    }

    /// How often the container of an interrupt was restarted when the operator (v0.20 and later) ended its Job for it.
    pub fn restart_limit_exceeded(&self, flavor: ApiFlavor) -> Option<i64> {
        self.annotated_number(flavor, "restart-limit-exceeded")
    }

    /// After so many restarts of its container the operator ends the Job of an interrupt: since v0.20.0, and not where it
    /// reboots.
    pub fn restart_allowance(&self, flavor: ApiFlavor) -> Option<i64> {
        self.annotated_number(flavor, "restart-allowance")
    }

    fn annotated_number(&self, flavor: ApiFlavor, name: &str) -> Option<i64> {
        let annotations = &self.job?.metadata.annotations;
        annotations.get(&flavor.key(name))?.parse().ok()
    }

    /// How many attempts have failed: pods, and runs of a container that was started again in its pod.
    ///
    /// Of an interrupt the entry of the node state counts these runs, too, and still tells once the pod is gone.
    pub fn failed_attempts(&self, flavor: ApiFlavor, entry: &Entry) -> i64 {
        let Some(job) = self.job else {
            return 0;
        };
        let exceeded = self.restart_limit_exceeded(flavor).unwrap_or(0);
        let restarts = |p: &Pod| {
            let containers = p.status.init_container_statuses.iter();
            let all = containers.chain(&p.status.container_statuses);
            all.map(|c| c.restart_count).max().unwrap_or(0)
        };
        let live = self.pods.iter().filter(|p| !p.ended());
        let counted = exceeded + live.map(|p| restarts(p)).sum::<i64>();
        let recorded = if self.interrupt { entry.restarts } else { 0 };
        job.status.failed + counted.max(recorded)
    }

    /// The newest attempt that ran into the timeout of its stage.
    pub fn timed_out(&self) -> Option<&'a Pod> {
        let over = |p: &&&Pod| p.status.reason == "DeadlineExceeded";
        self.pods.iter().find(over).copied()
    }

    /// The newest attempt that went wrong of its own doing, with what went wrong.
    pub fn trouble(&self) -> Option<(&'a Pod, ContainerTrouble<'a>)> {
        self.pods
            .iter()
            .filter(|p| !p.disrupted())
            .find_map(|p| p.trouble().map(|t| (*p, t)))
    }

    fn from_pod(flavor: ApiFlavor, pod: &'a Pod) -> Option<PackageRun<'a>> {
        Self::from_meta(flavor, &pod.metadata, &pod.spec.node_name).map(|e| PackageRun {
            pods: vec![pod],
            ..e
        })
    }

    fn from_job(flavor: ApiFlavor, job: &'a Job) -> Option<PackageRun<'a>> {
        let node = &job.spec.template.spec.node_name;
        Self::from_meta(flavor, &job.metadata, node).map(|e| PackageRun {
            job: Some(job),
            ..e
        })
    }

    fn from_meta(flavor: ApiFlavor, meta: &'a Meta, node: &'a str) -> Option<PackageRun<'a>> {
        let label = |name: &str| meta.labels.get(&flavor.key(name));
        let skyhook = label("name")?;
        // The label joins name and version with "-", which names contain, too: the note is exact.
        let note = meta.annotations.get(&flavor.key("package"));
        let note: Option<PackageNote> = note.and_then(|text| serde_json::from_str(text).ok());
        let interrupt = label("interrupt").is_some_and(|v| v == "True");
        let from_labels = || {
            let text = label("package").map(String::as_str).unwrap_or_default();
            let (name, version) = text.rsplit_once('-').unwrap_or((text, ""));
            PackageNote {
                name: name.to_owned(),
                version: version.to_owned(),
                stage: label("stage").cloned().unwrap_or_default(),
                ..PackageNote::default()
            }
        };
        let note = note.unwrap_or_else(from_labels);
        Some(PackageRun {
            image: note.image(),
            skyhook: if note.skyhook.is_empty() {
                skyhook.clone()
            } else {
                note.skyhook
            },
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

/// All executions of a cluster, found by custom resource and node.
#[derive(Debug)]
pub struct PackageRuns<'a> {
    all: Vec<PackageRun<'a>>,
    by_place: HashMap<(String, &'a str), Vec<usize>>,
}

impl<'a> PackageRuns<'a> {
    pub fn all(&self) -> &[PackageRun<'a>] {
        &self.all
    }

    /// Those of a custom resource on a node.
    pub fn on<'s>(
        &'s self,
        skyhook: &str,
        node: &'a str,
    ) -> impl Iterator<Item = &'s PackageRun<'a>> + use<'s, 'a> {
        let places = self.by_place.get(&(skyhook.to_owned(), node));
        places.into_iter().flatten().map(|&at| &self.all[at])
    }

    /// Whether anything of a custom resource is alive.
    pub fn any_alive(&self, skyhook: &str) -> bool {
        let mut all = self.all.iter();
        all.any(|e| e.skyhook == skyhook && e.alive())
    }

    /// The same on one node.
    pub fn any_alive_on(&self, skyhook: &Skyhook, node: &'a Node) -> bool {
        self.on(skyhook.name(), &node.name).any(PackageRun::alive)
    }

    /// The uninstall of a package that is at work on the node.
    pub fn uninstall_of(&self, placement: &Placement<'a>) -> Option<&PackageRun<'a>> {
        let mut here = self.on(placement.skyhook, &placement.node.name);
        here.find(|e| e.package == placement.package && e.stage.is_uninstall() && e.alive())
    }

    /// Since when a package stands where it does, as far as what is at work there tells.
    pub fn since(&self, placement: &Placement<'a>) -> Option<Timestamp> {
        let here = self.at_stage(placement)?;
        let suspended = |e: &&PackageRun<'_>| e.job.is_some_and(|j| j.spec.suspend);
        here.filter(|e| !suspended(e))
            .filter_map(PackageRun::created)
            .min()
    }

    /// Since when the pod of a package's stage waits for the kubelet to acknowledge it.
    pub fn unacknowledged_since(&self, placement: &Placement<'a>) -> Option<Timestamp> {
        let mut pods = self.at_stage(placement)?.filter_map(|e| e.unacknowledged());
        pods.find_map(|pod| pod.metadata.creation_timestamp)
    }

    /// What carries out the recorded stage of a package.
    fn at_stage(&self, placement: &Placement<'a>) -> Option<impl Iterator<Item = &PackageRun<'a>>> {
        let (package, stage) = (placement.package, &placement.entry?.stage);
        let here = self.on(placement.skyhook, &placement.node.name);
        Some(here.filter(move |e| e.package == package && e.stage == *stage && e.alive()))
    }
}

impl Cluster {
    /// Everything that carries out a stage in the active API.
    pub fn package_runs(&self) -> PackageRuns<'_> {
        let all = self.package_runs_of(self.active_api.flavor);
        let mut by_place: HashMap<_, Vec<_>> = HashMap::new();
        for (at, e) in all.iter().enumerate() {
            by_place
                .entry((e.skyhook.clone(), e.node))
                .or_default()
                .push(at);
        }
        PackageRuns { all, by_place }
    }

    /// The pods that the older operator started for a custom resource and that still run beside the newer one, which does
    /// not count them.
    pub fn runs_of_older_operator(&self, skyhook: &str) -> Vec<PackageRun<'_>> {
        if !self.active_api.migrating() {
            return Vec::new();
        }
        let mut runs = self.package_runs_of(self.flavor().other());
        runs.retain(|e| e.skyhook == skyhook && e.bare() && e.alive());
        runs
    }

    /// How sure we are that an execution we do not see does not exist.
    pub fn certainty_of_no_package_run(&self) -> Certainty {
        match self.active_api.flavor.executor() {
            Executor::Pod => self.pods.absence(),
            Executor::Job => self.pods.absence().min(self.jobs.absence()),
        }
    }

    /// Everything that carries out a stage in an API, Jobs with their pods, then bare pods.
    pub fn package_runs_of(&self, flavor: ApiFlavor) -> Vec<PackageRun<'_>> {
        let mut package_runs: Vec<PackageRun<'_>> = self
            .jobs
            .items()
            .iter()
            .filter_map(|job| PackageRun::from_job(flavor, job))
            .collect();
        let mut by_uid = HashMap::new();
        for (at, package_run) in package_runs.iter().enumerate() {
            if let Some(uid) = package_run.job.and_then(|j| j.metadata.uid.as_deref()) {
                by_uid.insert(uid, at);
            }
        }
        let mut bare = Vec::new();
        for pod in self.pods.items() {
            let uid = pod.metadata.controller_uid();
            if let Some(&at) = uid.and_then(|uid| by_uid.get(uid)) {
                package_runs[at].pods.push(pod);
                continue;
            }
            let Some(mut package_run) = PackageRun::from_pod(flavor, pod) else {
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
            package_run
                .pods
                .sort_by_key(|p| std::cmp::Reverse(p.metadata.creation_timestamp));
        }
        package_runs.extend(bare);
        package_runs
    }
}
