//! The logs that a report asks for, and what became of them.

use super::Diagnosis;
use super::group::FindingGroup;
use crate::cluster::attempts::ContainerLog;
use crate::ctx::Tail;
use crate::rules::Finding;
use crate::rules::causes::Causes;
use crate::view::text::{self, Line};
use crate::view::{list, plural};

/// Logs that are asked for at the most.
const MOST: usize = 50;

impl Diagnosis<'_> {
    /// The logs to ask for: of one finding of each group, the causes first. Each is what to try, best first.
    pub fn logs(&self) -> Vec<Vec<ContainerLog>> {
        self.asked().into_iter().map(|(_, pieces)| pieces).collect()
    }

    /// Adds what became of the logs asked for, in their order.
    pub fn heard(mut self, tails: Vec<Tail>) -> Self {
        for ((findings, pieces), tail) in self.asked().into_iter().zip(&tails) {
            for at in findings {
                let Some(reason) = &mut self.report.findings[at].reason else {
                    continue;
                };
                match tail {
                    Tail::Lines(piece, lines) => reason.heard(&pieces[*piece], lines),
                    Tail::Nothing => {}
                    Tail::Unread(why) => reason.log_unread = Some(why.clone()),
                    Tail::Late => reason.log_unread = Some("not received in time".to_owned()),
                }
            }
        }
        self.asks = tails;
        self
    }

    /// The findings with the logs to ask for; those with the same logs together.
    fn asked(&self) -> Vec<(Vec<usize>, Vec<ContainerLog>)> {
        let findings = &self.report.findings;
        let causes = Causes::of(findings).ranked(findings);
        let groups: Vec<FindingGroup<'_>> = causes
            .iter()
            .map(|c| FindingGroup::of(c, findings))
            .collect();
        let effects: Vec<FindingGroup<'_>> =
            groups.iter().flat_map(FindingGroup::effects).collect();
        let mut asked: Vec<(Vec<usize>, Vec<ContainerLog>)> = Vec::new();
        for group in groups.iter().chain(&effects) {
            let with_logs = |f: &&&Finding| f.reason.as_ref().is_some_and(|r| !r.pieces.is_empty());
            let Some(finding) = group.findings.iter().find(with_logs) else {
                continue;
            };
            let at = findings.iter().position(|f| std::ptr::eq(f, *finding));
            let (Some(at), Some(reason)) = (at, &finding.reason) else {
                continue;
            };
            let room = asked.len() < MOST;
            match asked
                .iter_mut()
                .find(|(_, pieces)| *pieces == reason.pieces)
            {
                Some((places, _)) if places.contains(&at) => {}
                Some((places, _)) => places.push(at),
                None if room => asked.push((vec![at], reason.pieces.clone())),
                None => {}
            }
        }
        asked
    }

    /// One line on the logs that could not be read.
    pub(super) fn logs_not_read(&self) -> Option<Line> {
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for tail in &self.asks {
            let why = match tail {
                Tail::Unread(why) => why.as_str(),
                Tail::Late => "no response within a second",
                Tail::Lines(..) | Tail::Nothing => continue,
            };
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, count)) => *count += 1,
                None => reasons.push((why, 1)),
            }
        }
        if reasons.is_empty() {
            return None;
        }
        let parts = reasons
            .iter()
            .map(|(why, count)| format!("{} ({why})", plural(*count, "log")));
        let parts: Vec<String> = parts.collect();
        Some(text::warning("Not read") + format!(": {}", list(&parts)))
    }
}
