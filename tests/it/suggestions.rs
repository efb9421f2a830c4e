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
        ("events --for skyhook/gpu-tune", "events gpu-tune"),
        ("diagnose node/node-1", "diagnose node node-1"),
        ("diagnose node-1", "diagnose node node-1"),
        ("doctor", "diagnose stuck"),
        ("check", "diagnose check"),
    ] {
        let [alias, own] = [typed, command].map(|words| run(&format!("{words} {from}")).output());
        assert_eq!(alias.parts(), own.parts(), "{typed}");
        assert!(!own.stdout.is_empty(), "{typed}");
    }
    for pair in [
        ["history", "journal list"],
        ["watch", "status --watch"],
        ["rollout status gpu-tune --from x", "wait gpu-tune --from x"],
        ["rollout status nodewright gpu-tune --from x", "wait gpu-tune --from x"],
        ["rollout pause nodewright/gpu-tune --from x", "pause gpu-tune --from x"],
        ["rollout resume nodewright gpu-tune --from x", "resume gpu-tune --from x"],
        ["pause nodewright gpu-tune --reason x --from x", "pause gpu-tune --reason x --from x"],
    ] {
        let [alias, own] = pair.map(|words| run(words).output());
        assert_eq!(alias.parts(), own.parts());
    }
    for (typed, tip) in
        [("retry driver", "package retry"), ("rerun driver", "package rerun"), ("unpause gpu-tune", "resume")]
    {
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
        ("--v=0 --no-headers FROM describe gpu-tune", "status gpu-tune --no-headers FROM"),
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
        ("explain pods", "explain pods", "explain pods"),
        ("get svc --from x", "get svc", "get svc"),
        ("api-versions", "api-versions", "api-versions"),
        ("autoscale deployment x", "autoscale", "autoscale deployment x"),
        ("wait nodes --all --for=condition=Ready", "wait nodes", "wait nodes --all --for=condition=Ready"),
        ("rollout status deploy/x", "rollout", "rollout status deploy/x"),
        ("get pods -o name", "get pods", "get pods -o name"),
    ] {
        let ran = run(typed).output();
        let message = format!("error: `{what}` is a kubectl command: kubectl {command}\n");
        assert_eq!(ran.parts(), ("", message.as_str(), Some(64)), "{typed}");
    }
}

/// Commands and flags of kubectl that lead to a guarded command, or to the flag with the same purpose.
#[test]
fn habits_are_explained() {
    let finalizers = r#"patch skyhook gpu --type=merge -p {"metadata":{"finalizers":null}}"#;
    for (typed, message) in [
        (
            "pause node n1",
            "`kubectl skyhook pause` takes custom resources; for a node: kubectl skyhook node ignore n1",
        ),
        (
            "reset no/n1",
            "`kubectl skyhook reset` takes custom resources; for a node: kubectl skyhook reset --node n1",
        ),
        (
            finalizers,
            "`patch` is a kubectl command; to make this change with a preview and undo: kubectl skyhook finalizer strip gpu",
        ),
        (
            "label node n1 skyhook.nvidia.com/ignore=true",
            "`label` is a kubectl command; to make this change with a preview and undo: kubectl skyhook node ignore n1",
        ),
    ] {
        let ran = run(typed).output();
        assert_eq!(ran.parts(), ("", &*format!("error: {message}\n"), Some(64)), "{typed}");
    }
    for (typed, tip) in [
        (
            "get nodes --field-selector x=y",
            "--cordoned, --failed-only and --status filter nodes; -l selects them by label",
        ),
        (
            "events --types=Warning",
            "`kubectl skyhook events NAME` shows the events of a custom resource, its nodes, pods and jobs; for one object: \
             `kubectl events -A --for KIND/NAME`; by type: \
             `kubectl skyhook events -o json | jq '.items[] | select(.type==\"Warning\")'`",
        ),
        ("status -w --interval 1s", "there is no interval: each change is shown when it happens"),
        ("status --format json", "-o sets the format, such as -o json or -o jsonpath=TEMPLATE"),
        ("lint x.yaml", "files are flags: `kubectl skyhook lint -f FILE`"),
    ] {
        let ran = run(typed).output();
        let tip = format!("  tip: {tip}\n\nFor more information, try '--help'.\n");
        let (error, rest) = ran.stderr.split_once("\n\n").expect("an error, then the tip");
        assert!(error.starts_with("error: unexpected argument '"), "{error}");
        assert_eq!((rest, ran.stdout.as_str(), ran.code), (tip.as_str(), "", Some(64)), "{typed}");
    }
    // No flag is similar.
    let ran = run("status -Z pool").output();
    let usage = "error: unexpected argument '-Z' found\n\nUsage: kubectl skyhook status [OPTIONS] [NAME]...\n\n\
                 For more information, try '--help'.\n";
    assert_eq!(ran.parts(), ("", usage, Some(64)));
    let from = "--from tests/clusters/nodewright-apply-erroring";
    let [object, own] = ["get skyhook aerr -o yaml", "status aerr -o yaml"]
        .map(|typed| run(&format!("{typed} {from}")).output());
    assert_eq!(object.stdout, own.stdout);
    let note = "This is the plugin's own document; `kubectl get` prints the Kubernetes objects.\n";
    assert_eq!(object.stderr, format!("{}{note}", own.stderr));
    for [typed, own] in [
        [
            "package rerun alpha --skyhook aerr --failed-only --dry-run",
            "package rerun alpha --skyhook aerr --all-nodes --failed-only --dry-run",
        ],
        ["status --no-headers -o custom-columns=:.name", "status --no-headers -o custom-columns=NAME:.name"],
    ] {
        let [typed, own] = [typed, own].map(|typed| run(&format!("{typed} {from}")).output());
        assert_eq!(typed.parts(), own.parts());
    }
}

/// The name of a Job instead of a package, and nodes that a custom resource does not select.
#[test]
fn names_of_jobs_and_other_nodes_are_recognized() {
    let from = "--from tests/clusters/nodewright-apply-erroring";
    let status = run(&format!("diagnose stuck -o json {from}")).output().json();
    let evidence = status["findings"][0]["evidence"].as_array().expect("evidence").iter();
    let job = evidence.filter_map(|one| one["object"].as_str()?.strip_prefix("job/")).next().expect("a job");
    let (_, name) = job.split_once('/').expect("a namespace and a name");
    let ran = run(&format!("get jobs {name} {from}")).output();
    let message = format!("error: package \"{name}\" not found\nhint: existing: alpha, beta\n");
    assert_eq!(ran.parts(), ("", message.as_str(), Some(1)));
    let capture = "apiVersion: skyhook.nvidia.com/v1alpha1\nkind: Skyhook\nmetadata: {name: gpu, uid: u}\n\
                   spec: {nodeSelectors: {matchLabels: {pool: gpu}}}\n---\napiVersion: v1\nkind: Node\n\
                   metadata: {name: cpu-1}\n";
    let note = "gpu does not select these nodes and has no state on them; `kubectl skyhook diagnose node NODE` shows why.\n";
    for command in ["node status cpu-1 --skyhook gpu", "node list cpu-1 --skyhook gpu"] {
        let ran = run(&format!("{command} --from -")).stdin(capture.as_bytes()).output();
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.lines().next()),
            ("", Some(note.trim_end())),
            "{}",
            ran.transcript()
        );
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
                "tip: `kubectl skyhook diagnose node NODE` shows who cordoned a node; the operator removes its own cordons; to \
                 remove the cordon of a deleted custom resource, use `kubectl skyhook leftovers --clean --node NODE`; to remove \
                 any other cordon, `kubectl uncordon NODE`",
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
    for kind in ["Skyhook", "nodewrights", "deploymentpolicy"] {
        let ran = run(&format!("explain {kind}")).output();
        let message = format!("error: `explain {kind}` is a kubectl command: kubectl explain {kind}\n");
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

/// Logs are text: a script that asks for JSON must not parse them.
#[test]
fn logs_have_no_documents() {
    let line = "package logs driver -o json --from tests/clusters/apply-erroring";
    assert_suggests(
        &[line, &line.replace("json", "name")],
        64,
        &[
            "error: package logs prints text; -o is not supported",
            "hint: kubectl skyhook package status driver -o json",
        ],
    );
}
