mod aim;
mod blocker;
mod state;

use std::time::Duration;

use self::aim::TeardownReport;
use self::state::{Planned, RemovalState, Teardown};
use crate::args::duration::duration;
use crate::args::named;
use crate::args::safety::{DryRun, Safety};
use crate::cluster::live::WATCHED;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::selection;
use crate::ctx::{CommandOptions, Ctx, PlanWait, PlannedAim};
use crate::error::{Error, Exit, Result};
use crate::plan::planners::applied;
use crate::plan::{Change, Consequences, Plan, PlanStage, Step, WaitCondition, WaitFor};
use crate::rules::Scope;
use crate::view::{list, plural};

/// Delete custom resources in order: all before the operator is uninstalled, or only these
///
/// First shows which deletions would hang and why, their effects on nodes, and what they leave on hosts. --dry-run
/// stops here, with exit code 2 if a deletion would hang or nodes would stay unavailable. Then it deletes custom
/// resources in reverse order of priority and deployment policies last, and waits until all are gone, so that `helm
/// uninstall` of the operator does not hang.
///
/// Exits with 2 when every remaining deletion is blocked, and prints the cause and a command for each. Run it again to
/// continue. The deletion of an object is requested once all objects before it are gone, so Ctrl-C leaves the later
/// ones unchanged. A requested deletion cannot be canceled, but `undelete` recreates the object.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # What would hang, and why
  kubectl skyhook teardown --dry-run

  # What happens when one custom resource is deleted
  kubectl skyhook teardown gpu-tune --dry-run

  kubectl skyhook teardown --timeout 1h && helm uninstall nodewright")]
pub struct Args {
    /// Custom resources to delete; all, and then the deployment policies, if none is named
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    names: Vec<String>,

    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration)]
    timeout: Duration,

    /// How long to tolerate retried failures [default: 2m; 0 with operators from v0.18, whose Jobs count attempts]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tolerate: Option<Duration>,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "teardown": Args => run,
    needs: Scope::default().needs(),
    watches: &WATCHED,
    writes: &[Write::DeleteSkyhooks, Write::DeletePolicies],
    prints: { "Teardown": Teardown },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_or_leftovers(&Scope::default().needs(), &Source::REQUIRED_FOR_CHANGES).await?;
    if ctx.global().reading.api.is_some() && !cluster.legacy.items().is_empty() {
        let both = "teardown deletes the custom resources of both APIs; --api does not limit it";
        return Err(Error::usage(both).hint("kubectl skyhook teardown --dry-run"));
    }
    for name in &args.names {
        selection::existing(&cluster, name)?;
    }
    let mut teardown = Teardown::of(&cluster, &args.names, args.tolerate);
    let mut plan = teardown.plan(args.timeout);
    applied::warn(&cluster, &mut plan);
    ctx.forecast(&cluster, &mut plan).await;
    let preview_exit = teardown.preview_exit(&cluster);
    let safety = &args.safety;
    let only_preview = safety.plan_out.is_none() && (cluster.from_files || safety.dry_run == DryRun::Client);
    if only_preview && plan.is_empty() && !ctx.global().output.format.is_data() {
        // All deletions were requested before: show what they wait for.
        for planned in &mut teardown.items {
            let hangs = !planned.blockers.is_empty();
            planned.state = if hangs { RemovalState::Blocked } else { RemovalState::InProgress };
        }
        ctx.show(&TeardownReport(&teardown))?;
        ctx.note(if teardown.items.is_empty() {
            teardown.verdict()
        } else {
            format!("{}: all deletions have been requested", plan.title)
        });
        for left in &teardown.foreseen {
            ctx.warn(format!("would be left: {left}{}", left.next()));
        }
        teardown.unreadable.iter().for_each(|why| ctx.warn(why.as_str()));
        return Ok(preview_exit);
    }
    let waiting = PlanWait {
        aim: &mut teardown,
        cluster,
        timeout: Some(args.timeout).filter(|timeout| !timeout.is_zero()),
    };
    let options = CommandOptions::default();
    let exit = ctx.execute_with(&plan, safety, options, Some(waiting));
    match exit.await? {
        Exit::Done if only_preview => Ok(preview_exit),
        exit => Ok(exit),
    }
}

impl Teardown {
    /// The plan with one stage per deletion, after the deletions that it depends on. An object that is already being
    /// deleted is only awaited.
    fn plan(&self, timeout: Duration) -> Plan {
        let why = if self.whole {
            "the object must be deleted before the operator is uninstalled"
        } else {
            "the custom resource is to be deleted"
        };
        let stage = |planned: &Planned| {
            let target = &planned.item.target;
            let delete = Step::new(target.clone(), Change::Delete { was: None }, why);
            PlanStage {
                steps: Vec::from_iter(Some(delete).filter(|_| !planned.was_deleting)),
                until: Some(WaitFor {
                    target: target.clone(),
                    condition: WaitCondition::Gone,
                    // 0 means no timeout; a shorter timeout than a second is a second.
                    at_most: timeout.as_secs().max(u64::from(!timeout.is_zero())),
                }),
                after: Some(planned.item.after.clone()),
                ..PlanStage::default()
            }
        };
        let all = self.items.iter();
        let (custom, policies): (Vec<_>, Vec<_>) = all.partition(|p| p.item.priority.is_some());
        let mut what = vec![plural(custom.len(), "custom resource")];
        if !policies.is_empty() {
            what.push(plural(policies.len(), "deployment policy"));
        }
        Plan {
            title: format!("teardown of {}", list(&what)),
            subject: format!("teardown {}", self.items.len()),
            stages: self.items.iter().map(stage).collect(),
            consequences: self.consequences(),
            ..Plan::default()
        }
    }

    fn consequences(&self) -> Consequences {
        let mut effects = Consequences::default();
        for planned in self.items.iter().filter(|planned| planned.was_deleting) {
            let target = &planned.item.target;
            effects.notes.push(format!("waits until {target}, which is already being deleted, is gone"));
        }
        if self.items.iter().any(|p| p.item.wave > 1) {
            let note = "custom resources that share nodes are deleted in reverse order of priority, each once the previous ones are gone";
            effects.notes.push(note.to_owned());
        }
        if !self.items.is_empty() {
            let note = "Ctrl-C stops the teardown: the remaining objects are left unchanged; a requested deletion cannot be canceled";
            effects.notes.push(note.to_owned());
        }
        for planned in &self.items {
            let target = &planned.item.target;
            for blocker in &planned.blockers {
                effects.warn(format!("the deletion of {target} would hang: {blocker}{}", blocker.next()));
            }
        }
        for left in &self.foreseen {
            effects.warn(format!("would be left: {left}{}", left.next()));
        }
        for why in &self.unreadable {
            let may_hang = if self.items.len() < 2 { "" } else { "; other deletions may hang, too" };
            effects.warn(format!("{why}{may_hang}"));
        }
        effects
    }

    /// The exit code of a preview.
    fn preview_exit(&self, cluster: &Cluster) -> Exit {
        if self.items.is_empty() {
            self.exit()
        } else if self.items.iter().any(|p| !p.blockers.is_empty()) || !self.foreseen.is_empty() {
            Exit::Findings
        } else if self.unreadable.is_empty() || cluster.from_files {
            Exit::Done
        } else {
            Exit::Failed
        }
    }
}
