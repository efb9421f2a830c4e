//! Reads of a whole cluster for `collect`.

use super::{Ctx, time_of};
use crate::apply::owner;
use crate::cluster::capture::ReadOutcome;
use crate::cluster::live::{self, CollectRequest, Collected};
use crate::error::{Error, Result};

impl Ctx {
    /// Reads the cluster for `request`, completed by `--api`, `--namespace` and the state of this plugin's processes on
    /// this machine.
    ///
    /// # Errors
    ///
    /// The input is files, or the server does not respond at all.
    pub async fn collect(&mut self, request: CollectRequest) -> Result<Collected> {
        if !self.global.reading.from.is_empty() {
            let reason =
                "collect requires a cluster; --from is not supported because the files can be shared as is";
            return Err(Error::usage(reason));
        }
        let api = self.global.reading.api;
        let connected = self.connected().await?;
        let request = CollectRequest {
            see_holders: owner::look,
            api,
            namespace: connected.namespace.clone(),
            ..request
        };
        let clock = connected.clock.clone();
        let collected = live::collect(&connected.client, &request, &|| time_of(&clock)).await;
        self.pass_on_warnings();
        let collected = collected?;
        let index = &collected.index;
        let sources = index.sources.iter().map(|source| source.outcome);
        let mut outcomes = sources.chain(index.logs.iter().map(|log| log.outcome));
        self.refused |= outcomes.any(|outcome| outcome == ReadOutcome::Refused);
        Ok(collected)
    }
}
