//! Which API flavor is active, and clusters without either.

use kubectl_skyhook::api::ApiFlavor::{NodeWright, Skyhook};
use kubectl_skyhook::cluster::live::load;
use kubectl_skyhook::cluster::{NodeFields, Read, Source};
use serde_json::json;

use super::{client_with_policy, fleet, now, operator, read, skyhook, sources};
use crate::support::fake_api::FakeApi;

const NAMES: [Source; 2] = [Source::Skyhooks, Source::Legacy];

/// A cluster that serves both APIs, with an operator of this image, if any.
fn both(image: Option<&str>) -> FakeApi {
    let fake = FakeApi::new().with(skyhook(Skyhook, "old")).with(skyhook(NodeWright, "new"));
    match image {
        Some(image) => fake.with(operator("skyhook", image)),
        None => fake,
    }
}

async fn detect(fake: &FakeApi) -> (String, Vec<String>, Vec<String>) {
    let cluster = read(fake, &NAMES).await.expect("a cluster");
    let names =
        |read: &Read<Vec<kubectl_skyhook::api::Skyhook>>| read.iter().map(|s| s.to_string()).collect();
    (cluster.active_api.reasons.join("; "), names(&cluster.skyhooks), names(&cluster.legacy))
}

#[tokio::test]
async fn only_served_api_is_active() {
    for flavor in [Skyhook, NodeWright] {
        let cluster = read(&fleet(flavor), &Source::ALL).await.expect("a cluster");
        assert_eq!(cluster.flavor(), flavor);
        let ok = |n| Read::Ok(n);
        let jobs = match flavor {
            Skyhook => Read::NotRequested,
            NodeWright => ok(1),
        };
        let expected = vec![
            (Source::Skyhooks, ok(1)),
            (Source::Legacy, Read::NotRequested),
            (Source::Policies, ok(1)),
            (Source::Nodes, ok(1)),
            (Source::Pods, ok(1)),
            (Source::Workloads, ok(0)),
            (Source::Jobs, jobs),
            (Source::Events, ok(1)),
            (Source::DisruptionBudgets, ok(1)),
            (Source::Operator, ok(1)),
            (Source::OperatorPods, ok(0)),
            (Source::Webhooks, ok(0)),
            // Read only while the operator may be late.
            (Source::Restrictions, Read::NotRequested),
            (Source::ConfigMaps, ok(0)),
            (Source::NodeMetadata, ok(0)),
        ];
        assert_eq!(sources(&cluster), expected);
    }
}

#[tokio::test]
async fn operator_version_decides_between_two_apis() {
    let old = both(Some("ghcr.io/nvidia/skyhook/operator:v0.17.1"));
    let because = "both APIs are served, and the operator version is v0.17.1".to_owned();
    let (skyhook, nodewright) = ("skyhook/old".to_owned(), "nodewright/new".to_owned());
    let expected = (because, vec![skyhook.clone()], vec![nodewright.clone()]);
    assert_eq!(detect(&old).await, expected);

    let new = both(Some("ghcr.io/nvidia/nodewright/operator:v0.20.0"));
    let because = "both APIs are served, and the operator version is v0.20.0".to_owned();
    assert_eq!(detect(&new).await, (because, vec![nodewright], vec![skyhook]));
}

#[tokio::test]
async fn newer_api_is_assumed_without_evidence() {
    let (because, ..) = detect(&both(None)).await;
    let expected = "both APIs are served, and the operator's version is unknown; use --api to override";
    assert_eq!(because, expected);
}

#[tokio::test]
async fn api_flag_overrides_detection() {
    let fake = both(Some("ghcr.io/nvidia/nodewright/operator:v0.20.0"));
    let (client, _) = client_with_policy(&fake, None);
    let cluster = load(&client, &NAMES, NodeFields::All, None, Some(Skyhook), None, &now).await;
    let active_api = cluster.expect("a cluster").active_api;
    assert_eq!((active_api.flavor, active_api.reasons), (Skyhook, vec!["--api skyhook".to_owned()]));
}

#[tokio::test]
async fn api_flag_refuses_an_api_that_is_not_served() {
    let (client, _) = client_with_policy(&fleet(Skyhook), None);
    let error = load(&client, &NAMES, NodeFields::All, None, Some(NodeWright), None, &now).await;
    let expected =
        format!("--api is nodewright, but the cluster serves only {}; omit --api", Skyhook.resource());
    assert_eq!(error.expect_err("the read fails").to_string(), expected);
}

#[tokio::test]
async fn cluster_without_the_operator_is_an_error() {
    let expected = format!(
        "the cluster serves neither {} nor {}, so the operator is not installed; install it, or \
         choose another cluster with --context",
        Skyhook.resource(),
        NodeWright.resource()
    );
    // A policy CRD alone is not an API flavor.
    let policy = FakeApi::new();
    let path = format!("GET /apis/{}", Skyhook.api_version());
    let body = json!({
        "kind": "APIResourceList",
        "groupVersion": Skyhook.api_version(),
        "resources": [{"name": "deploymentpolicies"}],
    });
    let body = body.to_string();
    policy.on(&path).reply(crate::support::fake_api::Reply::Body(body));
    for fake in [FakeApi::new(), policy] {
        let error = read(&fake, &NAMES).await.expect_err("the read fails");
        assert_eq!(error.to_string(), expected);
    }
}
