//! The API server's checks before it evicts a pod.

use crate::cluster::admission::{Webhook, WebhookConfiguration};
use crate::cluster::event::Event;
use crate::cluster::{Cluster, DisruptionBudget, Pod};

/// A webhook that may refuse evictions, with its configuration.
pub type EvictionWebhook<'a> = (&'a WebhookConfiguration, &'a Webhook);

/// The reason why the API server refuses to evict a pod.
#[derive(Debug, Clone)]
pub enum EvictionBlock<'a> {
    /// The only budget that selects the pod allows no disruption.
    Budget(&'a DisruptionBudget),
    /// Several budgets select the pod: the eviction API supports only one, and refuses even if all of them
    /// allow a disruption.
    Overlap(Vec<&'a DisruptionBudget>),
}

impl WebhookConfiguration {
    /// Whether a webhook of the configuration matches evictions of pods.
    pub fn sees_evictions(&self) -> bool {
        self.webhooks.iter().any(Webhook::sees_evictions)
    }
}

impl Webhook {
    /// Whether the webhook matches evictions. Its namespace and object selectors are not evaluated.
    fn sees_evictions(&self) -> bool {
        self.covers("", "pods/eviction", "CREATE")
    }
}

impl Cluster {
    /// The reason why the known budgets do not allow the eviction of a pod now (`EvictionREST`).
    pub fn eviction_block(&self, pod: &Pod) -> Option<EvictionBlock<'_>> {
        // The API server ignores budgets for pods that are pending, have ended, or are being deleted.
        if pod.status.phase == "Pending" || pod.ended() || pod.metadata.deleting() {
            return None;
        }
        let budgets = self.disruption_budgets.items().iter();
        let selecting: Vec<_> = budgets.filter(|budget| budget.selects(pod)).collect();
        match selecting.as_slice() {
            [] => None,
            [budget] => budget.holds(pod).then_some(EvictionBlock::Budget(budget)),
            _ => Some(EvictionBlock::Overlap(selecting)),
        }
    }

    /// The newest eviction failure event of an existing pod.
    pub fn eviction_event(&self, pod: &Pod) -> Option<&Event> {
        let events = self.events.items().iter();
        let about = events.filter(|event| {
            let text = event.message.to_lowercase();
            let of_pod = event.kind == "Pod" && event.name == pod.name();
            (of_pod || text.contains(pod.name())) && text.contains("evict")
        });
        about.max_by_key(|event| event.last)
    }

    /// Admission webhooks that match evictions. Each of them may refuse one.
    pub fn eviction_webhooks(&self) -> impl Iterator<Item = EvictionWebhook<'_>> {
        let all = self.admission.webhooks.items().iter();
        let each = all.flat_map(|c| c.webhooks.iter().map(move |webhook| (c, webhook)));
        each.filter(|(_, webhook)| webhook.sees_evictions())
    }
}
