//! Where a package still is while it is uninstalled. Pure.

use super::{Wait, find};
use crate::api::{Entry, Skyhook, State};
use crate::cluster::{Cluster, Node, Phase, Placement};
use crate::plan::{Condition, Goal};
use crate::rules::uninstall_command;
use crate::text::plural;

/// The uninstall of a package, or of all packages with a requested uninstall, on every node that counts: the selected
/// nodes, and nodes where an uninstall still runs; or all nodes once the custom resource is deleted. On other nodes,
/// the operator does nothing.
pub struct UninstallProgress<'a> {
    name: &'a str,
    skyhook: Option<&'a Skyhook>,
    package: Option<&'a str>,
    version: Option<&'a str>,
    /// Whether any package of the custom resource is recorded.
    installed: bool,
    /// Number of nodes that are no longer selected and still record the package.
    left_behind: usize,
    /// The state on each node.
    pub nodes: Vec<(&'a Node, Point)>,
}

/// The state of an uninstall on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Not started; holds the recorded stage and state.
    NotStarted(String),
    /// At a stage of the uninstall that nothing runs; holds the stage.
    Due(String),
    /// At a stage of the uninstall; holds its description.
    At(String),
    Unreadable,
    /// Removed from the node state, but its pod or job has not ended.
    Ending(String),
    Gone,
}

impl Point {
    pub fn words(&self) -> String {
        match self {
            Point::NotStarted(at) if at.is_empty() => "not started".to_owned(),
            Point::NotStarted(at) => format!("not started ({at})"),
            Point::Due(stage) => format!("{stage}, not started"),
            Point::At(stage) => stage.clone(),
            Point::Unreadable => "node state cannot be read".to_owned(),
            Point::Ending(what) => format!("gone, but {what} has not ended"),
            Point::Gone => "gone".to_owned(),
        }
    }
}

impl<'a> UninstallProgress<'a> {
    /// # Errors
    ///
    /// The end of the wait, or its progress, if the uninstall is not known.
    pub fn of(cluster: &'a Cluster, goal: &'a Goal) -> Result<UninstallProgress<'a>, Wait> {
        let (package, version) = match &goal.condition {
            Condition::Uninstalled { package, version } => (package.as_deref(), version.as_deref()),
            _ => (None, None),
        };
        let name = goal.target.name.as_str();
        match find(cluster, &goal.target) {
            None => return Err(Wait::unread()),
            Some(None) if version.is_some() => return Err(Wait::Never(format!("{name} was deleted"), None)),
            Some(_) => {}
        }
        let Some(nodes) = cluster.nodes.ok() else {
            return Err(Wait::Pending("the nodes cannot be read".to_owned()));
        };
        let skyhook = cluster.skyhook(name);
        let mut uninstall = UninstallProgress {
            name,
            skyhook,
            package,
            version,
            installed: false,
            left_behind: 0,
            nodes: Vec::new(),
        };
        let package_runs = cluster.package_runs_for(name);
        for node in nodes {
            let here = cluster.placements_on(name, node);
            let recorded = here.iter().filter(|placement| placement.entry.is_some());
            let placement = recorded.clone().find(|placement| uninstall.concerns(placement));
            let mut runs = package_runs.of_skyhook_on(name, &node.name);
            let run = runs.find(|run| {
                run.stage.is_uninstall()
                    && run.alive()
                    && package.is_none_or(|package| package == run.package)
            });
            if run.is_none() && skyhook.is_some_and(|skyhook| !skyhook.selects(node)) {
                uninstall.left_behind += usize::from(placement.is_some());
                continue;
            }
            uninstall.installed |= recorded.clone().next().is_some();
            let point = match (placement.and_then(|placement| Some((placement, placement.entry?))), run) {
                (Some((placement, entry)), _) => {
                    uninstall.recorded(placement, entry, package_runs.uninstall_of(placement).is_some())
                }
                (None, _) if here.iter().any(|placement| placement.phase == Phase::Malformed) => {
                    Point::Unreadable
                }
                (None, Some(run)) => Point::Ending(run.to_string()),
                (None, None) => Point::Gone,
            };
            uninstall.nodes.push((node, point));
        }
        Ok(uninstall)
    }

    fn concerns(&self, placement: &Placement<'_>) -> bool {
        match self.package {
            Some(package) => placement.package == package,
            None => placement.phase.is_uninstall() || self.asks(placement.package),
        }
    }

    /// Whether the uninstall of the package is requested.
    fn asks(&self, package: &str) -> bool {
        self.skyhook
            .is_some_and(|skyhook| skyhook.package(package).is_some_and(|spec| skyhook.uninstalls(spec)))
    }

    /// Whether the uninstall is requested at present.
    pub fn is_requested(&self) -> bool {
        self.package.is_some_and(|package| self.asks(package))
    }

    /// Whether the operator's copy of the node states, which its webhook checks, still has the package.
    pub fn in_mirror(&self) -> bool {
        let key = self.package.zip(self.version).map(|(package, version)| format!("{package}|{version}"));
        self.skyhook.zip(key).is_some_and(|(skyhook, key)| skyhook.status.node_state.has(&key))
    }

    fn recorded(&self, placement: &Placement<'_>, entry: &Entry, runs: bool) -> Point {
        let failed = match entry.restarts {
            0 => String::new(),
            n => format!(", {} failed", plural(usize::try_from(n).unwrap_or(0), "attempt")),
        };
        let (stage, state) = (&entry.stage, &entry.state);
        let at = format!("{stage} {state}");
        match (placement.phase.is_uninstall(), state) {
            (true, State::InProgress) if !runs => Point::Due(stage.to_string()),
            (true, State::InProgress) => Point::At(format!("{stage}{failed}")),
            (true, _) => Point::At(format!("{at}{failed}")),
            _ if self.version.is_some_and(|version| version != placement.version) => {
                Point::NotStarted(format!("version {}, {at}", placement.version))
            }
            (_, State::Complete) => Point::NotStarted(String::new()),
            _ => Point::NotStarted(at),
        }
    }

    /// How far the uninstall is.
    pub fn reached(&self) -> Wait {
        let count = |is: fn(&Point) -> bool| self.nodes.iter().filter(|(_, point)| is(point)).count();
        let ending = count(|point| matches!(point, Point::Ending(_)));
        let left = count(|point| !matches!(point, Point::Ending(_) | Point::Gone));
        if let Some(why) = self.withdrawn().filter(|_| left + ending > 0) {
            return Wait::Never(why, None);
        }
        let name = self.name;
        let on = plural(left, "node");
        let requested = self.skyhook.is_none_or(Skyhook::requests_uninstall);
        let under_way = || count(|point| matches!(point, Point::Due(_) | Point::At(_))) > 0;
        match (self.skyhook, self.package) {
            _ if left == 0 && ending > 0 => Wait::Pending(format!(
                "gone from all nodes, but {} still running",
                plural(ending, "uninstall")
            )),
            (_, None) if left == 0 && self.installed && !requested => Wait::Never(
                format!("no uninstall of a package of {name} was requested, and packages are installed"),
                Some(format!("kubectl skyhook uninstall {name} PACKAGE")),
            ),
            _ if self.nodes.is_empty() && self.left_behind > 0 => Wait::Pending(format!(
                "no node is selected, and the package is still on {}",
                plural(self.left_behind, "node")
            )),
            _ if left == 0 => Wait::Met,
            (None, _) => Wait::Never(
                format!("{name} is gone, but a record of it remains on {on}"),
                Some(format!("kubectl skyhook status {name}")),
            ),
            (Some(skyhook), Some(package)) if !self.asks(package) && !under_way() => Wait::Never(
                format!("no uninstall of {package} was requested, but the package is still on {on}"),
                Some(uninstall_command(skyhook, package)),
            ),
            _ => Wait::Pending(format!("still on {on}")),
        }
    }

    /// Why the uninstall that this command requested does not finish any more; `None` if it does.
    fn withdrawn(&self) -> Option<String> {
        let (name, version, skyhook) = (self.package?, self.version?, self.skyhook?);
        let reference = skyhook.to_string();
        match skyhook.package(name) {
            None => Some(format!("{name} was removed from the spec of {reference}, but is still on nodes")),
            Some(spec) if spec.version != version => Some(format!(
                "the version of {name} was changed to {} in the meantime (SKY104)",
                spec.version
            )),
            Some(spec) if !skyhook.uninstalls(spec) && !skyhook.deleting() => {
                Some(format!("the uninstall of {name} was canceled"))
            }
            Some(_) => None,
        }
    }
}
