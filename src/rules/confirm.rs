//! Blockers that persist over several checks. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{Finding, Subject};
use crate::api::Executor;

/// By which a finding is known again at the next look.
pub type Key = (&'static str, Subject);

/// How long a pod that restarts in place may fail: some four attempts.
const RESTARTS: Duration = Duration::from_secs(120);

/// The time that a retried operation may fail before it counts.
///
/// A Job counts its attempts itself, and the rules detect its permanent failure.
pub fn tolerated(executor: Executor) -> Duration {
    match executor {
        Executor::Pod => RESTARTS,
        Executor::Job => Duration::ZERO,
    }
}

impl Finding {
    pub fn key(&self) -> Key {
        (self.rule.code, self.subject.clone())
    }
}

/// Blockers that were seen, and since when.
#[derive(Debug)]
pub struct Suspects {
    tolerate: Duration,
    seen: BTreeMap<Key, Timestamp>,
    fresh: bool,
}

impl Suspects {
    pub fn new(tolerate: Duration) -> Suspects {
        Suspects {
            tolerate,
            seen: BTreeMap::new(),
            fresh: false,
        }
    }

    /// The findings that the last check had as well: sources are read in parallel, and one check may mix two moments.
    ///
    /// A retried operation must have failed for the tolerated time.
    pub fn confirm(&mut self, now: Timestamp, found: &[&Finding]) -> BTreeSet<Key> {
        let before = std::mem::take(&mut self.seen);
        let mut confirmed = BTreeSet::new();
        self.fresh = false;
        for finding in found {
            let key = finding.key();
            let since = before.get(&key).copied();
            match since {
                Some(since) if !finding.rule.retried || self.lasted(finding, since, now) => {
                    confirmed.insert(key.clone());
                }
                Some(_) => {}
                None => self.fresh = true,
            }
            self.seen.insert(key, since.unwrap_or(now));
        }
        confirmed
    }

    /// Forgets earlier checks when the goal changes.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// Whether there are some that the next look may confirm.
    pub fn look_again(&self) -> bool {
        self.fresh
    }

    fn lasted(&self, finding: &Finding, since: Timestamp, now: Timestamp) -> bool {
        let since = finding.failing_since.map_or(since, |at| at.min(since));
        let lasted = now.duration_since(since);
        Duration::try_from(lasted).is_ok_and(|lasted| lasted >= self.tolerate)
    }
}
