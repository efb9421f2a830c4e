use schemars::JsonSchema;
use serde::Serialize;

use super::table::UninstallStatus;
use crate::api::{Entry, Skyhook, State};
use crate::args::listing::Sorting;
use crate::cluster::history::{History, Trace};
use crate::cluster::{Cluster, Execution, Executions, Node, Source};
use crate::commands::node::selection;
use crate::commands::package::scope;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Show how far an uninstall has got on each node
///
/// Lists the packages whose uninstall is asked for or under way, by `uninstall.apply` or by the deletion of the
/// custom resource, on every node that is selected or still carries them. The operator keeps no record of what it
/// has uninstalled: where a package is absent, this says whether it is gone, was never there, or cannot be told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook uninstall status
  kubectl skyhook uninstall status gpu-tune driver -o wide")]
pub struct Args {
    /// Show only this custom resource
    skyhook: Option<String>,
    /// Show only this package, whatever is asked for
    package: Option<String>,
    #[command(flatten)]
    sorting: Sorting,
}

pub const NEEDS: [Source; 6] = [
    Source::Skyhooks,
    Source::Nodes,
    Source::Pods,
    Source::Jobs,
    Source::Events,
    Source::Operator,
];

pub async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load(&NEEDS).await?;
    let status = view(&cluster, args)?;
    if status.rows.is_empty() {
        ctx.note("No uninstall is asked for, and none is under way.");
    }
    scope::say_what_is_missing(ctx, &cluster, &NEEDS);
    ctx.show(&status)?;
    Ok(Exit::Done)
}

fn view(cluster: &Cluster, args: &Args) -> Result<UninstallStatus> {
    selection::readable(cluster, Source::Nodes)?;
    selection::readable(cluster, Source::Skyhooks)?;
    if let Some(name) = &args.skyhook {
        selection::known_skyhook(cluster, name)?;
        if let Some(package) = &args.package {
            scope::known_package(cluster, name, package)?;
        }
    }
    let executions = cluster.executions();
    let mut rows = Vec::new();
    for name in names(cluster, args.skyhook.as_deref()) {
        for package in scope::packages(cluster, name) {
            let place = Place {
                cluster,
                executions: &executions,
                skyhook: cluster.skyhook(name),
                name,
                package: &package,
            };
            let wanted = match &args.package {
                Some(only) => *only == package,
                None => place.concerned(),
            };
            if wanted {
                rows.extend(place.rows());
            }
        }
    }
    args.sorting.sort(&mut rows, |row| {
        serde_json::to_value(row).expect("rows are plain data")
    })?;
    Ok(UninstallStatus { rows })
}

/// The custom resources in question, also those that are gone and have left state behind.
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

/// How far the uninstall of a package has got on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Standing {
    /// There, and nobody asks for its uninstall.
    Installed,
    /// There, and its uninstall has not begun.
    NotBegun,
    UnderWay,
    /// Uninstalled, and recorded still: the custom resource is gone.
    Finished,
    Failing,
    /// Uninstalled.
    Gone,
    NeverThere,
    /// Not there; whether it ever was cannot be told.
    Absent,
    /// The node's state cannot be read.
    Malformed,
}

/// A package on a node, with regard to its uninstall.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub skyhook_name: String,
    pub package: String,
    pub version: String,
    pub node_name: String,
    pub stage: String,
    pub state: String,
    pub restarts: i64,
    pub uninstall: Standing,
    /// Why it is said to stand so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// `uninstall.apply`, `deletion`, or empty if nobody asks for it.
    pub asked_by: &'static str,
    /// The conditions of the custom resource that bear on it.
    pub conditions: Vec<String>,
}

/// A package of a custom resource, on all nodes.
struct Place<'a> {
    cluster: &'a Cluster,
    executions: &'a Executions<'a>,
    skyhook: Option<&'a Skyhook>,
    name: &'a str,
    package: &'a str,
}

impl<'a> Place<'a> {
    /// Whether the package is being uninstalled anywhere, or shall be.
    fn concerned(&self) -> bool {
        let uninstalling = |e: &&Entry| e.stage.is_uninstall();
        !self.asked_by().is_empty()
            || self.still_runs().is_some()
            || self.cluster.tracked(self.name).any(|(_, on)| {
                on.entries()
                    .iter()
                    .filter(|e| self.is(e))
                    .any(|e| uninstalling(&e))
            })
    }

    /// An uninstall at work, on whatever node.
    fn still_runs(&self) -> Option<&Execution<'a>> {
        let at_work = |e: &&Execution<'_>| {
            e.skyhook == self.name
                && e.package == self.package
                && e.stage.is_uninstall()
                && e.alive()
        };
        self.executions.all().iter().find(at_work)
    }

    fn is(&self, entry: &Entry) -> bool {
        scope::identity(entry).0 == self.package
    }

    fn asked_by(&self) -> &'static str {
        let Some(skyhook) = self.skyhook else {
            return "";
        };
        match skyhook.package(self.package).map(|p| p.uninstall()) {
            Some(u) if u.enabled && u.apply => "uninstall.apply",
            Some(u) if u.enabled && skyhook.deleting() => "deletion",
            _ => "",
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for node in self.cluster.nodes.items() {
            let on = self.cluster.on_node(node, self.name);
            let selected = self
                .skyhook
                .is_some_and(|s| s.spec.node_selectors.matches(&node.labels));
            let entries = on.map_or(&[][..], |on| on.entries()).iter();
            let before = rows.len();
            rows.extend(
                entries
                    .filter(|e| self.is(e))
                    .map(|e| self.present(node, e)),
            );
            if rows.len() > before {
                continue;
            }
            let malformed = on.and_then(|on| on.state.as_ref()?.malformed().first());
            match malformed {
                Some(m) => rows.push(self.row(node, Standing::Malformed, m.error.clone())),
                None if selected => rows.push(self.absent(node)),
                None => {}
            }
        }
        rows
    }

    fn present(&self, node: &Node, entry: &Entry) -> Row {
        let standing = match (entry.stage.is_uninstall(), &entry.state) {
            (true, State::Erroring) => Standing::Failing,
            // Nobody is left to remove the entry.
            (true, State::Complete) if self.skyhook.is_none() => Standing::Finished,
            (true, _) => Standing::UnderWay,
            (false, _) if self.asked_by().is_empty() => Standing::Installed,
            (false, _) => Standing::NotBegun,
        };
        let cancelled = self
            .still_runs()
            .filter(|e| e.node == node.name && standing == Standing::Installed);
        let because = match (cancelled, standing, &entry.state) {
            (Some(e), ..) => format!("taken back, but {} still runs", e.reference()),
            (None, Standing::NotBegun, State::Erroring) => format!("stage {} fails", entry.stage),
            _ => String::new(),
        };
        Row {
            version: scope::identity(entry).1.to_owned(),
            stage: entry.stage.to_string(),
            state: entry.state.to_string(),
            restarts: entry.restarts,
            ..self.row(node, standing, because)
        }
    }

    /// A package that is not recorded: what the traces of its past tell.
    fn absent(&self, node: &'a Node) -> Row {
        let ran = self
            .executions
            .on(self.name, &node.name)
            .find(|e| e.package == self.package && e.stage.is_uninstall() && e.finished());
        if let Some(ran) = ran {
            return self.row(node, Standing::Gone, format!("{} is done", ran.reference()));
        }
        let history = self.skyhook.map(|s| self.cluster.history(s, self.package));
        let (standing, because) = match history {
            Some(History::Never(why)) => (Standing::NeverThere, why),
            Some(History::OnlyOther(traces)) => (
                Standing::NeverThere,
                format!("only version {} ever was", traces[0].version),
            ),
            Some(History::Present(traces)) => match uninstalled(&traces, &node.name) {
                Some(trace) => (Standing::Gone, format!("{}: {}", trace.object, trace.says)),
                None => (
                    Standing::Absent,
                    format!("it was on some node once ({})", traces[0].object),
                ),
            },
            Some(History::Unknown(why)) => (Standing::Absent, why),
            None => (Standing::Absent, "the custom resource is gone".to_owned()),
        };
        self.row(node, standing, because)
    }

    fn row(&self, node: &Node, standing: Standing, because: String) -> Row {
        let package = self.skyhook.and_then(|s| s.package(self.package));
        Row {
            skyhook_name: self.name.to_owned(),
            package: self.package.to_owned(),
            version: package.map_or_else(String::new, |p| p.version.clone()),
            node_name: node.name.clone(),
            stage: String::new(),
            state: String::new(),
            restarts: 0,
            uninstall: standing,
            because,
            asked_by: self.asked_by(),
            conditions: match standing {
                Standing::Installed => Vec::new(),
                _ => self.conditions(),
            },
        }
    }

    /// `DeletionBlocked=PausedWithPendingUninstall`, and only the type where the reason repeats it.
    fn conditions(&self) -> Vec<String> {
        let kinds = [
            "DeletionBlocked",
            "UninstallFailed",
            "UninstallInProgress",
            "Blocked",
        ];
        let conditions = kinds
            .iter()
            .filter_map(|kind| self.skyhook?.true_condition(kind));
        conditions
            .map(|c| match c.reason.as_str() {
                reason if reason.is_empty() || reason == c.kind => c.kind.clone(),
                reason => format!("{}={reason}", c.kind),
            })
            .collect()
    }
}

/// The trace of an uninstall, best of this very node: the operator uninstalls on all of them.
fn uninstalled<'t>(traces: &'t [Trace], node: &str) -> Option<&'t Trace> {
    let here = format!("[{node}]");
    let mut traces = traces.iter().filter(|t| t.uninstalled);
    traces
        .clone()
        .find(|t| t.says.contains(&here))
        .or_else(|| traces.next())
}
