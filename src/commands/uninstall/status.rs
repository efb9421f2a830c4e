mod filter;
mod table;

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;

use self::filter::Filter;
use self::table::UninstallStatus;
use crate::api::{Entry, Skyhook};
use crate::args::listing::Sorting;
use crate::args::named;
use crate::cluster::history::{History, StageTrace, versions};
use crate::cluster::{AskedBy, Cluster, Node, PackageRun, PackageRuns, Phase, Placement, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::folded::Expand;
use crate::commands::shared::{scope, selection};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::rules::support::blockers::BlockingFindings;
use crate::rules::{self, Finding, Goal, Report, Scope, uninstall_command};
use crate::view::{Items, age, time, to_json};

/// Show the progress of an uninstall on each node
///
/// Lists the packages whose uninstall is requested or in progress, by `uninstall.apply` or by the deletion of
/// the custom resource, on every node that is selected or still carries them. The operator keeps no record of
/// what it has uninstalled: for an absent package, this shows whether it was uninstalled or never installed,
/// if known.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook uninstall status
  kubectl skyhook uninstall status gpu-tune driver -o wide
  kubectl skyhook uninstall status --status blocked,failing -l pool=gpu")]
pub struct Args {
    /// Show only this custom resource
    #[arg(value_parser = named::skyhook)]
    skyhook: Option<String>,
    /// Show only this package, whether or not its uninstall is requested
    #[arg(conflicts_with = "name")]
    package: Option<String>,

    /// Show only this custom resource; SKYHOOK is then the package, if given
    #[arg(long = "skyhook", value_name = "NAME", alias = "nodewright", value_parser = named::skyhook)]
    name: Option<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    sorting: Sorting,
    #[command(flatten)]
    expand: Expand,
}

impl Args {
    /// The custom resource and the package: with --skyhook, the only positional argument is the package.
    fn subject(&self) -> (Option<&str>, Option<&str>) {
        match (&self.name, &self.skyhook) {
            (Some(name), package) => (Some(name), package.as_deref()),
            (None, skyhook) => (skyhook.as_deref(), self.package.as_deref()),
        }
    }
}

command! {
    "uninstall status": Args => run,
    needs: Scope::default().needs(),
    prints: { "UninstallStatus": Items<UninstallRow> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = Scope::default().needs();
    let cluster = ctx.load(&needs).await?;
    let mut status = view(&cluster, args)?;
    let folds = args.expand.folds(status.rows.len(), ctx.on_terminal());
    status.folded = folds && args.sorting.sort_by.is_none();
    let exit = selection::exit_without(&cluster, &Source::ESSENTIAL);
    if status.rows.is_empty() {
        ctx.note(match exit {
            Exit::Done if !args.filter.is_empty() => "No row matches.",
            Exit::Done => "No uninstall is requested or in progress.",
            _ => {
                "No uninstall was found, but without both the custom resources and the nodes, it is unknown whether one is \
                 requested or in progress."
            }
        });
    }
    scope::warn_unreadable(ctx, &cluster, &needs);
    ctx.show(&status)?;
    Ok(exit)
}

/// Adds a hint for the other meaning of `uninstall status NAME`: a package of the custom resource `status`.
fn perhaps_package(cluster: &Cluster, args: &Args, error: Error) -> Error {
    match (cluster.skyhook("status"), &args.skyhook, args.subject()) {
        (Some(status), Some(name), (_, None)) if status.package(name).is_some() => error.hint(format!(
            "to uninstall {name} of {}: {}",
            status.reference(),
            uninstall_command(status, name)
        )),
        _ => error,
    }
}

fn view(cluster: &Cluster, args: &Args) -> Result<UninstallStatus> {
    selection::readable(cluster, Source::Nodes)?;
    selection::readable(cluster, Source::Skyhooks)?;
    let (skyhook, only) = args.subject();
    if let Some(name) = skyhook {
        selection::known_skyhook(cluster, name).map_err(|error| perhaps_package(cluster, args, error))?;
        if let Some(package) = only {
            scope::known_package(cluster, name, package)?;
        }
    }
    let package_runs = cluster.package_runs();
    let report = OnceCell::new();
    let blocking = OnceCell::new();
    let mut rows = Vec::new();
    for name in names(cluster, skyhook) {
        let mut all: BTreeMap<&str, Vec<Placement<'_>>> = BTreeMap::new();
        let mut malformed = Vec::new();
        for placement in cluster.placements(name) {
            if placement.phase == Phase::Malformed {
                malformed.push(placement);
                malformed.dedup_by_key(|p| &p.node.name);
            } else {
                all.entry(placement.package).or_default().push(placement);
            }
        }
        let packages = scope::packages(cluster, &package_runs, name);
        for package in &packages {
            let of = PackageUninstall {
                cluster,
                package_runs: &package_runs,
                skyhook: cluster.skyhook(name),
                name,
                package,
                placements: all.remove(package.as_str()).unwrap_or_default(),
                malformed: &malformed,
                report: &report,
                blocking: &blocking,
                blockers: OnceCell::new(),
            };
            let wanted = match only {
                Some(only) => only == package,
                None => of.is_concerned(),
            };
            if wanted {
                rows.extend(of.rows());
            }
        }
    }
    args.filter.apply(cluster, &mut rows)?;
    args.sorting.sort(&mut rows, to_json)?;
    Ok(UninstallStatus { rows, folded: false })
}

/// The selected custom resources, including deleted ones that left state behind.
fn names<'a>(cluster: &'a Cluster, only: Option<&'a str>) -> Vec<&'a str> {
    if let Some(only) = only {
        return vec![only];
    }
    let mut names = cluster.names_on_nodes();
    names.extend(cluster.skyhooks.items().iter().map(|s| s.name()));
    names.sort_unstable();
    names.dedup();
    names
}

/// The progress of an uninstall of a package on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Uninstall {
    /// Installed, and no uninstall is requested.
    Installed,
    /// The uninstall has not started, and the package is recorded on the node.
    NotStarted,
    /// The uninstall is running.
    InProgress,
    /// The uninstall does not start or continue until someone intervenes.
    Blocked,
    /// Uninstalled but still recorded, because the custom resource was deleted.
    Finished,
    /// The uninstall fails.
    Failing,
    /// Uninstalled.
    Uninstalled,
    /// The package was never installed.
    NeverInstalled,
    /// Not installed; whether the package ever was is unknown.
    Absent,
    /// The node state cannot be read.
    Malformed,
}

/// A package on a node, and the progress of its uninstall.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UninstallRow {
    /// The custom resource.
    pub skyhook: String,
    /// The package.
    pub package: String,
    /// The recorded version; without a record, the version in the spec; empty without either.
    pub version: String,
    /// The node.
    pub node: String,
    /// The recorded stage; empty without a record.
    pub stage: String,
    /// The recorded state of the stage; empty without a record.
    pub state: String,
    /// Number of failed attempts of the stage.
    pub restarts: i64,
    /// The start of the running stage; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The age of `since`: `17h`.
    #[serde(skip)]
    pub runs_for: String,
    /// The progress of the uninstall.
    pub uninstall: Uninstall,
    /// The reason for this progress; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The request: `uninstall.apply`, `deletion`, or empty if the uninstall is not requested.
    pub requested_by: &'static str,
    /// Conditions of the custom resource that concern uninstalls.
    pub conditions: Vec<String>,
}

/// The uninstall of a package of a custom resource, on all nodes.
struct PackageUninstall<'a> {
    cluster: &'a Cluster,
    package_runs: &'a PackageRuns<'a>,
    skyhook: Option<&'a Skyhook>,
    name: &'a str,
    package: &'a str,
    placements: Vec<Placement<'a>>,
    malformed: &'a [Placement<'a>],
    /// The diagnosis, computed on first use.
    report: &'a OnceCell<Report>,
    blocking: &'a OnceCell<BlockingFindings>,
    blockers: OnceCell<Vec<&'a Finding>>,
}

impl<'a> PackageUninstall<'a> {
    /// Whether an uninstall of the package is requested, or recorded or running on any node.
    fn is_concerned(&self) -> bool {
        let uninstalled = |p: &Placement<'_>| p.entry.is_some_and(|e| e.stage.is_uninstall());
        let runs = |run: &PackageRun<'_>| {
            run.skyhook == self.name && run.package == self.package && run.stage.is_uninstall() && run.alive()
        };
        !self.requested_by().is_empty()
            || self.placements.iter().any(uninstalled)
            || self.package_runs.all().iter().any(runs)
    }

    fn requested_by(&self) -> &'static str {
        let by = self.skyhook.and_then(|skyhook| {
            let package = skyhook.package(self.package)?;
            skyhook.uninstall_asked_by(package)
        });
        match by {
            Some(AskedBy::Apply) => "uninstall.apply",
            Some(AskedBy::Deletion) => "deletion",
            None => "",
        }
    }

    /// The rows by node. If a node records the package at any version, it has no row for an absent package.
    fn rows(&self) -> Vec<UninstallRow> {
        let recorded: HashSet<&str> =
            (self.placements.iter()).filter(|p| p.entry.is_some()).map(|p| p.node.name.as_str()).collect();
        let past = OnceCell::new();
        let mut rows = Vec::new();
        for placement in self.placements.iter().chain(self.malformed) {
            match placement.entry {
                Some(entry) => rows.push(self.present(placement, entry)),
                None if recorded.contains(placement.node.name.as_str()) => {}
                None => {
                    let past = past.get_or_init(|| Past::of(self.cluster, self.skyhook, self.package));
                    rows.push(self.absent(placement, past));
                }
            }
        }
        rows.sort_by(|a, b| a.node.cmp(&b.node));
        rows
    }

    fn present(&self, placement: &Placement<'a>, entry: &Entry) -> UninstallRow {
        let mut uninstall = match placement.phase {
            Phase::UninstallFailing => Uninstall::Failing,
            Phase::Uninstalled => Uninstall::Finished,
            Phase::Uninstalling => Uninstall::InProgress,
            _ if self.requested_by().is_empty() => Uninstall::Installed,
            _ => Uninstall::NotStarted,
        };
        let blocked = match uninstall {
            Uninstall::InProgress | Uninstall::NotStarted => self.blocked(placement),
            _ => None,
        };
        if blocked.is_some() {
            uninstall = Uninstall::Blocked;
        }
        let cancelled =
            (self.package_runs.uninstall_of(placement)).filter(|_| uninstall == Uninstall::Installed);
        let reason = match (cancelled, uninstall) {
            (None, Uninstall::NotStarted) if !placement.selected => {
                "the node is no longer selected".to_owned()
            }
            (Some(e), _) => format!("canceled, but {} is still running", e.reference()),
            (None, Uninstall::NotStarted) if placement.phase == Phase::Failing => {
                format!("stage {} fails", entry.stage)
            }
            _ => blocked.unwrap_or_default(),
        };
        let since = self.package_runs.since(placement);
        UninstallRow {
            version: placement.version.to_owned(),
            stage: entry.stage.to_string(),
            state: entry.state.to_string(),
            restarts: entry.restarts,
            since: since.map(time),
            runs_for: since.map_or_else(String::new, |at| age(Some(at), self.cluster.taken_at)),
            ..self.row(placement.node, uninstall, reason)
        }
    }

    /// The row for a package without a record, explained by traces of earlier runs.
    fn absent(&self, placement: &Placement<'a>, past: &Past) -> UninstallRow {
        let node = placement.node;
        if let Some(why) = placement.malformed {
            return self.row(node, Uninstall::Malformed, why.to_owned());
        }
        let ran = self
            .package_runs
            .of_skyhook_on(self.name, &node.name)
            .find(|run| run.package == self.package && run.stage.is_uninstall() && run.finished());
        let (uninstall, reason) = match ran {
            Some(ran) => (Uninstall::Uninstalled, format!("{} is done", ran.reference())),
            None => past.result_on(&node.name),
        };
        self.row(node, uninstall, reason)
    }

    fn row(&self, node: &Node, uninstall: Uninstall, reason: String) -> UninstallRow {
        let package = self.skyhook.and_then(|s| s.package(self.package));
        UninstallRow {
            skyhook: self.name.to_owned(),
            package: self.package.to_owned(),
            version: package.map_or_else(String::new, |p| p.version.clone()),
            node: node.name.to_string(),
            stage: String::new(),
            state: String::new(),
            restarts: 0,
            since: None,
            runs_for: String::new(),
            uninstall,
            reason,
            requested_by: self.requested_by(),
            conditions: match uninstall {
                Uninstall::Installed => Vec::new(),
                _ => self.conditions(uninstall),
            },
        }
    }

    /// The conditions about uninstalls: `DeletionBlocked=PausedWithPendingUninstall`, or only the type if the
    /// reason repeats it.
    ///
    /// On a node without the package, only `DeletionBlocked` is listed: the other conditions are about other
    /// nodes. `UninstallFailed` is listed only where the uninstall fails.
    fn conditions(&self, uninstall: Uninstall) -> Vec<String> {
        let kinds = ["DeletionBlocked", "UninstallFailed", "UninstallInProgress", "Blocked"];
        let conditions = kinds
            .iter()
            .filter(|kind| match uninstall {
                Uninstall::Failing => true,
                Uninstall::Uninstalled | Uninstall::Absent | Uninstall::NeverInstalled => {
                    **kind == "DeletionBlocked"
                }
                _ => **kind != "UninstallFailed",
            })
            .filter_map(|kind| self.skyhook?.true_condition(kind));
        conditions
            .map(|c| match c.reason.as_str() {
                reason if reason.is_empty() || reason == c.kind => c.kind.to_string(),
                reason => format!("{}={reason}", c.kind),
            })
            .collect()
    }
}

impl<'a> PackageUninstall<'a> {
    /// The blocker of an uninstall that needs an intervention. Only findings about the node itself stop a stage that is
    /// running there; without a running stage, the node may also wait for another node.
    pub fn blocked(&self, placement: &Placement<'a>) -> Option<String> {
        let skyhook = self.skyhook?;
        let at_work = self.package_runs.since(placement).is_some();
        if let Some(how) = skyhook.stopped().filter(|_| !at_work) {
            return Some(format!("the custom resource is {how}"));
        }
        let blockers = self.blockers.get_or_init(|| {
            let cluster = self.cluster;
            let report = self.report.get_or_init(|| rules::diagnose(cluster, &Scope::default()));
            let findings = &report.findings;
            let blocking = self.blocking;
            let blocking = blocking.get_or_init(|| BlockingFindings::of(findings));
            let goal = Goal::Uninstall(Some(self.package));
            blocking.of_goal(findings, cluster, skyhook, goal)
        });
        let node = placement.node.name.as_str();
        let here = |f: &&&Finding| {
            let blocked = f.blocked_nodes.iter().any(|n| n == node);
            match f.subject.node.as_deref() {
                Some(on) if on == node => true,
                Some(_) => !at_work && (f.blocks_reconcile() || blocked),
                None => !at_work && (f.blocked_nodes.is_empty() || blocked),
            }
        };
        let blocker = blockers.iter().find(here)?;
        Some(format!("{}: {}", blocker.rule.code, blocker.message))
    }
}

/// The history of an absent package, computed once for all nodes.
struct Past {
    /// The last trace of the package, by node.
    by_node: HashMap<String, StageTrace>,
    /// The result for nodes without a trace.
    elsewhere: (Uninstall, String),
}

impl Past {
    fn of(cluster: &Cluster, skyhook: Option<&Skyhook>, package: &str) -> Past {
        let history = skyhook.map(|s| cluster.history(s, package));
        let mut by_node = HashMap::new();
        let elsewhere = match history {
            Some(History::Never(why)) => (Uninstall::NeverInstalled, why),
            Some(History::OnlyOther(traces)) => (
                Uninstall::NeverInstalled,
                format!("only {} ever installed", versions(&traces, ["was", "were"])),
            ),
            Some(History::Present(mut traces)) => {
                let once = match &traces[0] {
                    StageTrace { node: Some(_), object, .. } => {
                        format!("recorded only on another node ({object})")
                    }
                    StageTrace { object, .. } => {
                        format!("it was once installed on a node ({object})")
                    }
                };
                // The times have a resolution of one second: among equal times, the uninstall came last.
                traces.sort_by_key(|t| (t.at, t.uninstalled));
                let on_nodes = traces.into_iter().filter_map(|t| Some((t.node.clone()?, t)));
                by_node.extend(on_nodes);
                (Uninstall::Absent, once)
            }
            Some(History::Unknown(why)) => (Uninstall::Absent, why),
            None => (Uninstall::Absent, "the custom resource is gone".to_owned()),
        };
        Past { by_node, elsewhere }
    }

    fn result_on(&self, node: &str) -> (Uninstall, String) {
        match self.by_node.get(node) {
            Some(trace) if trace.uninstalled => {
                (Uninstall::Uninstalled, format!("{}: {}", trace.object, trace.message))
            }
            Some(trace) => (
                Uninstall::Absent,
                format!(
                    "it was once installed on this node ({}); nothing shows that it was uninstalled",
                    trace.object
                ),
            ),
            None => self.elsewhere.clone(),
        }
    }
}
