mod aim;
mod blocker;

use std::collections::BTreeSet;
use std::time::Duration;

use blocker::{Blocker, items};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::shared::command::{Write, command};
use crate::api::{ApiFlavor, Meta};
use crate::args::connection::duration;
use crate::args::safety::{DryRun, Safety};
use crate::cluster::live::WATCHED;
use crate::cluster::{Cluster, Read, Source};
use crate::ctx::{Aim, CommandOptions, Ctx, PlanWait};
use crate::error::{Error, Exit, Result};
use crate::plan::{Change, Condition, Consequences, Goal, Plan, PlanStage, Step, Target};
use crate::rules::support::blockers::BlockingFindings;
use crate::rules::{self, Scope};
use crate::view::{list, plural};
use crate::wait::{Blockers, LiveObject, find};

/// Delete custom resources in a safe order: all of them, before the operator is uninstalled, or only some
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
    /// Custom resources to delete; default: all of them, then the deployment policies
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    names: Vec<String>,

    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration)]
    timeout: Duration,

    /// How long to tolerate retried failures [default: 2m; 0 with operators from v0.18, which give up a stage
    /// only after its last attempt]
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
        super::shared::scope::existing(&cluster, name)?;
    }
    let mut teardown = Teardown::of(&cluster, args);
    let mut plan = teardown.plan();
    crate::plan::planners::node::warn(&cluster, &mut plan);
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
        ctx.show(&&teardown)?;
        ctx.note(if teardown.items.is_empty() {
            teardown.verdict()
        } else {
            format!("{}: nothing is left to request, because the deletion was requested before", plan.title)
        });
        for left in &teardown.foreseen {
            ctx.warn(format!("the teardown would leave this behind: {left}{}", left.next()));
        }
        teardown.unreadable.iter().for_each(|why| ctx.warn(why.as_str()));
        return Ok(preview_exit);
    }
    let waiting = PlanWait { aim: &mut teardown, cluster };
    let exit = ctx.execute_with(&plan, safety, CommandOptions::default(), Some(waiting));
    match exit.await? {
        Exit::Done if only_preview => Ok(preview_exit),
        exit => Ok(exit),
    }
}

impl Teardown {
    /// The plan with one stage per deletion, after the deletions that it depends on. An object that is already being
    /// deleted is only awaited.
    fn plan(&self) -> Plan {
        let why = if self.whole {
            "the object must be deleted before the operator is uninstalled"
        } else {
            "the custom resource is to be deleted"
        };
        let stage = |planned: &Planned| {
            let target = &planned.goal.target;
            let delete = Step::new(target.clone(), Change::Delete { was: None }, why);
            PlanStage {
                steps: Vec::from_iter(Some(delete).filter(|_| !planned.was_deleting)),
                until: Some(planned.goal.clone()),
                after: Some(planned.follows.clone()),
                ..PlanStage::default()
            }
        };
        let (custom, policies): (Vec<_>, Vec<_>) = self.items.iter().partition(|p| p.priority.is_some());
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
        let mut consequences = Consequences::default();
        for planned in self.items.iter().filter(|planned| planned.was_deleting) {
            let target = &planned.goal.target;
            consequences.notes.push(format!("waits until {target}, which is already being deleted, is gone"));
        }
        if self.items.iter().any(|p| p.wave > 1) {
            let note = "custom resources that share nodes are deleted in reverse order of priority, each once the previous ones are gone";
            consequences.notes.push(note.to_owned());
        }
        if !self.items.is_empty() {
            let note = "Ctrl-C stops the teardown: the remaining objects are left unchanged; a requested deletion cannot be canceled";
            consequences.notes.push(note.to_owned());
        }
        for planned in &self.items {
            let target = &planned.goal.target;
            for blocker in &planned.blockers {
                consequences
                    .warn(format!("the deletion of {target} would hang: {blocker}{}", blocker.next()));
            }
        }
        for left in &self.foreseen {
            consequences.warn(format!("the teardown would leave this behind: {left}{}", left.next()));
        }
        for why in &self.unreadable {
            consequences.warn(format!("{why}, so the preview may be incomplete"));
        }
        consequences
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

/// The objects that a teardown deletes, what blocks their deletion, and the leftovers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Teardown {
    /// Whether the operator can be uninstalled: all objects are deleted, `remaining` is empty, and every
    /// required source was read.
    pub safe: bool,
    /// The objects to delete.
    pub items: Vec<Planned>,
    /// Objects and problems that remain after all deletions and need the operator, or keep nodes unavailable
    /// to workloads.
    pub remaining: Vec<Blocker>,
    /// Runtime-required taints that no deletion will remove; determined before the deletions.
    pub foreseen: Vec<Blocker>,
    /// Other leftovers on nodes after the deletions.
    pub leftovers: Vec<Blocker>,
    /// Sources that could not be read, with the reason.
    pub unreadable: Vec<String>,
    /// Whether all custom resources are deleted, not only named ones.
    #[serde(skip)]
    pub whole: bool,
    #[serde(skip)]
    pub blockers: Blockers,
    #[serde(skip)]
    pub all_gone_at: Option<Timestamp>,
}

/// An object to delete, and the progress of its deletion.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    /// The object, as `kind/name`.
    #[serde(rename = "object", serialize_with = "in_words")]
    #[schemars(with = "String")]
    pub goal: Goal,
    /// The API group and version of the object.
    #[serde(rename = "apiVersion", serialize_with = "in_full")]
    #[schemars(with = "String")]
    pub flavor: ApiFlavor,
    /// The priority of a custom resource; absent for a deployment policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// The position in the order of deletion, from 1: one more than the highest wave among the objects that
    /// must be gone first.
    pub wave: usize,
    /// The custom resource; absent for a deployment policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skyhook: Option<String>,
    /// The objects that must be gone before this one is deleted.
    pub after: Vec<String>,
    /// Whether the deletion was requested before this command.
    pub was_deleting: bool,
    /// Problems that block the deletion, or would block it.
    pub blockers: Vec<Blocker>,
    /// The progress of the deletion.
    pub state: RemovalState,
    /// The remaining work of a deletion in progress; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// Items that must be gone first, as indexes into the list, starting at 0.
    #[serde(skip)]
    pub follows: Vec<usize>,
    /// Whether the command is waiting for the deletion.
    #[serde(skip)]
    pub awaited: bool,
}

fn in_words<S: Serializer>(goal: &Goal, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&goal.target)
}

fn in_full<S: Serializer>(flavor: &ApiFlavor, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&flavor.api_version())
}

impl Planned {
    fn new(target: Target, flavor: ApiFlavor, metadata: &Meta, priority: Option<i64>) -> Planned {
        Planned {
            flavor,
            priority,
            wave: 1,
            skyhook: priority.is_some().then(|| target.name.clone()),
            after: Vec::new(),
            was_deleting: metadata.deleting(),
            blockers: Vec::new(),
            state: RemovalState::NotStarted,
            progress: String::new(),
            follows: Vec::new(),
            awaited: false,
            goal: Goal { target, condition: Condition::Gone, at_most: 0 },
        }
    }

    fn find<'a>(&self, cluster: &'a Cluster) -> Option<LiveObject<'a>> {
        find(cluster, &self.goal.target).flatten()
    }
}

/// The progress of an object's deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum RemovalState {
    /// The deletion was not requested, or its request is not known.
    NotStarted,
    /// The deletion is in progress.
    InProgress,
    /// The deletion is blocked until someone intervenes.
    Blocked,
    /// The object no longer exists.
    Gone,
}

impl Teardown {
    /// The objects to delete, with their predicted blockers.
    fn of(cluster: &Cluster, args: &Args) -> Teardown {
        let names = &args.names;
        let mut items = items(cluster, names);
        let blockers = foreseen_blockers(cluster, &items);
        for (item, blockers) in items.iter_mut().zip(blockers) {
            item.blockers = blockers;
            item.goal.at_most = Goal::seconds(args.timeout);
        }
        let mut unreadable = unread(cluster);
        // A webhook may refuse the operator's last update of an object.
        if let Some(why) = cluster.admission.webhooks.unread() {
            unreadable.push(format!("cannot read {}: {why}", Source::Webhooks));
        }
        let mut teardown = Teardown {
            safe: false,
            items,
            remaining: Vec::new(),
            foreseen: foreseen_taints(cluster, names),
            leftovers: Vec::new(),
            unreadable,
            whole: names.is_empty(),
            blockers: Blockers::new(cluster, args.tolerate),
            all_gone_at: None,
        };
        if teardown.items.is_empty() {
            teardown.close(cluster);
        }
        teardown
    }

    /// Records the leftovers after the last deletion of all custom resources.
    pub fn close(&mut self, cluster: &Cluster) {
        if !self.whole {
            return;
        }
        (self.remaining, self.leftovers) = blocker::leftovers(cluster);
        self.unreadable = unread(cluster);
        self.safe = self.unreadable.is_empty() && self.remaining.is_empty();
    }
}

/// The runtime-required taints that remain after the custom resources are deleted.
fn foreseen_taints(cluster: &Cluster, names: &[String]) -> Vec<Blocker> {
    let all = cluster.skyhooks.iter().map(|skyhook| skyhook.name());
    let gone = all.filter(|name| names.is_empty() || names.iter().any(|named| named == name)).collect();
    let then = cluster.simulate_deletion(&gone, &BTreeSet::new());
    let mut kept = blocker::kept_taints(&then);
    if !names.is_empty() {
        let before = blocker::kept_taints(cluster);
        kept.retain(|taint| !before.contains(taint));
    }
    kept
}

/// The blockers of each deletion, in the cluster after the preceding deletions.
fn foreseen_blockers(cluster: &Cluster, items: &[Planned]) -> Vec<Vec<Blocker>> {
    let mut blockers = vec![Vec::new(); items.len()];
    let mut gone: BTreeSet<&str> = BTreeSet::new();
    let last = items.iter().map(|item| item.wave).max().unwrap_or(0);
    for wave in 1..=last {
        let of_wave = items.iter().enumerate().filter(|(_, item)| item.wave == wave);
        let own: BTreeSet<&str> = of_wave
            .clone()
            .map(|(_, item)| item)
            .filter(|i| i.priority.is_some() && i.flavor == cluster.flavor())
            .map(|item| item.goal.target.name.as_str())
            .collect();
        let then = cluster.simulate_deletion(&gone, &own);
        let report = rules::diagnose(&then, &Scope::default());
        let blocking = BlockingFindings::of(&report.findings);
        for (at, item) in of_wave {
            blockers[at] = blocker::of(&then, &report, &blocking, item, !item.was_deleting);
        }
        gone.extend(own);
    }
    blockers
}

/// The unreadable sources that a teardown requires, with reasons.
fn unread(cluster: &Cluster) -> Vec<String> {
    use Source::{Jobs, Legacy, Nodes, Operator, Pods, Policies, Skyhooks};
    let may_be_there = |source: &Source| !matches!(source, Legacy | Jobs) || cluster.has(*source);
    let needed = [Skyhooks, Legacy, Policies, Nodes, Pods, Jobs, Operator];
    let needed = needed.into_iter().filter(may_be_there);
    let mut unread: Vec<String> = needed
        .filter_map(|source| match cluster.source(source) {
            Read::Incomplete(_, why) | Read::Unreadable(why) => Some(format!("cannot read {source}: {why}")),
            // Without a served API, none of its objects exist.
            Read::NotRequested if !cluster.active_api.served.is_empty() => Some(if cluster.may_leave_out() {
                format!("the capture has no {source}")
            } else {
                format!("{source} were not read")
            }),
            Read::NotRequested | Read::Ok(_) => None,
        })
        .collect();
    if let Some(why) = cluster.legacy_policies.unread() {
        unread.push(format!("cannot read {Policies} of the other API: {why}"));
    }
    unread
}
