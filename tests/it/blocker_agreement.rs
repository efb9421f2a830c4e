//! All commands report the same blockers, for every rule.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::fake_api::{FakeApi, Served};
use crate::support::object_builder::ObjectBuilder;
use crate::support::run::run;
use crate::support::sample::some;
use crate::support::test_cluster::TestCluster;

/// Maximum number of custom resources that are checked per fixture.
const MOST: usize = 2;

fn fixtures() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let files = std::fs::read_dir(directory).expect("the directory is there");
    let mut files: Vec<PathBuf> = files.map(|f| f.expect("an entry").path()).collect();
    files.sort();
    files
}

/// Serves a fixture with changed custom resources, and adds a running operator if the fixture has none.
fn served(path: &Path, change: impl Fn(ApiFlavor, &mut Value)) -> Served {
    let fake = FakeApi::new();
    fake.load_file(path);
    let objects = fake.objects();
    let of = |g: ApiFlavor| objects.iter().any(|o| o["kind"] == g.kind());
    let flavor = if of(ApiFlavor::NodeWright) { ApiFlavor::NodeWright } else { ApiFlavor::Skyhook };
    let fake = fake.serving(flavor);
    if objects.iter().all(|o| o["kind"] != "Deployment") {
        fake.load(ObjectBuilder(flavor).operator());
    }
    for mut object in objects {
        let its = ApiFlavor::ALL.into_iter().find(|g| object["kind"] == g.kind());
        if let Some(its) = its {
            change(its, &mut object);
            fake.load(object);
        }
    }
    fake.serve()
}

fn delete(flavor: ApiFlavor, cr: &mut Value) {
    let metadata = &mut cr["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        metadata["deletionTimestamp"] = json!("2026-11-20T10:00:00Z");
    }
    let ours = json!(flavor.finalizer());
    match metadata["finalizers"].as_array_mut() {
        Some(all) if all.contains(&ours) => {}
        Some(all) => all.push(ours),
        None => metadata["finalizers"] = json!([ours]),
    }
}

/// The codes of findings, or of the blockers of an object.
fn codes(findings: &Value) -> BTreeSet<String> {
    let all = findings.as_array().into_iter().flatten();
    all.filter_map(|f| f["code"].as_str().map(str::to_owned)).collect()
}

/// The custom resources of the active API that the fixture's findings are about.
fn subjects(path: &Path, report: &Value, torn: &Value) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a fixture");
    let code = text.split("# expect: ").nth(1).expect("a mark");
    let code = code.split_whitespace().next().expect("a code");
    let findings = report["findings"].as_array().expect("findings");
    let about = findings.iter().filter(|f| f["code"] == code);
    let named: BTreeSet<&str> = about.filter_map(|f| f["subject"]["skyhook"].as_str()).collect();
    let items = torn["items"].as_array().expect("items");
    let objects = items.iter().filter(|i| i["priority"].is_number());
    let mut names: Vec<String> =
        objects.filter_map(|i| Some(i["object"].as_str()?.split_once('/')?.1.to_owned())).collect();
    names.sort_by_key(|name| (!named.contains(name.as_str()), name.clone()));
    names.dedup();
    names.truncate(MOST);
    names
}

/// Compares the reports of all commands on the deletions in a fixture.
fn deletions(path: &Path) -> Vec<String> {
    let file = path.file_name().expect("a name").to_string_lossy().into_owned();
    let served = served(path, delete);
    let go = |words: &str| run(words).kubeconfig(&served.kubeconfig()).output();
    let report = go("diagnose stuck -o json --fail-on never").json();
    let torn = go("teardown --dry-run -o json").json();
    let torn = &torn["report"];
    let mut wrong = Vec::new();
    for name in subjects(path, &report, torn) {
        let status = go(&format!("status {name} -o json"));
        if status.code != Some(0) {
            // An object of the other API, which this command does not read.
            continue;
        }
        let status = status.json().pointer("/items/0/deletion").cloned().unwrap_or_default();
        if status.is_null() {
            continue;
        }
        let blocked = status["state"] == "Stuck";
        let timeout = if blocked { "60s" } else { "1s" };
        let waited = go(&format!("wait {name} --for=deleted --tolerate 0s --timeout {timeout} -o json"));
        let by = match waited.code {
            Some(2) => codes(&waited.json()["findings"]),
            _ => BTreeSet::new(),
        };
        let because = status["message"].as_str().expect("a reason");
        let reported = waited.json()["findings"].as_array().is_some_and(|all| {
            let mut messages = all.iter().filter_map(|f| f["message"].as_str());
            messages.any(|m| because.contains(m))
        });
        let items = torn["items"].as_array().expect("items");
        // Both APIs may have an object of this name; the one of the active API counts.
        let finalizer = status["finalizer"].as_str().expect("a finalizer");
        let (_, kind) = finalizer.split_once('/').expect("group/kind");
        let object = format!("{kind}/{name}");
        let item = items.iter().find(|i| i["object"] == object);
        let item = item.expect("the teardown includes the object");
        let hangs = codes(&item["blockers"]);
        // A teardown also deletes the older API's objects, which resolves SKY601.
        let by: BTreeSet<String> = by.into_iter().filter(|code| code != "SKY601").collect();
        // A later wave starts after the deletion of earlier objects, when some causes no longer exist.
        let first = item["wave"] == 1;
        let errors: BTreeSet<String> = {
            let all = report["findings"].as_array().expect("findings");
            let errors = all.iter().filter(|f| f["severity"] == "Error");
            codes(&errors.cloned().collect())
        };
        let agree = blocked == (waited.code == Some(2))
            && (!blocked || reported)
            && by.is_subset(&errors)
            && if first { hangs == by } else { hangs.is_subset(&by) };
        if !agree {
            wrong.push(format!(
                "{file} {name}: status: {} ({because}); wait: {:?} {by:?}; teardown: {hangs:?} in wave {}; \
                 errors: {errors:?}",
                status["state"], waited.code, item["wave"]
            ));
        }
    }
    wrong
}

/// Compares the two ways of waiting for an uninstall.
fn uninstalls(path: &Path) -> Vec<String> {
    let file = path.file_name().expect("a name").to_string_lossy().into_owned();
    let requested = Mutex::new(Vec::new());
    let ask = |_: ApiFlavor, cr: &mut Value| {
        let name = cr["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let deleting = !cr["metadata"]["deletionTimestamp"].is_null();
        let packages = cr["spec"]["packages"].as_object_mut();
        for (package, spec) in packages.into_iter().flatten() {
            if spec["uninstall"]["enabled"] == true && !deleting {
                spec["uninstall"]["apply"] = json!(true);
                requested.lock().expect("a lock").push((name.clone(), package.clone()));
            }
        }
    };
    let served = served(path, ask);
    let go = |words: String| run(&words).kubeconfig(&served.kubeconfig()).output();
    let mut wrong = Vec::new();
    for (name, package) in requested.into_inner().expect("a lock").iter().take(MOST) {
        let flags = "--tolerate 0s -o json";
        let waited = go(format!("wait {name} --for=uninstalled={package} --timeout 4s {flags}"));
        let followed = go(format!(
            "uninstall {name} {package} --wait --confirm --force --no-journal --timeout 8s {flags}"
        ));
        if ![Some(0), Some(2), Some(5)].contains(&followed.code) {
            continue;
        }
        let of = |code: Option<i32>, findings: &Value| match code {
            Some(2) => codes(findings),
            _ => BTreeSet::new(),
        };
        let by = of(waited.code, &waited.json()["findings"]);
        let too = of(followed.code, &followed.json()["report"]["findings"]);
        if by != too {
            wrong.push(format!(
                "{file} {name} {package}: wait: {:?} {by:?}; uninstall --wait: {:?} {too:?}",
                waited.code, followed.code
            ));
        }
    }
    wrong
}

/// Compares fixtures concurrently: most of the time is waiting.
fn each(compare: fn(&Path) -> Vec<String>) -> Vec<String> {
    let mut fixtures = some(fixtures(), 16);
    // The plugin refuses writes while a value cannot be read, so that fixture has no plan.
    fixtures.retain(|path| !path.ends_with("value_not_readable.yaml"));
    let queue = Mutex::new(fixtures);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("a lock").pop();
                    let Some(path) = next else { break };
                    let found = compare(&path);
                    wrong.lock().expect("a lock").extend(found);
                }
            });
        }
    });
    wrong.into_inner().expect("a lock")
}

#[test]
fn all_commands_agree_on_deletions() {
    let wrong = each(deletions);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn both_uninstall_waits_agree() {
    let wrong = each(uninstalls);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sets a label of the operator on a node.
fn set_label(cluster: &TestCluster, name: &str, key: &str) {
    let mut node = cluster.node(name);
    node["metadata"]["labels"][ApiFlavor::Skyhook.key(key)] = json!("true");
    cluster.fake.load(node);
}

#[test]
fn headline_reports_work_that_needs_intervention() {
    let headline = |cluster: &TestCluster| {
        let ran = cluster.run("diagnose stuck");
        ran.stdout.lines().next().unwrap_or_default().to_owned()
    };
    let blocked = "No errors, but some work is blocked until someone intervenes";
    let cluster = TestCluster::captured_with_operator("in-progress");
    cluster.fake.started_now();
    assert!(!headline(&cluster).starts_with(blocked), "{}", headline(&cluster));
    for node in ["node-1", "node-2", "node-3"] {
        set_label(&cluster, node, "ignore");
    }
    assert!(headline(&cluster).starts_with(blocked), "{}", headline(&cluster));
}

/// Ignoring a node does not fix its refused drain, so the blocker must be removed before the node is
/// unignored.
#[test]
fn unignore_is_not_suggested_for_a_node_with_a_refused_drain() {
    let cluster = TestCluster::captured_with_operator("drain-blocked");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters/drain-blocked");
    cluster.fake.load_file(&directory.join("extra.json"));
    let drain = cluster.run("diagnose stuck --rule SKY401 -o json").json();
    let node = drain["findings"][0]["subject"]["node"].as_str().expect("a node");
    set_label(&cluster, node, "ignore");
    let report = cluster.run("diagnose stuck --rule SKY304 -o json").json();
    let remedies = report["causes"][0]["remedies"].as_array().expect("remedies");
    let argvs: Vec<String> = remedies
        .iter()
        .map(|r| {
            r["argv"]
                .as_array()
                .expect("a command")
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert!(argvs[0].starts_with("kubectl edit poddisruptionbudget"), "{argvs:?}");
    let last = argvs.last().expect("a remedy");
    assert_eq!(*last, format!("kubectl skyhook node unignore {node}"));
    assert!(argvs.iter().all(|a| !a.contains("node ignore")), "{argvs:?}");
}
