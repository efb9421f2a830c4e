//! Misspelled commands, custom resources, nodes, packages and codes get suggestions.

use crate::support::run::{Run, run};

/// Asserts that each command line exits with this code and prints these lines on stderr.
fn assert_suggests(lines: &[&str], code: i32, messages: &[&str]) {
    for line in lines {
        let ran = run(&line.replace("FROM", "--from tests/clusters/two-priorities")).output();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{line}: {}", ran.stderr);
        for message in messages {
            assert!(ran.stderr.lines().any(|l| l.trim() == *message), "{line}: {}", ran.stderr);
        }
    }
}

#[test]
fn unknown_commands_get_suggestions() {
    for (line, near) in [
        ("diagnos", "tip: a similar subcommand exists: 'diagnose'"),
        ("unistall a b", "tip: a similar subcommand exists: 'uninstall'"),
        ("node staus", "tip: a similar subcommand exists: 'status'"),
        ("journal lst", "tip: a similar subcommand exists: 'list'"),
        ("reset a --dryrun", "tip: a similar argument exists: '--dry-run'"),
        ("diagnose --fail-on eror", "tip: a similar value exists: 'error'"),
    ] {
        assert_suggests(&[line], 64, &[near]);
    }
}

/// A wrong suggestion might be run, and some of these commands write.
#[test]
fn distant_names_are_not_suggested() {
    for line in ["bundle", "node events"] {
        let ran = run(line).output();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{line}");
        assert!(ran.stderr.contains("unrecognized subcommand"), "{line}: {}", ran.stderr);
        assert!(!ran.stderr.contains("tip:"), "{line}: {}", ran.stderr);
    }
}

/// Words of kubectl lead to the corresponding command.
#[test]
fn words_of_kubectl_lead_to_commands() {
    let from = "--from tests/clusters/rollout-stopped --now 2026-11-20T16:32:08Z";
    for (typed, command) in [
        ("get", "status"),
        ("get skyhooks", "status"),
        ("get SKYHOOKS", "status"),
        ("get skyhooks.skyhook.nvidia.com", "status"),
        ("get Skyhook gpu-tune", "status gpu-tune"),
        ("get Nodes", "node status"),
        ("get no/node-1", "node status node-1"),
        ("get nodewright gpu-tune", "status gpu-tune"),
        ("get nodes", "node status"),
        ("get packages", "package status"),
        ("get events", "events"),
        ("list -A", "status"),
        ("describe skyhook gpu-tune", "status gpu-tune"),
        ("describe gpu-tune", "status gpu-tune"),
        ("describe node node-1", "diagnose node node-1"),
        ("describe Nodes node-1", "diagnose node node-1"),
        ("describe no/node-1", "diagnose node node-1"),
        ("describe skyhooks gpu-tune", "status gpu-tune"),
        ("diagnose skyhook gpu-tune", "diagnose gpu-tune"),
        ("rollout status nodewright gpu-tune", "status gpu-tune"),
        ("events --for skyhook/gpu-tune", "events gpu-tune"),
        ("diagnose node/node-1", "diagnose node node-1"),
        ("diagnose node-1", "diagnose node node-1"),
        ("rollout status gpu-tune", "status gpu-tune"),
        ("doctor", "diagnose stuck"),
        ("check", "diagnose check"),
    ] {
        let [alias, own] = [typed, command].map(|words| run(&format!("{words} {from}")).output());
        assert_eq!(alias.parts(), own.parts(), "{typed}");
        assert!(!own.stdout.is_empty(), "{typed}");
    }
    for pair in [["history", "journal list"], ["watch", "status --watch"]] {
        let [alias, own] = pair.map(|words| run(words).output());
        assert_eq!(alias.parts(), own.parts());
    }
    for (typed, tip) in [
        ("retry driver", "package retry"),
        ("rerun driver", "package rerun"),
        ("unpause gpu-tune", "resume"),
        ("rollout gpu-tune", "status"),
    ] {
        let ran = run(typed).output();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{typed}");
        ran.expect_stderr(format!("a similar subcommand exists: '{tip}'"));
    }
    for term in ["Stuck", "compartment", "deployment policy"] {
        let ran = Run::new(["explain", term]).output();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{term}");
        assert!(ran.stdout.starts_with(&format!("{term}: ")), "{}", ran.stdout);
    }
}

/// Global flags may come before an alias; flags after it still override them.
#[test]
fn global_flags_may_come_first() {
    let from = "--from tests/clusters/rollout-stopped --now=2026-11-20T16:32:08Z";
    for (typed, command) in [
        ("FROM get skyhooks", "status FROM"),
        ("-n skyhook -v 0 FROM --as me -A get Nodes node-1", "node status node-1 -n skyhook FROM"),
        ("-o yaml FROM describe no/node-1 -ojson", "diagnose node node-1 -o json FROM"),
        ("--v=0 --no-headers FROM rollout status gpu-tune", "status gpu-tune --no-headers FROM"),
    ] {
        let [alias, own] = [typed, command].map(|words| run(&words.replace("FROM", from)).output());
        assert_eq!(alias.parts(), own.parts(), "{typed}");
        assert!(!own.stdout.is_empty(), "{typed}");
    }
}

/// The command of kubectl has none of the flags that only this plugin has.
#[test]
fn lines_of_kubectl_name_its_command() {
    for (typed, what, command) in [
        ("top gpu", "top", "top gpu"),
        ("top nodes --from x --now=y --compat --no-headers -o json", "top", "top nodes --no-headers -o json"),
        (
            "--context a get deploymentpolicies -o json",
            "get deploymentpolicies",
            "get deploymentpolicies --context a -o json",
        ),
        ("get Deployments.apps/x", "get Deployments.apps/x", "get Deployments.apps/x"),
        ("describe pod p -n skyhook", "describe pod", "describe pod p -n skyhook"),
        ("delete node n1", "delete node", "delete node n1"),
        ("delete po/p", "delete po/p", "delete po/p"),
        ("logs deploy/x -f", "logs deploy/x", "logs deploy/x -f"),
        ("cluster-info", "cluster-info", "cluster-info"),
        ("api-versions", "api-versions", "api-versions"),
        ("autoscale deployment x", "autoscale", "autoscale deployment x"),
    ] {
        let ran = run(typed).output();
        let message = format!("error: `{what}` is a command of kubectl itself: kubectl {command}\n");
        assert_eq!(ran.parts(), ("", message.as_str(), Some(64)), "{typed}");
    }
}

/// A former name of a command prints one line with the new name.
#[test]
fn former_commands_name_their_successors() {
    for (former, command) in [
        ("node repair node-1 --skyhook gpu", "reset NAME --unreadable"),
        ("node leave-batch node-1 --skyhook gpu", "deployment-policy reset NAME --node NODE"),
        ("uninstall status gpu", "status NAME"),
        ("finalizer status", "status NAME"),
        ("cordon release node-1", "leftovers --clean --node NODE"),
        ("-v=1 rules -o json", "explain"),
    ] {
        let ran = run(former).output();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{former}");
        let line = format!(" is now `kubectl skyhook {command}`\n");
        assert!(ran.stderr.starts_with("error: `kubectl skyhook "), "{}", ran.stderr);
        assert!(ran.stderr.ends_with(&line) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
}

#[test]
fn tips_do_not_name_the_opposite() {
    for (line, tip) in [
        ("unpause gpu", Some("tip: a similar subcommand exists: 'resume'")),
        ("undisable gpu", Some("tip: a similar subcommand exists: 'enable'")),
        (
            "uncordon gpu-1",
            Some(
                "tip: `kubectl skyhook diagnose node NODE` shows who cordoned a node; the operator lifts its own cordon, and \
                 `kubectl skyhook leftovers --clean --node NODE` that of a deleted custom resource; for others, use kubectl uncordon",
            ),
        ),
        ("bundle gpu", None),
    ] {
        let ran = run(line).output();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{line}");
        let found = ran.stderr.lines().map(str::trim).find(|l| l.starts_with("tip:"));
        assert_eq!(found, tip, "{line}: {}", ran.stderr);
    }
}

#[test]
fn unknown_custom_resources_get_suggestions() {
    assert_suggests(
        &[
            "diagnose stuck secnd FROM",
            "status secnd FROM",
            "node list --skyhook secnd FROM",
            "node status --skyhook secnd FROM",
            "node reset node-1 --skyhook secnd --dry-run FROM",
            "pause secnd --dry-run FROM",
            "resume secnd --dry-run FROM",
            "disable secnd --dry-run FROM",
            "enable secnd --dry-run FROM",
            "package status top --skyhook secnd FROM",
            "package logs top --skyhook secnd FROM",
            "package rerun top --skyhook secnd --dry-run FROM",
            "deployment-policy reset secnd --dry-run FROM",
            "uninstall secnd top --dry-run FROM",
            "finalizer strip secnd --dry-run FROM",
        ],
        1,
        &["error: Skyhook \"secnd\" not found", "hint: did you mean second?"],
    );
}

#[test]
fn names_of_other_things_lead_to_commands() {
    let package = "hint: top is a package of second: kubectl skyhook package status top --skyhook second";
    let lines = [
        "diagnose top FROM",
        "describe top FROM",
        "uninstall top --dry-run FROM",
        "pause top --dry-run FROM",
    ];
    assert_suggests(&lines, 1, &[package]);
    let rule = "hint: SKY201 is a rule: kubectl skyhook explain SKY201, kubectl skyhook diagnose stuck --rule SKY201";
    assert_suggests(&["diagnose SKY201 FROM", "status SKY201 FROM"], 1, &[rule]);
    assert_suggests(&["explain nodewright.spec"], 64, &["hint: kubectl explain nodewright.spec"]);
    for kind in ["Skyhook", "nodewrights", "deploymentpolicy"] {
        let ran = run(&format!("explain {kind}")).output();
        let message = format!(
            "error: \"{kind}\" is not a rule, grade or term, but a kind of object\nhint: kubectl explain {kind}\n"
        );
        assert_eq!(ran.parts(), ("", message.as_str(), Some(64)));
    }
}

/// Scripts reset before they start, so a name without anything to reset is no error.
#[test]
fn unknown_custom_resource_to_reset_gets_suggestions() {
    let messages = ["warning: Skyhook \"secnd\" not found", "did you mean second?"];
    assert_suggests(&["reset secnd --dry-run FROM"], 0, &messages);
    let node = "hint: to reset the node: kubectl skyhook reset --node node-2";
    assert_suggests(&["reset node-2 --dry-run FROM"], 1, &["error: Skyhook \"node-2\" not found", node]);
}

#[test]
fn unknown_nodes_get_suggestions() {
    assert_suggests(
        &[
            "diagnose stuck --node noed-2 FROM",
            "node status noed-2 FROM",
            "node reset noed-2 --skyhook second --dry-run FROM",
            "node ignore noed-2 --dry-run FROM",
            "node unignore noed-2 --dry-run FROM",
            "reset second --node noed-2 --dry-run FROM",
            "leftovers --clean --node noed-2 --dry-run FROM",
            "package logs top --skyhook second --node noed-2 FROM",
        ],
        1,
        &["error: node \"noed-2\" not found", "hint: did you mean node-2, node-1, node-3?"],
    );
}

#[test]
fn unknown_packages_get_suggestions() {
    assert_suggests(
        &[
            "package status topp --skyhook second FROM",
            "package logs topp --skyhook second FROM",
            "package rerun topp --skyhook second --dry-run FROM",
            "reset second --package topp --dry-run FROM",
            "uninstall second topp --dry-run FROM",
            "update-state second topp 3.0.0 apply complete --node node-1 --dry-run FROM",
        ],
        1,
        &["hint: did you mean top?"],
    );
}

#[test]
fn unknown_codes_get_suggestions() {
    assert_suggests(
        &["explain SKY6O1", "diagnose stuck --rule SKY6O1 FROM"],
        64,
        &["error: rule \"SKY6O1\" not found", "hint: did you mean SKY601, SKY101, SKY111?"],
    );
    assert_suggests(
        &["explain drain-blockd"],
        64,
        &["error: rule \"drain-blockd\" not found", "hint: did you mean drain-blocked?"],
    );
}
