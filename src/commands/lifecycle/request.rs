//! The plan of `pause`, `resume`, `disable` and `enable`.

use crate::api::{ApiFlavor, Executor, Skyhook, Status};
use crate::args::named;
use crate::cluster::hold::{FIELD_MANAGER, HOLDER, REASON};
use crate::cluster::{Cluster, Source, Unread};
use crate::commands::shared::selection;
use crate::error::Result;
use crate::model::behavior;
use crate::plan::planners::{held, migration};
use crate::plan::{Change, Edit, Metadata, OnConflict, Plan, Step, Target};
use crate::view::{NodeSet, list, plural};

/// The custom resources of a change.
#[derive(Debug, clap::Args)]
pub struct Names {
    /// The custom resources
    #[arg(value_name = "NAME", value_parser = named::skyhook, required_unless_present = "all")]
    names: Vec<String>,

    /// All custom resources
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

/// The change of the pause or disable annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Pause,
    Resume,
    Disable,
    Enable,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Pause => "pause",
            Verb::Resume => "resume",
            Verb::Disable => "disable",
            Verb::Enable => "enable",
        }
    }

    /// The annotation that stops work on the custom resource.
    fn annotation(self) -> &'static str {
        match self {
            Verb::Pause | Verb::Resume => "pause",
            Verb::Disable | Verb::Enable => "disable",
        }
    }

    fn sets(self) -> bool {
        matches!(self, Verb::Pause | Verb::Disable)
    }
}

/// A change of one annotation on custom resources.
pub struct Request<'a> {
    pub verb: Verb,
    pub of: &'a Names,
    pub reason: Option<&'a str>,
    pub force: bool,
}

impl Request<'_> {
    pub fn plan(&self, cluster: &Cluster) -> Result<Plan> {
        let verb = self.verb;
        if let (true, Some(why)) = (verb.sets(), cluster.source(Source::Skyhooks).unread()) {
            if self.of.all {
                selection::complete(cluster, Source::Skyhooks)?;
            }
            return Ok(self.unseen(cluster.flavor(), why));
        }
        let (skyhooks, left) = self.skyhooks(cluster)?;
        let names: Vec<&str> = skyhooks.iter().map(|s| s.name()).collect();
        let mut plan = Plan::new(self.title(&names), self.subject(&names));
        plan.consequences.notes.extend(left);
        let mut steps = Vec::new();
        for skyhook in skyhooks {
            steps.extend(self.step(cluster, skyhook, &mut plan)?);
        }
        let changed: Vec<String> = steps.iter().map(|s: &Step| s.target.name.clone()).collect();
        plan.stage(steps);
        if verb.sets() {
            // In an emergency, pause and disable must work during a migration, too: they only warn about it.
            migration::warn_of_hold(cluster, &mut plan.consequences);
            return Ok(plan);
        }
        if !self.force {
            for name in &changed {
                migration::refuse_two_executors(cluster, verb.word(), name)?;
            }
        }
        migration::refuse_held(cluster, &mut plan, self.force)?;
        Ok(plan)
    }

    /// The selected custom resources, and notes about those that `--all` skips.
    fn skyhooks<'a>(&self, cluster: &'a Cluster) -> Result<(Vec<&'a Skyhook>, Vec<String>)> {
        if !self.of.all {
            let mut skyhooks = Vec::new();
            for name in &self.of.names {
                let skyhook = selection::existing(cluster, name)?;
                if skyhooks.iter().all(|other: &&Skyhook| other.name() != name) {
                    skyhooks.push(skyhook);
                }
            }
            return Ok((skyhooks, Vec::new()));
        }
        selection::complete(cluster, Source::Skyhooks)?;
        selection::not_left_out(cluster, "")?;
        let all = cluster.skyhooks.items().iter();
        if self.verb.sets() || self.force {
            return Ok((all.collect(), Vec::new()));
        }
        let key = cluster.flavor().key(self.verb.annotation());
        let stopped = all.filter(|s| s.metadata.annotations.get(&key).map(String::as_str) == Some("true"));
        let (in_use, free): (Vec<&Skyhook>, Vec<&Skyhook>) =
            stopped.partition(|s| cluster.hold(s).is_some_and(|(_, state)| !state.is_left_behind()));
        let (ours, others): (Vec<&Skyhook>, Vec<&Skyhook>) =
            free.into_iter().partition(|skyhook| self.is_ours(cluster, skyhook));
        let did_not = match self.verb {
            Verb::Resume => "this plugin did not pause",
            _ => "this plugin did not disable",
        };
        let left = [
            self.left_note(&others, did_not),
            self.left_note(&in_use, "a command that may still be running has paused"),
        ];
        Ok((ours, left.into_iter().flatten().collect()))
    }

    /// A note about custom resources that `--all` skips; `why` is a clause without its object.
    fn left_note(&self, skyhooks: &[&Skyhook], why: &str) -> Option<String> {
        let names: Vec<String> = skyhooks.iter().map(|s| s.reference()).collect();
        let (stay, them, their_names) = match names.len() {
            0 => return None,
            1 => ("stays", "it", "its name"),
            _ => ("stay", "them", "their names"),
        };
        let (stopped, word) = match self.verb {
            Verb::Resume => ("paused", "resume"),
            _ => ("disabled", "enable"),
        };
        Some(format!(
            "{} {stay} {stopped}, because {why} {them}; to {word} {them}, specify {their_names} or add --force",
            list(&names)
        ))
    }

    /// Whether this plugin stopped the custom resource.
    fn is_ours(&self, cluster: &Cluster, skyhook: &Skyhook) -> bool {
        let key = cluster.flavor().key(self.verb.annotation());
        match skyhook.annotation_written(&key) {
            Some((manager, _)) => manager == FIELD_MANAGER,
            None => {
                let reason = REASON.replace("pause", self.verb.annotation());
                skyhook.metadata.annotations.contains_key(&reason)
            }
        }
    }

    /// The title of the plan: `pause gpu-tune`, `pause 3 custom resources`.
    fn title(&self, names: &[&str]) -> String {
        match names {
            [name] => format!("{} {name}", self.verb.word()),
            names => format!("{} {}", self.verb.word(), plural(names.len(), "custom resource")),
        }
    }

    fn subject<'n>(&self, names: &[&'n str]) -> &'n str {
        match names {
            [name] => name,
            _ => self.verb.word(),
        }
    }

    /// The step for a custom resource, unless nothing changes; warnings go to the plan.
    fn step(&self, cluster: &Cluster, skyhook: &Skyhook, plan: &mut Plan) -> Result<Option<Step>> {
        let Request { verb, reason, force, .. } = *self;
        let flavor = cluster.flavor();
        let annotations = &skyhook.metadata.annotations;
        let key = flavor.key(verb.annotation());
        let reason_key = REASON.replace("pause", verb.annotation());
        let mut change = Metadata { no_annotations: annotations.is_empty(), ..Metadata::default() };
        let hold = skyhook.hold().filter(|_| verb.annotation() == "pause");
        for (key, to) in [(key.as_str(), verb.sets().then_some("true")), (reason_key.as_str(), reason)] {
            let from = annotations.get(key).map(String::as_str);
            // Pausing without a reason keeps the existing reason.
            let kept = key == reason_key && verb.sets() && reason.is_none() && hold.is_none();
            if from != to && !kept {
                change = change.annotation(key, Edit::new(from, to));
            }
        }
        let holder = annotations.get(HOLDER).map(String::as_str);
        if hold.is_some() || (holder.is_some() && verb == Verb::Resume) {
            let from = annotations.get(&key).map(String::as_str);
            let to = verb.sets().then_some("true");
            change = change.annotation(key.as_str(), Edit::new(from, to));
            change = change.annotation(HOLDER, Edit::new(holder, None));
        }
        if verb == Verb::Resume && !force && !change.is_empty() {
            // A command that has paused the custom resource since needs its pause.
            change = change.annotation(HOLDER, Edit::new(holder, None));
        }
        if verb == Verb::Pause && !change.is_empty() {
            // Take over a pause of another command, even if it is set only after this read: otherwise the
            // pause would end with that command.
            let noted = annotations.get(REASON).map(String::as_str);
            let reason = reason.or(noted.filter(|_| hold.is_none()));
            for (key, from, to) in [(HOLDER, holder, None), (REASON, noted, reason)] {
                change =
                    change.annotation(key, Edit::new(from, to).on_conflict(OnConflict::ReplaceCommandPause));
            }
        }
        warn(cluster, skyhook, verb, plan);
        if verb == Verb::Resume {
            held::refuse_end(cluster, skyhook, force, &mut plan.consequences)?;
        } else if let Some(hold) = hold {
            plan.consequences.warn(format!(
                "{} is paused by {}; it stays paused after that command has ended",
                skyhook.reference(),
                hold.describe()
            ));
        }

        let why = if verb.sets() {
            "the operator starts no new work for it"
        } else {
            "the operator resumes work on it"
        };
        let target = Target::of_skyhook(flavor, skyhook);
        Ok((!change.is_empty()).then(|| Step::new(target, Change::Metadata(change), why)))
    }

    /// The plan for custom resources that cannot be read, for example because of an unknown field: an
    /// emergency cannot wait. The server checks that the names exist.
    fn unseen(&self, flavor: ApiFlavor, why: &Unread) -> Plan {
        let verb = self.verb;
        let set = |to: &str| Edit::new(None, Some(to)).on_conflict(OnConflict::Overwrite);
        let key = flavor.key(verb.annotation());
        let mut change = Metadata::default().annotation(key, set("true"));
        if verb == Verb::Pause {
            // Remove the holder: otherwise the pause would end with the command that holds it.
            let gone = Edit::new(Some("any"), None).on_conflict(OnConflict::Overwrite);
            change = change.annotation(HOLDER, gone);
        }
        if let Some(reason) = self.reason {
            let key = REASON.replace("pause", verb.annotation());
            change = change.annotation(key, set(reason));
        }
        let names: Vec<&str> = self.of.names.iter().map(String::as_str).collect();
        let step = |name: &&str| {
            Step::new(
                Target::skyhook(flavor, name, None),
                Change::Metadata(change.clone()),
                "the operator starts no new work for it",
            )
        };
        let mut plan = Plan::new(self.title(&names), self.subject(&names));
        plan.stage(names.iter().map(step).collect());
        plan.consequences.warn(format!(
            "custom resources cannot be read ({why}): continuing without reading {}",
            list(&names)
        ));
        plan
    }
}

/// Adds warnings about the effect of the change.
fn warn(cluster: &Cluster, skyhook: &Skyhook, verb: Verb, plan: &mut Plan) {
    let effects = &mut plan.consequences;
    let reference = skyhook.reference();
    match verb {
        Verb::Resume if skyhook.disabled() => effects.warn(format!(
            "{reference} is disabled as well: nothing runs until you run `kubectl skyhook enable {}`",
            skyhook.name()
        )),
        Verb::Enable if skyhook.paused() => effects.warn(format!(
            "{reference} is paused as well: nothing runs until you run `kubectl skyhook resume {}`",
            skyhook.name()
        )),
        Verb::Pause | Verb::Disable if skyhook.deleting() => effects.warn(format!(
            "{reference} is being deleted: a pending uninstall waits until the custom resource is {}",
            if verb == Verb::Pause { "resumed" } else { "enabled" }
        )),
        _ => {}
    }
    let runs_jobs = cluster.flavor().executor() == Executor::Job;
    let statuses = &skyhook.status.node_status;
    let failed = statuses.get(&Status::Erroring).copied().unwrap_or_default();
    if verb == Verb::Pause && runs_jobs && failed > 0 {
        effects.warn(format!(
            "{reference}: {} failed: after `resume`, the operator counts {} as waiting, and nothing runs there until the \
             package is retried",
            match failed {
                1 => "1 node has".to_owned(),
                n => format!("{n} nodes have"),
            },
            if failed == 1 { "it" } else { "them" },
        ));
    }
    if verb == Verb::Pause && runs_jobs {
        let package_runs = cluster.package_runs();
        let running = package_runs.all().iter();
        let nodes = running.filter(|run| run.skyhook == skyhook.name() && run.alive());
        let nodes = NodeSet::of(nodes.map(|run| run.node));
        if !nodes.is_empty() {
            effects.warn(format!(
                "{reference}: stages that are running on {} are stopped, and start again after `resume`",
                nodes.limited(6)
            ));
        }
    }
    if verb.sets() && !behavior::knows_pause(cluster) {
        effects.warn(
            "the operator is older than v0.8.0 and does not support the annotation: it may continue to start work",
        );
    }
}
