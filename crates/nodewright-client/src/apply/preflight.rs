//! Permission checks before a plan is applied.

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};

use super::Options;
use super::send::ApiWriter;
use crate::plan::{Permission, Plan};

/// The result of the permission checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionCheck {
    /// The missing permissions.
    pub denied: Vec<Permission>,
    /// Why permissions could not be checked.
    pub unknown: Option<String>,
}

/// Maximum number of objects whose permissions are checked by name.
const MOST_NAMES: usize = 32;

/// Checks exactly the verbs that the plan needs.
pub async fn preflight(client: &kube::Client, plan: &Plan, options: &Options) -> PermissionCheck {
    let api = ApiWriter::new(client.clone(), options);
    let permissions = plan.permissions();
    let answers = join_all(permissions.iter().map(|p| allowed(&api, p, None))).await;
    let mut preflight = PermissionCheck::default();
    for (permission, answer) in permissions.into_iter().zip(answers) {
        match answer {
            Ok(true) => {}
            Ok(false) if allowed_by_name(&api, plan, &permission).await => {}
            Ok(false) => preflight.denied.push(permission),
            Err(reason) => preflight.unknown = Some(reason),
        }
    }
    preflight
}

async fn allowed(api: &ApiWriter, permission: &Permission, name: Option<&str>) -> Result<bool, String> {
    api.review(&review(permission, name)).await
}

/// Whether the permission is granted for each object of the plan by name, as with `resourceNames` of a role.
/// `false` for creations, and for more than [`MOST_NAMES`] objects, which are not checked by name.
async fn allowed_by_name(api: &ApiWriter, plan: &Plan, permission: &Permission) -> bool {
    let names = plan.needed_for(permission);
    if permission.verb == "create" || names.len() > MOST_NAMES {
        return false;
    }
    let asked = names.iter().map(|name| allowed(api, permission, Some(name)));
    join_all(asked).await.iter().all(|a| *a == Ok(true))
}

fn review(permission: &Permission, name: Option<&str>) -> SelfSubjectAccessReview {
    let text = |text: &str| Some(text.to_owned());
    SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: text(permission.verb),
                group: text(permission.group),
                resource: text(permission.resource),
                subresource: permission.subresource.and_then(text),
                name: name.and_then(text),
                namespace: permission.namespace.clone(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    }
}
