//! Commands read only the declared part of nodes, and the output does not depend on the part that was read.

use kubectl_skyhook::cluster::live::load;
use kubectl_skyhook::cluster::{Cluster, NodeFields, Source};
use kubectl_skyhook::commands;
use kubectl_skyhook::model::{Model, ProgressState};
use kubectl_skyhook::rules::{Scope, Verdict, diagnose};

use crate::support::clusters::{self, Captured};
use crate::support::fake_api::FakeApi;
use crate::support::run::{RunOutput, run, without_time};
use crate::support::sample::some;
use crate::support::test_cluster::TestCluster;

/// The requested node lists, each with its preferred part of the nodes and its field selector.
fn lists(fake: &FakeApi) -> Vec<String> {
    let requests = fake.requests().into_iter();
    let nodes = requests.filter(|request| request.path == "/api/v1/nodes");
    let mut lists: Vec<String> = nodes
        .map(|request| {
            let accept = request.header("accept");
            let metadata = accept.split(',').next().unwrap_or_default();
            let of_metadata = metadata.contains("as=PartialObjectMetadataList");
            let part = if of_metadata { "metadata" } else { "whole" };
            let selector = request.query.get("fieldSelector");
            selector.map_or(part.to_owned(), |selector| format!("{part} {selector}"))
        })
        .collect();
    lists.sort();
    lists
}

const METADATA: &[&str] = &["metadata"];
const CORDONS: &[&str] = &["metadata", "metadata spec.unschedulable=true"];
const WHOLE: &[&str] = &["whole"];
const NAMED: &[&str] = &["whole metadata.name=node-1"];

#[test]
fn commands_read_of_nodes_what_they_need() {
    for (words, expected) in [
        ("package status", METADATA),
        ("package status -o json", METADATA),
        ("package status --skyhook gpu-tune -o wide", METADATA),
        ("package status --cordoned", CORDONS),
        ("node list --skyhook gpu-tune", CORDONS),
        ("node list --skyhook gpu-tune -o json", METADATA),
        ("node list --skyhook gpu-tune -o name", METADATA),
        ("node list --skyhook gpu-tune -o json --cordoned", CORDONS),
        // The rules say why a node waits.
        ("node status", WHOLE),
        ("node status --cordoned --status erroring", WHOLE),
        ("node status -o json", WHOLE),
        // A named node costs one request.
        ("node status node-1", NAMED),
        ("package status --node node-1", NAMED),
        ("status", WHOLE),
        ("diagnose stuck --no-logs", WHOLE),
        ("status gpu-tune", WHOLE),
        ("reset gpu-tune --dry-run", WHOLE),
    ] {
        let cluster = TestCluster::captured_with_operator("apply-erroring");
        let ran = cluster.run(words);
        assert_eq!(lists(&cluster.fake), expected, "{words}: {}", ran.stderr);
    }
}

#[test]
fn commands_that_need_part_of_each_node_are_declared() {
    let partly = commands::all().into_iter();
    let partly = partly.filter(|command| command.node_fields < NodeFields::All);
    let declared: Vec<_> = partly.map(|c| (c.words, c.node_fields, c.only_reads())).collect();
    assert_eq!(
        declared,
        [("node list", NodeFields::Cordons, true), ("package status", NodeFields::Cordons, true),]
    );
}

const ANSWERS: [&str; 7] = [
    "node status",
    "node status --cordoned",
    "node list --skyhook gpu-tune -o json",
    "node list --skyhook gpu-tune --cordoned --failed-only -o json",
    "package status -o json",
    "package status --drift -o json",
    "package status --cordoned -o json",
];

fn answers(captured: &Captured, fake: FakeApi) -> Vec<RunOutput> {
    let skyhook = if fake.get("skyhooks", "", "gpu-tune").is_some() { "gpu-tune" } else { "gpu" };
    let cluster = TestCluster::serving(fake);
    let ran = ANSWERS.map(|words| cluster.run(&words.replace("gpu-tune", skyhook)));
    let code = |ran: &RunOutput| ran.code;
    let codes: Vec<_> = ran.iter().map(code).collect();
    assert!(!codes.contains(&Some(64)), "{}: {codes:?}", captured.name);
    ran.into()
}

/// Some servers return whole nodes when asked for their metadata.
#[test]
fn metadata_and_whole_nodes_give_the_same_answers() {
    for captured in some(clusters::on_screen(), 3) {
        let metadata = answers(&captured, captured.served());
        let fake = captured.served();
        fake.change(|state| state.whole_objects = true);
        let whole = answers(&captured, fake);
        for (metadata, whole) in metadata.iter().zip(&whole) {
            let untimed = |ran: &RunOutput| (without_time(&ran.stdout), ran.stderr.clone(), ran.code);
            assert_eq!(untimed(metadata), untimed(whole), "{}", captured.name);
        }
    }
}

/// The table without its last column, which has ages: a server is read as of now.
fn without_notes(table: &str) -> String {
    let lines = table.lines();
    let cells = lines.map(|line| line.split_whitespace().take(5).collect::<Vec<&str>>().join(" "));
    cells.collect::<Vec<String>>().join("\n")
}

/// Files hold whole nodes.
#[test]
fn metadata_gives_the_same_documents_as_files() {
    for captured in some(clusters::on_screen(), 4) {
        let served = captured.served().serve();
        for words in ["package status -o json", "node status"] {
            let live = run(words).kubeconfig(&served.kubeconfig()).output();
            let files = run(&format!("{words} --from {}", captured.path())).output();
            let [live, files] = match words {
                "node status" => [&live, &files].map(|ran| without_notes(&ran.stdout)),
                _ => [live.stdout, files.stdout].map(|document| without_time(&document)),
            };
            assert_eq!(live, files, "{}: {words}", captured.name);
        }
    }
}

async fn loaded(captured: &str, node_fields: NodeFields) -> Cluster {
    let fake = clusters::named(captured).served();
    let mut needs = Scope::default().needs();
    needs.retain(|source| *source != Source::Workloads);
    let now = || "2026-11-20T12:00:00Z".parse().expect("a time");
    let cluster = load(&fake.client(), &needs, node_fields, None, None, None, &now).await;
    cluster.expect("a cluster")
}

#[tokio::test]
async fn rules_do_not_call_a_partly_read_cluster_healthy() {
    for fields in [NodeFields::Metadata, NodeFields::Cordons] {
        let cluster = loaded("complete", fields).await;
        assert_eq!(cluster.node_fields(), fields);
        let report = diagnose(&cluster, &Scope::default());
        assert_eq!(report.verdict, Verdict::NotFullyChecked);
        let reasons = report.not_checked.iter().map(|unchecked| &unchecked.reason);
        let unread = reasons.filter(|reason| reason.contains("nodes: only their metadata was read"));
        assert!(unread.count() > 30, "{:?}", report.not_checked);
    }
    let whole = loaded("complete", NodeFields::All).await;
    let report = diagnose(&whole, &Scope::default());
    let mut reasons = report.not_checked.iter().map(|unchecked| &unchecked.reason);
    assert!(!reasons.any(|reason| reason.contains("metadata")), "{:?}", report.not_checked);
}

#[tokio::test]
async fn model_knows_no_progress_without_taints() {
    let states = |cluster: &Cluster| -> Vec<ProgressState> {
        let model = Model::new(cluster);
        let skyhooks = cluster.skyhooks.iter();
        let all = skyhooks.flat_map(|skyhook| model.all_progress(skyhook.name()));
        let states = all.map(|(_, progress)| progress.state);
        states.filter(|state| *state != ProgressState::Complete).collect()
    };
    let whole = states(&loaded("nodewright-two-priorities", NodeFields::All).await);
    assert!(!whole.is_empty() && !whole.contains(&ProgressState::Unknown), "{whole:?}");
    let partly = states(&loaded("nodewright-two-priorities", NodeFields::Cordons).await);
    assert!(partly.contains(&ProgressState::Unknown), "{partly:?}");
}
