//! `SelfSubjectAccessReview`: permission checks.

use serde_json::{Value, json};

use super::State;
use super::route::Route;

pub const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Answers a review: denied if a rule permanently forbids the request.
pub fn answer(state: &State, mut review: Value) -> Value {
    let asked = &review["spec"]["resourceAttributes"];
    let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
    let kinds = &state.store.kinds.0;
    let kind = kinds.iter().find(|k| k.group == text("group") && k.plural == text("resource"));
    let verb = ["get", "list", "watch", "create", "update", "patch", "delete"]
        .into_iter()
        .find(|verb| *verb == text("verb"));
    let forbidden = match (kind, verb) {
        (Some(kind), Some(verb)) => {
            let route = Route {
                verb,
                kind: kind.clone(),
                namespace: text("namespace"),
                name: text("name"),
                subresource: text("subresource"),
            };
            state.rules.iter().any(|rule| rule.forbids(&route))
        }
        _ => false,
    };
    review["status"] = json!({"allowed": !forbidden});
    review
}
