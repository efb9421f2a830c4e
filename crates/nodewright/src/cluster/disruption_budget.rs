//! Pod disruption budgets, which may refuse the evictions of a drain.

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus;
use serde::Deserialize;

use super::Pod;
use crate::api::{LabelSelector, Meta, UnknownFields, WithoutManagers, objects_with_metadata};

/// A `PodDisruptionBudget`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DisruptionBudget {
    #[serde(with = "WithoutManagers")]
    pub metadata: Meta,
    spec: DisruptionBudgetSpec,
    pub status: PodDisruptionBudgetStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(DisruptionBudget);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DisruptionBudgetSpec {
    /// `None` selects no pod; an empty selector selects every pod of the namespace.
    selector: Option<LabelSelector>,
    /// `IfHealthyBudget` (the default) or `AlwaysAllow`.
    unhealthy_pod_eviction_policy: Option<String>,
}

impl DisruptionBudget {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The namespace; empty if unset.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// `namespace/name`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    /// The allowed disruptions, as in `0; 2 healthy, 2 required`.
    pub fn allows(&self) -> String {
        let status = &self.status;
        let number = |number: Option<i32>| number.unwrap_or(0);
        format!(
            "{}; {} healthy, {} required",
            number(status.disruptions_allowed),
            number(status.current_healthy),
            number(status.desired_healthy)
        )
    }

    /// Whether the budget covers the pod.
    pub fn selects(&self, pod: &Pod) -> bool {
        let covers = |selector: &LabelSelector| selector.matches(&pod.metadata.labels);
        pod.metadata.namespace.as_deref() == Some(self.namespace())
            && self.spec.selector.as_ref().is_some_and(covers)
    }

    /// Whether the budget refuses the eviction of a pod that it covers. A budget that no controller has
    /// processed yet refuses every eviction, except those that `AlwaysAllow` permits.
    pub fn holds(&self, pod: &Pod) -> bool {
        let policy = self.spec.unhealthy_pod_eviction_policy.as_deref();
        let spares_unhealthy = policy == Some("AlwaysAllow") || self.is_healthy();
        self.allows_none() && (pod.ready() || !spares_unhealthy)
    }

    /// Whether enough pods are healthy: the default policy then allows the eviction of unhealthy pods.
    fn is_healthy(&self) -> bool {
        let desired = self.status.desired_healthy.unwrap_or(0);
        desired > 0 && self.status.current_healthy.unwrap_or(0) >= desired
    }

    fn allows_none(&self) -> bool {
        self.status.disruptions_allowed.unwrap_or(0) <= 0
    }

    /// Whether the budget allows no eviction although all its pods are healthy, so that waiting does not
    /// help.
    ///
    /// Excludes the time right after an eviction: the budget allows no other eviction then, but more pods
    /// than required still count as healthy.
    pub fn refuses_for_good(&self) -> bool {
        let status = &self.status;
        let expected = status.expected_pods.unwrap_or(0);
        let healthy = status.current_healthy.unwrap_or(0);
        self.allows_none()
            && status.observed_generation.is_some()
            && expected > 0
            && healthy >= expected
            && healthy <= status.desired_healthy.unwrap_or(0)
    }

    /// Whether the budget has refused since before a drain began, so that no eviction of that drain used it
    /// up.
    pub fn refused_before(&self, start: Timestamp) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        let allowed = conditions.find(|c| c.type_ == "DisruptionAllowed");
        let refused = allowed.filter(|c| c.status != "True");
        refused.is_some_and(|c| c.last_transition_time.0 < start)
    }
}
