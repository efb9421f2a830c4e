//! Reads the webhooks for custom resources, the Services behind them, and the webhooks for evictions.

use std::collections::BTreeSet;

use super::decode::Listed;
use super::list::List;
use super::sources::{CORE, Reader, read};
use crate::cluster::Read;
use crate::cluster::admission::{
    Admission, CONFIGURATIONS, SERVICE_LABEL, ServiceReference, WebhookConfiguration,
};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DISCOVERY: &str = "/apis/discovery.k8s.io/v1";

impl Reader<'_> {
    /// Reads the webhooks for changes of custom resources, with the Services behind them, and the webhooks for
    /// evictions.
    pub async fn admission(&self) -> Admission {
        let mut webhooks: Listed<WebhookConfiguration> = Listed::default();
        for (kind, plural) in CONFIGURATIONS {
            let list = List::all(ADMISSION, plural, kind);
            match self.list::<WebhookConfiguration>(&list).await {
                Ok(mut found) => {
                    let all = found.items.iter_mut();
                    all.for_each(|found| found.kind = kind.to_owned());
                    webhooks.append(found);
                }
                Err(failure) => {
                    return Admission { webhooks: Read::Unreadable(failure.into()), ..Admission::default() };
                }
            }
        }
        let webhooks = Read::from(webhooks).selected(|found| found.concerns_us() || found.sees_evictions());
        let ours = webhooks.items().iter().filter(|found| found.concerns_us());
        let references: BTreeSet<&ServiceReference> = ours.flat_map(|w| w.services()).collect();
        let (mut services, mut slices) = (Vec::new(), Vec::new());
        for reference in references {
            let ServiceReference { namespace, name } = reference;
            let service = List::inside(CORE, namespace, "services", "Service");
            services.push(service.with_fields(&format!("metadata.name={name}")));
            let behind = List::inside(DISCOVERY, namespace, "endpointslices", "EndpointSlice");
            slices.push(behind.labelled(&format!("{SERVICE_LABEL}={name}")));
        }
        let (services, endpoints) = futures::join!(self.all_of(&services), self.all_of(&slices));
        Admission { webhooks, services: read(services), endpoints: read(endpoints) }
    }
}
