//! Read errors are reported, and other sources are still read.

use std::time::Duration;

use kubectl_skyhook::api::ApiFlavor::{NodeWright, Skyhook};
use kubectl_skyhook::cluster::live::{LoadError, load};
use kubectl_skyhook::cluster::{Cluster, NodeFields, Read, Source};
use kubectl_skyhook::connect::{RequestPolicy, TimeLimit};

use super::{client_with_policy, fleet, now, operator, read, sources, unreadable};
use crate::support::fake_api::{FakeApi, Problem, Reply};

const LIMIT: Duration = Duration::from_millis(50);

/// The sources of the newer API, with the request that reads each.
const READ_BY: [(Source, &str, &str); 8] = [
    (Source::Skyhooks, "nodewrights", "at the cluster scope"),
    (Source::Policies, "deploymentpolicies", "at the cluster scope"),
    (Source::Nodes, "nodes", "at the cluster scope"),
    (Source::Pods, "pods", "at the cluster scope"),
    (Source::Jobs, "jobs", "at the cluster scope"),
    (Source::Events, "events", "in the namespace default"),
    (Source::DisruptionBudgets, "poddisruptionbudgets", "at the cluster scope"),
    (Source::Operator, "deployments", "at the cluster scope"),
];

/// All sources but the workloads of drains, which depend on others.
fn needs() -> Vec<Source> {
    READ_BY.iter().map(|(source, ..)| *source).collect()
}

fn lost(before: &Cluster, after: &Cluster) -> Vec<(Source, Read<usize>)> {
    let (before, after) = (sources(before), sources(after));
    let changed = after.into_iter().zip(before).filter(|(a, b)| a != b);
    changed.map(|(after, _)| after).collect()
}

#[tokio::test]
async fn forbidden_source_is_unreadable_and_others_are_read() {
    let before = read(&fleet(NodeWright), &needs()).await.expect("a cluster");
    for (source, plural, place) in READ_BY {
        let fake = fleet(NodeWright);
        fake.on(&format!("LIST {plural}")).reply(403);
        let after = read(&fake, &needs()).await.expect("a cluster");
        // The resource is named as `kubectl auth can-i` accepts it.
        let all = source.resources();
        let (group, _) = all.iter().rev().find(|(_, p)| *p == plural).expect("the source has the plural");
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let why = format!("forbidden: user jane cannot list {plural}{group} {place}");
        assert_eq!(lost(&before, &after), [(source, unreadable(403, &why))]);
    }
}

#[tokio::test]
async fn read_errors_are_summarized() {
    let before = read(&fleet(NodeWright), &needs()).await.expect("a cluster");
    for (reply, status, why) in [
        (Reply::from(500), Some(500), "the server returned 500: Internal error occurred"),
        (Reply::from(404), Some(404), "not found: 404 page not found"),
        (
            Reply::Problem(Problem::too_many(0)),
            Some(429),
            "the server is too busy: the server has received too many requests and has asked us to \
             try again later",
        ),
        (Reply::Cut, None, "the server closed the connection"),
        (Reply::Half, None, "the server closed the connection"),
        (Reply::Hang, None, "timed out after 50ms"),
    ] {
        let fake = fleet(NodeWright);
        fake.on("LIST jobs").reply(reply);
        let (client, _) = client_with_policy(&fake, Some(LIMIT));
        let after =
            load(&client, &needs(), NodeFields::All, None, None, None, &now).await.expect("a cluster");
        assert_eq!(lost(&before, &after), [(Source::Jobs, unreadable(status, why))]);
    }
}

/// The time limit applies without a flag.
#[tokio::test]
async fn stalled_read_times_out() {
    let before = read(&fleet(NodeWright), &needs()).await.expect("a cluster");
    let fake = fleet(NodeWright);
    fake.on("LIST jobs").reply(Reply::Hang);
    let policy = RequestPolicy { limit: Some(TimeLimit::Silence(LIMIT)), ..RequestPolicy::default() };
    let client = kube::Client::new(policy.over(fake), "default");
    let after = load(&client, &needs(), NodeFields::All, None, None, None, &now).await;
    let why = unreadable(None, "timed out after 50ms");
    assert_eq!(lost(&before, &after.expect("a cluster")), [(Source::Jobs, why)]);
}

/// A throttled page of a long list is retried as the same page, and this is reported once.
#[tokio::test]
async fn throttled_list_is_retried_and_reported_once() {
    let fake = fleet(Skyhook);
    let busy = Problem { retry_after: Some(0), ..Problem::too_many(0) };
    fake.on("LIST nodes").times(2).reply(busy.clone());
    fake.on("LIST pods").times(1).reply(busy);
    let (client, warnings) = client_with_policy(&fake, None);
    let needs = [Source::Nodes, Source::Pods];
    let cluster = load(&client, &needs, NodeFields::All, None, None, None, &now).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Nodes), Read::Ok(1));
    assert_eq!(cluster.source(Source::Pods), Read::Ok(1));
    let message = "the API server throttled some requests (429); they were retried";
    assert_eq!(warnings.take(), [message]);
}

#[tokio::test]
async fn reads_retry_when_the_server_is_busy() {
    let busy = |code, reason| Problem { retry_after: Some(0), ..Problem::new(code, reason, "later") };
    for problem in [
        busy(429, "TooManyRequests"),
        busy(503, "Busy"),
        busy(504, "Timeout"),
        busy(500, "InternalError"),
        busy(502, "BadGateway"),
    ] {
        let fake = fleet(Skyhook);
        fake.on("LIST nodes").times(3).reply(problem.clone());
        let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
        assert_eq!(cluster.source(Source::Nodes), Read::Ok(1));
        fake.on("LIST nodes").times(4).reply(problem);
        let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
        assert!(matches!(cluster.source(Source::Nodes), Read::Unreadable(_)));
    }
}

#[tokio::test]
async fn reads_retry_after_connection_resets() {
    for reply in [Reply::Cut, Reply::Half] {
        let fake = fleet(Skyhook);
        fake.on("LIST nodes").times(3).reply(reply.clone());
        let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
        assert_eq!(cluster.source(Source::Nodes), Read::Ok(1), "{reply:?}");
        fake.on("LIST nodes").times(4).reply(reply.clone());
        let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
        let why = "the server closed the connection";
        assert_eq!(cluster.source(Source::Nodes), unreadable(None, why), "{reply:?}");
    }
}

/// An API counts as absent only if the API server says so, not if something else responds.
#[tokio::test]
async fn foreign_response_does_not_prove_absence() {
    let discovery = format!("GET /apis/{}", Skyhook.api_version());
    for text in ["{}", "null", r#"{"kind": "Status"}"#, "<html>"] {
        let fake = fleet(Skyhook);
        fake.on(&discovery).reply(Reply::Body(text.into()));
        let error = read(&fake, &needs()).await.expect_err("the read fails");
        assert!(matches!(error, LoadError::Discovery { .. }), "{text}: {error}");
    }
}

#[tokio::test]
async fn writes_are_never_retried_by_the_client() {
    let fake = fleet(Skyhook);
    fake.on("PATCH nodes").times(1).reply(429);
    let (client, _) = client_with_policy(&fake, None);
    let patch = http::Request::patch("/api/v1/nodes/node-1")
        .header("content-type", "application/merge-patch+json")
        .body(b"{}".to_vec())
        .expect("a request");
    let refused = client.request::<serde_json::Value>(patch).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 429));
    assert_eq!(fake.writes().len(), 1);
}

#[tokio::test]
async fn package_pods_fall_back_to_the_operator_namespace() {
    let fake = fleet(NodeWright);
    fake.on("LIST pods").everywhere().reply(403);
    fake.on("LIST jobs").everywhere().reply(403);
    let needs = [Source::Pods, Source::Jobs];
    let cluster = read(&fake, &needs).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Pods), Read::Ok(1));
    assert_eq!(cluster.source(Source::Jobs), Read::Ok(1));
}

#[tokio::test]
async fn unknown_operator_namespace_proves_no_absence() {
    let fake = fleet(NodeWright);
    fake.on("LIST pods").everywhere().reply(403);
    fake.on("LIST deployments").reply(403);
    let cluster = read(&fake, &[Source::Pods]).await.expect("a cluster");
    let why = "forbidden: user jane cannot list pods at the cluster scope";
    assert_eq!(cluster.source(Source::Pods), unreadable(403, why));

    let (client, _) = client_with_policy(&fake, None);
    let named = load(&client, &[Source::Pods], NodeFields::All, None, None, Some("nodewright"), &now).await;
    assert_eq!(named.expect("a cluster").source(Source::Pods), Read::Ok(1));
}

#[tokio::test]
async fn operator_is_searched_in_the_chart_namespaces() {
    let fake = fleet(NodeWright);
    fake.on("LIST deployments").everywhere().reply(403);
    let cluster = read(&fake, &[Source::Operator]).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Operator), Read::Ok(1));

    let elsewhere =
        FakeApi::new().serving(NodeWright).with(operator("gpu-system", "nodewright/operator:v0.20.0"));
    elsewhere.on("LIST deployments").everywhere().reply(403);
    let cluster = read(&elsewhere, &[Source::Operator]).await.expect("a cluster");
    let why = "forbidden: user jane cannot list deployments.apps at the cluster scope";
    assert_eq!(cluster.source(Source::Operator), unreadable(403, why));

    let (client, _) = client_with_policy(&elsewhere, None);
    let named =
        load(&client, &[Source::Operator], NodeFields::All, None, None, Some("gpu-system"), &now).await;
    assert_eq!(named.expect("a cluster").source(Source::Operator), Read::Ok(1));
}

#[tokio::test]
async fn unresponsive_server_is_an_error() {
    let discovery = format!("GET /apis/{}", Skyhook.api_version());
    for (reply, message) in [
        (
            Reply::Hang,
            "the API server at https://fake:6443 did not answer within 50ms; check the network, or \
             allow more time with --request-timeout",
        ),
        (
            Reply::Cut,
            "the API server at https://fake:6443 closed the connection before it responded; try again",
        ),
        (
            Reply::from(401),
            "the API server at https://fake:6443 does not accept the credentials (401 \
             Unauthorized); log in again, or check the kubeconfig's user and --token",
        ),
        (
            Reply::from(403),
            "cannot discover the APIs of the server at https://fake:6443: forbidden: \
             User jane cannot get path /apis",
        ),
        (
            Reply::Body("<html>".into()),
            "cannot discover the APIs of the server: the response is not from an API \
             server; check --server and the proxy",
        ),
    ] {
        let fake = fleet(Skyhook);
        fake.on(&discovery).reply(reply);
        let (client, _) = client_with_policy(&fake, Some(LIMIT));
        let error = load(&client, &needs(), NodeFields::All, None, None, None, &now).await;
        assert_eq!(error.expect_err("the read fails").to_string(), message);
    }
}

#[tokio::test]
async fn server_warnings_are_collected_once_each() {
    let fake = fleet(Skyhook);
    fake.on("LIST nodes").reply(Reply::Warn("nodes are old".into()));
    fake.on("LIST *").reply(Reply::Warn("say \"hello\"".into()));
    let (client, warnings) = client_with_policy(&fake, None);
    let read_nodes = async || {
        let (all, needs) = (NodeFields::All, &[Source::Nodes]);
        let cluster = load(&client, needs, all, None, None, None, &now).await;
        cluster.expect("a cluster");
    };
    read_nodes().await;
    let mut taken = warnings.take();
    taken.sort();
    assert_eq!(taken, ["nodes are old", "say \"hello\""]);
    read_nodes().await;
    assert_eq!(warnings.take(), Vec::<String>::new());
}
