//! `uninstall NAME PACKAGE`: asks the operator to uninstall packages everywhere, or takes that back.

mod refuse;
mod spec;

use std::time::Duration;

use serde_json::json;

use super::effects::ImpactNotes;
use super::order::removal_order;
use super::placement_summary::PlacementSummary;
use super::progress::Progress;
use crate::api::{Package, Skyhook};
use crate::args::duration::duration;
use crate::args::named;
use crate::args::safety::{DryRun, Safety};
use crate::cluster::{Cluster, Source};
use crate::commands::shared::migration;
use crate::commands::shared::selection;
use crate::ctx::{CommandOptions, Ctx, PlanWait};
use crate::error::{Error, Exit, Result};
use crate::plan::build::applied;
use crate::plan::{Change, Field, Plan, PlanStage, Target, WaitCondition, WaitFor};
use crate::rules::Scope;
use crate::view::list;
use spec::{out_of_the_spec, path, same, step};

#[derive(Debug, clap::Args)]
pub struct What {
    /// The custom resource
    #[arg(value_name = "NAME", value_parser = named::skyhook, required = true)]
    name: Option<String>,

    /// The package
    #[arg(value_name = "PACKAGE")]
    package: Option<String>,

    /// Uninstall every package, one after the other, each before the packages that it depends on
    ///
    /// Waits for each package, and stops at the first that is blocked. Run the command again to continue from there.
    #[arg(long, conflicts_with_all = ["package", "cancel"])]
    all_packages: bool,

    /// Cancel the request: a package that is not uninstalled yet stays or is installed again
    #[arg(long, conflicts_with_all = ["enable", "wait", "remove"])]
    cancel: bool,

    /// Declare that the package can be uninstalled, if the spec does not say so yet
    ///
    /// The package must have uninstall.sh and uninstall_check.sh. From then on, the package can be removed from the
    /// spec, or with the custom resource, only after it is uninstalled.
    #[arg(long)]
    enable: bool,

    /// Wait until the package is gone from all nodes, and show its progress
    ///
    /// Exits with 2, and prints the reason, as soon as the rules find that the uninstall is blocked until someone
    /// intervenes.
    #[arg(long)]
    wait: bool,

    /// How long to wait; 0 waits forever [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    /// How long to tolerate retried failures [default: 2m; 0 with operators from v0.18, whose Jobs count attempts]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tolerate: Option<Duration>,

    /// After the uninstall, remove the package from the spec
    #[arg(long)]
    remove: bool,

    /// Proceed even if the request has no effect now (during a migration) or may strand the package
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    safety: Safety,
}

/// How long to wait, if nothing is said.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

impl What {
    /// Whether it is waited for.
    fn waits(&self) -> bool {
        self.wait || self.remove || self.all_packages
    }

    /// How long it is waited for; zero is for ever.
    fn limit(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }
}

pub const NEEDS: [Source; 7] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Nodes,
    Source::Pods,
    Source::Jobs,
    Source::Events,
    Source::Operator,
];

pub async fn run(ctx: &mut Ctx, what: &What) -> Result<Exit> {
    let Some(name) = &what.name else {
        return Err(Error::usage("specify a custom resource and a package"));
    };
    if what.timeout.or(what.tolerate).is_some() && !what.waits() {
        return Err(Error::usage("--timeout and --tolerate require --wait"));
    }
    let cluster = ctx.load_to_change(&needs(what), &Source::DECIDING).await?;
    let skyhook = selection::existing(&cluster, name)?;
    if let Some(package) = what.package.as_deref().filter(|_| what.cancel) {
        let spec = selection::package(skyhook, package)?;
        let plan = cancel(&cluster, skyhook, package, spec, what.force)?;
        return ctx.execute(&plan, &what.safety).await;
    }
    if what.package.is_none() && !what.all_packages {
        let names: Vec<&str> = skyhook.packages().map(|(name, _)| name).collect();
        return Err(
            Error::usage(format!("specify a package of {name}")).hint(format!(
                "{name} has {}; use --all-packages for all of them",
                list(&names)
            )),
        );
    }
    let packages: Vec<&str> = match what.package.as_deref() {
        Some(package) => {
            selection::package(skyhook, package)?;
            vec![package]
        }
        None => removal_order(skyhook),
    };
    let plan = plan(&cluster, skyhook, &packages, what)?;
    if !what.waits() {
        return ctx.execute(&plan, &what.safety).await;
    }
    let mut progress = Progress::new(&cluster, name, &packages, what.remove, what.tolerate);
    let waiting = PlanWait {
        aim: &mut progress,
        timeout: Some(what.limit()).filter(|limit| !limit.is_zero()),
        cluster: cluster.clone(),
    };
    ctx.execute_with(
        &plan,
        &what.safety,
        CommandOptions::default(),
        Some(waiting),
    )
    .await
}

fn needs(what: &What) -> Vec<Source> {
    if what.waits() {
        Scope::default().needs()
    } else {
        NEEDS.to_vec()
    }
}

/// The plan for these packages, one after the other.
///
/// A server that is only asked refuses to take out of the spec what is on a node still: for a rehearsal that is left
/// out.
fn plan(cluster: &Cluster, skyhook: &Skyhook, packages: &[&str], what: &What) -> Result<Plan> {
    let rehearsed = what.safety.dry_run == DryRun::Server;
    refuse::refuse_at_rest(cluster, skyhook, what)?;
    let mut plan = Plan {
        title: title(skyhook.name(), packages, what),
        subject: skyhook.name().to_owned(),
        ..Plan::default()
    };
    let mut gone: Vec<&str> = Vec::new();
    for name in packages {
        let package = selection::package(skyhook, name)?;
        let survey = PlacementSummary::of(cluster, skyhook, name, package);
        refuse::refuse_traps(cluster, skyhook, name, package, &survey, what)?;
        let fields = spec::request(name, package);
        let enables = !package.uninstall().enabled;
        let told = ImpactNotes {
            cluster,
            skyhook,
            name,
            package,
            survey: &survey,
        };
        if !fields.is_empty() || what.waits() {
            told.uninstall(enables, &gone, &mut plan.consequences);
        }
        let mut stage = PlanStage::default();
        if !fields.is_empty() {
            let step = step(cluster, skyhook, Change::Spec(fields));
            // Another version would be another uninstall.
            stage.steps.push(step.guard(same(name, package)));
        }
        stage.until = what.waits().then(|| WaitFor {
            target: Target::of_skyhook(cluster.flavor(), skyhook),
            condition: WaitCondition::Uninstalled {
                package: (*name).to_owned(),
                version: package.version.clone(),
            },
            at_most: what.limit().as_secs(),
        });
        if !stage.steps.is_empty() || stage.until.is_some() {
            plan.stages.push(stage);
        }
        if what.remove && rehearsed && !survey.is_absent() {
            plan.consequences.warn(format!(
                "the removal of {name} from the spec cannot be dry-run: the server rejects the removal while the package is on a node"
            ));
        } else if what.remove {
            let out = out_of_the_spec(cluster, skyhook, name, package, &gone);
            plan.stages.push(PlanStage::of(vec![out]));
        }
        gone.push(name);
    }
    at_rest(skyhook, &mut plan);
    applied::warn(cluster, &mut plan);
    migration::refuse_held(cluster, &mut plan, what.force)?;
    Ok(plan)
}

fn title(name: &str, packages: &[&str], what: &What) -> String {
    let all = what.all_packages;
    let of_it = if all { "all packages" } else { packages[0] };
    let also = match (what.remove, what.waits()) {
        (true, _) => ", wait, and remove from the spec",
        (false, true) => ", and wait",
        _ => "",
    };
    let order = if all && packages.len() > 1 {
        format!(" ({})", packages.join(", then "))
    } else {
        String::new()
    };
    format!("uninstall {of_it} of {name}{order}{also}")
}

/// The plan that takes a request back.
fn cancel(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    package: &Package,
    force: bool,
) -> Result<Plan> {
    let mut plan = Plan {
        title: format!("cancel the uninstall of {name} in {}", skyhook.name()),
        subject: skyhook.name().to_owned(),
        ..Plan::default()
    };
    if !package.uninstall().apply {
        return Ok(plan);
    }
    let path = path(name, &["uninstall", "apply"]);
    let field = Field::new(path, Some(json!(true)), Some(json!(false)));
    let step = step(cluster, skyhook, Change::Spec(vec![field]));
    plan.stages
        .push(PlanStage::of(vec![step.guard(same(name, package))]));
    let survey = PlacementSummary::of(cluster, skyhook, name, package);
    let told = ImpactNotes {
        cluster,
        skyhook,
        name,
        package,
        survey: &survey,
    };
    told.cancel(&mut plan.consequences);
    if skyhook.deleting() {
        plan.consequences.warn(format!(
            "{} is being deleted, which uninstalls {name} anyway",
            skyhook.reference()
        ));
    }
    at_rest(skyhook, &mut plan);
    applied::warn(cluster, &mut plan);
    migration::refuse_held(cluster, &mut plan, force)?;
    Ok(plan)
}

/// Warns where nothing comes of it for the time being, and says who else decides on it.
fn at_rest(skyhook: &Skyhook, plan: &mut Plan) {
    if let Some(what) = skyhook.stopped() {
        plan.consequences.warn(format!(
            "{} is {what}: nothing happens until it is no longer {what}",
            skyhook.reference()
        ));
    }
    if !plan.is_empty() {
        let note = "the operator's webhook may still reject this; check with --dry-run=server";
        plan.consequences.notes.push(note.to_owned());
    }
}
