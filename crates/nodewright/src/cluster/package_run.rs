//! Package runs: one stage of one package on one node, carried out by a bare Pod or a Job.

use std::collections::HashMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use super::pod::{ContainerTrouble, Ending, Pod};
use super::{Cluster, Job};
use crate::api::object_name::is_word;
use crate::api::{ApiFlavor, Entry, Meta, Stage};

/// One stage of one package on one node, running or finished.
#[derive(Debug)]
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
    /// Reference in messages: `pod/NAMESPACE/NAME` or `job/NAMESPACE/NAME`.
    pub fn reference(&self) -> String {
        self.to_string()
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
        let namespace = self.metadata().and_then(|m| m.namespace.as_deref());
        namespace.unwrap_or_default()
    }

    /// Whether the run is neither finished nor being deleted.
    pub fn alive(&self) -> bool {
        match self.job {
            Some(job) => job.finished().is_none() && !job.metadata.deleting(),
            None => self.pods.iter().any(|p| !p.ended() && !p.metadata.deleting()),
        }
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
            Some(job) => job.failed().is_some() && !job.metadata.deleting(),
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

    /// The pod that the kubelet has not acknowledged.
    pub fn unacknowledged(&self) -> Option<&'a Pod> {
        self.pods.iter().copied().find(|p| p.unacknowledged())
    }

    pub fn created(&self) -> Option<Timestamp> {
        self.metadata()?.creation_timestamp
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
            let containers = p.status.init_container_statuses.iter();
            let all = containers.chain(&p.status.container_statuses);
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
