//! Waiting for what a stage sets off.

use std::time::Duration;

use futures::future::LocalBoxFuture;

use super::{ApplyEvent, PlanRun, StopReason};
use crate::plan::WaitFor;

/// Waits in the writer's stead for what takes long, shows how it goes, and says when it cannot come about.
pub trait WaitStrategy {
    /// Waits; `None` if this is none of its business.
    ///
    /// It may be dropped at any moment: the user has given the sign to stop.
    fn wait<'a>(&'a mut self, until: &'a WaitFor) -> LocalBoxFuture<'a, Option<StopReason>>;
}

impl PlanRun<'_, '_> {
    pub(super) async fn wait_until(&self, until: &WaitFor) -> StopReason {
        self.tell(&ApplyEvent::Waiting { until });
        let come_about = async {
            if let Some(strategy) = self.wait_strategy.take() {
                let ended = strategy.wait(until).await;
                self.wait_strategy.set(Some(strategy));
                if let Some(ended) = ended {
                    return ended;
                }
            }
            self.look_until(until).await
        };
        let ended = self.stop.during(come_about).await;
        ended.unwrap_or(StopReason::Interrupted)
    }

    /// Whether it has come about, as far as can be read.
    pub(super) async fn holds(&self, until: &WaitFor) -> bool {
        let object = self.line.read(&until.target).await;
        object.is_ok_and(|object| until.holds(&object))
    }

    /// Looks at the object again and again.
    async fn look_until(&self, until: &WaitFor) -> StopReason {
        let come_about = async {
            loop {
                if self.holds(until).await {
                    return StopReason::Finished;
                }
                tokio::time::sleep(self.options.patience).await;
            }
        };
        if until.at_most == 0 {
            return come_about.await;
        }
        let limit = Duration::from_secs(until.at_most);
        match tokio::time::timeout(limit, come_about).await {
            Ok(ended) => ended,
            Err(_) => StopReason::TimedOut {
                waiting: until.describe(),
            },
        }
    }
}
