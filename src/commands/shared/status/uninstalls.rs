//! The uninstalls of a custom resource's packages, node by node.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Entry, Skyhook};
use crate::cluster::history::{History, StageTrace, versions};
use crate::cluster::{AskedBy, Cluster, Node, PackageRun, PackageRuns, Phase, Placement};
use crate::commands::shared::rows::StageStart;
use crate::commands::shared::{grouped, scope};
use crate::outlook::Outlook;
use crate::plan::Condition;
use crate::rules::Finding;
use crate::view::Columns;
use crate::view::text::{self, Line, Text};

/// The packages whose uninstall is requested or in progress, by `uninstall.apply` or by the deletion of the custom
/// resource, on every node that is selected or still carries them.
///
/// The operator keeps no record of what it has uninstalled: for an absent package, a row shows whether it was
/// uninstalled or never installed, if known.
pub fn rows<'a>(outlook: &Outlook<'a>, package_runs: &PackageRuns<'a>, name: &str) -> Vec<UninstallRow> {
    let cluster = outlook.cluster;
    let mut by_package: BTreeMap<&str, Vec<Placement<'_>>> = BTreeMap::new();
    let mut malformed = Vec::new();
    for placement in cluster.placements(name) {
        if placement.phase == Phase::Malformed {
            malformed.push(placement);
            malformed.dedup_by_key(|p| &p.node.name);
        } else {
            by_package.entry(placement.package).or_default().push(placement);
        }
    }
    let mut rows = Vec::new();
    let packages = scope::packages(cluster, package_runs, name);
    for package in &packages {
        let uninstall = PackageUninstall {
            cluster,
            outlook,
            package_runs,
            skyhook: cluster.skyhook(name),
            name,
            package,
            placements: by_package.remove(package.as_str()).unwrap_or_default(),
            malformed: &malformed,
            blockers: OnceCell::new(),
        };
        if uninstall.is_concerned() {
            rows.extend(uninstall.rows());
        }
    }
    rows
}

/// The rows as a table. Unless `wide`, nodes with equal cells share a row.
pub fn table(rows: &[UninstallRow], wide: bool) -> Text {
    let folded = !wide && rows.len() > ROWS;
    let columns = Columns::new()
        .with("package", |row: &&UninstallRow| row.package.as_str().into())
        .with_if(!folded, "node", |row| row.node.as_str().into())
        .with("stage", |row| row.stage.as_str().into())
        .with("state", |row| match row.since.as_ref().filter(|_| wide) {
            Some(since) => text::plain(&row.state) + text::dim(format!(" ({})", since.age)),
            None => row.state.as_str().into(),
        })
        .with("uninstall", |row| row.progress())
        // The most severe condition comes first; its reason would not fit.
        .with("condition", |row| if wide { row.conditions.join(",").into() } else { row.condition().into() })
        .with_if(wide, "version", |row| row.version.as_str().into())
        .with_if(wide, "restarts", |row| row.restarts.into())
        .with_if(wide, "asked-by", |row| row.requested_by.into())
        .with_if(wide, "reason", |row| row.reason.as_str().into());
    if folded {
        let rows: Vec<&UninstallRow> = rows.iter().collect();
        return grouped::table(&columns, &rows, |row| &row.node).into();
    }
    let table = columns.table(rows);
    if wide { table.wrap_last().into() } else { table.into() }
}

/// Maximum number of rows that are not folded.
const ROWS: usize = 6;

/// The progress of an uninstall of a package on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
enum Uninstall {
    /// Installed, and no uninstall is requested.
    Installed,
    /// The uninstall has not started, and the package is recorded on the node.
    NotStarted,
    /// At a stage of the uninstall that nothing runs yet.
    Due,
    /// The uninstall is running.
    InProgress,
    /// The uninstall does not start or continue until someone intervenes.
    Blocked,
    /// Uninstalled but still recorded, because the custom resource was deleted.
    Finished,
    /// The uninstall fails.
    Failing,
    /// No longer recorded, but the uninstall's pod or job has not ended.
    Ending,
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
pub struct UninstallRow {
    /// The package.
    package: String,
    /// The recorded version; without a record, the version in the spec; absent without either.
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    /// The node.
    node: String,
    /// The recorded stage; absent without a record.
    #[serde(skip_serializing_if = "String::is_empty")]
    stage: String,
    /// The recorded state of the stage; absent without a record.
    #[serde(skip_serializing_if = "String::is_empty")]
    state: String,
    /// Number of failed attempts of the stage.
    restarts: i64,
    /// The start of the running stage; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<StageStart>,
    /// The progress of the uninstall.
    #[serde(rename = "phase")]
    uninstall: Uninstall,
    /// The reason for this progress; absent if there is none.
    #[serde(rename = "message", skip_serializing_if = "String::is_empty")]
    reason: String,
    /// The request: `uninstall.apply`, or `deletion`; absent if the uninstall is not requested.
    #[serde(skip_serializing_if = "str::is_empty")]
    requested_by: &'static str,
    /// Conditions of the custom resource that concern uninstalls.
    conditions: Vec<String>,
}

/// The uninstall of a package of a custom resource, on all nodes.
struct PackageUninstall<'o, 'a> {
    cluster: &'a Cluster,
    outlook: &'o Outlook<'a>,
    package_runs: &'o PackageRuns<'a>,
    skyhook: Option<&'a Skyhook>,
    name: &'o str,
    package: &'o str,
    placements: Vec<Placement<'o>>,
    malformed: &'o [Placement<'o>],
    blockers: OnceCell<Vec<&'o Finding>>,
}

impl<'o> PackageUninstall<'o, '_> {
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

    fn present(&self, placement: &Placement<'o>, entry: &Entry) -> UninstallRow {
        let run = self.package_runs.uninstall_of(placement);
        let mut uninstall = match placement.phase {
            Phase::UninstallFailing => Uninstall::Failing,
            Phase::Uninstalled => Uninstall::Finished,
            // The operator does nothing on a node that is not selected.
            Phase::Uninstalling if run.is_none() && !placement.selected => Uninstall::NotStarted,
            Phase::Uninstalling if run.is_none() => Uninstall::Due,
            Phase::Uninstalling => Uninstall::InProgress,
            _ if self.requested_by().is_empty() => Uninstall::Installed,
            _ => Uninstall::NotStarted,
        };
        let blocked = match uninstall {
            Uninstall::InProgress | Uninstall::Due | Uninstall::NotStarted => self.blocked(placement),
            _ => None,
        };
        if blocked.is_some() {
            uninstall = Uninstall::Blocked;
        }
        let cancelled = run.filter(|_| uninstall == Uninstall::Installed);
        let reason = match (cancelled, uninstall) {
            (None, Uninstall::NotStarted) if !placement.selected => {
                "the node is no longer selected".to_owned()
            }
            (Some(e), _) => format!("canceled, but {e} is still running"),
            (None, Uninstall::NotStarted) if placement.phase == Phase::Failing => {
                format!("stage {} fails", entry.stage)
            }
            _ => blocked.unwrap_or_default(),
        };
        UninstallRow {
            version: placement.version.to_owned(),
            stage: entry.stage.to_string(),
            state: entry.state.to_string(),
            restarts: entry.restarts,
            since: self.package_runs.since(placement).map(|at| StageStart::new(at, self.cluster)),
            ..self.row(placement.node, uninstall, reason)
        }
    }

    /// The row for a package without a record, explained by traces of earlier runs.
    fn absent(&self, placement: &Placement<'o>, past: &Past) -> UninstallRow {
        let node = placement.node;
        if let Some(why) = placement.malformed {
            return self.row(node, Uninstall::Malformed, why.to_owned());
        }
        if let Some(run) = self.package_runs.uninstall_of(placement) {
            return self.row(node, Uninstall::Ending, format!("{run} has not ended"));
        }
        let ran = self
            .package_runs
            .of_skyhook_on(self.name, &node.name)
            .find(|run| run.package == self.package && run.stage.is_uninstall() && run.finished());
        let (uninstall, reason) = match ran {
            Some(ran) => (Uninstall::Uninstalled, format!("{ran} is done")),
            None => past.result_on(&node.name),
        };
        self.row(node, uninstall, reason)
    }

    fn row(&self, node: &Node, uninstall: Uninstall, reason: String) -> UninstallRow {
        let package = self.skyhook.and_then(|s| s.package(self.package));
        UninstallRow {
            package: self.package.to_owned(),
            version: package.map_or_else(String::new, |p| p.version.clone()),
            node: node.name.to_string(),
            stage: String::new(),
            state: String::new(),
            restarts: 0,
            since: None,
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
                Uninstall::Ending
                | Uninstall::Uninstalled
                | Uninstall::Absent
                | Uninstall::NeverInstalled => **kind == "DeletionBlocked",
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

    /// The blocker of an uninstall that needs an intervention. Only findings about the node itself stop a stage that is
    /// running there; without a running stage, the node may also wait for another node.
    fn blocked(&self, placement: &Placement<'o>) -> Option<String> {
        let skyhook = self.skyhook?;
        let at_work = self.package_runs.since(placement).is_some();
        if let Some(how) = skyhook.stopped().filter(|_| !at_work) {
            return Some(format!("the custom resource is {how}"));
        }
        let blockers = self.blockers.get_or_init(|| {
            let package = Some(self.package.to_owned());
            self.outlook.blockers(skyhook, &Condition::Uninstalled { package, version: None })
        });
        let node = placement.node.name.as_str();
        let here = |f: &&&Finding| {
            let blocked = f.blocked_nodes.iter().any(|n| n == node);
            f.subject.node.as_deref() == Some(node)
                || !at_work && (blocked || f.blocks_reconcile() || f.concerns_all_nodes())
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
                format!("only {} was ever installed", versions(&traces, ["was", "were"])),
            ),
            Some(History::Present(mut traces)) => {
                let once = format!("it was once installed ({})", traces[0].object);
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

impl UninstallRow {
    /// The progress column. "Never installed" includes the version, because another version may have been installed.
    fn progress(&self) -> Line {
        match (self.uninstall, self.version.as_str()) {
            (Uninstall::NeverInstalled, version) if !version.is_empty() => {
                text::warning(format!("{version} never installed")).into()
            }
            (uninstall, _) => uninstall.line(),
        }
    }

    /// The type of the most severe condition, unless the previous column implies it.
    fn condition(&self) -> &str {
        let kind = self.conditions.first().map_or("", String::as_str).split('=').next().unwrap_or_default();
        let begun = matches!(self.uninstall, Uninstall::Due | Uninstall::InProgress | Uninstall::Blocked);
        let known = begun && kind == "UninstallInProgress";
        if known { "" } else { kind }
    }
}

impl Uninstall {
    fn line(self) -> Line {
        match self {
            Uninstall::Installed => text::plain("installed"),
            Uninstall::NotStarted => text::plain("not started"),
            Uninstall::Due => text::plain("not started"),
            Uninstall::InProgress => text::plain("in progress"),
            Uninstall::Blocked => text::warning("blocked"),
            Uninstall::Finished => text::warning("uninstalled, record kept"),
            Uninstall::Failing => text::error("failing"),
            Uninstall::Ending => text::plain("ending"),
            Uninstall::Uninstalled => text::good("uninstalled"),
            Uninstall::NeverInstalled => text::warning("never installed"),
            Uninstall::Absent => text::plain("absent"),
            Uninstall::Malformed => text::error("malformed"),
        }
        .into()
    }
}
