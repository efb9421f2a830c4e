//! Which blockers are there to stay, look after look. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{Finding, Subject};
use crate::api::Executor;

/// By which a finding is known again at the next look.
pub type Key = (&'static str, Subject);

/// How long a pod that restarts in place may fail: some four attempts.
const RESTARTS: Duration = Duration::from_secs(120);

/// How long what is tried again may fail before that counts.
///
/// A Job counts its attempts itself, and the rules tell when it has failed permanently.
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

    /// Those that were there at the last look, too: sources are read side by side, and one look may see two moments.
    ///
    /// What is tried again must have failed for as long as is tolerated.
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

    /// Forgets what was seen: something else is waited for now.
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
