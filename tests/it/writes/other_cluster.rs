//! Previews name the cluster; journals and plans of one cluster are not applied to another.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::TestCluster;
use crate::support::run::{RunOutput, run};

/// Another cluster with the same objects.
fn other_cluster(cluster: &str) -> TestCluster {
    let test_cluster = TestCluster::from_capture(cluster);
    test_cluster.fake.load(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "kube-system", "uid": "00000000-0000-4000-8000-00000000b0b0"},
    }));
    test_cluster
}

/// Runs a command with the journals of another test cluster.
fn run_with(journals: &TestCluster, on: &TestCluster, words: &str) -> RunOutput {
    let command = on.command(words);
    command.env("XDG_STATE_HOME", journals.state.path()).output()
}

/// Changes the first line of the only journal.
fn rewrite(test_cluster: &TestCluster, change: impl Fn(&mut Value)) {
    let directory = test_cluster.state.path().join("kubectl-skyhook/journal");
    let mut files = std::fs::read_dir(directory).expect("journals");
    let path = files.next().expect("a journal").expect("an entry").path();
    let text = std::fs::read_to_string(&path).expect("text");
    let (first, rest) = text.split_once('\n').expect("lines");
    let mut first: Value = serde_json::from_str(first).expect("JSON");
    change(&mut first["begun"]);
    std::fs::write(path, format!("{first}\n{rest}")).expect("a file");
}

#[test]
fn previews_name_cluster_context_and_server() {
    let test_cluster = TestCluster::from_capture("complete");
    assert_snapshot!(test_cluster.run("pause gpu-tune --dry-run").transcript());
    let ran = test_cluster.run("pause gpu-tune --dry-run -o json");
    let server = test_cluster.served.url.as_str();
    let place = json!({"cluster": "fake", "context": "fake", "server": format!("{server}")});
    assert_eq!(ran.json()["destination"], place);
    // Without a confirmation, the preview on stderr names the cluster, too.
    let asked = test_cluster.run("pause gpu-tune");
    let line = format!("\non cluster fake (context fake, {server})\n");
    asked.expect_stderr(&line);
    // Without a kubeconfig, only the server address is known.
    let ran = run(&format!("pause gpu-tune --dry-run --server {server}")).output();
    ran.expect_stdout(format!("\non {server}\n"));
    let ran = run("pause gpu-tune --dry-run --from tests/clusters/complete/cluster.json").output();
    ran.expect_no_stdout("\non ");
}

#[test]
fn undo_on_another_cluster_is_refused() {
    let (here, there) = (TestCluster::from_capture("complete"), other_cluster("complete"));
    here.run("pause gpu-tune --confirm").expect_code(0);
    let ran = run_with(&here, &there, "undo --confirm");
    ran.expect_code(3);
    assert_snapshot!(ran.stderr_text());
    assert_eq!(there.writes(), [""; 0]);
    // The same cluster at another address is accepted.
    let again = TestCluster::serving(here.fake.clone());
    let ran = run_with(&here, &again, "undo --confirm");
    ran.expect_code(0);
    ran.expect_no_stderr("cluster: ");
}

#[test]
fn unreadable_cluster_uid_falls_back_to_the_server_address() {
    let test_cluster = TestCluster::from_capture("complete");
    test_cluster.fake.on("GET namespaces").reply(403);
    let ran = test_cluster.run("pause gpu-tune --confirm");
    ran.expect_code(0);
    ran.expect_no_stderr("warning");
    let ran = test_cluster.run("undo --confirm --dry-run");
    ran.expect_code(0);
    assert_snapshot!(
        ran.stderr_text()
            .lines()
            .filter(|l| !l.starts_with("Most recent command"))
            .collect::<Vec<_>>()
            .join("\n")
    );
    let again = TestCluster::serving(test_cluster.fake.clone());
    let ran = run_with(&test_cluster, &again, "undo --confirm");
    ran.expect_code(0);
    let says =
        format!("is from {}, but the current cluster is {}", test_cluster.served.url, again.served.url);
    ran.expect_stderr(&says);
    ran.expect_stderr("cannot tell whether this is the same cluster");
}

#[test]
fn older_journal_is_matched_by_server_address() {
    let test_cluster = TestCluster::from_capture("complete");
    test_cluster.run("pause gpu-tune --confirm").expect_code(0);
    rewrite(&test_cluster, |begun| {
        let uid = begun.as_object_mut().expect("an object").remove("clusterUid");
        assert!(uid.is_some());
    });
    let ran = test_cluster.run("undo --dry-run");
    ran.expect_code(0);
    ran.expect_no_stderr("cannot tell");
    rewrite(&test_cluster, |begun| begun["server"] = json!("https://old.example:6443"));
    let ran = test_cluster.run("undo --dry-run");
    ran.expect_code(0);
    let says = "warning: cannot tell whether this is the same cluster: journal ";
    ran.expect_stderr(says);
}

#[test]
fn plan_for_another_cluster_is_refused() {
    let (here, there) = (TestCluster::from_capture("complete"), other_cluster("complete"));
    let file = here.state.path().join("plan.json").display().to_string();
    here.run(&format!("pause gpu-tune --plan-out {file}")).expect_code(0);
    for dry in ["", " --dry-run", " --dry-run=server"] {
        let ran = there.run(&format!("apply-plan {file} --confirm{dry}"));
        ran.expect_code(3);
        ran.expect_stderr("is from another cluster");
    }
    assert_eq!(there.writes(), [""; 0]);
    let ran = here.run(&format!("apply-plan {file} --confirm"));
    ran.expect_code(0);
    ran.expect_no_stderr("warning");
    // A plan made from files records no cluster.
    let from = "--from tests/clusters/complete/cluster.json";
    there.run(&format!("pause gpu-tune --plan-out {file} {from}")).expect_code(0);
    let ran = there.run(&format!("apply-plan {file} --confirm"));
    ran.expect_code(0);
    let says = "cannot tell whether this is the same cluster: the plan in ";
    ran.expect_stderr(says);
}

#[test]
fn undelete_ignores_journals_of_another_cluster() {
    let (here, there) =
        (TestCluster::from_capture("deleted-while-paused"), other_cluster("finalizer-stripped"));
    here.run("finalizer strip gpu-tune --force --confirm").expect_code(0);
    let id = here.run("journal list -o json").json()["items"][0]["id"].clone();
    let id = id.as_str().expect("an id");
    let newest = run_with(&here, &there, "undelete gpu-tune --confirm");
    newest.expect_code(1);
    let named = run_with(&here, &there, &format!("undelete gpu-tune --journal {id} --confirm"));
    named.expect_code(3);
    named.expect_stderr(format!("journal {id} is from another cluster"));
    assert_eq!(there.writes(), [""; 0]);
    // The same cluster at another address is accepted.
    let again = TestCluster::serving(here.fake.clone());
    let found = run_with(&here, &again, "undelete gpu-tune --dry-run");
    found.expect_code(0);
}
