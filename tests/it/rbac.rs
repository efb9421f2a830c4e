//! The roles that `rbac` prints contain the rights that commands need, and no more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use kubectl_skyhook::cluster::live::NAMESPACE;
use kubectl_skyhook::commands;
use kubectl_skyhook::commands::rbac::{self, Right};
use kubectl_skyhook::commands::shared::command::Run as _;
use kubectl_skyhook::plan::SavedPlan;
use kubectl_skyhook::program::Program;
use serde_json::Value;

use crate::support::fake_api::Logged;
use crate::support::run::{Run, run};
use crate::support::sample::{every_case, some};
use crate::support::test_cluster::{CR, TestCluster};

#[test]
fn roles_match_snapshots() {
    assert_snapshot!(run("rbac").output().transcript());
    assert_snapshot!(run("rbac --for pause --for").output().transcript());
    assert_snapshot!(run("rbac -o name").output().transcript());
    let words = ["rbac", "--for", "node status", "--for", "package logs"];
    assert_snapshot!(Run::new(words).output().transcript());
    let words = ["rbac", "--for", "nod status"];
    assert_snapshot!(Run::new(words).output().transcript());
}

#[test]
fn all_formats_print_the_same_roles() {
    let shown = run("rbac").output();
    let shown: Vec<Value> = serde_saphyr::from_multiple(&shown.stdout).expect("YAML");
    let json = run("rbac -o json").output().json();
    assert_eq!(json["kind"], "List");
    assert_eq!(json["items"], Value::Array(shown));
    let yaml: Value = serde_saphyr::from_str(&run("rbac -o yaml").output().stdout).expect("YAML");
    assert_eq!(yaml, json);
    let one = run("rbac --for viewer -o json").output().json();
    assert_eq!(one, json["items"][0]);
}

/// Without `--clean`, `leftovers` only reads.
#[test]
fn viewer_role_lists_leftovers_without_write_rights() {
    let viewer = run("rbac --for viewer -o json").output().json();
    let rules = viewer["rules"].as_array().expect("rules");
    let may = |verb: &str, resource: &str| {
        rules.iter().any(|rule| {
            let holds = |key: &str, word: &str| {
                let words = rule[key].as_array().expect("words");
                words.iter().any(|w| w == word)
            };
            holds("verbs", verb) && holds("resources", resource)
        })
    };
    assert!(may("list", "configmaps"), "{viewer:#}");
    for verb in ["patch", "delete", "create"] {
        for resource in ["nodes", "configmaps", "pods", "jobs"] {
            assert!(!may(verb, resource), "{verb} {resource}");
        }
    }
}

/// The rights of a command, by its words.
pub fn rights(verb: &str) -> BTreeSet<Right> {
    let command = commands::all().into_iter().find(|c| c.words == verb);
    rbac::rights(command.expect(verb))
}

fn verb(words: &[String]) -> &'static str {
    let line = std::iter::once("kubectl-skyhook".to_owned()).chain(words.iter().cloned());
    let cli = Program::SKYHOOK.parse(line.map(Into::into), None);
    cli.expect("a command").command.info().words
}

#[test]
fn plans_need_no_more_than_their_role() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut seen = BTreeSet::new();
    let cases = std::fs::read_dir(directory).expect("the directory is there");
    let mut cases: Vec<PathBuf> = cases.map(|case| case.expect("an entry").path()).collect();
    cases.sort();
    for case in some(cases, 40) {
        let command = std::fs::read_to_string(case.join("command")).expect("a command");
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let out = tempfile::tempdir().expect("a directory");
        let file = out.path().join("plan.json");
        let more = [
            "--from".to_owned(),
            case.join("before.yaml").display().to_string(),
            "--plan-out".to_owned(),
            file.display().to_string(),
        ];
        let _ = Run::new(words.iter().cloned().chain(more)).output();
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let plan = SavedPlan::parse(&text).expect("a plan").plan;
        let verb = verb(&words);
        let allowed = rights(verb);
        for p in plan.permissions() {
            let resource = match p.subresource {
                Some(subresource) => format!("{}/{subresource}", p.resource),
                None => p.resource.to_owned(),
            };
            let right = Right::new(p.verb, p.group, &resource);
            assert!(allowed.contains(&right), "{verb}: {right:?} of {}", case.display());
            seen.insert(verb);
        }
    }
    assert!(seen.len() >= if every_case() { 10 } else { 5 }, "{seen:?}");
}

/// The right that a request needs; `None` if all users have it.
pub fn needed_right(request: &Logged) -> Option<Right> {
    let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", "authorization.k8s.io", ..] => return None,
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, named) = match rest {
        [] => return None,
        [resource] => ((*resource).to_owned(), false),
        [resource, _] => ((*resource).to_owned(), true),
        [resource, _, sub, ..] => (format!("{resource}/{sub}"), true),
    };
    let verb = match (request.method.as_str(), named) {
        ("GET", false) if request.query.contains_key("watch") => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        ("POST", _) => "create",
        (other, _) => panic!("{other}"),
    };
    let right = Right::new(verb, group, &resource);
    Some(match resource.as_str() {
        "namespaces" if rest.last() == Some(&NAMESPACE) => right.named(NAMESPACE),
        _ => right,
    })
}

/// Every request of a command is in its role, and every list right of the role is used.
#[test]
fn commands_request_no_more_than_their_role() {
    let by = "--confirm --no-pause";
    for words in [
        "status".to_owned(),
        "diagnose stuck".to_owned(),
        "diagnose node node-2".to_owned(),
        "diagnose check".to_owned(),
        "node status -o wide".to_owned(),
        format!("node list --skyhook {CR}"),
        format!("package status --skyhook {CR}"),
        format!("package logs driver --skyhook {CR}"),
        format!("status {CR}"),
        format!("wait {CR} --for=erroring --timeout 5s"),
        "version".to_owned(),
        "collect -o /dev/null".to_owned(),
        format!("reset {CR} --node node-2 {by}"),
        format!("node reset node-2 --skyhook {CR} {by}"),
        format!("package rerun driver --skyhook {CR} --node node-2 {by}"),
        "node ignore node-1 --leave-batch --confirm".to_owned(),
        "node unignore node-1 --confirm".to_owned(),
        format!("pause {CR} --confirm"),
        format!("resume {CR} --confirm"),
        format!("disable {CR} --confirm"),
        format!("enable {CR} --confirm"),
        format!("deployment-policy reset {CR} --confirm"),
        format!("fix --up-to B4 {by}"),
    ] {
        let cluster = TestCluster::from_capture("apply-erroring");
        let ran = cluster.run(&words);
        assert_ne!(ran.code, Some(64), "{}", ran.transcript());
        let list: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let allowed = rights(verb(&list));
        let needed: BTreeSet<Right> = cluster.fake.requests().iter().filter_map(needed_right).collect();
        let beyond: Vec<&Right> = needed.difference(&allowed).collect();
        assert!(beyond.is_empty(), "{words} took {beyond:?}");
        // The fixture does not serve the newer API, which alone has Jobs. It has no webhook with a Service,
        // no Deployment that shows the namespace of the lease, and no drain that a budget could refuse. Limits and
        // roles are read only while the operator may be late, CRDs only while a custom resource is being deleted.
        let absent = |r: &&Right| {
            r.group.starts_with("nodewright")
                || matches!(r.group.as_str(), "batch" | "rbac.authorization.k8s.io" | "apiextensions.k8s.io")
                || matches!(
                    r.resource.as_str(),
                    "services"
                        | "endpointslices"
                        | "leases"
                        | "poddisruptionbudgets"
                        | "limitranges"
                        | "resourcequotas"
                )
        };
        let unused: Vec<&Right> =
            allowed.difference(&needed).filter(|r| r.verb == "list" && !absent(r)).collect();
        assert!(unused.is_empty(), "{words} did not take {unused:?}");
    }
}

/// The words of every command.
pub fn command_words() -> BTreeSet<String> {
    fn leaves(command: &clap::Command, words: &str, found: &mut BTreeSet<String>) {
        if !command.has_subcommands() {
            found.insert(words.trim().to_owned());
        }
        for sub in command.get_subcommands() {
            leaves(sub, &format!("{words} {}", sub.get_name()), found);
        }
    }
    let mut command_words = BTreeSet::new();
    leaves(&Program::SKYHOOK.tree(), "", &mut command_words);
    // `completion` prints similar scripts; and a command may have subcommands.
    command_words.retain(|words| !words.starts_with("completion "));
    command_words.extend(["completion", "uninstall"].map(str::to_owned));
    command_words
}

#[test]
fn every_command_has_a_row_in_the_table() {
    let all = commands::all().into_iter();
    let known: BTreeSet<String> = all.map(|c| c.words.to_owned()).collect();
    assert_eq!(known, command_words());
}

#[test]
fn commands_without_a_cluster_need_no_rights() {
    let offline = commands::all().into_iter().filter(|c| !c.is_online());
    let offline: Vec<&str> = offline.map(|c| c.words).collect();
    assert_eq!(offline, ["explain", "journal list", "journal show", "completion", "rbac", "schema"]);
    for words in offline {
        assert_eq!(rights(words), BTreeSet::new(), "{words}");
    }
}

/// A forbidden request is named, with the command that prints the rights.
#[test]
fn forbidden_request_names_the_missing_right_and_rbac_command() {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.fake.on("LIST nodes").reply(403);
    assert_snapshot!(cluster.run("node status").transcript());
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.fake.on("LIST deployments").reply(403);
    assert_snapshot!(cluster.run("node status").stderr);
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.fake.on("PATCH nodes").reply(403);
    let ran = cluster.run(&format!("reset {CR} --node node-2 --no-pause --confirm"));
    ran.expect_code(1);
    assert_snapshot!(ran.stderr_text());
}
