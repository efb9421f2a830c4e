//! Waits for the effect of a stage.

use std::cell::RefCell;
use std::time::Duration;

use futures::future::LocalBoxFuture;

use super::{ApplyEvent, PlanRun, StopReason};
use crate::plan::WaitFor;

/// Waits on behalf of the writer for slow effects, shows progress, and reports when an effect cannot occur.
pub trait WaitStrategy {
    /// Whether this strategy waits for the condition.
    fn handles(&self, until: &WaitFor) -> bool;

    /// Waits for these conditions until at least one wait ends; returns the indices of the ended waits, and
    /// the reason.
    ///
    /// The future may be dropped at any time, and `wait` called again with more conditions.
    fn wait<'a>(&'a mut self, untils: &'a [&'a WaitFor]) -> LocalBoxFuture<'a, (Vec<usize>, StopReason)>;
}

impl PlanRun<'_, '_> {
    /// Polls the object until the condition holds. If the last read before the timeout failed, the result is
    /// unknown.
    pub(super) async fn wait_until(&self, until: &WaitFor) -> StopReason {
        self.emit(&ApplyEvent::Waiting { until });
        let unread = RefCell::new(None);
        let come_about = async {
            loop {
                let looked = self.holds(until).await;
                if looked == Ok(true) {
                    return StopReason::Finished;
                }
                unread.replace(looked.err());
                tokio::time::sleep(self.options.retry_wait).await;
            }
        };
        let ended = self.stop.during(async {
            if until.at_most == 0 {
                return come_about.await;
            }
            let limit = Duration::from_secs(until.at_most);
            let ended = tokio::time::timeout(limit, come_about).await;
            ended.unwrap_or_else(|_| match unread.take() {
                Some(reason) => StopReason::Unknown {
                    reason: format!("cannot tell whether {}: {reason}", until.describe()),
                },
                None => StopReason::TimedOut { waiting: until.describe() },
            })
        });
        ended.await.unwrap_or(StopReason::Interrupted)
    }

    /// Whether the condition holds; or why the object could not be read.
    pub(super) async fn holds(&self, until: &WaitFor) -> Result<bool, String> {
        let object = self.api.read(&until.target).await?;
        Ok(until.holds(&object))
    }
}
