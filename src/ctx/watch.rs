//! A cluster that a command watches, with error tolerance.

use std::time::Duration;

use tokio::time::Instant;

use super::Ctx;
use crate::apply::owner;
use crate::cluster::Cluster;
use crate::cluster::live::{self, Follow, LoadError};
use crate::connect::{Connected, ServerClock};
use crate::error::Result;

/// Maximum time for which a server may refuse the credentials, as it does while it starts.
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
    /// Whether the first error was reported.
    said: bool,
    refused_since: Option<Instant>,
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
    /// The server does not respond at present; holds a warning to print once.
    Away(Option<String>),
    /// The server keeps refusing the credentials.
    Lost(LoadError),
}

impl Watch {
    pub(super) fn begin(origin: &WatchOrigin, cluster: Cluster) -> Watch {
        let namespace = origin.namespace.as_deref();
        Watch {
            follow: Follow::begin(&origin.client, cluster, namespace),
            clock: origin.clock.clone(),
            said: false,
            refused_since: None,
        }
    }

    /// Whether every source was read since the start, or is watched from its loaded version.
    pub fn ready(&self) -> bool {
        self.follow.ready()
    }

    /// The current state.
    pub fn cluster(&mut self) -> &Cluster {
        let cluster = self.follow.cluster(super::time_of(&self.clock));
        owner::look(cluster);
        cluster
    }

    /// The current state, after the unwatched sources were read again.
    pub async fn whole(&mut self) -> &Cluster {
        let now = super::time_of(&self.clock);
        self.follow.refresh(now).await;
        self.cluster()
    }

    /// Waits for an update. Cancel-safe.
    pub async fn news(&mut self) -> WatchUpdate {
        let error = match self.follow.news().await {
            live::FollowEvent::Changed => {
                self.refused_since = None;
                return WatchUpdate::Changed;
            }
            live::FollowEvent::Away(error) => error,
        };
        let refuses = matches!(error, LoadError::Unauthorized { .. } | LoadError::Credentials(_));
        if refuses {
            let since = *self.refused_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= REFUSED_FOR {
                return WatchUpdate::Lost(error);
            }
        }
        let first = !std::mem::replace(&mut self.said, true);
        WatchUpdate::Away(first.then(|| format!("{error}; still waiting")))
    }
}

impl Ctx {
    /// Watches a loaded cluster.
    pub async fn watch(&mut self, cluster: Cluster) -> Result<Watch> {
        let connected = self.connected().await?;
        Ok(Watch::begin(&WatchOrigin::from(connected), cluster))
    }
}
