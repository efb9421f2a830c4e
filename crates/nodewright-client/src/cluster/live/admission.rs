//! Reads the webhooks for custom resources, the Services behind them, and the webhooks for evictions.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::decode::Listed;
use super::list::List;
use super::sources::{CORE, Reader, read};
use crate::cluster::Read;
use crate::cluster::admission::{
    Admission, CONFIGURATIONS, SERVICE_LABEL, ServiceReference, WebhookConfiguration,
};
use crate::cluster::kubernetes::Standard;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DISCOVERY: &str = "/apis/discovery.k8s.io/v1";

impl Reader<'_> {
    /// Reads the webhooks for changes of custom resources, with the Services behind them, and the webhooks for
    /// other requests of the operator.
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
        let webhooks = Read::from(webhooks).selected(WebhookConfiguration::is_relevant);
        let (services, endpoints) =
            self.backends(webhooks.items(), WebhookConfiguration::needs_backend).await;
        Admission { webhooks, services, endpoints }
    }

    /// Reads the Services behind some webhooks, and their endpoints.
    pub(super) async fn backends(
        &self,
        webhooks: &[WebhookConfiguration],
        which: impl Fn(&WebhookConfiguration) -> bool,
    ) -> (Read<Vec<Standard<Service>>>, Read<Vec<Standard<EndpointSlice>>>) {
        let some = webhooks.iter().filter(|found| which(found));
        let references: BTreeSet<&ServiceReference> = some.flat_map(|w| w.services()).collect();
        let (mut services, mut slices) = (Vec::new(), Vec::new());
        for reference in references {
            let ServiceReference { namespace, name } = reference;
            let service = List::inside(CORE, namespace, "services", "Service");
            services.push(service.with_fields(&format!("metadata.name={name}")));
            let behind = List::inside(DISCOVERY, namespace, "endpointslices", "EndpointSlice");
            slices.push(behind.labelled(&format!("{SERVICE_LABEL}={name}")));
        }
        let (services, endpoints) = futures::join!(self.all_of(&services), self.all_of(&slices));
        (read(services), read(endpoints))
    }
}
