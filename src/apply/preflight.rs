//! Whether the user may do what a plan needs, asked before anything is done.

use futures::future::join_all;
use serde_json::{Value, json};

use super::Options;
use super::send::Line;
use crate::plan::{Permission, Plan};

/// What the server says on permissions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preflight {
    /// What the user may not do.
    pub denied: Vec<Permission>,
    /// Why it could not be asked.
    pub unknown: Option<String>,
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Asks for exactly the verbs that the plan needs.
pub async fn preflight(client: &kube::Client, plan: &Plan, options: &Options) -> Preflight {
    let line = Line::new(client.clone(), options);
    let permissions = plan.permissions();
    let bodies: Vec<Value> = permissions.iter().map(review).collect();
    let answers = join_all(bodies.iter().map(|body| line.review(REVIEWS, body))).await;
    let mut preflight = Preflight::default();
    for (permission, answer) in permissions.into_iter().zip(answers) {
        match answer {
            Ok(review) if review["status"]["allowed"] == json!(true) => {}
            Ok(_) => preflight.denied.push(permission),
            Err(why) => preflight.unknown = Some(why),
        }
    }
    preflight
}

fn review(permission: &Permission) -> Value {
    let mut attributes = json!({
        "verb": permission.verb,
        "group": permission.group,
        "resource": permission.resource,
    });
    if let Some(subresource) = permission.subresource {
        attributes["subresource"] = json!(subresource);
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
