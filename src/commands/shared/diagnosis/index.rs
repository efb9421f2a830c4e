//! A table of several causes with the next command of each.

use super::group::{Detail, FindingGroup, OWN};
use super::{COLUMNS, Diagnosis, contrast};
use crate::cluster::Cluster;
use crate::commands::shared::cause_table;
use crate::commands::shared::remedy::remedy_text;
use crate::rules::Severity;
use crate::rules::support::impact::CauseImpact;
use crate::view::text::{self, Layout, Text};
use crate::view::{NodeSet, shell_words};

/// Maximum number of causes that are shown in full.
const IN_FULL: usize = 1;

/// Maximum number of causes whose next commands have a title.
const EXPLAINED: usize = 3;

/// How much of the next commands of each cause an index shows.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// The first command, and the first one that changes something, with titles.
    Explained,
    /// The same without titles.
    Commands,
    First,
}

/// The argument of `diagnose stuck` for this cause: the number, or `cause/N` if an object is named N.
pub fn cause_argument(cluster: &Cluster, number: usize) -> String {
    let name = number.to_string();
    match object_named(cluster, &name) {
        Some(_) => format!("cause/{name}"),
        None => name,
    }
}

/// The kind of the object with this bare name.
pub fn object_named(cluster: &Cluster, name: &str) -> Option<&'static str> {
    let skyhook = cluster.skyhook(name).map(|_| cluster.flavor().kind());
    skyhook.or(cluster.node(name).map(|_| "node"))
}

impl Diagnosis<'_> {
    /// The indices of the errors and warnings that a table lists; `None` if they are few enough to show in
    /// full.
    pub(super) fn indexed(&self) -> Option<Vec<usize>> {
        let causes = self.impact.causes.iter().enumerate();
        let grave = causes.filter(|(_, cause)| cause.severity > Severity::Info);
        let grave: Vec<usize> = grave.map(|(at, _)| at).collect();
        (grave.len() > IN_FULL && !self.unfolded && self.chosen.is_none()).then_some(grave)
    }

    /// The table of causes, then as many of their commands as fit into the lines: of a few causes with titles.
    pub(super) fn index(&self, causes: &[usize], lines: usize) -> Text {
        let fits = |text: &Text| {
            // In a pipe, rows of a table are not cut.
            let piped = text.lines(Layout::PIPE);
            let rows = piped.iter().map(|line| line.plain().chars().count().div_ceil(COLUMNS).max(1));
            // The empty lines around the text count as well.
            rows.sum::<usize>() + 2 <= lines
        };
        let explained = (causes.len() <= EXPLAINED).then_some(Next::Explained);
        let mut texts =
            explained.into_iter().chain([Next::Commands]).map(|next| self.index_with(causes, next));
        texts.find(fits).unwrap_or_else(|| self.index_with(causes, Next::First))
    }

    fn index_with(&self, causes: &[usize], next: Next) -> Text {
        let findings = &self.report.findings;
        let rows = causes.iter().map(|at| (*at, &self.impact.causes[*at]));
        let mut text = Text::new();
        text.blank().table(cause_table::table(self.cluster, findings, rows));
        text.blank().line("next:");
        for at in causes {
            let group = FindingGroup::of(&self.impact.causes[*at].cause, findings);
            let number = format!("{:>2}  ", at + 1);
            let mut marks = std::iter::once(&*number).chain(std::iter::repeat("    "));
            let remedies = match next {
                Next::Explained => group.graded_remedies(&self.grades, Detail::Brief),
                _ => Vec::new(),
            };
            for ((remedy, repeat), mark) in remedies.iter().zip(&mut marks) {
                text.append(remedy_text(mark, remedy, repeat.clone()));
            }
            if remedies.is_empty() {
                let most = if next == Next::First { 1 } else { usize::MAX };
                for (command, mark) in group.next_commands().into_iter().take(most).zip(&mut marks) {
                    text.line(text::plain(mark) + text::command(shell_words(&command)));
                }
            }
            if causes.len() <= EXPLAINED
                && let Some(contrast) = contrast::sentence(&group.contrasts(self.cluster))
            {
                text.indented(4, contrast);
            }
        }
        let first = causes.first().map_or(1, |at| at + 1);
        if let Some(command) = self.command_for(first) {
            text.blank().line(text::dim("one cause in full: ") + text::command(command));
        }
        text
    }

    /// The command that shows the cause with this number in full; `None` if the causes have no numbers outside this
    /// report.
    pub(super) fn command_for(&self, number: usize) -> Option<String> {
        let arguments = self.arguments.as_ref()?.iter().cloned();
        let words = OWN.into_iter().chain(["diagnose", "stuck"]).map(str::to_owned);
        let words = words.chain(arguments).chain([cause_argument(self.cluster, number)]);
        Some(shell_words(&words.collect::<Vec<_>>()))
    }

    /// One line for each cause: `SKY201 nodewright/gpu-tune gpu-[1-3]`.
    pub(super) fn cause_names(&self) -> Vec<String> {
        let causes = self.impact.causes.iter().enumerate();
        let chosen = causes.filter(|(at, _)| self.chosen.is_none_or(|chosen| chosen == *at));
        let name = |(_, impact): (usize, &CauseImpact<'_>)| {
            let group = FindingGroup::of(&impact.cause, &self.report.findings);
            let subject = &group.first().subject;
            let kind = match &subject.skyhook {
                Some(_) => self.cluster.flavor().kind(),
                None => &subject.kind,
            };
            let object = format!("{}/{}", kind.to_lowercase(), group.objects());
            let nodes: Vec<&str> = group.nodes().collect();
            match nodes.len() {
                0 => format!("{} {object}", group.first().rule.code),
                _ => format!("{} {object} {}", group.first().rule.code, NodeSet::of(&nodes)),
            }
        };
        chosen.map(name).collect()
    }
}
