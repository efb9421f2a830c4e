use super::support::overdue::{DueActions, Overdue};
use super::{ENDED_RECONCILE, Findings, Grade, Subject};
use crate::api::Executor;
use crate::cluster::Cluster;
use crate::model::Action;

rule! {
    /// The operator has not taken an action that is due.
    ///
    /// # What it means
    ///
    /// Nothing prevents the operator from starting a stage, evicting pods, or writing to the node, and it does so
    /// within seconds. A minute later there is still no trace of it. Until the cause is fixed, the custom resource
    /// makes no progress on the node.
    ///
    /// # What causes it
    ///
    /// The API server refuses the request, and only the operator's log shows why: Pod Security, a LimitRange, a
    /// ResourceQuota, a webhook whose service does not respond, or a missing permission. Or the operator's reconcile
    /// ends early, for this or another custom resource.
    ///
    /// # How to confirm
    ///
    /// The rollout does not hold the node back, no stage of the custom resource runs there, and the newest
    /// change that concerns the node is more than a minute old. After ten minutes this is an error: the
    /// operator reconciles at least that often. It is an error at once if the cause was read: the labels,
    /// limit ranges and quotas of the operator's namespace, its roles, and webhooks for pods, Jobs, evictions
    /// and nodes.
    ///
    /// # How to fix
    ///
    /// Read the operator's log for the refused request, and remove its cause. The operator retries automatically.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY228 "action-overdue" Error needs Skyhooks Nodes Pods Jobs, also Policies Operator Workloads DisruptionBudgets Webhooks Restrictions,
        blocks Install Uninstall, retried true
}

fn detect(_: &Cluster, findings: &mut Findings) {
    let cluster = findings.cluster();
    let due = DueActions::new(findings);
    for skyhook in &cluster.skyhooks {
        for overdue in due.overdue(skyhook) {
            let action = &overdue.due.action;
            let node = overdue.due.node;
            let mut subject = Subject::skyhook_on_node(skyhook, node);
            subject.package = action.package().map(str::to_owned);
            let finding = findings.report(subject, message(cluster, &overdue));
            let lasts = !overdue.undated && cluster.is_stale(Some(overdue.since));
            let certain = lasts || !overdue.restrictions.is_empty();
            finding
                .warning_if(!certain)
                .since(Some(overdue.since))
                .effect_of(EXPLAINED_BY)
                .evidence(node, "the operator should have", action.participle())
                .evidence(node, "last change", overdue.since)
                .no_package_run(cluster, "pods and jobs of the custom resource on the node");
            for restriction in overdue.restrictions.iter() {
                finding.evidence(&restriction.object, &restriction.field, &restriction.value);
                let (title, words) = &restriction.fix;
                let grade = if restriction.changes { Grade::B2 } else { Grade::B0 };
                finding.kubectl(grade, *title, words);
            }
            if let Some(why) = cluster.operator().restrictions_unread() {
                finding.evidence("operator", "limits and permissions", format!("not read: {why}"));
            }
            if overdue.restrictions.is_empty() {
                let title = "Check the operator's log for the refused request, and remove its cause";
                finding.operator_log(cluster, title);
            }
        }
    }
}

/// Rules about causes that end the operator's reconcile, for one custom resource or for all.
const EXPLAINED_BY: &[&str] = &[ENDED_RECONCILE, "SKY223", "SKY506", "SKY507"];

fn message(cluster: &Cluster, overdue: &Overdue<'_>) -> String {
    let action = &overdue.due.action;
    let place = if overdue.due.certain { "" } else { " on one of the waiting nodes" };
    let trace = match action {
        Action::StartStage { .. } | Action::Interrupt { .. } => match cluster.flavor().executor() {
            Executor::Job => ", and no job has appeared",
            Executor::Pod => ", and no pod has appeared",
        },
        _ => ", but has not",
    };
    let why =
        overdue.restrictions.first().map_or(String::new(), |restriction| format!(": {}", restriction.why));
    format!("the operator should have {}{place}{trace}{why}", action.participle())
}
