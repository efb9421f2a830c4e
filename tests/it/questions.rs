//! The questions of `docs/tasks.md`: each command is named by `-h` or the README, and answers its question.

use crate::support::clusters;
use crate::support::run::run;
use crate::support::test_cluster::{TestCluster, operator};

/// The capture of each row of the table, further flags, and text of the answer.
const ANSWERS: [(&str, &str, &str); 20] = [
    (
        "apply-erroring",
        "",
        "error SKY201 package-erroring  gpu-tune driver on node-2",
    ),
    (
        "two-priorities",
        "--no-pause --dry-run",
        "reset 2 custom resources on 1 node",
    ),
    (
        "deleted-while-erroring",
        "",
        "skyhook/gpu-tune: the deletion is blocked",
    ),
    (
        "uninstall-cancelled",
        "--dry-run",
        "uninstall driver of gpu-tune",
    ),
    (
        "finalizer-stripped",
        "",
        "record of driver 2.0.1, tuning 1.2.0",
    ),
    ("two-priorities", "", "first, priority 10: complete"),
    (
        "two-priorities",
        "--no-pause --dry-run",
        "base   install on 1 node",
    ),
    ("complete", "", "Collected 3 nodes, 1 custom resource"),
    (
        "complete",
        "",
        "ok: the operator runs: deployment skyhook/skyhook-operator-controller-manager",
    ),
    ("apply-erroring", "", "NODE    SKYHOOK   PACKAGE"),
    ("in-progress", "", "gpu-tune  Degraded    33% (1/3)"),
    ("complete", "", "gpu-tune  Complete 100% (3/3)"),
    (
        "upgrade-in-progress",
        "",
        "PACKAGE  SKYHOOK   VERSION  SPEC",
    ),
    ("apply-erroring", "", "BackOff"),
    (
        "upgrade-in-progress",
        "",
        "node-2  gpu-tune  driver   2.0.0    2.2.0",
    ),
    ("two-priorities", "--dry-run", "pause 2 custom resources"),
    ("in-progress", "", "driver 2.0.1 apply in_progress"),
    ("in-progress", "", "NEXT"),
    ("apply-erroring", "", "node-2  gpu-tune  erroring"),
    ("complete", "", "No journal in"),
];

/// Questions and commands of the table.
fn questions() -> Vec<(String, String)> {
    let page = std::fs::read_to_string("docs/tasks.md").expect("a page");
    let table = page
        .split("| Question | Command |")
        .nth(1)
        .expect("the table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let command = cells[1].trim_matches('`');
        (cells[0].to_owned(), command.to_owned())
    };
    rows.map(row).collect()
}

#[test]
fn each_question_is_answered_by_one_command() {
    let questions = questions();
    assert_eq!(questions.len(), ANSWERS.len());
    let readme = std::fs::read_to_string("README.md").expect("a page");
    let mut help = run("-h").output().stdout;
    for group in ["node", "package", "diagnose", "finalizer"] {
        help += &run(&format!("{group} -h")).output().stdout;
    }
    let mut wrong = Vec::new();
    for ((question, command), (capture, flags, answer)) in questions.iter().zip(ANSWERS) {
        let words = command
            .strip_prefix("kubectl skyhook ")
            .expect("a command of the plugin");
        let verbs: Vec<&str> = words
            .split(' ')
            .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
            .collect();
        let named = readme.contains(&format!("skyhook {}", verbs.join(" ")))
            || verbs
                .iter()
                .all(|verb| help.contains(&format!("\n  {verb} ")));
        if !named {
            wrong.push(format!(
                "{question}: neither -h nor the README names {verbs:?}"
            ));
        }
        let cluster = TestCluster::serving(clusters::named(capture).served());
        cluster.fake.load(operator(1));
        let directory = tempfile::tempdir().expect("a directory");
        let ticket = directory.path().join("ticket.tar.gz");
        let words = words.replace("ticket.tar.gz", &ticket.display().to_string());
        let ran = cluster.run(&format!("{words} {flags}"));
        if ran.code == Some(64) || !(ran.stdout.contains(answer) || ran.stderr.contains(answer)) {
            wrong.push(format!("{question}: {}", ran.transcript()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
