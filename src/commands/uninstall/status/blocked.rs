//! Blockers of an uninstall.

use super::PackageUninstall;
use crate::cluster::Placement;
use crate::rules::support::blockers::BlockingFindings;
use crate::rules::{self, Finding, Goal, Scope};

impl<'a> PackageUninstall<'a> {
    /// The blocker of an uninstall that needs an intervention. Only findings about the node itself stop a stage that is
    /// running there; without a running stage, the node may also wait for another node.
    pub fn blocked(&self, placement: &Placement<'a>) -> Option<String> {
        let skyhook = self.skyhook?;
        let at_work = self.package_runs.since(placement).is_some();
        if let Some(how) = skyhook.stopped().filter(|_| !at_work) {
            return Some(format!("the custom resource is {how}"));
        }
        let blockers = self.blockers.get_or_init(|| {
            let cluster = self.cluster;
            let report = self.report.get_or_init(|| rules::diagnose(cluster, &Scope::default()));
            let findings = &report.findings;
            let blocking = self.blocking;
            let blocking = blocking.get_or_init(|| BlockingFindings::of(findings));
            let goal = Goal::Uninstall(Some(self.package));
            blocking.of_goal(findings, cluster, skyhook, goal)
        });
        let node = placement.node.name.as_str();
        let here = |f: &&&Finding| {
            let blocked = f.blocked_nodes.iter().any(|n| n == node);
            match f.subject.node.as_deref() {
                Some(on) if on == node => true,
                Some(_) => !at_work && (f.blocks_reconcile() || blocked),
                None => !at_work && (f.blocked_nodes.is_empty() || blocked),
            }
        };
        let blocker = blockers.iter().find(here)?;
        Some(format!("{}: {}", blocker.rule.code, blocker.message))
    }
}
