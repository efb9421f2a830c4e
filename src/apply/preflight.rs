//! Whether the user may do what a plan needs, asked before anything is done.

use futures::future::join_all;
use serde_json::{Value, json};

use super::Options;
use super::send::ApiWriter;
use crate::plan::{Permission, Plan};

/// What the server says on permissions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionCheck {
    /// What the user may not do.
    pub denied: Vec<Permission>,
    /// Why it could not be asked.
    pub unknown: Option<String>,
}

/// Objects that are asked about one by one, at most.
const MOST_NAMES: usize = 32;
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Asks for exactly the verbs that the plan needs.
pub async fn preflight(client: &kube::Client, plan: &Plan, options: &Options) -> PermissionCheck {
    let line = ApiWriter::new(client.clone(), options);
    let permissions = plan.permissions();
    let answers = join_all(permissions.iter().map(|p| allowed(&line, p, None))).await;
    let mut preflight = PermissionCheck::default();
    for (permission, answer) in permissions.into_iter().zip(answers) {
        match answer {
            Ok(true) => {}
            Ok(false) if allowed_by_name(&line, plan, &permission).await => {}
            Ok(false) => preflight.denied.push(permission),
            Err(why) => preflight.unknown = Some(why),
        }
    }
    preflight
}

async fn allowed(
    line: &ApiWriter,
    permission: &Permission,
    name: Option<&str>,
) -> Result<bool, String> {
    let answer = line.review(REVIEWS, &review(permission, name)).await?;
    Ok(answer["status"]["allowed"] == json!(true))
}

/// Whether what may not be done to all objects may be done to each of these: a role may name them.
async fn allowed_by_name(line: &ApiWriter, plan: &Plan, permission: &Permission) -> bool {
    let names = plan.needed_for(permission);
    if permission.verb == "create" || names.len() > MOST_NAMES {
        return false;
    }
    let asked = names
        .iter()
        .map(|name| allowed(line, permission, Some(name)));
    join_all(asked).await.iter().all(|a| *a == Ok(true))
}

fn review(permission: &Permission, name: Option<&str>) -> Value {
    let mut attributes = json!({
        "verb": permission.verb,
        "group": permission.group,
        "resource": permission.resource,
    });
    if let Some(subresource) = permission.subresource {
        attributes["subresource"] = json!(subresource);
    }
    if let Some(name) = name {
        attributes["name"] = json!(name);
    }
    if let Some(namespace) = &permission.namespace {
        attributes["namespace"] = json!(namespace);
    }
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    })
}
