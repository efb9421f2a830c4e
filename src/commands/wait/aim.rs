//! The progress of a wait, each time that the cluster was read.

use super::condition::ConditionState;
use super::waited::Waited;
use crate::cluster::Cluster;
use crate::commands::shared::blockers::Blockers;
use crate::ctx::{self, AimProgress, AimState, Blocked};
use crate::view::text::Text;

/// The goal and its blockers.
pub struct Aim {
    pub waited: Waited,
    /// `None` with --keep-going: blockers do not end the wait.
    pub blockers: Option<Blockers>,
}

impl ctx::Aim for Aim {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        self.waited.judge(cluster);
        let mut items = self.waited.items.iter();
        let never = items.find_map(|(_, far)| match far {
            ConditionState::Never(why, _) => Some(why.clone()),
            _ => None,
        });
        let state = match never {
            _ if self.waited.met() => AimState::Met,
            Some(why) => AimState::Never(why),
            None => AimState::NotYet,
        };
        let mut whole = Text::new();
        for line in self.waited.missing() {
            whole.paragraph(line);
        }
        AimProgress {
            state,
            whole,
            news: Vec::new(),
        }
    }

    fn blocked(&mut self, cluster: &Cluster) -> Blocked {
        match (&mut self.blockers, self.waited.condition.goal()) {
            (Some(blockers), Some(goal)) => blockers.judge(cluster, &self.waited.names(), goal),
            _ => Blocked::No,
        }
    }
}
