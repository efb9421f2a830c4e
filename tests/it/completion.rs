//! Completion in kubectl's protocol: words in, candidates and a directive out.

#[cfg(unix)]
mod install;
mod scale;
#[cfg(target_os = "linux")]
mod shells;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use crate::support::clusters;
use crate::support::fake_api::{FakeApi, Reply};
use crate::support::run::{Run, RunOutput};

const FROM: &str = "--from=tests/clusters/two-priorities";

/// The words after the plugin's name, split at blanks; `''` is an empty word.
fn complete(words: &str) -> Run {
    let words = words.split(' ').map(|w| if w == "''" { "" } else { w });
    Run::new(std::iter::once("__complete").chain(words))
}

/// Stdout of a call that must succeed with an empty stderr.
fn stdout(ran: RunOutput) -> String {
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(0)));
    ran.stdout
}

fn answer(words: &str) -> String {
    stdout(complete(words).output())
}

#[test]
fn no_desc_completion_omits_descriptions() {
    let words = ["__completeNoDesc", "node", "list", FROM, "--skyhook", ""];
    assert_eq!(stdout(Run::new(words).output()), "first\nsecond\n:4\n");
}

#[test]
fn cluster_names_are_offered_with_descriptions() {
    for (words, expected) in [
        (
            format!("node list {FROM} --skyhook ''"),
            "first\t2/3 nodes complete, erroring\nsecond\t2/3 nodes complete, waiting\n:4\n",
        ),
        (format!("{FROM} node list --skyhook=s"), "second\t2/3 nodes complete, waiting\n:4\n"),
        (
            "diagnose stuck --from tests/clusters/deleted-while-paused ''".to_owned(),
            "gpu-tune\t0/3 nodes complete, being deleted, paused\n:4\n",
        ),
        (format!("node status {FROM} node-1 ''"), "node-2\nnode-3\n:4\n"),
        (format!("diagnose stuck {FROM} --node node-3 --node node-"), "node-1\nnode-2\n:4\n"),
        (format!("reset second {FROM} --package ''"), "top\t3.0.0\n:4\n"),
        (format!("reset {FROM} --package ''"), "base\t1.0.0\ntop\t3.0.0\n:4\n"),
        (format!("update-state {FROM} first base ''"), "1.0.0\n:4\n"),
        (format!("node list {FROM} --skyhook nothing"), ":4\n"),
    ] {
        assert_eq!(answer(&words), expected, "{words}");
    }
}

#[test]
fn commands_and_flags_complete_without_a_cluster() {
    for (words, expected) in [
        ("nod", "node\tInspect nodes, reset them, or make the operator ignore them\n:4\n"),
        (
            "explain migr",
            "migration-hold\tSKY601: An unfinished object of the older API stops the whole newer operator.\n:4\n",
        ),
        (
            "diagnose --rule SKY601",
            "SKY601\tmigration-hold: An unfinished object of the older API stops the whole newer operator.\n:4\n",
        ),
        (
            "update-state a b 1 ''",
            "uninstall\nuninstall-interrupt\nupgrade\napply\ninterrupt\npost-interrupt\nconfig\n:4\n",
        ),
        ("update-state a b 1 apply ''", "complete\nin_progress\nskipped\nerroring\nunknown\n:4\n"),
        ("diagnose --fail-on ''", "error\nwarning\ninfo\nnever\n:4\n"),
        ("reset gpu-tune --dry-run=", "client\nserver\nnone\n:4\n"),
        (
            "explain -oj",
            "-ojson\tfor programs\n-ojsonpath=\ta kubectl JSONPath template\n-ojsonpath-file=\ta template in a file\n-ojsonpath-as-json=\tthe results of a template, as JSON\n:4\n",
        ),
        (
            "explain -o custom",
            "custom-columns=\tHEADING:PATH,…\ncustom-columns-file=\tcolumn headings and paths, in a file\n:6\n",
        ),
        ("version --no-h", "--no-headers\tDo not print table headings\n:4\n"),
        // Flags are offered once a dash is typed.
        ("version ''", ":4\n"),
        ("version --from ''", ":0\n"),
        ("version --kubeconfig=x", ":0\n"),
        ("completion install --dir ''", ":0\n"),
        ("no-such-command ''", ":4\n"),
        ("version --token ''", ":4\n"),
    ] {
        assert_eq!(answer(words), expected, "{words}");
    }
}

#[test]
fn contexts_clusters_and_users_come_from_the_kubeconfig() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config");
    let context = |name: &str, namespace: &str| json!({"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}});
    let config = json!({
        "kind": "Config", "apiVersion": "v1",
        "contexts": [context("prod", "ops"), context("dev", "ops"), context("lab", "")],
        "clusters": [{"name": "east", "cluster": {"server": "https://x"}}],
        "users": [{"name": "me", "user": {}}],
    });
    std::fs::write(&path, config.to_string()).expect("a kubeconfig");
    for (words, expected) in [
        ("node status --context ''", "dev\nlab\nprod\n:4\n"),
        ("--cluster ''", "east\n:4\n"),
        ("--user=", "me\n:4\n"),
        ("-n ''", "ops\n:4\n"),
    ] {
        let ran = complete(words).kubeconfig(&path).output();
        assert_eq!(stdout(ran), expected, "{words}");
        let flag = format!("--kubeconfig={} {words}", path.display());
        assert_eq!(answer(&flag), expected, "{flag}");
    }
    assert_eq!(answer("--context ''"), ":4\n");
    assert_eq!(answer("--kubeconfig=/no/such/file --context ''"), ":1\n");
}

#[test]
fn namespaces_come_from_the_cluster_if_readable() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    for name in ["skyhook", "skyhook-old", "default"] {
        fake.load(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
    let served = fake.serve();
    let ask = || {
        let ran = complete("version -n sky").kubeconfig(&served.kubeconfig()).output();
        stdout(ran)
    };
    assert_eq!(ask(), "skyhook\nskyhook-old\n:4\n");
    fake.on("LIST namespaces").reply(403);
    assert_eq!(ask(), ":4\n", "the context names no namespace");
}

#[test]
fn journals_are_offered_newest_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let directory = dir.path().join("kubectl-skyhook/journal");
    std::fs::create_dir_all(&directory).expect("a directory");
    for id in ["20261119-101112.001-reset-gpu", "20261120-101112.001-pause-gpu"] {
        std::fs::write(directory.join(format!("{id}.jsonl")), "").expect("a journal");
    }
    for (words, expected) in [
        ("undo ''", "20261120-101112.001-pause-gpu\n20261119-101112.001-reset-gpu\n:36\n"),
        ("journal show 20261119", "20261119-101112.001-reset-gpu\n:36\n"),
        ("undo 2027", ":36\n"),
    ] {
        let ran = complete(words).env("XDG_STATE_HOME", dir.path()).output();
        assert_eq!(stdout(ran), expected, "{words}");
    }
}

#[test]
fn completion_uses_the_connection_flags_on_the_line() {
    let served = clusters::named("two-priorities").served().serve();
    let kubeconfig = served.kubeconfig();
    let ran = complete("node list --skyhook ''").kubeconfig(&kubeconfig).output();
    let expected = "first\t2/3 nodes complete, erroring\nsecond\t2/3 nodes complete, waiting\n:4\n";
    assert_eq!(stdout(ran), expected);
    let flag = format!("--kubeconfig {} node status ''", kubeconfig.display());
    let expected = "node-1\nnode-2\nnode-3\n:4\n";
    assert_eq!(answer(&flag), expected);
}

#[test]
fn completion_reads_only_node_names() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    for n in 1..=1_000 {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("gpu-{n:05}")}});
        fake.load(node);
    }
    let served = fake.serve();
    let ran = complete("node status gpu-0000").kubeconfig(&served.kubeconfig()).output();
    let expected: String = (1..=9).map(|n| format!("gpu-0000{n}\n")).collect();
    assert_eq!(stdout(ran), expected + ":4\n");
    assert_eq!(fake.lines(), ["GET /api/v1/nodes?includeObject=None"]);
}

#[test]
fn unreadable_cluster_gives_an_error_and_no_candidates() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    fake.on("LIST skyhooks").reply(403);
    fake.on("LIST nodes").reply(Reply::Hang);
    let served = fake.serve();
    for words in [
        "diagnose stuck ''",
        "node status ''",
        "node status --context=none ''",
        "node status --from /no/such/file ''",
        "node status --from - ''",
    ] {
        let ran = complete(words).kubeconfig(&served.kubeconfig()).output();
        assert_eq!(stdout(ran), ":1\n", "{words}");
    }
    assert_eq!(answer("node status ''"), ":1\n");
}

#[test]
fn shell_scripts_get_the_same_candidates() {
    let ask = |shell: &str, words: &str| {
        let words: Vec<&str> = words.split(' ').map(|w| if w == "''" { "" } else { w }).collect();
        let index = words.len().to_string();
        let line = ["--", "kubectl-skyhook"].into_iter().chain(words);
        let run = Run::new(line)
            .env("KUBECTL_SKYHOOK_COMPLETE", shell)
            .env("_CLAP_COMPLETE_INDEX", index)
            .env("_CLAP_IFS", "\n");
        stdout(run.output())
    };
    for (shell, words, expected) in [
        (
            "fish",
            format!("node list {FROM} --skyhook ''"),
            "first\t2/3 nodes complete, erroring\nsecond\t2/3 nodes complete, waiting\n",
        ),
        ("bash", format!("node list {FROM} --skyhook ''"), "first\nsecond"),
        ("bash", "node st".to_owned(), "status"),
        ("bash", "diagnose --fail-on ''".to_owned(), "error\nwarning\ninfo\nnever"),
        ("bash", "diagnose --fail".to_owned(), "--fail-on"),
        ("bash", "completion install --dir compl".to_owned(), "completions/"),
        ("bash", "explain SKY999".to_owned(), ""),
        ("sh", "node ''".to_owned(), ""),
        (
            "elvish",
            "update-state a b 1 apply ''".to_owned(),
            "complete\nin_progress\nskipped\nerroring\nunknown",
        ),
    ] {
        assert_eq!(ask(shell, &words), expected, "{shell}: {words}");
    }
}
