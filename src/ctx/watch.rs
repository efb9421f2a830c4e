//! A cluster that a command watches, with error tolerance.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Ctx, time_of};
use crate::cluster::live::{Follow, LoadError};
use crate::cluster::{Cluster, live};
use crate::connect::{Connected, ServerClock};
use crate::error::Result;
use crate::view::human;

/// Maximum time for which a server may refuse the credentials or a right, as it does while it starts.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Pause between two runs of the rules, as a multiple of their run time.
const SHARE: u32 = 50;

/// The pause before the rules run again: at least `at_least`, longer after a slow run.
pub fn pause_after(took: Duration, at_least: Duration) -> Duration {
    at_least.max(took * SHARE)
}

/// A cluster that is kept up to date.
pub struct Watch {
    follow: Follow,
    clock: ServerClock,
    /// When the current outage was noticed.
    away_since: Option<Timestamp>,
    notice: Option<ContactNotice>,
    refused_since: Option<Instant>,
}

/// The message at the beginning or the end of an outage.
#[derive(Debug)]
pub enum ContactNotice {
    Lost(String),
    Restored(String),
}

/// The server that a watch reads from.
pub(super) struct WatchOrigin {
    client: kube::Client,
    namespace: Option<String>,
    clock: ServerClock,
}

impl From<&Connected> for WatchOrigin {
    fn from(connected: &Connected) -> WatchOrigin {
        WatchOrigin {
            client: connected.client.clone(),
            namespace: connected.namespace.clone(),
            clock: connected.clock.clone(),
        }
    }
}

/// An update of a watch.
pub enum WatchUpdate {
    Changed,
    /// The server does not respond at present.
    Away,
    /// The server keeps refusing the credentials or a right that the user had.
    Lost(LoadError),
}

impl Watch {
    pub(super) fn begin(origin: &WatchOrigin, cluster: Cluster) -> Watch {
        let namespace = origin.namespace.as_deref();
        Watch {
            follow: Follow::begin(&origin.client, cluster, namespace),
            clock: origin.clock.clone(),
            away_since: None,
            notice: None,
            refused_since: None,
        }
    }

    /// Whether every source was read since the start, or is watched from its loaded version.
    pub fn ready(&self) -> bool {
        self.follow.ready()
    }

    /// The current state.
    pub fn cluster(&mut self) -> &Cluster {
        let cluster = self.follow.cluster(time_of(&self.clock));
        crate::apply::precondition::look(cluster);
        cluster
    }

    /// The current state, after the unwatched sources were read again; `None` if the server cannot be
    /// reached.
    pub async fn whole(&mut self) -> Option<&Cluster> {
        let now = time_of(&self.clock);
        match self.follow.refresh(now).await {
            Ok(()) => self.answered(),
            Err(error) => {
                self.lost(&error);
                return None;
            }
        }
        Some(self.cluster())
    }

    /// Takes the message about an outage that has begun or ended since the last call.
    pub fn notice(&mut self) -> Option<ContactNotice> {
        self.notice.take()
    }

    fn lost(&mut self, error: &LoadError) {
        if self.away_since.is_some() {
            return;
        }
        let now = time_of(&self.clock);
        self.away_since = Some(now);
        let since = now.strftime("%H:%M:%S");
        self.notice = Some(ContactNotice::Lost(match error {
            LoadError::TransportError(error) => format!(
                "the API server at {} has been unreachable since {since} ({}); trying again",
                error.server,
                error.short()
            ),
            other => format!("{other}; trying again since {since}"),
        }));
    }

    /// Ends an outage once everything can be read again.
    fn answered(&mut self) {
        if self.follow.is_current()
            && let Some(since) = self.away_since.take()
        {
            let outage = time_of(&self.clock).duration_since(since);
            let notice = format!("the API server responds again, after {}", human(outage));
            self.notice = Some(ContactNotice::Restored(notice));
        }
    }

    /// Waits for an update. Cancel-safe.
    pub async fn news(&mut self) -> WatchUpdate {
        let error = match self.follow.news().await {
            live::FollowEvent::Changed => match self.follow.lost_right() {
                Some(error) => error,
                None => {
                    self.refused_since = None;
                    self.answered();
                    return WatchUpdate::Changed;
                }
            },
            live::FollowEvent::Away(error) => error,
        };
        let refuses = matches!(
            error,
            LoadError::Unauthorized { .. } | LoadError::Credentials(_) | LoadError::Forbidden { .. }
        );
        if refuses {
            let since = *self.refused_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= REFUSED_FOR {
                return WatchUpdate::Lost(error);
            }
        } else {
            // After an outage, the refusal may be out of date.
            self.refused_since = None;
        }
        self.lost(&error);
        WatchUpdate::Away
    }
}

impl Ctx {
    /// Watches a loaded cluster.
    pub async fn watch(&mut self, cluster: Cluster) -> Result<Watch> {
        let connected = self.connected().await?;
        Ok(Watch::begin(&WatchOrigin::from(connected), cluster))
    }
}
