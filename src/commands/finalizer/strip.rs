use super::deletion::{Deletion, deletion_rules};
use crate::api::Skyhook;
use crate::args::safety::Safety;
use crate::cluster::admission::Operation;
use crate::cluster::{Absence, Cluster, Node, Source};
use crate::commands::admission;
use crate::commands::diagnose::view::shell_words;
use crate::commands::migration;
use crate::commands::node::selection;
use crate::ctx::{Ctx, Manner};
use crate::error::{Error, Exit, Result};
use crate::plan::build::node;
use crate::plan::{Change, Consequences, Plan, Sign, Stage, Step, Target, Until};

mod residue;

/// Remove our finalizer, and clean up as the operator would
///
/// Removes the operator's own finalizer from a custom resource that is being deleted, and no other one. Then every
/// node that carries its keys is cleaned, whether it is selected or not: status, drain and cordon marks, the label
/// and the node conditions. A node that nothing else holds is uncordoned, and its runtime-required taint goes where
/// no other custom resource still needs it.
///
/// The last resort: uninstall.sh does not run on any node, and what packages changed on the hosts stays. Refuses
/// while a milder step would do, or while the deletion gets on, and names the step. Refuses, too, where a webhook
/// that nothing answers would turn it down, and names the command that unblocks it.
///
/// The custom resource is kept in the journal; `undelete` brings it back.
///
/// Where it was interrupted, the same command again cleans the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # What holds the deletion, and what is milder
  kubectl skyhook finalizer status gpu-tune

  kubectl skyhook finalizer strip gpu-tune --dry-run
  kubectl skyhook finalizer strip gpu-tune --force")]
pub struct Args {
    /// The custom resource
    #[arg(value_name = "NAME")]
    name: String,

    /// Also where a milder step would do
    #[arg(long)]
    force: bool,

    /// Also remove the record of what is installed
    ///
    /// Without this, a node state with packages in it stays, as the operator would leave it: it says that files may
    /// still be on the host.
    #[arg(long)]
    purge_state: bool,

    #[command(flatten)]
    safety: Safety,
}

pub const NEEDS: [Source; 7] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Nodes,
    Source::Operator,
    Source::Pods,
    Source::Jobs,
    Source::Webhooks,
];
/// How long the server may take to let the custom resource go, in seconds.
const AT_MOST: u64 = 30;

pub async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load(&NEEDS).await?;
    let plan = plan(&cluster, args)?;
    ctx.carry_out(&plan, &args.safety, Manner::default()).await
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    migration::refuse_unmigrated(cluster, &args.name)?;
    // What cannot be read must not be taken for gone, nor a node for clean.
    selection::readable(cluster, Source::Skyhooks)?;
    selection::readable(cluster, Source::Nodes)?;
    let skyhook = cluster.skyhook(&args.name);
    if skyhook.is_none() && cluster.skyhooks.absence() == Absence::Presumed {
        return Err(Error::failed(format!(
            "the files given hold no {} objects",
            cluster.generation().kind()
        )));
    }
    let mut effects = Consequences::default();
    if let Some(skyhook) = skyhook {
        refuse(cluster, skyhook, args, &mut effects)?;
    }
    let nodes = residue::of(cluster, &args.name, args.purge_state);
    if skyhook.is_none() && nodes.is_empty() {
        selection::known_skyhook(cluster, &args.name)?;
    }
    let mut plan = Plan {
        title: format!("strip the finalizer of {}", args.name),
        subject: args.name.clone(),
        consequences: effects,
        ..Plan::default()
    };
    plan.stages
        .extend(skyhook.and_then(|s| release(cluster, s)));
    let steps = steps(cluster, &nodes, args);
    if !steps.is_empty() {
        plan.stages.push(Stage::of(steps));
    }
    if !plan.is_empty() {
        residue::consequences(cluster, args, &nodes, &mut plan.consequences);
    }
    Ok(plan)
}

/// Refuses where nobody asked for the deletion, and, unless it is forced, where it may still end
/// in a milder way.
fn refuse(
    cluster: &Cluster,
    skyhook: &Skyhook,
    args: &Args,
    effects: &mut Consequences,
) -> Result<()> {
    let refused = |why: String| Error {
        exit: Exit::Refused,
        ..Error::failed(format!("{why}; nothing was changed"))
    };
    if !skyhook.deleting() {
        let resource = cluster.generation().resource();
        return Err(refused(format!(
            "{} is not being deleted, and the operator would put the finalizer back",
            skyhook.reference()
        ))
        .hint(format!(
            "kubectl delete {resource} {} --wait=false",
            args.name
        )));
    }
    if skyhook.has_finalizer() {
        let update = Operation::Update;
        admission::refuse_unreachable(cluster, update, Some(skyhook), effects)?;
    }
    let deletion = Deletion::of(cluster, skyhook, deletion_rules());
    let (why, step) = match deletion.milder() {
        Some((finding, remedy)) => {
            let node = finding.subject.node.as_ref();
            let at = node.map(|n| format!(" on {n}")).unwrap_or_default();
            let why = format!("{}{at}: {}", finding.rule.code, finding.message);
            (why, remedy.clone())
        }
        None if deletion.waits() => {
            let why = format!("it may end by itself: {}", deletion.because);
            (why, deletion.wait())
        }
        None => return Ok(()),
    };
    let command = shell_words(&step.argv);
    if deletion.operator_down {
        effects.warn(format!(
            "no replica of the operator is up; once it is, a milder step would do: `{command}`"
        ));
    } else if args.force {
        effects.warn(format!("a milder step would do: `{command}` ({why})"));
    } else {
        return Err(refused(format!("a milder step would do; {why}"))
            .hint(command)
            .hint(format!("kubectl skyhook finalizer status {}", args.name))
            .hint("with --force it is stripped all the same: uninstall.sh then runs on no node"));
    }
    Ok(())
}

/// Our finalizer, off the custom resource; all that follows relies on it.
fn release(cluster: &Cluster, skyhook: &Skyhook) -> Option<Stage> {
    let generation = cluster.generation();
    let entry = generation.finalizer();
    let mut all = skyhook.metadata.finalizers.iter();
    let index = all.position(|f| *f == entry)?;
    let uid = skyhook.metadata.uid.as_deref();
    let target = Target::skyhook(generation, skyhook.name(), uid);
    let change = Change::Finalizer {
        entry: entry.clone(),
        index,
        was: None,
    };
    let why = "the operator's hold on the deletion";
    Some(Stage {
        steps: vec![Step::new(target.clone(), change, why)],
        until: Some(Until {
            target,
            sign: Sign::Released(entry),
            at_most: AT_MOST,
        }),
        always: false,
    })
}

/// The nodes, as the operator would leave them.
fn steps(cluster: &Cluster, nodes: &[&Node], args: &Args) -> Vec<Step> {
    let mut steps = Vec::new();
    let owners = node::owned(cluster, &args.name);
    for one in nodes {
        let target = Target::node(&one.name, one.uid.as_deref());
        let keys = node::clean(cluster, one, &owners, args.purge_state);
        if !keys.is_empty() {
            let why = "what the operator would have cleaned up";
            steps.push(Step::new(target.clone(), Change::Metadata(keys), why));
        }
        if let Some(conditions) = node::without_conditions(one, &owners) {
            let why = "the custom resource that it speaks of is gone";
            steps.push(Step::new(target.clone(), conditions, why));
        }
        if residue::needs_no_taint(cluster, one, &args.name)
            && let Some(taint) = node::without_taint(cluster, one)
        {
            let why = "no other custom resource needs it";
            steps.push(Step::new(target, taint, why));
        }
    }
    steps
}
