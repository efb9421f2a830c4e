//! Waiting for what a stage sets off.

use std::time::Duration;

use futures::future::LocalBoxFuture;

use super::{Ended, Event, Run};
use crate::plan::Until;

/// Waits in the writer's stead for what takes long, shows how it goes, and says when it cannot come about.
pub trait Attend {
    /// Waits; `None` if this is none of its business.
    ///
    /// It may be dropped at any moment: the user has given the sign to stop.
    fn attend<'a>(&'a mut self, until: &'a Until) -> LocalBoxFuture<'a, Option<Ended>>;
}

impl Run<'_, '_> {
    pub(super) async fn wait_until(&self, until: &Until) -> Ended {
        self.tell(&Event::Waiting { until });
        let come_about = async {
            if let Some(attendant) = self.attendant.take() {
                let ended = attendant.attend(until).await;
                self.attendant.set(Some(attendant));
                if let Some(ended) = ended {
                    return ended;
                }
            }
            self.look_until(until).await
        };
        let ended = self.stop.during(come_about).await;
        ended.unwrap_or(Ended::Interrupted)
    }

    /// Whether it has come about, as far as can be read.
    pub(super) async fn holds(&self, until: &Until) -> bool {
        let object = self.line.read(&until.target).await;
        object.is_ok_and(|object| until.holds(&object))
    }

    /// Looks at the object again and again.
    async fn look_until(&self, until: &Until) -> Ended {
        let come_about = async {
            loop {
                if self.holds(until).await {
                    return Ended::Finished;
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
            Err(_) => Ended::TimedOut {
                waiting: until.describe(),
            },
        }
    }
}
