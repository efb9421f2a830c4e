//! `pause`, `resume`, `disable` and `enable`: set or remove an annotation, and the annotation with its
//! reason.

use clap::Args;

use super::shared::command::{Write, command};
use super::shared::scope;
use crate::api::{ApiFlavor, Executor, Skyhook, Status};
use crate::args::safety::{Confirmation, Safety};
use crate::cluster::hold::{FIELD_MANAGER, HOLDER, REASON};
use crate::cluster::{Cluster, Node, NodeRecord, Source, Unread};
use crate::ctx::{CommandOptions, Ctx};
use crate::error::{Exit, Result};
use crate::model::Model;
use crate::plan::planners::merge::{permanently_failed, stays_failed};
use crate::plan::planners::{self, pause_guard};
use crate::plan::{Change, Edit, Metadata, OnConflict, Plan, Step, Target};
use crate::view::{NodeSet, list, plural};

/// Pause custom resources
///
/// With an operator up to v0.17, running stages run to completion; from v0.18 on, running jobs are stopped
/// and restart after `resume`. On nodes where a paused custom resource is not complete, custom resources that
/// come later in order wait. A deletion with a pending uninstall waits, too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl skyhook pause gpu-tune --reason \"kernel upgrade, ticket 4711\"
  kubectl skyhook pause gpu-tune --dry-run
  kubectl skyhook pause --all --reason \"power maintenance\"")]
pub struct Pause {
    #[command(flatten)]
    with: Stop,
}

/// Disable custom resources
///
/// No new work is started, and custom resources that come later in order do not wait for it. A running pod
/// continues to the end of its stage.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl skyhook disable gpu-tune --reason \"replaced by gpu-tune-2\"")]
pub struct Disable {
    #[command(flatten)]
    with: Stop,
}

/// Resume paused custom resources
///
/// Refuses while pods of the older operator still run for the custom resource: two operators would modify the
/// same host. --all ends only pauses that this plugin set, and lists the others. Name them, or add --force,
/// to end those too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl skyhook resume gpu-tune
  kubectl skyhook resume --all --dry-run")]
pub struct Resume {
    #[command(flatten)]
    with: Go,
}

/// Enable disabled custom resources
///
/// Refuses while pods of the older operator still run for the custom resource: two operators would modify the
/// same host. --all enables only custom resources that this plugin disabled, and lists the others. Name them,
/// or add --force, to enable those too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl skyhook enable gpu-tune")]
pub struct Enable {
    #[command(flatten)]
    with: Go,
}

#[derive(Debug, Args)]
struct Stop {
    #[command(flatten)]
    of: Names,

    /// Reason, stored on the object for other users to see
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    safety: Confirmation,
}

#[derive(Debug, Args)]
struct Go {
    #[command(flatten)]
    of: Names,

    /// Proceed despite a migration, pods of the older operator, or another command that needs the pause
    ///
    /// Without this flag, the command refuses while a migration blocks the operator, while pods of the older
    /// operator may still run, or while another command of this plugin is running and keeps the custom
    /// resource paused. With --all, also includes custom resources that this plugin did not stop.
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    safety: Confirmation,
}

/// The sources of `pause`, after which nothing new starts: an emergency cannot wait for thousands of nodes to be read.
pub const STOP_NEEDS: [Source; 4] = [Source::Skyhooks, Source::Legacy, Source::Operator, Source::Pods];
/// The sources of `resume` and `enable`: nodes are needed to predict the work that starts again, ConfigMaps for a
/// configMap that was edited meanwhile.
const GO_NEEDS: [Source; 8] = {
    let [skyhooks, legacy, policies, nodes, operator, pods, jobs] = Source::OF_ROLLOUTS;
    [skyhooks, legacy, policies, nodes, operator, pods, jobs, Source::ConfigMaps]
};

command! {
    "pause": Pause => async |ctx, args: &Pause| run(ctx, args.with.request(Verb::Pause), &args.with.safety).await,
    needs: STOP_NEEDS,
    writes: &[Write::Skyhooks],
    plans: |cluster, args: &Pause| args.with.request(Verb::Pause).plan(cluster),
}

command! {
    "resume": Resume => async |ctx, args: &Resume| run(ctx, args.with.request(Verb::Resume), &args.with.safety).await,
    needs: GO_NEEDS,
    lists: planners::LISTS,
    writes: &[Write::Skyhooks],
    plans: |cluster, args: &Resume| args.with.request(Verb::Resume).plan(cluster),
}

command! {
    "disable": Disable => async |ctx, args: &Disable| run(ctx, args.with.request(Verb::Disable), &args.with.safety).await,
    // Nodes are needed to predict the custom resources that no longer wait.
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: &[Write::Skyhooks],
    plans: |cluster, args: &Disable| args.with.request(Verb::Disable).plan(cluster),
}

command! {
    "enable": Enable => async |ctx, args: &Enable| run(ctx, args.with.request(Verb::Enable), &args.with.safety).await,
    needs: GO_NEEDS,
    lists: planners::LISTS,
    writes: &[Write::Skyhooks],
    plans: |cluster, args: &Enable| args.with.request(Verb::Enable).plan(cluster),
}

impl Stop {
    fn request(&self, verb: Verb) -> Request<'_> {
        Request { verb, of: &self.of, reason: self.reason.as_deref(), force: false }
    }
}

impl Go {
    fn request(&self, verb: Verb) -> Request<'_> {
        Request { verb, of: &self.of, reason: None, force: self.force }
    }
}

async fn run(ctx: &mut Ctx, request: Request<'_>, safety: &Confirmation) -> Result<Exit> {
    let (needs, required): (&[Source], &[Source]) = match request.verb {
        // A pause holds up later custom resources as well; after a disable, they continue.
        Verb::Pause => (&STOP_NEEDS, &[]),
        Verb::Disable => (&Source::OF_ROLLOUTS, &[]),
        Verb::Resume | Verb::Enable => (&GO_NEEDS, &Source::REQUIRED_FOR_CHANGES),
    };
    let cluster = ctx.load_to_change(needs, required).await?;
    let mut plan = request.plan(&cluster)?;
    ctx.forecast(&cluster, &mut plan).await;
    let starts = !request.verb.sets();
    if starts && plan.is_empty() {
        // Name the skipped custom resources here: an empty plan has no preview.
        for left in &plan.consequences.notes {
            ctx.note(left.as_str());
        }
    }
    // Existing scripts resume and enable without a confirmation and a terminal, and expect exit code 0.
    let options = CommandOptions { aborts: starts, ..CommandOptions::default() };
    ctx.execute_with(&plan, &Safety::from(safety), options, None).await
}

/// The custom resources of a change.
#[derive(Debug, Args)]
pub struct Names {
    /// The custom resources
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook, required_unless_present = "all")]
    names: Vec<String>,

    /// All custom resources; to resume or enable: all that this plugin stopped
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
                scope::complete(cluster, Source::Skyhooks)?;
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
            planners::warn_of_hold(cluster, &mut plan.consequences);
            return Ok(plan);
        }
        if !self.force {
            for name in &changed {
                planners::refuse_two_executors(cluster, verb.word(), name)?;
            }
        }
        planners::refuse_held(cluster, &mut plan, self.force)?;
        Ok(plan)
    }

    /// The selected custom resources, and notes about those that `--all` skips.
    fn skyhooks<'a>(&self, cluster: &'a Cluster) -> Result<(Vec<&'a Skyhook>, Vec<String>)> {
        if !self.of.all {
            let mut skyhooks = Vec::new();
            for name in &self.of.names {
                let skyhook = scope::existing(cluster, name)?;
                if skyhooks.iter().all(|other: &&Skyhook| other.name() != name) {
                    skyhooks.push(skyhook);
                }
            }
            return Ok((skyhooks, Vec::new()));
        }
        scope::complete(cluster, Source::Skyhooks)?;
        scope::not_left_out(cluster, "")?;
        let all = cluster.skyhooks.iter();
        if self.verb.sets() || self.force {
            return Ok((all.collect(), Vec::new()));
        }
        let key = cluster.flavor().key(self.verb.annotation());
        let stopped = all.filter(|s| s.metadata.annotations.get(&key).map(String::as_str) == Some("true"));
        let (in_use, free): (Vec<&Skyhook>, Vec<&Skyhook>) =
            stopped.partition(|s| cluster.hold(s).is_some_and(|(_, state)| !state.is_left_behind()));
        let (ours, others): (Vec<&Skyhook>, Vec<&Skyhook>) =
            free.into_iter().partition(|skyhook| self.is_ours(cluster, skyhook));
        let left = [
            self.left_note(&others, "not stopped by this plugin"),
            self.left_note(&in_use, "paused by a command that may still be running"),
        ];
        Ok((ours, left.into_iter().flatten().collect()))
    }

    /// A note about custom resources that `--all` skips.
    fn left_note(&self, skyhooks: &[&Skyhook], why: &str) -> Option<String> {
        let names: Vec<String> = skyhooks.iter().map(|s| s.to_string()).collect();
        let verb = self.verb.word();
        (!names.is_empty())
            .then(|| format!("skips {} ({why}); to {verb} these, specify names or add --force", list(&names)))
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
            pause_guard::refuse_end(cluster, skyhook, force, &mut plan.consequences)?;
        } else if let Some(hold) = hold {
            plan.consequences.warn(format!(
                "{skyhook} is paused by {}; it stays paused after that command has ended",
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
            "cannot read custom resources ({why}); continuing without reading {}",
            list(&names)
        ));
        plan
    }
}

/// Adds warnings about the effect of the change.
fn warn(cluster: &Cluster, skyhook: &Skyhook, verb: Verb, plan: &mut Plan) {
    let effects = &mut plan.consequences;
    let (reference, name) = (skyhook.to_string(), skyhook.name());
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
    if verb == Verb::Pause {
        let selected: Vec<&Node> = cluster.selected(skyhook).collect();
        for (package, nodes) in permanently_failed(cluster, skyhook, &selected) {
            effects.warn(format!(
                "after `resume`, the operator counts failed nodes as waiting, but {}",
                stays_failed(skyhook, &package, &nodes)
            ));
        }
    }
    let package_runs = cluster.package_runs_for(name);
    let running = NodeSet::of(package_runs.all().iter().filter(|run| run.works()).map(|run| run.node));
    if verb == Verb::Pause {
        let on = running.limited(6);
        if runs_jobs && !running.is_empty() {
            let interrupts = package_runs.all().iter().any(|run| run.works() && run.interrupt);
            let among = if interrupts { ", interrupts among them" } else { "" };
            effects.warn(format!(
                "{reference}: stages that are running on {on} are stopped, and start again after `resume`{among}"
            ));
        } else if !running.is_empty() {
            effects.notes.push(format!("stages of {name} that are running on {on} run to completion"));
            let failing = package_runs.all().iter().filter(|run| run.works() && run.trouble().is_some());
            let failing = NodeSet::of(failing.map(|run| run.node));
            if !failing.is_empty() {
                effects.notes.push(format!(
                    "the stage that fails on {} is still tried again: a pause does not stop its pod",
                    failing.limited(6)
                ));
            }
        }
    }
    if verb.sets() && skyhook.status.status != Some(Status::Complete) {
        let after = if verb == Verb::Pause { "resume" } else { "enable" };
        let model = Model::new(cluster);
        let holds_cordon = |(node, on): &(&Node, &NodeRecord)| on.cordon && node.cordoned() != Some(false);
        let cordoned = || cluster.tracked(name).filter(holds_cordon).map(|(node, _)| node);
        let drained = cordoned().any(|node| model.drain_progress(name, node).is_some());
        let cordoned = NodeSet::of(cordoned().map(|node| &*node.name));
        let unread = cluster.nodes.ok().is_none();
        let nodes = if unread { format!("nodes that {name} has cordoned") } else { cordoned.limited(6) };
        if unread || !cordoned.is_empty() {
            let stay = if cordoned.len() == 1 { "stays" } else { "stay" };
            let drain = if drained { ", and no more pods are evicted there" } else { "" };
            effects.notes.push(format!(
                "{nodes} {stay} cordoned at least until `kubectl skyhook {after} {name}`{drain}"
            ));
        }
        let waiting = model.waiting_for(name);
        // If stages finish, the forecast shows who waits for them.
        let finishes = !runs_jobs && !running.is_empty();
        if verb == Verb::Pause && !finishes && !waiting.is_empty() {
            let wait = if waiting.len() == 1 { "waits" } else { "wait" };
            let names = list(&waiting);
            effects.notes.push(format!("{names} {wait} until {name} is complete, also while it is paused"));
        }
    }
    if verb.sets() && !crate::model::profile::knows_pause(cluster) {
        effects.warn(
            "the operator is older than v0.8.0 and does not support the annotation: it may continue to start work",
        );
    }
}
