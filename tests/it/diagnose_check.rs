//! `diagnose check`: whether the installation itself is healthy.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::fake_api::{FakeApi, Reply};
use crate::support::object_builder::NODEWRIGHT;
use crate::support::run::{Child, RunOutput, run};

#[expect(clippy::disallowed_methods, reason = "the clock of the program under test")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn definition(plural: &str) -> Value {
    let group = NODEWRIGHT.0.group();
    let packages = json!({"properties": {"version": {}, "uninstall": {}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "names": {"kind": "X", "plural": plural}, "versions": [{
            "name": "v1alpha1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {"packages": {"additionalProperties": packages}}}}}},
        }]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    })
}

fn lease(renewed: jiff::Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "3c22c1ae.nvidia.com", "namespace": NODEWRIGHT.namespace()},
        "spec": {"holderIdentity": "operator-7c4-x2", "leaseDurationSeconds": 15, "renewTime": renewed.to_string()},
    })
}

/// The operator's webhook configuration with its Service and endpoints; its certificate expires at `end`.
fn webhook(end: (i32, u8, u8)) -> Value {
    let mut params = rcgen::CertificateParams::new(vec!["webhook.example".to_owned()]).expect("a name");
    params.not_after = rcgen::date_time_ymd(end.0, end.1, end.2);
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = params.self_signed(&key).expect("a certificate").pem();
    let bundle = base64::engine::general_purpose::STANDARD.encode(pem);
    let service = json!({"namespace": NODEWRIGHT.namespace(), "name": "webhook-service"});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validating"},
            "webhooks": [{
                "name": "validate.example",
                "clientConfig": {"service": service, "caBundle": bundle},
                "rules": [{"apiGroups": [NODEWRIGHT.0.group()], "operations": ["CREATE", "UPDATE"], "resources": [NODEWRIGHT.0.plural()]}],
            }],
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": service},
        {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "w-1", "namespace": NODEWRIGHT.namespace(), "labels": {"kubernetes.io/service-name": "webhook-service"}},
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}],
        },
    ]})
}

fn healthy() -> FakeApi {
    let mut operator = NODEWRIGHT.operator();
    operator["status"] = json!({"observedGeneration": 1, "availableReplicas": 1});
    operator["metadata"]["labels"]["app.kubernetes.io/version"] = "v0.20.0".into();
    FakeApi::new()
        .serving(NODEWRIGHT.0)
        .with(
            NODEWRIGHT
                .skyhook("complete", json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})),
        )
        .with(operator)
        .with(definition(NODEWRIGHT.0.plural()))
        .with(definition("deploymentpolicies"))
        .with(lease(now()))
        .with(webhook((2090, 1, 1)))
}

fn check(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    run(&format!("diagnose check {words}")).kubeconfig(&served.kubeconfig()).output()
}

/// The results of the checks that did not pass.
fn not_good(ran: &RunOutput) -> Vec<String> {
    let json = ran.json();
    let checks = json["items"].as_array().expect("checks").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    checks
        .filter(|c| c["outcome"] != "Ok")
        .map(|c| {
            format!("{} {}: {}", text(&c["outcome"]).to_lowercase(), text(&c["title"]), text(&c["message"]))
        })
        .collect()
}

#[test]
fn healthy_installation_passes() {
    let ran = check(&healthy(), "");
    let ages = regex::Regex::new(r"renewed \d+s ago").expect("a pattern");
    insta::assert_snapshot!(ages.replace_all(&ran.transcript(), "renewed [age] ago"));
    assert_eq!(not_good(&check(&healthy(), "-o json")), Vec::<String>::new());
}

#[test]
fn installation_problems_are_reported() {
    let old = now() - jiff::SignedDuration::from_hours(1);
    let fake = healthy();
    fake.load(lease(old));
    fake.load(webhook((2026, 1, 1)));
    let mut operator = fake.get("deployments", NODEWRIGHT.namespace(), "operator").expect("an operator");
    operator["metadata"]["labels"]["app.kubernetes.io/version"] = "v0.19.0".into();
    fake.load(operator);
    let ran = check(&fake, "-o json");
    let wrong = not_good(&ran);
    let has = |text: &str| assert!(wrong.iter().any(|w| w.contains(text)), "{text}: {wrong:#?}");
    has("error leader election: lease 3c22c1ae.nvidia.com was last renewed 60m ago");
    has("error the webhook certificates are valid: the certificate of validating expired");
    has(
        "error the API server can call the admission webhooks: every change to a custom resource is rejected",
    );
    has(
        "warning the operator has the same version as its chart: the image version is v0.20.0, but the chart version is v0.19.0",
    );
    assert_eq!(
        (wrong.len(), ran.code, ran.json()["verdict"].as_str().map(str::to_owned)),
        (4, Some(2), Some("Failed".to_owned()))
    );
}

/// An operator that is available and no longer leads is down for every command; whoever may not read its Lease is told
/// nothing. The Lease takes one request.
#[test]
fn operator_that_no_longer_leads_is_down() {
    let ago = |minutes| now() - jiff::SignedDuration::from_mins(minutes);
    let fake = healthy();
    let mut operator = fake.get("deployments", NODEWRIGHT.namespace(), "operator").expect("an operator");
    operator["status"]["conditions"] =
        json!([{"type": "Available", "status": "True", "lastTransitionTime": ago(60).to_string()}]);
    operator["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "LEADER_ELECTION", "value": "true"}]);
    fake.load(operator);
    for (minutes, refused) in [(11, false), (9, false), (11, true)] {
        fake.load(lease(ago(minutes)));
        if refused {
            fake.on("LIST leases").reply(403);
        }
        for words in ["diagnose stuck", "status", "pause complete --dry-run", "diagnose check"] {
            let before = fake.requests().len();
            let served = fake.serve();
            let ran = run(words).kubeconfig(&served.kubeconfig()).output();
            let requests = &fake.requests()[before..];
            let leases = requests.iter().filter(|r| r.path.contains("/leases")).count();
            assert_eq!(leases, 1 + usize::from(words == "diagnose check"), "{words}");
            let says = ["no longer renews", "not at work", "last renewed 11m ago"];
            let told = says.iter().any(|says| ran.transcript().contains(says));
            let previews = words.starts_with("pause");
            assert_eq!(
                told,
                minutes == 11 && !refused && !previews,
                "{minutes} {refused} {}",
                ran.transcript()
            );
        }
    }
}

#[test]
fn stopped_operator_is_an_error_with_a_hint() {
    let fake = healthy();
    let mut operator = fake.get("deployments", NODEWRIGHT.namespace(), "operator").expect("an operator");
    operator["status"]["availableReplicas"] = json!(0);
    fake.load(operator);
    let ran = check(&fake, "");
    ran.expect_code(2);
    ran.expect_stdout("error: no replica of the operator is available");
    ran.expect_stdout("hint: kubectl describe deployment,pods -n ");
}

#[test]
fn unreadable_sources_are_not_reported_good() {
    let resources = [
        ("GET customresourcedefinitions", 2),
        ("LIST leases", 1),
        ("LIST deployments", 5),
        ("LIST validatingwebhookconfigurations", 3),
        ("LIST nodes", 1),
    ];
    for (pattern, least) in resources {
        let fake = healthy();
        fake.on(pattern).reply(403);
        let ran = check(&fake, "-o json");
        assert!(not_good(&ran).len() >= least, "{pattern}: {}", ran.transcript());
        assert_eq!(ran.json()["verdict"], "NotFullyChecked", "{pattern}");
        assert_eq!(ran.code, Some(1), "{pattern}: {}", ran.transcript());
    }
}

/// Write permissions are checked, and missing ones are named with their role.
#[test]
fn missing_write_permission_is_a_warning_naming_the_role() {
    let line = |fake: &FakeApi| {
        let ran = check(fake, "-o json");
        ran.expect_code(0);
        let json = ran.json();
        let mut checks = json["items"].as_array().expect("checks").iter();
        let title = "permission to run the commands that change the cluster";
        let found = checks.find(|c| c["title"] == title).expect("the line");
        format!("{}: {} | {}", found["outcome"], found["message"], found["hint"])
    };
    let looks_only = healthy();
    let resources = [NODEWRIGHT.0.plural(), "deploymentpolicies", "nodes", "pods", "jobs", "configmaps"];
    for resource in resources {
        for verb in ["PATCH", "DELETE", "CREATE"] {
            looks_only.on(&format!("{verb} {resource}")).reply(403);
        }
    }
    let no_pods = healthy();
    no_pods.on("DELETE pods").reply(403);
    let no_policies = healthy();
    no_policies.on("CREATE deploymentpolicies").reply(403);
    let shown = [looks_only, no_pods, no_policies].map(|fake| line(&fake));
    insta::assert_snapshot!(shown.join("\n"));
    // Access reviews are the only POST requests.
    let fake = healthy();
    assert_eq!(check(&fake, "").code, Some(0));
    let posted = |r: &crate::support::fake_api::Logged| r.method == "POST";
    let posts: Vec<String> = fake.requests().into_iter().filter(posted).map(|r| r.path).collect();
    assert!(posts.iter().all(|path| path.ends_with("/selfsubjectaccessreviews")), "{posts:?}");
    assert!((10..40).contains(&posts.len()), "{}", posts.len());
}

#[test]
fn wait_ends_when_healthy_or_at_the_timeout() {
    let fake = healthy();
    let mut operator = fake.get("deployments", NODEWRIGHT.namespace(), "operator").expect("an operator");
    operator["status"]["availableReplicas"] = json!(0);
    fake.load(operator);
    let ran = check(&fake, "--wait --timeout 1s");
    ran.expect_code(5);
    assert_eq!(check(&healthy(), "--wait").code, Some(0));
}

/// Files contain neither the server version nor leases; the report lists these checks, but not as problems.
#[test]
fn checks_impossible_from_files_are_listed() {
    let captured = clusters::named("nodewright-in-progress");
    let ran = run(&format!("diagnose check --from {}", captured.path())).output();
    insta::assert_snapshot!(ran.transcript());
}

/// A finding that ends every reconcile is an error here, too.
#[test]
fn operator_wide_blocker_is_an_error() {
    for cluster in
        ["malformed-node-state", "modelled-migration-hold", "nodewright-undying-pod-after-reset-wedged"]
    {
        let captured = clusters::named(cluster);
        let ran = run(&format!("diagnose check --from {}", captured.path())).output();
        insta::assert_snapshot!(format!("check_{cluster}"), ran.transcript());
    }
}

/// The time limit and Ctrl-C apply to the first round of checks, too.
#[test]
fn wait_limits_the_first_round_too() {
    let fake = healthy();
    fake.on("LIST nodes").reply(Reply::Hang);
    let ran = check(&fake, "--wait --timeout 1s --request-timeout 8s");
    ran.expect_code(5);
    ran.expect_stderr("timed out after 1s: the first checks have not finished");
    let served = fake.serve();
    let child = Child::default();
    fake.on("LIST deployments").after(child.interrupt());
    let ran = run("diagnose check --wait --request-timeout 8s")
        .kubeconfig(&served.kubeconfig())
        .child(&child)
        .output();
    ran.expect_code(130);
}
