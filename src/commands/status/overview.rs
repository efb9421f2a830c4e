//! The screen of `status` without a name: one row per custom resource, then the causes.

use crate::commands::shared::diagnosis::group::FindingGroup;
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::rule::{counted, label_of};
use crate::commands::shared::status::item::{Compartment, Package, SkyhookProgress};
use crate::commands::shared::status::{Findings, StatusReport, label};
use crate::commands::shared::{cause_table, mutes};
use crate::model::ProgressState;
use crate::view::text::{self, Line, Text};
use crate::view::{Columns, Joined, Table, age, count, list, plural, shell_words};

/// Number of lines of a small terminal, without the prompt.
const LINES: usize = 23;
/// Minimum number of causes that are shown.
const CAUSES: usize = 2;
/// Maximum number of causes that are shown whole.
const WHOLE: usize = 3;

pub fn text(status: &StatusReport<'_>, wide: bool) -> Text {
    if status.only_rows {
        return items(status, wide).into();
    }
    let document = &status.document;
    let mut text = Text::new();
    text.line(document.operator.line());
    // With a second operator, the older operator acts on these objects.
    if document.legacy > 0 && status.cluster.operator().installations().len() < 2 {
        let kind = status.cluster.flavor().other().resource();
        let others = plural(document.legacy, &format!("{kind} object"));
        text.paragraph(text::dim(format!("{others} of the other API are not listed.")));
    }
    text.table(items(status, wide));
    let untimed =
        document.items.iter().filter_map(|item| Some((item.summary.no_estimate.as_ref()?, &*item.name)));
    // A long table leaves the reasons to the pages of its custom resources.
    if wide || text.height() < LINES / 2 {
        for (why, names) in grouped(untimed) {
            text.paragraph(text::dim(format!("no estimate for {}: {why}", list(&names))));
        }
    }
    let end = end(status);
    // The 3 lines are an empty line, the headline and the command.
    let used = text.height() + 3 + end.height();
    let most = if wide { usize::MAX } else { LINES.saturating_sub(used).max(CAUSES) };
    text.blank();
    text.append(causes(status, None, most));
    text.append(end);
    text
}

fn items(status: &StatusReport<'_>, wide: bool) -> Table {
    let columns = Columns::new()
        .with("name", |item: &&SkyhookProgress| item.name.as_str().into())
        .with("state", |item| {
            let assessment = item.summary.assessment;
            label(assessment).span(format!("{assessment:?}")).into()
        })
        .with("complete", |item| item.summary.complete().into())
        .with("failed", |item| match item.summary.node_states.failed {
            0 => "0".into(),
            failed => text::error(count(failed)).into(),
        })
        .with("eta", |item| item.summary.remaining.as_deref().unwrap_or("-").into())
        .with_if(wide, "priority", |item| {
            item.exists.then(|| item.priority.to_string()).as_deref().unwrap_or("-").into()
        })
        .with_if(wide, "running", |item| count(item.summary.node_states.running).into())
        .with_if(wide, "waiting", |item| {
            let states = &item.summary.node_states;
            count(states.all() - states.complete - states.running - states.failed).into()
        })
        .with_if(wide, "since", |item| {
            let since = item.summary.since.map(|at| age(Some(at), status.cluster.taken_at));
            since.as_deref().unwrap_or("-").into()
        })
        .with_if(wide, "packages", |item| or_dash(packages(&item.packages)).into())
        .with_if(wide, "compartments", |item| or_dash(compartments(item)).into())
        .with("message", |item| or_dash(item.summary.message.clone()).into());
    columns.table(&status.document.items).truncate_last()
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// The complete nodes by package: `driver 31/40,net 40/40`.
fn packages(packages: &[Package]) -> String {
    let packages = packages.iter().filter(|package| package.in_spec);
    let one = |package: &Package| {
        let done = if package.uninstalling { package.absent } else { package.complete };
        format!("{} {}/{}", package.name, count(done), count(package.nodes))
    };
    packages.map(one).joined(",")
}

/// The complete nodes by compartment: `canary 3/3,(default) 28/37`.
fn compartments(item: &SkyhookProgress) -> String {
    let one = |part: &Compartment| {
        let stopped = if part.stopped { " stopped" } else { "" };
        format!("{} {}/{}{stopped}", part.title(), count(part.completed), count(part.nodes))
    };
    item.compartments.iter().map(one).joined(",")
}

/// The headline, then one line per cause, for one custom resource or for all.
pub fn causes(status: &StatusReport<'_>, name: Option<&str>, most: usize) -> Text {
    let mut text = Text::new();
    let impact = status.impact();
    let mut shown = match name {
        None => (0..impact.causes.len()).collect(),
        Some(name) => impact.about(name).to_vec(),
    };
    shown.retain(|at| status.is_grave(*at));
    if shown.is_empty() {
        return text;
    }
    let findings = match name {
        None => status.document.findings,
        Some(name) => Findings::about(name, impact),
    };
    let command = match name {
        Some(name) => format!("kubectl skyhook diagnose stuck {name}"),
        None => "kubectl skyhook diagnose stuck".to_owned(),
    };
    text.line(match cause_table::stuck(impact) {
        Some(stuck) if name.is_none() => stuck,
        _ => Line::from(list(&counted(findings.errors, findings.warnings))),
    });
    let (shown, left_out) = shown.split_at(shown.len().min(most.max(1)));
    let few = shown.len() <= WHOLE && left_out.is_empty();
    for at in shown {
        let impact = &impact.causes[*at];
        let group = FindingGroup::of(&impact.cause, status.findings());
        let nodes = match group.node_count() {
            0 => String::new(),
            1 => group.on_nodes(),
            nodes => format!(" on {}", plural(nodes, "node")),
        };
        let since = group
            .since()
            .map_or(String::new(), |since| format!(", {}", age(Some(since), status.cluster.taken_at)));
        // Numbers count the causes of all custom resources.
        let mark = if name.is_some() { "- ".to_owned() } else { format!("{:>2} ", at + 1) };
        let cause = Line::default()
            + label_of(impact.severity()).span(group.first().rule.code)
            + format!(" {}{nodes}{since}: {}", group.place(), group.message());
        // Few causes are shown whole; of many, each takes one line.
        if few {
            text.item(&mark, cause)
        } else {
            text.summary(Line::from(mark) + cause)
        };
    }
    let left_out = cause_table::left_out(left_out.iter().map(|at| impact.causes[*at].severity()));
    let what = if left_out.is_empty() { "in full" } else { &left_out };
    text.line(text::dim(format!("   {what}: ")) + text::command(command));
    text
}

/// Rules that could not run, muted causes and lapsed mutes.
pub fn end(status: &StatusReport<'_>) -> Text {
    let document = &status.document;
    let words: Vec<&str> = ["kubectl", "skyhook", "diagnose", "stuck"]
        .into_iter()
        .chain(status.mute_words.iter().map(String::as_str))
        .collect();
    let diagnose = || Line::from("; see ") + text::command(shell_words(&words));
    let mut text = Text::new();
    let goes_on = |item: &SkyhookProgress| {
        matches!(item.summary.assessment, ProgressState::Progressing | ProgressState::Waiting)
    };
    if let Some(doubt) = status.cluster.clock.doubt().filter(|_| document.items.iter().any(goes_on)) {
        text.paragraph(text::dim(doubt));
    }
    if document.not_checked > 0 {
        let rules = plural(document.not_checked, "rule");
        text.line(text::warning(format!("{rules} could not run")) + diagnose());
    }
    if let Some(counted) = mutes::counted(document.muted, document.muted_without_expiry) {
        text.line(text::dim(counted) + diagnose());
    }
    if document.lapsed_mutes > 0 {
        let mutes = plural(document.lapsed_mutes, "lapsed mute");
        text.line(text::warning(mutes) + diagnose());
    }
    text
}
