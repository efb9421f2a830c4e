//! `uninstall NAME PACKAGE`: requests the uninstall of packages on all nodes, or cancels it.

use std::time::Duration;

use serde_json::json;

use super::shared::command::{Write, command};
use super::shared::progress::UninstallAim;
use super::shared::scope;
use crate::api::{Package, Skyhook};
use crate::args::connection::duration;
use crate::args::safety::{Confirmation, DryRun, Safety};
use crate::cluster::history::History;
use crate::cluster::live::WATCHED;
use crate::cluster::{Certainty, Cluster, Node, Source};
use crate::ctx::{CommandOptions, Ctx, PlanWait};
use crate::error::{Error, Exit, Result};
use crate::plan::planners::node;
use crate::plan::planners::uninstall::{
    self, ImpactNotes, PlacementSummary, nodes, out_of_the_spec, path, removal_order, same, step,
};
use crate::plan::{Change, Condition, Field, Goal, Plan, PlanStage, Refusal, Target, planners};
use crate::rules::{Scope, uninstall_command};
use crate::view::list;

/// Uninstall a package from all nodes
///
/// Sets `uninstall.apply` in the spec; the operator then uninstalls the package. Every node on which the
/// package is complete starts immediately, ignoring the budget; for a package with an interrupt, each node is
/// cordoned, drained and interrupted. The command refuses requests that would hang, do nothing, or keep a new
/// version from being installed, and shows what to do instead.
///
/// With --wait, it shows the progress of each node, and ends when the package is gone from all of them or the
/// uninstall is blocked. Node reboots and a briefly unavailable API server do not end it. If the command is interrupted
/// or times out, the uninstall continues in the cluster, and the same command resumes waiting for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Preview the uninstall, and check whether the operator's webhook accepts it
  kubectl skyhook uninstall gpu-tune driver --dry-run
  kubectl skyhook uninstall gpu-tune driver --dry-run=server

  # Uninstall, wait, and remove the package from the spec
  kubectl skyhook uninstall gpu-tune driver --remove --timeout 1h

  kubectl skyhook uninstall gpu-tune --all-packages --remove
  kubectl skyhook uninstall gpu-tune driver --cancel")]
pub struct Request {
    /// The custom resource
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    name: String,

    /// The package
    #[arg(value_name = "PACKAGE")]
    package: Option<String>,

    /// Uninstall every package, one after the other, each before the packages that it depends on
    ///
    /// Waits for each package, and stops at the first that is blocked. Run the command again to continue from
    /// there.
    #[arg(long, conflicts_with_all = ["package", "cancel"])]
    all_packages: bool,

    /// Cancel the request: the package stays where it is still installed, and is installed again elsewhere
    #[arg(long, conflicts_with_all = ["enable", "wait", "remove"])]
    cancel: bool,

    /// Also set uninstall.enabled in the spec, unless it is set: the package needs an uninstall script
    ///
    /// The package must have uninstall.sh and uninstall_check.sh. From then on, the package can be removed
    /// from the spec, or with the custom resource, only after it is uninstalled.
    #[arg(long)]
    enable: bool,

    /// Wait until the package is gone from all nodes, and show its progress
    ///
    /// Exits with 2, and prints the reason, as soon as the rules find that the uninstall is blocked until
    /// someone intervenes.
    #[arg(long)]
    wait: bool,

    /// How long to wait; 0 waits forever [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    /// How long to tolerate retried failures [default: 2m; 0 with operators from v0.18, whose Jobs count
    /// attempts]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tolerate: Option<Duration>,

    /// After the uninstall, remove the package from the spec
    #[arg(long)]
    remove: bool,

    /// Proceed even if the request has no effect now (during a migration) or may keep the new version of the
    /// package from being installed
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    safety: Confirmation,
}

const TIMEOUT: Duration = Duration::from_secs(30 * 60);

command! {
    "uninstall": Request => run,
    needs: Scope::default().needs(),
    watches: &WATCHED,
    writes: &[Write::Skyhooks],
    plans: |cluster, request: &Request| {
        let skyhook = scope::existing(cluster, &request.name)?;
        let package = request.package.as_deref().unwrap_or_default();
        let spec = scope::package(skyhook, package)?;
        if request.cancel {
            cancel(cluster, skyhook, package, spec, request.force)
        } else {
            plan(cluster, skyhook, &[package], request)
        }
    },
}

impl Request {
    /// Whether the command waits for the uninstall.
    fn waits(&self) -> bool {
        self.wait || self.remove || self.all_packages
    }
}

pub const NEEDS: [Source; 8] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Policies,
    Source::Nodes,
    Source::Pods,
    Source::Jobs,
    Source::Events,
    Source::Operator,
];

pub async fn run(ctx: &mut Ctx, request: &Request) -> Result<Exit> {
    let name = request.name.as_str();
    let safety = Safety::from(&request.safety);
    if request.timeout.or(request.tolerate).is_some() && !request.waits() {
        return Err(Error::usage("--timeout and --tolerate require --wait"));
    }
    let cluster = ctx.load_to_change(&needs(request), &Source::REQUIRED_FOR_CHANGES).await?;
    let skyhook = scope::existing(&cluster, name)?;
    if let Some(package) = request.package.as_deref().filter(|_| request.cancel) {
        let spec = scope::package(skyhook, package)?;
        let plan = cancel(&cluster, skyhook, package, spec, request.force)?;
        return ctx.execute(&cluster, plan, &safety).await;
    }
    if request.package.is_none() && !request.all_packages {
        let names: Vec<&str> = skyhook.packages().map(|(name, _)| name).collect();
        return Err(Error::usage("no package specified")
            .hint(format!("{name} has {}; use --all-packages for all of them", list(&names))));
    }
    let packages: Vec<&str> = match request.package.as_deref() {
        Some(package) if request.remove && is_removed(&cluster, skyhook, package) => {
            let title = format!("{package} is no longer in the spec of {name} or on any node");
            let plan = Plan::new(title, name);
            return ctx.execute(&cluster, plan, &safety).await;
        }
        Some(package) => {
            scope::package(skyhook, package)?;
            vec![package]
        }
        None => removal_order(skyhook),
    };
    let mut plan = plan(&cluster, skyhook, &packages, request)?;
    ctx.forecast(&cluster, &mut plan).await;
    let mut progress = UninstallAim::of(&cluster, &plan, request.tolerate);
    let waiting = progress.as_mut().map(|aim| PlanWait { aim, cluster });
    ctx.execute_with(&plan, &safety, CommandOptions::default(), waiting).await
}

/// Whether a package is certainly neither in the spec nor on any node: it was uninstalled and removed, or
/// never existed.
fn is_removed(cluster: &Cluster, skyhook: &Skyhook, package: &str) -> bool {
    let is_recorded = |node: &Node| {
        let on = cluster.on_node(node, skyhook.name());
        on.is_some_and(|on| on.is_malformed() || on.entries().iter().any(|e| e.name == package))
    };
    skyhook.package(package).is_none()
        && cluster.nodes.absence() == Certainty::Proven
        && !cluster.nodes.iter().any(is_recorded)
}

fn needs(request: &Request) -> Vec<Source> {
    if request.waits() { Scope::default().needs() } else { NEEDS.to_vec() }
}

/// The plan that uninstalls these packages one after the other.
///
/// The server rejects the removal of a package from the spec while the package is on a node, so a server-side
/// dry run omits the removal.
fn plan(cluster: &Cluster, skyhook: &Skyhook, packages: &[&str], request: &Request) -> Result<Plan> {
    let rehearsed = request.safety.dry_run == DryRun::Server;
    refuse_at_rest(cluster, skyhook, request)?;
    let title = title(skyhook.name(), packages, request);
    let mut plan = Plan::new(title, skyhook.name());
    let mut gone: Vec<&str> = Vec::new();
    for name in packages {
        let package = scope::package(skyhook, name)?;
        let survey = PlacementSummary::of(cluster, skyhook, name, package);
        refuse_traps(cluster, skyhook, name, package, &survey, request)?;
        let fields = uninstall::request(name, package);
        let enables = !package.uninstall().enabled;
        let impact = ImpactNotes { cluster, skyhook, name, package, survey: &survey };
        if !fields.is_empty() || request.waits() {
            impact.uninstall(enables, &gone, &mut plan.consequences);
        }
        let mut stage = PlanStage::default();
        if !fields.is_empty() {
            let step = step(cluster, skyhook, Change::Spec(fields));
            // Guard the version: another version is another uninstall.
            stage.steps.push(step.guard(same(name, package).not_deleting()));
        }
        if request.waits() {
            let target = Target::of_skyhook(cluster.flavor(), skyhook);
            let (package, version) = (Some((*name).to_owned()), Some(package.version.clone()));
            let at_most = Goal::seconds(request.timeout.unwrap_or(TIMEOUT));
            stage = stage.awaiting(target, Condition::Uninstalled { package, version }, at_most);
        }
        if !stage.steps.is_empty() || stage.until.is_some() {
            plan.stages.push(stage);
        }
        if request.remove && rehearsed && !survey.is_absent() {
            plan.consequences.warn(format!(
                "the removal of {name} from the spec cannot be dry-run: the server rejects the removal while the package is on a node"
            ));
        } else if request.remove {
            let out = out_of_the_spec(cluster, skyhook, name, package, &gone);
            plan.stage(vec![out]);
        }
        gone.push(name);
    }
    note_webhook(&mut plan);
    node::warn(cluster, &mut plan);
    planners::refuse_held(cluster, &mut plan, request.force)?;
    Ok(plan)
}

fn title(name: &str, packages: &[&str], request: &Request) -> String {
    let all = request.all_packages;
    let of_it = if all { "all packages" } else { packages[0] };
    let also = match (request.remove, request.waits()) {
        (true, _) if all => ", wait, and remove them from the spec",
        (true, _) => ", wait, and remove it from the spec",
        (false, true) => ", and wait",
        _ => "",
    };
    let order =
        if all && packages.len() > 1 { format!(" ({})", packages.join(", then ")) } else { String::new() };
    format!("uninstall {of_it} of {name}{order}{also}")
}

/// The plan that cancels a requested uninstall.
fn cancel(cluster: &Cluster, skyhook: &Skyhook, name: &str, package: &Package, force: bool) -> Result<Plan> {
    let title = format!("cancel the uninstall of {name} in {}", skyhook.name());
    let mut plan = Plan::new(title, skyhook.name());
    if !package.uninstall().apply {
        return Ok(plan);
    }
    let path = path(name, &["uninstall", "apply"]);
    let field = Field::new(path, Some(json!(true)), Some(json!(false)));
    let step = step(cluster, skyhook, Change::Spec(vec![field]));
    plan.stage(vec![step.guard(same(name, package))]);
    let survey = PlacementSummary::of(cluster, skyhook, name, package);
    let impact = ImpactNotes { cluster, skyhook, name, package, survey: &survey };
    impact.cancel(&mut plan.consequences);
    if skyhook.deleting() {
        plan.consequences.warn(format!("{skyhook} is being deleted, which uninstalls {name} anyway"));
    }
    note_webhook(&mut plan);
    node::warn(cluster, &mut plan);
    planners::refuse_held(cluster, &mut plan, force)?;
    Ok(plan)
}

/// Notes that the webhook may reject the change.
fn note_webhook(plan: &mut Plan) {
    if !plan.is_empty() {
        let note = "the operator's webhook may still reject this; check with --dry-run=server";
        plan.consequences.notes.push(note.to_owned());
    }
}

/// Refuses requests that would hang, strand the package, or do nothing.
///
/// # Errors
///
/// The code of the problem, its reason, and the next command; exit code 3.
fn refuse_traps(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    package: &Package,
    survey: &PlacementSummary<'_>,
    request: &Request,
) -> Result<()> {
    let cr = skyhook.name();
    if request.remove && !request.all_packages {
        needed(skyhook, name)?;
    }
    undeclared(skyhook, name, package, request)?;
    if let Some((node, entry)) = survey.other.first().copied().filter(|_| !request.force) {
        let requested = [
            format!("kubectl skyhook uninstall {cr} {name} --cancel"),
            "kubectl skyhook explain SKY104".to_owned(),
        ];
        let not_requested = [
            format!("kubectl skyhook wait {}", skyhook.name()),
            "to request the uninstall anyway, add --force".to_owned(),
        ];
        let [first, second] = if package.uninstall().apply { requested } else { not_requested };
        return Err(Refusal::OtherVersion {
            node: node.name.to_string(),
            package: name.to_owned(),
            recorded: format!("{} ({} {})", entry.version, entry.stage, entry.state),
            version: package.version.to_string(),
            first,
            second,
        }
        .into());
    }
    if survey.is_absent() && !request.all_packages {
        never_installed(cluster, skyhook, name, package, request)?;
    }
    Ok(())
}

/// Refuses to remove a package that others need, and names the package to remove first.
fn needed(skyhook: &Skyhook, name: &str) -> Result<()> {
    let held_by = skyhook.dependants(name);
    if held_by.is_empty() {
        return Ok(());
    }
    let order = removal_order(skyhook);
    let mut removed = vec![name];
    // In reverse order, dependencies come before their dependants.
    for other in order.iter().rev() {
        let package = skyhook.package(other);
        if package.is_some_and(|p| p.depends_on.keys().any(|on| removed.contains(&on.as_str()))) {
            removed.push(other);
        }
    }
    let first = order.iter().find(|package| removed.contains(package)).unwrap_or(&held_by[0]);
    let declared = skyhook.packages().all(|(_, package)| package.uninstall().enabled);
    let all = if declared { "--all-packages --remove" } else { "--all-packages --enable --remove" };
    let cr = skyhook.name();
    let depend = if held_by.len() == 1 { "depends" } else { "depend" };
    Err(Refusal::NeededByOthers {
        others: format!("{} {depend}", list(&held_by)),
        package: name.to_owned(),
        first: format!("{} --wait --remove", uninstall_command(skyhook, first)),
        all: format!("kubectl skyhook uninstall {cr} {all}"),
    }
    .into())
}

/// Refuses a request that the operator would not act on.
fn refuse_at_rest(cluster: &Cluster, skyhook: &Skyhook, request: &Request) -> Result<()> {
    let cr = skyhook.name();
    let reference = skyhook.to_string();
    if !cluster.operator().knows_uninstall() {
        return Err(Refusal::UninstallUnknown {}.into());
    }
    if skyhook.deleting() {
        return Err(Refusal::DeletionUninstalls { reference, skyhook: cr.to_string() }.into());
    }
    let Some(state) = skyhook.stopped() else {
        return Ok(());
    };
    let (code, end, command) = match state {
        "paused" => ("SKY308", "resumed", format!("kubectl skyhook resume {cr}")),
        _ => ("SKY309", "enabled", format!("kubectl skyhook enable {cr}")),
    };
    if request.force && !request.waits() {
        return Ok(());
    }
    let anyway = if request.waits() {
        String::new()
    } else {
        format!(
            "to request the uninstall now, so that it starts when the custom resource is {end}, add --force"
        )
    };
    let [code, state, end] = [code, state, end].map(str::to_owned);
    Err(Refusal::Stopped { code, reference, state, end, command, anyway }.into())
}

fn undeclared(skyhook: &Skyhook, name: &str, package: &Package, request: &Request) -> Result<()> {
    if package.uninstall().enabled || request.enable {
        return Ok(());
    }
    let cr = skyhook.name();
    let mut again = if request.all_packages {
        format!("kubectl skyhook uninstall {cr} --all-packages --enable")
    } else {
        format!("kubectl skyhook uninstall {cr} {name} --enable")
    };
    let flags = [(request.wait, " --wait"), (request.remove, " --remove"), (request.force, " --force")];
    for (on, flag) in flags {
        if on {
            again += flag;
        }
    }
    let (reference, package) = (skyhook.to_string(), name.to_owned());
    Err(Refusal::UninstallNotEnabled { reference, package, again }.into())
}

/// Refuses a request for a package that was never installed: the operator would consider it uninstalled.
fn never_installed(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    package: &Package,
    request: &Request,
) -> Result<()> {
    let cr = skyhook.name();
    let version = package.version.to_string();
    let cancel = format!("kubectl skyhook uninstall {cr} {name} --cancel");
    let nowhere = match cluster.selected(skyhook).count() {
        0 => format!("{skyhook} selects no node"),
        _ => format!("{name} {version} is not on {}", nodes(cluster.selected(skyhook))),
    };
    if !package.uninstall().apply {
        if request.force {
            return Ok(());
        }
        let (package, skyhook) = (name.to_owned(), skyhook.name().to_owned());
        return Err(Refusal::WouldNeverBeInstalled { nowhere, package, skyhook }.into());
    }
    // The uninstall is requested already: removing the package from the spec helps, too.
    if request.remove || request.force {
        return Ok(());
    }
    let package = name.to_owned();
    match cluster.history(skyhook, name) {
        History::Never(why) => {
            let remove = format!("kubectl skyhook uninstall {cr} {name} --remove");
            Err(Refusal::NeverInstalled { nowhere, package, why: why.to_string(), cancel, remove }.into())
        }
        History::OnlyOther(traces) => {
            let was = traces[0].version.to_string();
            Err(Refusal::VersionChanged { nowhere, package, was, version, cancel }.into())
        }
        History::Present(_) | History::Unknown(_) => Ok(()),
    }
}
