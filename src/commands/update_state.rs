//! `update-state`: sets one entry of node states.

use super::shared::scope;
use crate::api::{Entry, Skyhook, Stage, State, keys};
use crate::args::nodes::Selection;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Node, NodeRecord, Source};
use crate::commands::shared::command::{Write, change, command};
use crate::error::{Error, Result};
use crate::plan::planners::{self, node, pause_guard};
use crate::plan::{Change, Plan, Refusal, Step, Target};
use crate::view::{NodeSet, plural};

/// Set the state of one package by hand
///
/// Changes one entry per node, on all nodes that have it or on the selected nodes, and only if the entry has not
/// changed in the meantime. Stages and states that the operator would not handle as their names suggest are refused;
/// --force sets them anyway.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook update-state gpu-tune driver 2.0.1 config complete --node gpu-0001
  kubectl skyhook update-state gpu-tune driver 2.0.1 apply in_progress --failed-only")]
pub struct Args {
    /// The custom resource
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    name: String,

    /// The package
    #[arg(value_name = "PACKAGE")]
    package: String,

    /// The version of the package
    #[arg(value_name = "VERSION")]
    version: String,

    /// New stage: apply, upgrade, config, interrupt, post-interrupt, uninstall or uninstall-interrupt
    #[arg(value_name = "STAGE")]
    stage: String,

    /// New state: complete, in_progress, skipped, erroring or unknown
    #[arg(value_name = "STATE")]
    state: String,

    #[command(flatten)]
    selection: Selection,

    /// Add the entry on nodes that do not have it; these nodes must be selected by --node, --match or -l
    #[arg(long)]
    add: bool,

    /// Also set unknown or misleading values, and proceed during a migration
    ///
    /// A stage or state is misleading if the operator does not handle it as its name suggests.
    #[arg(long)]
    force: bool,

    /// Do not pause the custom resource, even if the operator could write to the same nodes
    #[arg(long)]
    no_pause: bool,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "update-state": Args => async |ctx, args: &Args| {
        change(ctx, args, None, &Source::REQUIRED_FOR_CHANGES, &args.safety).await
    },
    needs: Source::OF_ROLLOUTS,
    writes: &[Write::Nodes, Write::Skyhooks],
    plans: plan,
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let skyhook = scope::existing(cluster, &args.name)?;
    let (stage, state) = (Stage::from(args.stage.as_str()), State::from(args.state.as_str()));
    if !args.force {
        refuse_unknown(skyhook, args)?;
        refuse_misleading(&stage, &state)?;
    }
    if args.add && args.selection.query().is_empty() {
        return Err(Error::usage(
            "--add requires --node, --match or -l; otherwise it would add the entry to all nodes (or, with --failed-only, to \
             all failed nodes)",
        ));
    }
    let key = format!("{}|{}", args.package, args.version);
    let mut steps = Vec::new();
    let mut nodes: Vec<&Node> = Vec::new();
    let mut without: Vec<&str> = Vec::new();
    let selected = scope::selected(cluster, args.selection.query())?;
    planners::refuse_unreadable(cluster, skyhook.name(), &selected)?;
    for node in selected {
        let on = cluster.on_node(node, skyhook.name());
        if args.selection.failed_only && !on.is_some_and(NodeRecord::fails) {
            continue;
        }
        let known = on.and_then(|on| on.state.as_deref());
        let entry = known.and_then(|s| s.entry(&key));
        let change = match (known, entry) {
            (_, Some(entry)) if is_so(entry, &stage, &state) => continue,
            (Some(known), Some(_)) => node::moved(known, std::slice::from_ref(&key), &stage, &state),
            (known, None) if args.add => {
                let text = new_entry(skyhook, args);
                let annotation = keys::node_state(cluster.flavor(), skyhook.name());
                node::added(known, &annotation, &key, &stage, &state, &text)
            }
            _ => {
                without.push(&node.name);
                continue;
            }
        };
        nodes.push(node);
        steps.push(Step::new(Target::of_node(node), Change::Metadata(change), "requested by the user"));
    }
    if steps.is_empty() && !args.selection.query().named.is_empty() && !without.is_empty() {
        return Err(no_entry(args, &without));
    }
    let mut plan = Plan {
        title: format!(
            "set {} {} of {} to {stage}/{state} on {}",
            args.package,
            args.version,
            args.name,
            plural(nodes.len(), "node")
        ),
        subject: args.name.clone(),
        ..Plan::default()
    };
    if steps.is_empty() {
        return Ok(pause_guard::end_what_is_left(cluster, plan, skyhook));
    }
    plan.stage(steps);
    planners::refuse_held(cluster, &mut plan, args.force)?;
    pause_guard::around_if_needed(cluster, plan, skyhook, &nodes, args.no_pause)
}

/// The error if none of the named nodes has the entry.
fn no_entry(args: &Args, nodes: &[&str]) -> Error {
    let set = NodeSet::of(nodes);
    let (has, add) = match nodes.len() {
        1 => ("has", "use --add to add it"),
        _ => ("have", "use --add to add it to each node"),
    };
    let on = set.limited(6);
    Error::failed(format!("{on} {has} no entry for {} {}; {add}", args.package, args.version))
}

fn is_so(entry: &Entry, stage: &Stage, state: &State) -> bool {
    entry.stage == *stage && entry.state == *state
}

/// The entry in the operator's format, with its order of fields.
fn new_entry(skyhook: &Skyhook, args: &Args) -> String {
    let image = skyhook.package(&args.package).map_or("", |p| p.image.as_str());
    serde_json::json!({
        "name": args.package,
        "version": args.version,
        "image": image,
        "stage": args.stage,
        "state": args.state,
    })
    .to_string()
}

/// Refuses a package or version that is not in the spec, and a stage or state that the operator does not know.
fn refuse_unknown(skyhook: &Skyhook, args: &Args) -> Result<()> {
    let package = scope::package(skyhook, &args.package)?;
    if package.version != args.version {
        return Err(Error::failed(format!(
            "{} of {skyhook} is at version {}, not {}",
            args.package, package.version, args.version
        ))
        .hint("use --force to set the state of another version anyway"));
    }
    for (what, word, known) in [("stage", &args.stage, Stage::KNOWN), ("state", &args.state, State::KNOWN)] {
        if !known.contains(&word.as_str()) {
            return Err(Error::usage(format!(
                "invalid {what} {word:?}: expected one of {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// Refuses combinations of stage and state that the operator handles differently than their names suggest.
fn refuse_misleading(stage: &Stage, state: &State) -> Result<()> {
    let why = match (stage, state) {
        (Stage::Interrupt, State::InProgress) => {
            "at interrupt/in_progress, the operator interrupts the node before it is cordoned and drained"
        }
        (Stage::PostInterrupt, State::InProgress) => {
            "at post-interrupt/in_progress, the operator runs apply again"
        }
        (Stage::Uninstall, State::Complete) => {
            "at uninstall/complete, the operator runs apply; remove the entry instead"
        }
        (stage, State::Skipped) if *stage != Stage::Interrupt => {
            "skipped is valid only for the interrupt stage; at any other stage the package never leaves this state"
        }
        (_, State::Unknown | State::Erroring) => {
            "the operator sets erroring and unknown itself; if set manually, these states only count as failures"
        }
        _ => return Ok(()),
    };
    Err(Refusal::MisleadingState { why: why.to_owned() }.into())
}
