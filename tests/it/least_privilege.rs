//! No command uses more rights than it needs: commands that read send only GET, commands on files open no
//! socket and run no program, and every request is in the role that `rbac --for` prints. Dry runs are tested
//! in `writes::confirmation`.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;

use kubectl_skyhook::commands::rbac::Right;
use serde_json::json;

use crate::rbac::{command_words, needed_right, rights};
use crate::support::fake_api::{Logged, kubeconfig};
use crate::support::run::run;
use crate::support::sample::some;
use crate::support::test_cluster::TestCluster;
use crate::writes::confirmation::COMMANDS;

/// Every command that only reads: its verb, a capture, and a command line.
#[rustfmt::skip]
const READS: &[(&str, &str, &str)] = &[
    ("status", "apply-erroring", "status"),
    ("status", "nodewright-apply-erroring", "status -o wide"),
    ("diagnose stuck", "apply-erroring", "diagnose stuck"),
    ("diagnose stuck", "drain-blocked", "diagnose stuck"),
    ("diagnose stuck", "nodewright-apply-erroring", "diagnose stuck"),
    ("diagnose node", "apply-erroring", "diagnose node node-2"),
    ("diagnose check", "apply-erroring", "diagnose check"),
    ("events", "apply-erroring", "events"),
    ("explain", "complete", "explain SKY101"),
    ("lint", "apply-erroring", "lint -f tests/lint/refused_by_webhook/good_apply_without_enabled.yaml"),
    ("wait", "apply-erroring", "wait gpu-tune --for=erroring --timeout 5s"),
    ("wait", "in-progress", "wait gpu-tune --timeout 1s"),
    ("collect", "apply-erroring", "collect -o /dev/null"),
    (
        "report",
        "apply-erroring",
        "report --force --output-file /dev/null",
    ),
    ("diff", "apply-erroring", "diff tests/clusters/complete"),
    ("node status", "apply-erroring", "node status -o wide"),
    ("node list", "apply-erroring", "node list --skyhook gpu-tune"),
    ("package status", "apply-erroring", "package status --skyhook gpu-tune"),
    ("package logs", "apply-erroring", "package logs driver --skyhook gpu-tune"),
    ("leftovers", "finalizer-stripped", "leftovers"),
    ("journal list", "complete", "journal list"),
    ("journal show", "complete", "journal show"),
    ("completion", "complete", "completion bash"),
    ("rbac", "complete", "rbac"),
    ("schema", "complete", "schema"),
    ("version", "complete", "version"),
];

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[test]
fn every_command_is_covered() {
    let reads = READS.iter().map(|(name, ..)| *name);
    let known = reads.chain(COMMANDS.iter().map(|c| c.name));
    let known: BTreeSet<String> = known.map(str::to_owned).collect();
    assert_eq!(known, command_words(), "say in READS, or in ambiguous_responses::COMMANDS, what it does");
}

/// The rights that were used but are not in the role of the command.
fn exceeded_rights(verb: &str, requests: &[Logged]) -> Vec<Right> {
    let needed: BTreeSet<Right> = requests.iter().filter_map(needed_right).collect();
    needed.difference(&rights(verb)).cloned().collect()
}

#[test]
fn read_commands_send_only_get_within_their_role() {
    for (name, cluster, words) in READS {
        let test_cluster = TestCluster::from_capture(cluster);
        let ran = test_cluster.run(words);
        assert_ne!(ran.code, Some(64), "{}", ran.transcript());
        let requests = test_cluster.fake.requests();
        // Only `diagnose check` sends POST requests, and only access reviews.
        let asks = |r: &&Logged| *name == "diagnose check" && r.method == "POST" && r.path == REVIEWS;
        let others = requests.iter().filter(|r| r.method != "GET" && !asks(r));
        let others: Vec<&Logged> = others.collect();
        assert!(others.is_empty(), "{words}: {others:?}");
        let exceeded_rights = exceeded_rights(name, &requests);
        assert!(exceeded_rights.is_empty(), "{words} on {cluster} takes {exceeded_rights:?}");
    }
}

#[test]
fn write_commands_stay_within_their_role() {
    for command in some(COMMANDS, 10) {
        let prepared = command.test_cluster();
        let test_cluster = &prepared.test_cluster;
        let asked = test_cluster.fake.requests().len();
        let words = format!("{} --confirm", prepared.words);
        let ran = test_cluster.with_operator(|| test_cluster.run(&words));
        assert_ne!(ran.code, Some(64), "{}", ran.transcript());
        let requests = test_cluster.fake.requests().split_off(asked);
        let writes = requests.iter().any(|r| r.method != "GET" && needed_right(r).is_some());
        assert!(writes, "{words}: {}", ran.transcript());
        let exceeded_rights = exceeded_rights(command.name, &requests);
        assert!(exceeded_rights.is_empty(), "{words} on {} takes {exceeded_rights:?}", command.cluster);
    }
}

/// A server that must not be contacted.
struct Trap(TcpListener);

impl Trap {
    fn new() -> Trap {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("the listener can be nonblocking");
        Trap(listener)
    }

    fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().expect("an address"))
    }

    /// Whether there was a connection since the last call.
    fn is_sprung(&self) -> bool {
        self.0.accept().is_ok()
    }
}

#[test]
fn file_input_opens_no_socket_and_runs_no_plugin() {
    let (server, proxy) = (Trap::new(), Trap::new());
    let directory = tempfile::tempdir().expect("a directory");
    let plugin_ran = directory.path().join("plugin-ran");
    let mut config = kubeconfig(&server.url(), "trap");
    config["users"][0]["user"]["exec"] = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/usr/bin/touch",
        "args": [plugin_ran],
        "interactiveMode": "Never",
    });
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, config.to_string()).expect("a file");
    let trapped = |words: &str| {
        let (host, port) =
            server.url()[7..].split_once(':').map(|(h, p)| (h.to_owned(), p.to_owned())).expect("a port");
        let mut run = run(words)
            .kubeconfig(&file)
            .env("XDG_STATE_HOME", directory.path())
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", port);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            run = run.env(name, proxy.url()).env(&name.to_lowercase(), proxy.url());
        }
        run.output()
    };
    // The trap works.
    let caught = trapped("status --request-timeout 200ms");
    caught.expect_code(1);
    assert!(plugin_ran.exists());
    std::fs::remove_file(&plugin_ran).expect("the mark of the plugin exists");
    let mut config = kubeconfig(&server.url(), "trap");
    config["users"][0]["user"] = json!({});
    let bare = directory.path().join("bare");
    std::fs::write(&bare, config.to_string()).expect("a file");
    let caught = run("status --request-timeout 200ms").kubeconfig(&bare).output();
    caught.expect_code(1);
    assert!(server.is_sprung());
    while server.is_sprung() || proxy.is_sprung() {}

    let reads = READS.iter().map(|(_, cluster, words)| (*cluster, (*words).to_owned()));
    let plan = directory.path().join("plan.json").display().to_string();
    let writes = COMMANDS.iter().flat_map(|c| {
        let words = c.words.replace("PLAN", &plan);
        [(c.cluster, words.clone()), (c.cluster, format!("{words} --dry-run"))]
    });
    let first = ("complete", format!("pause gpu-tune --plan-out {plan}"));
    let mut answered = BTreeSet::new();
    for (cluster, words) in std::iter::once(first).chain(reads).chain(writes) {
        let from = Path::new("tests/clusters").join(cluster).join("cluster.json");
        let ran = trapped(&format!("{words} --from {}", from.display()));
        let name = words.split(' ').next().unwrap_or_default().replace("dp", "deployment-policy");
        if ran.code != Some(64) {
            answered.insert(name);
        }
        let sprung = server.is_sprung() || proxy.is_sprung() || plugin_ran.exists();
        assert!(!sprung, "{}", ran.transcript());
    }
    // These commands need a cluster or none at all, and refuse files.
    let all: BTreeSet<String> =
        command_words().iter().map(|w| w.split(' ').next().unwrap_or_default().to_owned()).collect();
    let refused: Vec<&String> = all.difference(&answered).collect();
    assert_eq!(refused, ["collect", "undo", "wait"]);
}
