//! The commands that rules suggest are valid and fit the state of the cluster.

mod many_nodes;
mod model;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kubectl_skyhook::dump;
use kubectl_skyhook::program::Program;
use kubectl_skyhook::rules::{self, Scope};
use serde_json::{Value, json};

use crate::support::object_builder::SKYHOOK;
use crate::support::run::{Run, RunOutput, run};
use crate::support::sample::some;

/// The fixtures of rules, and the captured clusters.
fn captures() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = ["tests/rules", "tests/clusters"]
        .iter()
        .flat_map(|directory| {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
            std::fs::read_dir(directory).expect("the directory is there")
        })
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

/// The command for two nodes, as it is printed if both have the same finding.
fn for_two_nodes<'a>(words: &[&'a str], node: Option<&str>) -> Vec<&'a str> {
    let mut words = words.to_vec();
    let at = words.iter().position(|word| Some(*word) == node);
    if let Some(at) = at {
        let from = at - usize::from(words[at - 1] == "--node");
        let again = words[from..=at].to_vec();
        words.splice(from..from, again);
    }
    words
}

/// The report of a package that fails on this many nodes.
fn diagnosed(nodes: usize) -> String {
    let names: Vec<String> = (1..=nodes).map(|n| format!("gpu-{n:02}")).collect();
    let fails = |name: &String| (name.clone(), "driver|1.0.0 apply erroring");
    diagnosed_with(names.iter().map(fails)).transcript()
}

/// The report of these nodes, each with its entry of the package.
fn diagnosed_with(nodes: impl Iterator<Item = (String, &'static str)>) -> RunOutput {
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let fake = SKYHOOK.serve(package);
    for (name, entry) in nodes {
        fake.load(SKYHOOK.node(&name, "erroring", &[entry]));
    }
    let served = fake.serve();
    run("diagnose stuck").kubeconfig(&served.kubeconfig()).output()
}

/// A command for many nodes changes no other nodes.
#[test]
fn a_command_for_all_nodes_changes_no_others() {
    // Names of random letters do not fold.
    let letters = "qzxvkjwyfhbm".chars();
    let all: Vec<_> = letters.map(|c| (format!("ip-{c}{c}"), "driver|1.0.0 apply erroring")).collect();
    insta::assert_snapshot!(diagnosed_with(all.clone().into_iter()).transcript());
    let other = ("ip-other".to_owned(), "driver|1.0.0 config erroring");
    insta::assert_snapshot!(diagnosed_with(all.into_iter().chain([other])).transcript());
}

#[test]
fn few_affected_nodes_get_one_command() {
    insta::assert_snapshot!(diagnosed(3));
}

#[test]
fn many_affected_nodes_get_one_command() {
    insta::assert_snapshot!(diagnosed(12));
}

/// The findings of a rule in a fixture: each message with the commands and notes of its remedies.
fn findings_with_remedies(fixture: &str, code: &str) -> Vec<(String, Vec<String>)> {
    let document =
        run(&format!("diagnose stuck --rule {code} --all -o json --from tests/rules/{fixture}.yaml"))
            .output()
            .json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = document["findings"].as_array().expect("findings").iter();
    let found = findings.map(|finding| {
        let remedies = finding["remedies"].as_array().expect("remedies").iter();
        let remedies = remedies.map(|r| format!("{}: {}", text(&r["title"]), text(&r["caveat"])));
        (text(&finding["message"]), remedies.collect())
    });
    found.collect()
}

/// The operator chooses the image of the agent, unless the package does.
#[test]
fn agent_image_remedy_targets_where_the_image_is_set() {
    let all = findings_with_remedies("image_not_pulled.agent", "SKY202");
    let [(operators, first), (own, second)] = all.as_slice() else {
        panic!("{all:#?}");
    };
    assert!(operators.contains("agent:v6 of the agent for package driver"), "{operators}");
    assert!(own.contains("own-agent:v1 of the agent for package tuning"), "{own}");
    assert!(first[1].starts_with("Correct the operator's AGENT_IMAGE"), "{first:#?}");
    assert!(second[1].starts_with("Correct the package's agentImageOverride"), "{second:#?}");
}

/// Operators before v0.17 never continue a package with a skipped interrupt (SKY210), so the deletion does
/// not count as skipping the node (SKY114).
#[test]
fn node_with_a_skipped_interrupt_is_not_reported_never_scheduled() {
    let driver = json!({"version": "1.0.0", "image": "example.com/driver", "interrupt": {"type": "reboot"},
        "uninstall": {"enabled": true, "apply": false}});
    for (version, code) in [("v0.16.0", "SKY210"), ("v0.17.1", "SKY114")] {
        let mut skyhook = SKYHOOK.skyhook("in_progress", json!({"driver": driver}));
        skyhook["metadata"]["deletionTimestamp"] = "2026-11-20T11:59:00Z".into();
        let mut operator = SKYHOOK.operator();
        operator["spec"]["template"]["spec"]["containers"][0]["image"] =
            format!("ghcr.io/nvidia/skyhook/operator:{version}").into();
        let skipped = SKYHOOK.node("gpu-1", "blocked", &["driver|1.0.0 interrupt skipped"]);
        let done = SKYHOOK.node("gpu-2", "in_progress", &[]);
        let items = [skyhook, operator, skipped, done];
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let rules = "--rule SKY114 --rule SKY210 -o json";
        let ran = run(&format!("diagnose stuck {rules} --from -")).stdin(list.to_string());
        let document = ran.output().json();
        let findings = document["findings"].as_array().expect("findings");
        let found: Vec<&str> = findings.iter().filter_map(|f| f["code"].as_str()).collect();
        assert_eq!(found, [code], "{version}");
    }
}

/// The code of a finding, and its remedies.
type FoundRemedies = (String, Vec<Value>);

/// The findings of every capture, with the code of their rule and their remedies, as documents show them.
fn graded_remedies() -> Vec<(PathBuf, Vec<FoundRemedies>)> {
    let of = |path: PathBuf| {
        let from = path.display().to_string();
        let words = ["diagnose", "stuck", "--all", "--no-logs", "-o", "json", "--from", &from];
        let document = Run::new(words.map(str::to_owned)).output().json();
        let findings = document["findings"].as_array().expect("findings").iter();
        let findings = findings.map(|finding| {
            let code = finding["code"].as_str().expect("a code").to_owned();
            (code, finding["remedies"].as_array().expect("remedies").clone())
        });
        (path, findings.collect())
    };
    some(captures(), 20).into_iter().map(of).collect()
}

/// Only a remedy with a caveat may follow a more disruptive one.
#[test]
fn remedies_without_conditions_are_listed_least_disruptive_first() {
    for (path, findings) in graded_remedies() {
        for (code, remedies) in findings {
            for pair in remedies.windows(2) {
                let [first, second] = [0, 1].map(|at: usize| pair[at]["grade"].as_str());
                // A command that is refused now has no grade.
                assert!(
                    first.zip(second).is_none_or(|(first, second)| first <= second)
                        || !pair[1]["caveat"].is_null(),
                    "{}: {code}: {pair:#?}",
                    path.display(),
                );
            }
        }
    }
}

#[test]
fn remedies_are_called_least_disruptive_first_only_where_they_are() {
    for (fixture, heading) in [
        ("package_erroring", "  remedies, least disruptive first\n"),
        ("upgrade_abandoned", "  remedies, recommended first\n"),
    ] {
        let rule = fixture.replace('_', "-");
        let ran =
            run(&format!("diagnose stuck --all --rule {rule} --from tests/rules/{fixture}.yaml")).output();
        ran.expect_stdout(heading);
    }
}

#[test]
fn remedies_parse() {
    let mut wrong = BTreeSet::new();
    let mut ours = 0;
    // Captures of the same state print the same commands.
    let mut parsed = BTreeSet::new();
    for path in some(captures(), 60) {
        let cluster = dump::load(std::slice::from_ref(&path), None).expect("a capture that loads");
        let report = rules::diagnose(&cluster, &Scope::default());
        for finding in &report.findings {
            for remedy in finding.remedies() {
                let words: Vec<&str> = remedy.argv.iter().map(String::as_str).collect();
                let ["kubectl", "skyhook", own @ ..] = words.as_slice() else {
                    continue;
                };
                ours += 1;
                let node = finding.subject.node.as_deref();
                for line in [own.to_vec(), for_two_nodes(own, node)] {
                    if !parsed.insert(line.join(" ")) {
                        continue;
                    }
                    let words = std::iter::once("kubectl-skyhook").chain(line.iter().copied());
                    if let Err(error) = Program::SKYHOOK.parse(words.map(OsString::from), None) {
                        let error = error.to_string();
                        let error = error.lines().next().unwrap_or_default();
                        wrong.insert(format!("{}: {}: {error}", finding.rule.code, line.join(" ")));
                    }
                }
            }
        }
    }
    assert_eq!(wrong, BTreeSet::new());
    assert!(ours > 0, "no rule advises any command of ours");
}

/// The spec has images, stage variables and resources, but no list of containers.
#[test]
fn admission_remedy_sets_only_fields_the_spec_has() {
    let titles = |fixture: &str| {
        let all = findings_with_remedies(fixture, "SKY215").into_iter();
        let all = all.map(|(message, remedies)| {
            let titles: Vec<&str> = remedies.iter().filter_map(|r| r.split(':').next()).collect();
            let [exempt, rest @ ..] = titles.as_slice() else {
                panic!("{message}");
            };
            assert!(exempt.starts_with("See which webhooks"), "{exempt}");
            rest.join("; ")
        });
        all.collect::<Vec<String>>()
    };
    let spec = "Or put the values that admission sets into the spec";
    let delete = "Then delete the pod, so that the operator continues";
    // The nodes in order: behind, which ends each operator pass, then mirrored, resources, sidecar.
    assert_eq!(titles("pod_changed_by_admission"), [delete, spec, spec, ""]);
    // The nodes in order: interrupt-behind, everywhere, one, value, between, interrupt-variable.
    assert_eq!(titles("pod_changed_by_admission.environment"), [delete, "", spec, spec, "", ""]);
}

/// An interrupt that is already in the spec is not suggested.
#[test]
fn stranded_interrupt_remedy_removes_the_blocker() {
    let titles = |fixture: &str| {
        let all = findings_with_remedies(fixture, "SKY102").into_iter();
        let all = all.map(|(_, remedies)| {
            let titles = remedies.iter().filter_map(|r| r.split(':').next());
            titles.map(str::to_owned).collect::<Vec<_>>()
        });
        all.collect::<Vec<_>>()
    };
    let reset = "Reset the package on the node";
    let matching = "Add configInterrupts that match one of these keys to the spec";
    assert_eq!(
        titles("uninstall_interrupt_without_interrupt"),
        [["Add the interrupt back to the spec", reset]]
    );
    assert_eq!(
        titles("uninstall_interrupt_without_interrupt.config"),
        [
            vec![
                "Remove the package from status.configUpdates, so that the operator runs the interrupt that the package's spec sets",
                matching,
                reset
            ],
            vec![matching, reset],
        ]
    );
}

/// Another version would count as never installed, and the uninstall would end without running.
#[test]
fn uninstall_remedy_keeps_the_version() {
    let all = findings_with_remedies("image_not_pulled.uninstall", "SKY202");
    let [(_, remedies)] = all.as_slice() else {
        panic!("{all:#?}");
    };
    let correct = remedies.last().expect("a remedy");
    assert!(correct.starts_with("Correct the image, and do not change the version: "), "{correct}");
}

/// Edits of the spec do not affect a version that has left it: only the record on the node keeps its
/// uninstall waiting.
#[test]
fn uninstall_of_a_version_that_left_the_spec_offers_a_reset() {
    let all = findings_with_remedies("image_not_pulled.left_spec", "SKY202");
    let [(_, remedies)] = all.as_slice() else {
        panic!("{all:#?}");
    };
    let reset = remedies.last().expect("a remedy");
    let title = "Reset the package on the node: uninstall.sh does not run";
    assert!(reset.starts_with(title), "{reset}");
    let edits = remedies.iter().filter(|r| r.starts_with("Correct"));
    assert_eq!(edits.count(), 0, "{remedies:#?}");
}

/// For each finding: the end of its message, the caveat of its first remedy, and the number of its remedies.
#[test]
fn failing_stage_states_whether_it_is_retried() {
    let summaries_of = |fixture: &str, code: &str| {
        let all = findings_with_remedies(fixture, code).into_iter();
        let all = all.map(|(message, remedies)| {
            let end = message.split_once(": ").map_or("", |(_, end)| end);
            let first = remedies.first().expect("a remedy");
            let caveat = first.split_once(": ").map_or("", |(_, caveat)| caveat);
            (end.to_owned(), caveat.to_owned(), remedies.len())
        });
        all.collect::<Vec<_>>()
    };
    let plain = |end: &str, remedies| (end.to_owned(), String::new(), remedies);
    let memory = "older operators give an interrupt 64Mi of memory, regardless of the package's resources; \
     newer ones give it 256Mi";
    assert_eq!(
        summaries_of("package_erroring.interrupts", "SKY201"),
        [
            (
                "its container is restarted until the timeout of 1h expires; 9 failed attempts so far"
                    .to_owned(),
                memory.to_owned(),
                1
            ),
            plain("its container is restarted without a limit; 9 failed attempts so far", 1),
            plain("its container is restarted at most 3 times; 1 failed attempt so far", 1),
        ]
    );
    assert_eq!(
        summaries_of("uninstall_failing.jobs", "SKY112"),
        [
            plain("its job has failed permanently (4 failed attempts)", 3),
            plain("its job is retrying, 1 failed attempt so far", 1),
        ]
    );
}

/// A pause turns an erroring node into a waiting one, but its Job stays failed.
#[test]
fn resume_does_not_promise_permanently_failed_packages() {
    let stays = "driver has failed permanently on node-1 and does not continue there until you run `kubectl skyhook \
                 package retry driver --skyhook gpu --node node-1`";
    let all = findings_with_remedies("paused.parked", "SKY308");
    let [(_, remedies)] = all.as_slice() else {
        panic!("{all:#?}");
    };
    assert_eq!(remedies, &["Resume the custom resource: "]);
    let preview = run("resume gpu --dry-run --from tests/rules/paused.parked.yaml").output();
    let expected = format!(
        "resume gpu  (changes objects, runs nothing; B1)\n\n\
         nodewright/gpu\n  remove annotation nodewright.nvidia.com/pause=true\n\n\
         - warning: {stays}\n"
    );
    assert_eq!(preview.stdout, expected, "{}", preview.transcript());
}

/// Package pods tolerate the taint only with the configured value, and another effect may evict.
#[test]
fn taint_remedy_uses_the_configured_taint() {
    let document = run(
        "diagnose stuck --rule SKY411 -o json --from tests/rules/runtime_required_not_in_force.value.yaml",
    )
    .output()
    .json();
    let remedy = &document["causes"][0]["remedies"][0];
    assert_eq!(
        (&remedy["argv"][4], &remedy["grade"]),
        (&json!("acme.io=not-prepared:NoExecute"), &json!("B3"))
    );
}

/// A pause unblocks others only with operators that read node states per custom resource.
#[test]
fn pause_is_suggested_only_if_it_unblocks_others() {
    let summaries_of = |fixture: &str| -> Vec<_> {
        let all = findings_with_remedies(fixture, "SKY206").into_iter();
        all.map(|(message, remedies)| {
            let pauses = remedies.iter().any(|r| r.starts_with("Pause"));
            let (_, end) = message.split_once(" cannot be read").expect("the reason");
            (end.to_owned(), pauses)
        })
        .collect()
    };
    let stops = ", so every reconcile of the operator fails".to_owned();
    let passed_over =
        "; the custom resource is paused, so the operator continues with the other custom resources"
            .to_owned();
    assert_eq!(summaries_of("node_state_malformed.paused"), [(stops.clone(), true), (passed_over, false)]);
    assert_eq!(summaries_of("node_state_malformed.older"), [(stops.clone(), false), (stops, false)]);
}
