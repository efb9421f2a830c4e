//! The table of `uninstall status`: the uninstall of packages, node by node.

use serde_json::Value;

use super::{Uninstall, UninstallRow};
use crate::commands::shared::folded;
use crate::view::text::{self, Line, Text};
use crate::view::{Columns, List, View};

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
}

impl View for UninstallStatus {
    fn blocks(&self, wide: bool) -> Text {
        let folded = self.folded && !wide;
        let columns = Columns::new()
            .with("skyhook", |row: &&UninstallRow| row.skyhook.as_str().into())
            .with("package", |row| row.package.as_str().into())
            .with_if(!folded, "node", |row| row.node.as_str().into())
            .with("stage", |row| row.stage.as_str().into())
            .with("state", |row| match row.runs_for.as_str() {
                time if time.is_empty() || !wide => row.state.as_str().into(),
                time => text::plain(&row.state) + text::dim(format!(" ({time})")),
            })
            .with("uninstall", |row| row.progress())
            // The most severe condition comes first; its reason would not fit.
            .with(
                "condition",
                |row| if wide { row.conditions.join(",").into() } else { row.condition().into() },
            )
            .with_if(wide, "version", |row| row.version.as_str().into())
            .with_if(wide, "restarts", |row| row.restarts.into())
            .with_if(wide, "asked-by", |row| row.requested_by.into())
            .with_if(wide, "reason", |row| row.reason.as_str().into());
        if folded {
            let rows: Vec<&UninstallRow> = self.rows.iter().collect();
            return folded::table(&columns, &rows, |row| &row.node).into();
        }
        let table = columns.table(&self.rows);
        if wide { table.wrap_last().into() } else { table.into() }
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
