//! `pause`, `resume`, `disable` and `enable`: set or remove one annotation, and the one with its reason.

use crate::api::{ApiFlavor, Executor, Skyhook, Status};
use crate::args::named;
use crate::args::safety::Safety;
use crate::cluster::hold::{HOLDER, REASON};
use crate::cluster::{Cluster, Source, Unread};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::{held, migration, reset, selection};
use crate::ctx::{CommandOptions, Ctx};
use crate::error::{Exit, Result};
use crate::plan::build::released;
use crate::plan::{Change, Edit, Grade, Metadata, OnConflict, Plan, Step, Target};
use crate::view::NodeSet;

/// Pause a custom resource
///
/// With an operator up to v0.17, running stages run to completion; from v0.18 on, running jobs are stopped
/// and restart after `resume`. On nodes where this one is not complete, custom resources that come later in
/// order wait. A deletion with a pending uninstall waits, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook pause gpu-tune --reason \"kernel upgrade, ticket 4711\"
  kubectl skyhook pause gpu-tune --dry-run")]
pub struct Pause {
    #[command(flatten)]
    with: Stop,
}

/// Disable a custom resource
///
/// No new work is started, and custom resources that come later in order do not wait for it. A running pod continues to
/// the end of its stage.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook disable gpu-tune --reason \"replaced by gpu-tune-2\"")]
pub struct Disable {
    #[command(flatten)]
    with: Stop,
}

/// Resume a paused custom resource
///
/// Refuses while pods of the older operator still run for it: two operators would modify the same host.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook resume gpu-tune")]
pub struct Resume {
    #[command(flatten)]
    with: Go,
}

/// Enable a disabled custom resource
///
/// Refuses while pods of the older operator still run for it: two operators would modify the same host.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook enable gpu-tune")]
pub struct Enable {
    #[command(flatten)]
    with: Go,
}

#[derive(Debug, clap::Args)]
struct Stop {
    /// The custom resource
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    name: String,

    /// Reason, stored on the object for other users to see
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    safety: Safety,
}

#[derive(Debug, clap::Args)]
struct Go {
    /// The custom resource
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    name: String,

    /// Proceed even if a migration blocks the operator, pods of the older operator may still run, or another command of
    /// this plugin is running and keeps the custom resource paused
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    safety: Safety,
}

/// The flag to set or remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Pause,
    Resume,
    Disable,
    Enable,
}

/// An emergency does not wait until thousands of nodes are read.
pub const STOP_NEEDS: [Source; 4] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Operator,
    Source::Pods,
];
command! {
    "pause": Pause => async |ctx, args: &Pause| stop(ctx, Verb::Pause, &args.with).await,
    needs: STOP_NEEDS,
    writes: &[Write::Skyhooks],
}

command! {
    "resume": Resume => async |ctx, args: &Resume| go(ctx, Verb::Resume, &args.with).await,
    // What begins then begins on nodes.
    needs: reset::NEEDS,
    writes: &[Write::Skyhooks],
}

command! {
    "disable": Disable => async |ctx, args: &Disable| stop(ctx, Verb::Disable, &args.with).await,
    needs: STOP_NEEDS,
    writes: &[Write::Skyhooks],
}

command! {
    "enable": Enable => async |ctx, args: &Enable| go(ctx, Verb::Enable, &args.with).await,
    // What begins then begins on nodes.
    needs: reset::NEEDS,
    writes: &[Write::Skyhooks],
}

async fn stop(ctx: &mut Ctx, verb: Verb, args: &Stop) -> Result<Exit> {
    let cluster = ctx.load_to_change(&STOP_NEEDS, &[]).await?;
    let plan = plan(&cluster, verb, &args.name, args.reason.as_deref(), false)?;
    ctx.execute(&plan, &args.safety).await
}

async fn go(ctx: &mut Ctx, verb: Verb, args: &Go) -> Result<Exit> {
    let cluster = ctx.load_to_change(&reset::NEEDS, &Source::DECIDING).await?;
    let plan = plan(&cluster, verb, &args.name, None, args.force)?;
    // Existing scripts call these without a confirmation and without a terminal, and expect no error.
    let manner = CommandOptions {
        aborts: true,
        ..CommandOptions::default()
    };
    ctx.execute_with(&plan, &args.safety, manner, None).await
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

    /// The annotation, which stops the work while present.
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

fn plan(
    cluster: &Cluster,
    verb: Verb,
    name: &str,
    reason: Option<&str>,
    force: bool,
) -> Result<Plan> {
    if let (true, Some(why)) = (verb.sets(), cluster.source(Source::Skyhooks).unread()) {
        return Ok(unseen(cluster.flavor(), verb, name, reason, why));
    }
    let skyhook = selection::existing(cluster, name)?;
    let flavor = cluster.flavor();
    let mut plan = Plan::new(format!("{} {name}", verb.word()), name);
    let annotations = &skyhook.metadata.annotations;
    let key = flavor.key(verb.annotation());
    let reason_key = REASON.replace("pause", verb.annotation());
    let mut change = Metadata {
        no_annotations: annotations.is_empty(),
        ..Metadata::default()
    };
    let hold = skyhook.hold().filter(|_| verb.annotation() == "pause");
    for (key, to) in [
        (key.as_str(), verb.sets().then_some("true")),
        (reason_key.as_str(), reason),
    ] {
        let from = annotations.get(key).map(String::as_str);
        // A pause without a reason keeps the existing one.
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
    if verb == Verb::Pause && !change.is_empty() {
        // Another command's pause, which may also be set only now, would end with that command.
        let noted = annotations.get(REASON).map(String::as_str);
        let reason = reason.or(noted.filter(|_| hold.is_none()));
        for (key, from, to) in [(HOLDER, holder, None), (REASON, noted, reason)] {
            change = change.annotation(
                key,
                Edit::new(from, to).on_conflict(OnConflict::ReplaceCommandPause),
            );
        }
    }
    warn(cluster, skyhook, verb, &mut plan);
    if verb == Verb::Resume {
        held::refuse_end(cluster, skyhook, force, &mut plan.consequences)?;
    } else if let Some(hold) = hold {
        plan.consequences.warn(format!(
            "{} is paused by {}; it stays paused after that command has ended",
            skyhook.reference(),
            hold.words()
        ));
    }
    if !change.is_empty() {
        let target = Target::of_skyhook(flavor, skyhook);
        let why = if verb.sets() {
            "the operator starts no new work for it"
        } else {
            "the operator resumes work on it"
        };
        plan.stage(vec![Step::new(target, Change::Metadata(change), why)]);
        released::add(cluster, &mut plan);
    }
    if verb.sets() {
        // An emergency does not wait for a migration.
        migration::warn_of_hold(cluster, &mut plan.consequences);
    } else {
        refuse_start(cluster, verb, name, &mut plan, force)?;
    }
    Ok(plan)
}

/// The plan if custom resources cannot be read, for example because of an unknown field: an emergency cannot wait. The
/// server checks that the name exists.
fn unseen(flavor: ApiFlavor, verb: Verb, name: &str, reason: Option<&str>, why: &Unread) -> Plan {
    let set = |to: &str| Edit::new(None, Some(to)).on_conflict(OnConflict::Overwrite);
    let key = flavor.key(verb.annotation());
    let mut change = Metadata::default().annotation(key, set("true"));
    if verb == Verb::Pause {
        // It would end with the command that it is for.
        let gone = Edit::new(Some("any"), None).on_conflict(OnConflict::Overwrite);
        change = change.annotation(HOLDER, gone);
    }
    if let Some(reason) = reason {
        let key = REASON.replace("pause", verb.annotation());
        change = change.annotation(key, set(reason));
    }
    let step = Step::new(
        Target::skyhook(flavor, name, None),
        Change::Metadata(change),
        "the operator starts no new work for it",
    );
    let mut plan = Plan::new(format!("{} {name}", verb.word()), name);
    plan.stage(vec![step]);
    plan.consequences.warn(format!(
        "custom resources cannot be read ({why}): continuing without reading {name}"
    ));
    plan
}

/// Refuses to start work that a migration forbids, unless it is forced.
fn refuse_start(
    cluster: &Cluster,
    verb: Verb,
    name: &str,
    plan: &mut Plan,
    force: bool,
) -> Result<()> {
    if !plan.is_empty() && !force {
        migration::refuse_two_executors(cluster, verb.word(), name)?;
    }
    migration::refuse_held(cluster, plan, force)
}

/// What one should know.
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
            "{reference} is being deleted: a pending uninstall waits until the custom resource is resumed or enabled"
        )),
        _ => {}
    }
    let runs_jobs = cluster.flavor().executor() == Executor::Job;
    let statuses = &skyhook.status.node_status;
    let failed = statuses.get(&Status::Erroring).copied().unwrap_or_default();
    if verb == Verb::Pause && runs_jobs && failed > 0 {
        effects.warn(format!(
            "{} failed: after `resume`, the operator counts {} as waiting, and nothing runs there until the \
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
        let nodes = running.filter(|e| e.skyhook == skyhook.name() && e.alive());
        let nodes = NodeSet::of(nodes.map(|e| e.node));
        if !nodes.is_empty() {
            effects.at_least(Grade::B2);
            effects.warn(format!(
                "stages that are running on {} are stopped, and start again after `resume`",
                nodes.limited(6)
            ));
        }
    }
    if verb.sets() && cluster.operator_before(0, 8) {
        effects.warn(
            "the operator is older than v0.8.0 and does not support the annotation: it may continue to start work",
        );
    }
}
