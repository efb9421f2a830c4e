//! Durations of stages and drains, measured on nodes that have finished.

use std::collections::HashMap;

use jiff::Timestamp;

use super::resource::Resource;
use super::runs::Runs;
use crate::api::Stage;
use crate::cluster::{Cluster, Node, PackageRun};

/// The type of interrupt that takes longer than others; also the stage under which its durations are stored.
const REBOOT: &str = "reboot";
/// Assumed time until evicted pods have ended, in seconds, if nothing was measured.
const GRACE: f64 = 5.0;
/// Minimum duration of a stage, in seconds.
const LEAST: f64 = 0.5;
/// The variation (standard deviation divided by mean) of nodes that is assumed before any was measured. It counts as
/// much as that of [`ASSUMED`] measured nodes.
const VARIATION: f64 = 0.3;
const ASSUMED: f64 = 2.0;
/// Number of standard deviations between an estimate and the ends of its range.
const DEVIATIONS: f64 = 2.0;
/// The maximum relative uncertainty: the range of an estimate ends at twice the time.
const WIDEST: f64 = 1.0;
/// An estimate with at most this relative uncertainty is a single figure instead of a range.
const STEADY: f64 = 0.15;

/// Durations in seconds. A stage lasts from the creation of its Job until the operator starts the next stage,
/// or until the Job ends.
#[derive(Default)]
pub(super) struct Pace {
    /// Durations by key: of a stage of one package, of the stage in a custom resource, and so on, up to all
    /// stages.
    stages: HashMap<Key, Vec<f64>>,
    /// The duration of each finished node divided by the usual duration, ascending.
    ratios: Vec<f64>,
    /// The median duration of a package's stage, at least [`LEAST`].
    usual: HashMap<(usize, usize, Stage), f64, foldhash::fast::RandomState>,
    /// Seconds between the end of a batch and the first stage on a node of the next batch, including drains,
    /// by custom resource.
    pauses: HashMap<usize, Vec<f64>>,
    /// The mean duration of all stages on a finished node, by custom resource.
    rounds: HashMap<usize, f64>,
}

/// The indexes of a custom resource and of its package, and the stage; `None` for any.
type Key = (Option<usize>, Option<usize>, Option<Stage>);

/// A finished stage on a node.
struct Sample {
    package: usize,
    stage: Stage,
    start: Timestamp,
    seconds: f64,
}

/// The measured times of a node.
struct Times {
    samples: Vec<Sample>,
    /// Time at which the custom resource became complete on the node.
    end: Option<Timestamp>,
}

impl Pace {
    pub fn measure(cluster: &Cluster, runs: &Runs<'_>, resources: &[Resource<'_>]) -> Pace {
        let mut pace = Pace::default();
        let times = |resource: &Resource<'_>| -> Vec<Times> {
            let name = resource.skyhook.name();
            let condition = cluster.flavor().key(&format!("{name}/NotReady"));
            resource.nodes.iter().map(|node| times(runs, resource, node, &condition)).collect()
        };
        let all: Vec<Vec<Times>> = resources.iter().map(times).collect();
        for (at, (resource, nodes)) in resources.iter().zip(&all).enumerate() {
            for sample in nodes.iter().flat_map(|node| &node.samples) {
                pace.add(at, sample.package, &sample.stage, sample.seconds);
            }
            if nodes.iter().all(|node| node.samples.is_empty()) {
                pace.learn_from_batches(at, resource, nodes);
            }
            let pauses = pauses_between_batches(resource, nodes).collect();
            pace.pauses.insert(at, pauses);
        }
        let pauses = pace.pauses.values_mut();
        for durations in pace.stages.values_mut().chain(pauses) {
            durations.sort_by(f64::total_cmp);
        }
        for (at, resource) in resources.iter().enumerate() {
            for package in 0..resource.packages.len() {
                let reboots = resource.packages[package].interrupt == Some(REBOOT);
                for stage in Stage::KNOWN.iter().copied().chain([REBOOT]).map(Stage::from) {
                    let usual = pace.measured(at, package, &timed(&stage, reboots));
                    pace.usual.extend(usual.map(|usual| ((at, package, stage), usual)));
                }
            }
        }
        for (at, nodes) in all.iter().enumerate() {
            pace.compare_nodes(at, nodes);
        }
        pace.ratios.sort_by(f64::total_cmp);
        pace
    }

    fn add(&mut self, resource: usize, package: usize, stage: &Stage, seconds: f64) {
        for key in keys(resource, package, stage) {
            self.stages.entry(key).or_default().push(seconds);
        }
    }

    /// The usual duration of a stage in seconds; `None` if no stage has finished at all.
    pub fn of(&self, resource: usize, package: usize, stage: &Stage) -> Option<f64> {
        self.usual.get(&(resource, package, stage.clone())).copied()
    }

    fn measured(&self, resource: usize, package: usize, stage: &Stage) -> Option<f64> {
        let known = keys(resource, package, stage).iter().find_map(|key| self.stages.get(key));
        quantile(known?, 0.5).map(|seconds| seconds.max(LEAST))
    }

    /// The factor by which a node at quantile `slower_than` is slower than usual; 1 without measurements.
    pub fn factor(&self, slower_than: f64) -> f64 {
        quantile(&self.ratios, slower_than).unwrap_or(1.0)
    }

    /// Seconds before the first stage on a node that starts a batch, at quantile `slower_than`. Without
    /// measurements [`GRACE`] if the node is drained, otherwise 0.
    pub fn pause(&self, resource: usize, slower_than: f64, drains: bool) -> f64 {
        let measured = self.pauses.get(&resource).and_then(|pauses| quantile(pauses, slower_than));
        measured.unwrap_or(if drains { GRACE } else { 0.0 })
    }

    /// The relative uncertainty of an estimate for a custom resource; 0 if durations are steady.
    ///
    /// Batches vary independently, so that an estimate of many is more certain than of one. The estimate itself rests
    /// on the nodes that have finished.
    pub fn uncertainty(&self, resource: usize, estimate: f64) -> f64 {
        let measured = self.ratios.len() as f64;
        let nodes =
            (measured * deviation(&self.ratios).powi(2) + ASSUMED * VARIATION.powi(2)) / (measured + ASSUMED);
        let round = self.rounds.get(&resource).copied().unwrap_or(estimate).max(LEAST);
        let pauses = self.pauses.get(&resource).map_or(0.0, |pauses| {
            let [low, high] = [0.1, 0.9].map(|part| quantile(pauses, part).unwrap_or_default());
            ((high - low) / 2.0 / round).powi(2)
        });
        let batches = (estimate / round).max(1.0);
        let uncertainty = DEVIATIONS * ((nodes + pauses) * (1.0 / batches + 1.0 / measured.max(1.0))).sqrt();
        if uncertainty <= STEADY { 0.0 } else { uncertainty.min(WIDEST) }
    }

    /// Adds the duration of each finished node divided by the usual duration of its stages, and the mean of the durations.
    fn compare_nodes(&mut self, resource: usize, nodes: &[Times]) {
        let finished = |node: &&Times| node.end.is_some() && !node.samples.is_empty();
        let (mut total, mut count) = (0.0, 0.0);
        for node in nodes.iter().filter(finished) {
            let means = node.samples.iter().filter_map(|s| self.of(resource, s.package, &s.stage));
            let took: f64 = node.samples.iter().map(|sample| sample.seconds).sum();
            self.ratios.push(took / means.sum::<f64>());
            total += took;
            count += 1.0;
        }
        if count > 0.0 {
            self.rounds.insert(resource, total / count);
        }
    }

    /// Derives durations from the last finished batch, for a custom resource without finished Jobs. Bare pods
    /// are deleted once they have ended, so that only the total duration of a node's stages can be measured.
    fn learn_from_batches(&mut self, at: usize, resource: &Resource<'_>, nodes: &[Times]) {
        for compartment in &resource.compartments {
            let mut ends: Vec<Timestamp> =
                compartment.members.iter().filter_map(|member| nodes[*member as usize].end).collect();
            ends.sort_unstable();
            let size = usize::try_from(compartment.state.last_batch_size).unwrap_or(0);
            if size == 0 || size > ends.len() {
                continue;
            }
            let (before, batch) = ends.split_at(ends.len() - size);
            let created = resource.skyhook.metadata.creation_timestamp;
            let Some(start) = before.last().copied().or(created) else {
                continue;
            };
            let took: Vec<f64> = batch.iter().map(|end| seconds(start, *end)).collect();
            let mean = took.iter().sum::<f64>() / took.len() as f64;
            if mean <= 0.0 {
                continue;
            }
            let in_a_row = longest_chain(resource) as f64;
            for package in 0..resource.packages.len() {
                let reboots = resource.packages[package].interrupt == Some(REBOOT);
                for stage in resource.packages[package].stages() {
                    self.add(at, package, &timed(stage, reboots), mean / in_a_row);
                }
            }
            self.ratios.extend(took.iter().map(|took| took / mean));
            self.rounds.insert(at, mean);
        }
    }
}

/// The keys under which a duration is stored, most specific first. A reboot takes much longer than other stages.
fn keys(resource: usize, package: usize, stage: &Stage) -> Vec<Key> {
    let of = |resource, package| (resource, package, Some(stage.clone()));
    let mut keys = vec![of(Some(resource), Some(package)), of(Some(resource), None), of(None, None)];
    if *stage != Stage::from(REBOOT) {
        keys.extend([(Some(resource), None, None), (None, None, None)]);
    }
    keys
}

/// The stage under which a duration is stored.
fn timed(stage: &Stage, reboots: bool) -> Stage {
    if reboots && stage.is_interrupt() { Stage::from(REBOOT) } else { stage.clone() }
}

/// The measured times of a custom resource on a node. `condition`: the type of the node condition that
/// becomes false once the custom resource is complete.
fn times<'a>(runs: &Runs<'a>, resource: &Resource<'a>, node: &Node, condition: &str) -> Times {
    let end = completed(node, condition);
    let mut jobs: Vec<(Timestamp, &PackageRun<'a>)> = runs
        .all
        .of_skyhook_on(resource.skyhook.name(), &node.name)
        .filter_map(|run| Some((run.created().filter(|_| run.job.is_some())?, run)))
        .collect();
    jobs.sort_by_key(|(created, _)| *created);
    let over = jobs.iter().enumerate().filter_map(|(at, (start, run))| {
        let completed = run.job?.status.completion_time?;
        let package = resource.packages.iter().position(|p| p.name == run.package)?;
        let mut later = jobs[at + 1..].iter();
        let follows = |next: &PackageRun<'_>| next.package == run.package && follows(&run.stage, &next.stage);
        let next = later.find(|(_, next)| follows(next));
        let last = at + 1 == jobs.len();
        let next = next.map(|(created, _)| *created).or(end.filter(|_| last));
        let until = next.filter(|next| *next >= completed).unwrap_or(completed);
        let reboot = format!("{}-interrupt-{REBOOT}-", resource.skyhook.name());
        let stage = timed(&run.stage, run.job?.metadata.name.starts_with(&reboot));
        Some(Sample { package, stage, start: *start, seconds: seconds(*start, until) })
    });
    Times { samples: over.collect(), end }
}

/// Whether a stage follows another one without a pause.
fn follows(stage: &Stage, next: &Stage) -> bool {
    match stage {
        Stage::Apply | Stage::Upgrade => *next == Stage::Config,
        Stage::Config => *next == Stage::Interrupt,
        Stage::Interrupt => *next == Stage::PostInterrupt,
        Stage::Uninstall => *next == Stage::UninstallInterrupt,
        _ => false,
    }
}

/// Time at which the custom resource became complete on a node.
pub(super) fn completed(node: &Node, condition: &str) -> Option<Timestamp> {
    let condition = node.condition(condition)?;
    condition.last_transition_time.filter(|_| condition.status == "False")
}

/// Seconds between a node's first stage and the last completion before it in the same compartment. Skips
/// nodes that lack either.
fn pauses_between_batches<'n>(
    resource: &'n Resource<'_>,
    nodes: &'n [Times],
) -> impl Iterator<Item = f64> + 'n {
    resource.compartments.iter().flat_map(|compartment| {
        let members = || compartment.members.iter().map(|at| &nodes[*at as usize]);
        let mut ends: Vec<Timestamp> = members().filter_map(|node| node.end).collect();
        ends.sort_unstable();
        members().filter_map(move |node| {
            let start = node.samples.first()?.start;
            let before = ends.partition_point(|end| *end <= start);
            let end = ends.get(before.checked_sub(1)?)?;
            Some(seconds(*end, start))
        })
    })
}

/// Maximum number of consecutive stages on a node.
fn longest_chain(resource: &Resource<'_>) -> usize {
    let packages = 0..resource.packages.len();
    let mut chains = vec![0; packages.len()];
    // One pass per package is enough for the longest chain, and ends for cycles as well.
    for _ in packages.clone() {
        for at in packages.clone() {
            let before =
                resource.order.depends_on[at].iter().flatten().map(|on| chains[*on]).max().unwrap_or(0);
            let own = resource.packages[at].stages().len();
            chains[at] = own + before;
        }
    }
    chains.into_iter().max().unwrap_or(0).max(1)
}

/// The standard deviation divided by the mean.
fn deviation(durations: &[f64]) -> f64 {
    let count = durations.len().max(1) as f64;
    let mean = durations.iter().sum::<f64>() / count;
    let squares = durations.iter().map(|seconds| (seconds - mean).powi(2));
    (squares.sum::<f64>() / count).sqrt() / mean.max(LEAST)
}

/// The quantile `part` of durations in ascending order; `None` if there are none.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(part * last as f64).round() as usize])
}

fn seconds(from: Timestamp, until: Timestamp) -> f64 {
    until.duration_since(from).as_secs_f64()
}
