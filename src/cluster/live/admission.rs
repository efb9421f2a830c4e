//! How the webhooks of custom resources are read, and what answers them.

use std::collections::BTreeSet;

use super::list::List;
use super::sources::{CORE, Reader, read};
use crate::cluster::Read;
use crate::cluster::admission::{
    Admission, CONFIGURATIONS, SERVICE_LABEL, ServiceReference, WebhookConfiguration,
};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DISCOVERY: &str = "/apis/discovery.k8s.io/v1";

impl Reader<'_> {
    /// The webhooks that see changes of custom resources, and what answers them.
    pub async fn admission(&self) -> Admission {
        let mut webhooks: Vec<WebhookConfiguration> = Vec::new();
        for (kind, plural) in CONFIGURATIONS {
            let list = List::all(ADMISSION, plural, "webhook configuration");
            match self.list::<WebhookConfiguration>(&list).await {
                Ok(found) => webhooks.extend(found.into_iter().map(|found| {
                    let kind = kind.to_owned();
                    WebhookConfiguration { kind, ..found }
                })),
                Err(failure) => {
                    return Admission {
                        webhooks: Read::Unreadable(failure.into()),
                        ..Admission::default()
                    };
                }
            }
        }
        webhooks.retain(WebhookConfiguration::concerns_us);
        let references: BTreeSet<&ServiceReference> =
            webhooks.iter().flat_map(|w| w.services()).collect();
        let (mut services, mut slices) = (Vec::new(), Vec::new());
        for reference in references {
            let ServiceReference { namespace, name } = reference;
            let service = List::inside(CORE, namespace, "services", "service");
            services.push(service.with_fields(&format!("metadata.name={name}")));
            let behind = List::inside(DISCOVERY, namespace, "endpointslices", "endpoint slice");
            slices.push(behind.labelled(&format!("{SERVICE_LABEL}={name}")));
        }
        let (services, endpoints) = futures::join!(self.all_of(&services), self.all_of(&slices));
        Admission {
            webhooks: Read::Ok(webhooks),
            services: read(services),
            endpoints: read(endpoints),
        }
    }
}
