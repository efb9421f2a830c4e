//! Log requests of a report, and their failures.

use std::collections::HashMap;

use super::Diagnosis;
use super::group::FindingGroup;
use crate::cluster::attempts::ContainerLog;
use crate::commands::shared::grouped::grouped;
use crate::ctx::Tail;
use crate::rules::Finding;
use crate::view::text::{self, Line};
use crate::view::{list, plural};

/// Maximum number of log requests.
const MOST: usize = 50;

impl Diagnosis<'_> {
    /// The logs to request, at most `MOST`: for one finding of each group that has logs, causes first. Each
    /// item lists candidates, best first.
    pub fn logs(&self) -> Vec<Vec<ContainerLog>> {
        self.log_requests().into_iter().map(|(_, pieces)| pieces).collect()
    }

    /// Adds the results of the log requests, in order.
    pub fn with_logs(mut self, tails: Vec<Tail>) -> Self {
        for ((findings, pieces), tail) in self.log_requests().into_iter().zip(&tails) {
            for at in findings {
                let Some(reason) = &mut self.report.findings[at].reason else {
                    continue;
                };
                match tail {
                    Tail::Lines(piece, lines) => reason.set_log(&pieces[*piece], lines),
                    Tail::Nothing => {}
                    Tail::Unread(why) => reason.log_error = Some(why.clone()),
                    Tail::Late => reason.log_error = Some("not received in time".to_owned()),
                }
            }
        }
        self.tails = tails;
        self
    }

    /// The findings with the logs to request; findings with the same logs share a request.
    fn log_requests(&self) -> Vec<(Vec<usize>, Vec<ContainerLog>)> {
        let findings = self.report.findings.iter().enumerate();
        let places: HashMap<*const Finding, usize> =
            findings.map(|(at, finding)| (std::ptr::from_ref(finding), at)).collect();
        let causes = self.causes();
        let effects: Vec<_> = causes.iter().flat_map(FindingGroup::effects).collect();
        let mut asked: Vec<(Vec<usize>, Vec<ContainerLog>)> = Vec::new();
        for group in causes.iter().chain(&effects) {
            let with_logs = |f: &&&Finding| f.reason.as_ref().is_some_and(|r| !r.pieces.is_empty());
            let Some(finding) = group.findings.iter().find(with_logs) else {
                continue;
            };
            let at = places.get(&std::ptr::from_ref(*finding)).copied();
            let (Some(at), Some(reason)) = (at, &finding.reason) else {
                continue;
            };
            let room = asked.len() < MOST;
            match asked.iter_mut().find(|(_, pieces)| *pieces == reason.pieces) {
                Some((places, _)) if places.contains(&at) => {}
                Some((places, _)) => places.push(at),
                None if room => asked.push((vec![at], reason.pieces.clone())),
                None => {}
            }
        }
        asked
    }

    /// One line on the logs that could not be read.
    pub fn logs_not_read(&self) -> Option<Line> {
        let unread = self.tails.iter().filter_map(|tail| match tail {
            Tail::Unread(why) => Some((why.as_str(), tail)),
            Tail::Late => Some(("no response within a second", tail)),
            Tail::Lines(..) | Tail::Nothing => None,
        });
        let reasons = grouped(unread).into_iter();
        let parts = reasons.map(|(why, logs)| format!("{} ({why})", plural(logs.len(), "log")));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| text::warning("Not read") + format!(": {}", list(&parts)))
    }
}
