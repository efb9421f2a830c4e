//! The table of `uninstall status`: the uninstall of packages, node by node.

use serde_json::Value;

use super::{Uninstall, UninstallRow};
use crate::commands::shared::folded;
use crate::view::text::{self, Line, Text};
use crate::view::{List, Table, View, cells};

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
        let first = self.conditions.first().map_or("", String::as_str);
        let kind = first.split('=').next().unwrap_or_default();
        let begun = matches!(self.uninstall, Uninstall::InProgress | Uninstall::Blocked);
        let known = begun && kind == "UninstallInProgress";
        if known { "" } else { kind }
    }
}

impl Uninstall {
    pub(super) fn fails(self) -> bool {
        matches!(self, Uninstall::Failing | Uninstall::Blocked | Uninstall::Malformed)
    }

    fn line(self) -> Line {
        match self {
            Uninstall::Installed => text::plain("installed"),
            Uninstall::NotStarted => text::plain("not started"),
            Uninstall::InProgress => text::plain("in progress"),
            Uninstall::Blocked => text::warning("blocked"),
            Uninstall::Finished => text::warning("uninstalled, record kept"),
            Uninstall::Failing => text::error("failing"),
            Uninstall::Uninstalled => text::good("uninstalled"),
            Uninstall::NeverInstalled => text::warning("never installed"),
            Uninstall::Absent => text::plain("absent"),
            Uninstall::Malformed => text::error("malformed"),
        }
        .into()
    }
}

/// The output of `uninstall status`.
pub struct UninstallStatus {
    pub(super) rows: Vec<UninstallRow>,
    /// Whether nodes with equal cells share a row.
    pub(super) folded: bool,
}

impl UninstallStatus {
    fn packages(&self) -> List<'_> {
        List::new("UninstallStatus", self.rows.iter())
    }

    fn by_state(&self) -> Table {
        let columns = ["skyhook", "package", "stage", "state", "uninstall", "condition"];
        let rows = self.rows.iter().map(|row| {
            let cells = cells![
                row.skyhook.as_str(),
                row.package.as_str(),
                row.stage.as_str(),
                row.state.as_str(),
                row.progress(),
                row.condition(),
            ];
            (cells.into(), row.node.as_str())
        });
        folded::table(columns, rows)
    }
}

impl View for UninstallStatus {
    fn blocks(&self, wide: bool) -> Text {
        if self.folded && !wide {
            return self.by_state().into();
        }
        let narrow = ["skyhook", "package", "node", "stage", "state", "uninstall", "condition"];
        let more = ["version", "restarts", "asked-by", "reason"];
        let table = Table::new(narrow.iter().chain(more.iter().filter(|_| wide)));
        let mut table = if wide { table.wrap_last() } else { table };
        for row in &self.rows {
            let start = cells![
                row.skyhook.as_str(),
                row.package.as_str(),
                row.node.as_str(),
                row.stage.as_str(),
                match row.runs_for.as_str() {
                    time if time.is_empty() || !wide => row.state.as_str().into(),
                    time => text::plain(&row.state) + text::dim(format!(" ({time})")),
                },
                row.progress(),
                if wide {
                    row.conditions.join(",")
                } else {
                    // The most severe condition comes first; its reason would not fit.
                    row.condition().to_owned()
                },
            ];
            let end = cells![row.version.as_str(), row.restarts, row.requested_by, row.reason.as_str()];
            table.row(start.into_iter().chain(end.into_iter().filter(|_| wide)));
        }
        table.into()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.rows.iter().map(|row| format!("node/{}", row.node)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn document(&self) -> Value {
        self.packages().document()
    }

    fn list(&self) -> Option<List<'_>> {
        Some(self.packages())
    }
}
