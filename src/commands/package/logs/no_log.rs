//! Notes next to a log, or in place of a missing log.

use super::choose::LogSelection;
use crate::api::{Entry, Executor, State};
use crate::cluster::attempts::Choice;
use crate::cluster::{Cluster, Node};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::{self, Text};
use crate::view::{NodeSet, plural};

/// Why the cluster has no logs, and where the hosts keep them.
pub fn nothing(cluster: &Cluster, nodes: &[&Node], wanted: LogSelection<'_>) -> Text {
    let what = match wanted.stage {
        Some(stage) => format!("stage {stage} of {}", wanted.package),
        None => wanted.package.to_owned(),
    };
    let why = match cluster.flavor().executor() {
        Executor::Pod => "the operator deletes a pod as soon as its stage is complete",
        Executor::Job => {
            "the operator lets finished jobs expire, by default an hour after they succeed and a day after they fail"
        }
    };
    let recorded = |node: &&&Node| entry(cluster, node, wanted).is_some();
    let stands = |e: &Entry| wanted.stage.is_none_or(|stage| e.stage == *stage);
    let erroring = nodes
        .iter()
        .filter_map(|node| entry(cluster, node, wanted))
        .find(|e| e.state == State::Erroring && stands(e));
    let begun: Vec<&str> = nodes.iter().filter(recorded).map(|n| n.name.as_str()).collect();
    let mut note = Text::new();
    if begun.is_empty() {
        note.paragraph(format!(
            "No pod of {what} was found, and no selected node has a record of the package: the package has not run yet, or ran long ago."
        ));
    } else if let Some(entry) = erroring {
        note.paragraph(format!(
            "No pod of {what} was found, although stage {} is erroring: its pod was deleted, or its node was recreated.",
            entry.stage
        ));
    } else {
        note.paragraph(format!("No pod of {what} is left: {why}."));
    }
    let on = match begun.as_slice() {
        [] => "the nodes".to_owned(),
        begun => NodeSet::of(begun).limited(4),
    };
    note.paragraph(format!("The agent's own logs stay on {on}, in {}.", directory(cluster, wanted.skyhook)));
    note
}

/// The record of the package in the state of a node.
fn entry<'a>(cluster: &'a Cluster, node: &'a Node, wanted: LogSelection<'_>) -> Option<&'a Entry> {
    let skyhook = cluster.skyhook(wanted.skyhook);
    let entries = cluster.on_node(node, wanted.skyhook)?.entries_of(skyhook, wanted.package);
    entries.first().copied()
}

/// The agent's log directory on a host, as configured in the operator.
fn directory(cluster: &Cluster, skyhook: &str) -> String {
    let root = cluster.operator_setting("AGENT_LOG_ROOT");
    format!("{}/{skyhook}", root.unwrap_or("/var/log/skyhook").trim_end_matches('/'))
}

/// Prints facts about a stage and its other attempts. With `unread`, a log could not be read, so it is unknown whether
/// it has lines.
pub fn about(ctx: &mut Ctx, choice: &Choice, attempt: Option<usize>, unread: bool) {
    let shown = attempt.map(|at| &choice.attempts[at]);
    let others = choice.attempts.iter().filter(|a| !a.pieces.is_empty()).count();
    let mut messages = choice.messages.clone();
    match shown {
        Some(attempt) => {
            let failure = attempt.failure.iter().cloned();
            messages.splice(0..0, failure);
        }
        None if choice.last_logs.is_some() => {
            messages.insert(
                0,
                "its pods are gone; these are the last lines of the log, kept by the operator".to_owned(),
            );
        }
        None if messages.is_empty() && !unread => {
            messages.push("it has written no readable output".to_owned())
        }
        None => {}
    }
    if let (Some(0), true) = (attempt, others > 1) {
        let earlier = plural(others - 1, "earlier attempt");
        messages.push(format!("{earlier} kept: --previous"));
    }
    if messages.is_empty() {
        return;
    }
    let mut note = Text::new();
    let place = format!("{} {} ({}): ", choice.node, choice.stage, choice.reference);
    note.paragraph(text::dim(place) + messages.join("; "));
    ctx.note(note);
}

/// Prints the log tails that the operator keeps on its Jobs: files other than a capture contain no other logs.
pub fn from_files(ctx: &mut Ctx, choices: &[Choice]) -> Result<Exit> {
    for choice in choices {
        for line in choice.last_logs.iter().flat_map(|kept| kept.split_inclusive('\n')) {
            ctx.log(&text::Line::default(), line.as_bytes())?;
        }
        let newest = (!choice.attempts.is_empty()).then_some(0);
        about(ctx, choice, newest, false);
    }
    ctx.note("These files contain no logs; read the logs from the cluster, or from a file that `kubectl skyhook collect` wrote.");
    Ok(Exit::Done)
}
