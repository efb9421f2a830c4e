//! Command lines in every syntax that pflag accepts.

use serde_json::{Value, json};

use super::TestCluster;
use crate::support::run::{Run, run};

#[test]
fn upstream_commands_and_flags_are_accepted() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    for words in [
        "version",
        "version --client-only",
        "version --client-only=true",
        "version --client-only --client-only=false --timeout 10s",
        "version --client-only --timeout=1m30s",
        "pause gpu --confirm --dry-run",
        "pause gpu -y --dry-run=true",
        "--dry-run=false pause gpu -y",
        "resume gpu -y=true",
        "disable gpu -yv",
        "enable gpu --confirm=TRUE",
        "reset gpu --confirm --skip-batch-reset --dry-run",
        "reset gpu --skip-batch-reset=F --skip-batch-reset=1 --dry-run",
        "--dry-run node list --skyhook gpu --dry-run=false",
        "deployment-policy reset gpu --dry-run",
        "dp reset gpu --dry-run=1",
        "node list --skyhook gpu",
        "node list --skyhook=gpu -o wide -v",
        "node status",
        "node status node-1 --skyhook gpu -o=yaml",
        "node status --skyhook gpu node-1 -oJSON",
        "node reset node-1 --skyhook gpu --dry-run",
        "node ignore node-1 --dry-run",
        "node unignore node-1",
        "package status driver --skyhook gpu --node node-1 --node node-*",
        "package rerun driver --skyhook gpu --node node-1 --stage apply --dry-run",
        "package rerun driver --skyhook gpu --node node-1 --stage= --dry-run",
        "package logs driver --skyhook gpu --node node-1 --stage apply --tail -1",
        "package logs driver --skyhook gpu --tail=5 -f=false --follow=F --stage=",
        "completion bash",
        "completion zsh",
        "completion fish",
        "completion powershell",
        "help",
        "help node list",
        "__complete node list --skyhook g",
        "__completeNoDesc node list --skyhook g",
    ] {
        cluster.run_ok(words);
    }
}

#[test]
fn upstream_connection_flags_are_accepted() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    for flags in [
        "-n skyhook",
        "--namespace=skyhook",
        "--request-timeout 5s",
        "--request-timeout 0",
        "--as admin --as-uid 7 --as-group a --as-group b --as-user-extra k=v",
        "--disable-compression",
        "--disable-compression=false",
        "--cache-dir /tmp/none",
        "--insecure-skip-tls-verify=false",
    ] {
        cluster.run_ok(&format!("{flags} node list --skyhook gpu"));
        cluster.run_ok(&format!("node list {flags} --skyhook gpu"));
    }
    let kubeconfig = cluster.served.kubeconfig();
    let ran = run(&format!("node list --skyhook gpu --kubeconfig {}", kubeconfig.display())).output();
    ran.expect_code(0);
}

#[test]
fn go_boolean_values_are_accepted() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    for (value, sets) in [
        ("1", true),
        ("t", true),
        ("T", true),
        ("true", true),
        ("TRUE", true),
        ("True", true),
        ("0", false),
        ("f", false),
        ("F", false),
        ("false", false),
        ("FALSE", false),
        ("False", false),
    ] {
        let verbose = cluster.ok(&format!("node list --skyhook gpu -v={value}"));
        let says = verbose.stderr.contains("acting on");
        assert_eq!(says, sets, "{}", verbose.transcript());
        let dry = cluster.ok(&format!("pause gpu -y --dry-run={value}"));
        assert_eq!(cluster.gpu_annotation("pause") != "true", sets, "{}", dry.transcript());
        cluster.run_ok("resume gpu");
    }
}

/// Every boolean flag of every command.
#[test]
fn all_boolean_flags_accept_a_value() {
    fn flags(command: &clap::Command) -> Vec<String> {
        let own = command
            .get_arguments()
            .filter(|a| matches!(a.get_action(), clap::ArgAction::SetTrue | clap::ArgAction::SetFalse));
        let own = own.map(|a| format!("{} {}", command.get_name(), a.get_id()));
        let all = command.get_subcommands().flat_map(flags);
        own.chain(all).collect()
    }
    let tree = kubectl_skyhook::program::Program::SKYHOOK.tree();
    assert_eq!(flags(&tree), [""; 0]);

    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    for words in [
        "reset gpu --retaint=true --no-pause=F --reset-batches=1 --failed-only=false --dry-run",
        "reset gpu --failed-only --failed-only=0 --no-journal=true --diff=t --dry-run",
        "package rerun driver --skyhook gpu --all-nodes=true --failed-only=false --dry-run",
        "update-state gpu driver 1.0.0 config complete --add=false --force=TRUE --dry-run",
        "uninstall gpu driver --enable=true --dry-run",
        "uninstall gpu driver --cancel=1 --force=0 --dry-run",
        "finalizer strip gpu --purge-state=0 --force=False --help",
    ] {
        cluster.run_ok(words);
    }
    let off = cluster.ok("reset gpu --failed-only=true --dry-run");
    off.expect_stderr("nothing to do");
    let kept = cluster.ok("pause gpu -y --no-journal=false -o json");
    assert!(kept.json()["journal"].is_string(), "{}", kept.transcript());
    let wrong = cluster.run("reset gpu --no-pause=perhaps -y");
    wrong.expect_code(64);
}

#[test]
fn last_repeated_flag_wins_and_flags_may_follow_arguments() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    let ran = cluster.ok("node -o yaml list --skyhook other --skyhook gpu -o json");
    assert_eq!(ran.json()["skyhookName"], json!("gpu"));
    cluster.run_ok("pause --confirm=false --confirm gpu");
    assert_eq!(cluster.gpu_annotation("pause"), json!("true"));
    cluster.run_ok("resume gpu -y");
    cluster.run_ok("--dry-run pause gpu -y");
    assert_eq!(cluster.gpu_annotation("pause"), Value::Null);
    cluster.run_ok("disable -y -- gpu");
    assert_eq!(cluster.gpu_annotation("disable"), json!("true"));
}

#[test]
fn double_dash_ends_flags() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    let ran = cluster.run("pause -y -- --confirm");
    assert_eq!(ran.parts(), ("", "error: Skyhook \"--confirm\" not found\nhint: existing: gpu\n", Some(1)));
}

#[test]
fn output_formats_are_case_insensitive_and_checked() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    let json = cluster.ok("node list --skyhook gpu -o json").stdout;
    for word in ["-o=JSON", "-oJson", "--output=json", "--output jSON"] {
        let ran = cluster.ok(&format!("node list --skyhook gpu {word}"));
        assert_eq!(ran.stdout, json);
    }
    for words in [
        "version -o toml",
        "node list --skyhook gpu -o jsn",
        "node list --skyhook gpu -o=",
        "node list --skyhook gpu --output=",
    ] {
        let ran = cluster.run(words);
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(64)));
        let says = "allowed formats are table, wide, json, yaml, name";
        ran.expect_stderr(says);
    }
}

#[test]
fn help_exits_0_on_stdout() {
    let long = run("node list -h").output();
    assert_eq!(run("help node list").output().stdout, long.stdout);
    assert_eq!(run("help").output().stdout, run("-h").output().stdout);
    run("").output().expect_stdout("Something stuck? kubectl skyhook diagnose\n");
    for words in ["node", "package", "dp", "deployment-policy", "help dp"] {
        let ran = run(words).output();
        assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(0)), "{words}");
        assert!(ran.stdout.contains("Usage: kubectl skyhook"), "{words}");
    }
}

#[test]
fn empty_selector_does_not_select_everything() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    let empty = |words: &str| -> Run {
        let words: Vec<&str> = words.split(' ').map(|w| w.trim_matches('\'')).collect();
        cluster.command_of(words)
    };
    for words in [
        "node list --skyhook ''",
        "node reset node-1 --skyhook '' -y",
        "node reset '' --skyhook gpu -y",
        "node ignore ''",
        "package rerun driver --skyhook gpu --node '' -y",
        "reset gpu --node '' -y",
        "reset '' -y",
    ] {
        let ran = empty(words).output();
        let refused = matches!(ran.code, Some(1 | 64)) || words.starts_with("reset ''");
        assert!(refused, "{}", ran.transcript());
        assert_eq!(cluster.patched_paths(), [""; 0], "{}", ran.transcript());
    }
    let blank = empty("version -n ''").output();
    assert_eq!(blank.code, Some(0));
    blank.expect_stdout("v0.17.1");
    assert_eq!(cluster.gpu()["metadata"]["annotations"], Value::Null);
}
