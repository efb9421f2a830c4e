//! The questions of `docs/tasks.md`: each command is named by `-h` or the README, and answers its question.

use insta::assert_snapshot;
use regex::Regex;

use crate::support::clusters;
use crate::support::run::run;
use crate::support::test_cluster::{TestCluster, operator};

/// The capture for each row of the table; `true` if files are not enough, so that a server with its objects
/// is used.
const ANSWERS: [(&str, bool); 20] = [
    ("apply-erroring", false),
    ("two-priorities", false),
    ("deleted-while-erroring", false),
    ("uninstall-cancelled", false),
    ("finalizer-stripped", false),
    ("nodewright-drain-misattributed", false),
    ("two-priorities", false),
    ("complete", true),
    ("complete", true),
    ("nodewright-drain-blocked-pdb", false),
    ("in-progress", false),
    ("complete", true),
    ("upgrade-in-progress", false),
    ("apply-erroring", false),
    ("upgrade-in-progress", false),
    ("two-priorities", false),
    ("in-progress", false),
    ("in-progress", false),
    ("apply-erroring", false),
    ("complete", true),
];

/// Questions and commands of the table.
fn questions() -> Vec<(String, String)> {
    let page = std::fs::read_to_string("docs/tasks.md").expect("a page");
    let table = page.split("| Question | Command |").nth(1).expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
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
    let answers = questions.iter().zip(ANSWERS).enumerate();
    for (at, ((question, command), (capture, live))) in answers {
        let words = command.strip_prefix("kubectl skyhook ").expect("a command of the plugin");
        let verbs: Vec<&str> =
            words.split(' ').take_while(|word| word.chars().all(|c| c.is_ascii_lowercase())).collect();
        let named = readme.contains(&format!("skyhook {}", verbs.join(" ")))
            || verbs.iter().all(|verb| help.contains(&format!("\n  {verb} ")));
        assert!(named, "{question}: neither -h nor the README names {verbs:?}");
        let answer = if live {
            live_answer(capture, words)
        } else {
            let from = clusters::named(capture).path();
            let ran = run(&format!("{words} --from {from}")).output();
            assert_ne!(ran.code, Some(64), "{}", ran.transcript());
            ran.transcript()
        };
        let name = format!("{:02}_{}", at + 1, verbs.join("_"));
        assert_snapshot!(name, format!("{question}\n{answer}"));
    }
}

/// The transcript from a server with the objects of a capture and a running operator, after `node ignore
/// node-1`.
fn live_answer(capture: &str, words: &str) -> String {
    let cluster = TestCluster::serving(clusters::named(capture).served());
    cluster.fake.load(operator(1));
    let directory = tempfile::tempdir().expect("a directory");
    let ticket = directory.path().join("ticket.tar.gz");
    let ticket = ticket.display().to_string();
    cluster.run("node ignore node-1 --confirm").expect_code(0);
    let ran = cluster.run(&words.replace("ticket.tar.gz", &ticket));
    assert_ne!(ran.code, Some(64), "{}", ran.transcript());
    let answer = ran.transcript().replace(&ticket, "ticket.tar.gz");
    let varying = [
        (r"(?m)^\d\d:\d\d:\d\d ", "[time] "),
        (r"\d{8}-\d{6}\.\d{3}", "[journal]"),
        (r"\d+(\.\d+)? [KM]?i?B\b", "[size]"),
        (r" +\d+s +", " [age] "),
    ];
    varying.iter().fold(answer, |answer, (pattern, with)| {
        let pattern = Regex::new(pattern).expect("a pattern");
        pattern.replace_all(&answer, *with).into_owned()
    })
}
