//! Write commands without a confirmation refuse, abort, or proceed like upstream's CLI; dry runs never write.

use std::collections::BTreeSet;

use kubectl_skyhook::plan::Grade;
use kubectl_skyhook::program::Program;
use serde_json::{Value, json};

use super::TestCluster;
use crate::support::fake_api::Logged;
use crate::support::run::{Child, run};
use crate::support::sample::some;
use crate::support::terminal::Terminal;
use crate::support::test_cluster::operator_of_version;

/// The behavior of a command without a confirmation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unconfirmed {
    /// Exits with 3 and an error.
    Refuses,
    /// Prints "Aborted." and exits with 0, as scripts of upstream's CLI expect.
    Aborts,
    /// Proceeds without a terminal and does not read standard input, like upstream's CLI.
    Proceeds,
}
use Grade::{B1, B2, B3, B4};
use Unconfirmed::{Aborts, Proceeds, Refuses};

/// A command that writes.
pub struct Writes {
    /// The full name of the command.
    pub name: &'static str,
    /// A capture on which the command writes something.
    pub cluster: &'static str,
    /// The command to run before this one; empty for none.
    first: &'static str,
    pub words: &'static str,
    /// The impact on this capture.
    grade: Grade,
    unconfirmed: Unconfirmed,
}

const fn writes(
    name: &'static str,
    cluster: &'static str,
    first: &'static str,
    words: &'static str,
    grade: Grade,
    unconfirmed: Unconfirmed,
) -> Writes {
    Writes { name, cluster, first, words, grade, unconfirmed }
}

/// Every command that writes. A command whose grade depends on the cluster is listed once for each grade.
#[rustfmt::skip]
pub const COMMANDS: &[Writes] = &[
    writes("fix", "malformed-node-state", "", "fix", B1, Refuses),
    writes("fix", "apply-erroring", "", "fix --up-to B2", B2, Refuses),
    writes("reset", "apply-erroring", "", "reset gpu-tune", B4, Refuses),
    writes("pause", "complete", "", "pause gpu-tune", B1, Refuses),
    writes("resume", "complete", "pause gpu-tune -y", "resume gpu-tune", B1, Aborts),
    writes("resume", "apply-erroring", "pause gpu-tune -y", "resume gpu-tune", B2, Aborts),
    writes("resume", "drain-blocked", "pause gpu-tune -y", "resume gpu-tune", B4, Aborts),
    writes("disable", "complete", "", "disable gpu-tune", B1, Refuses),
    writes("enable", "complete", "disable gpu-tune -y", "enable gpu-tune", B1, Aborts),
    writes("enable", "drain-blocked", "disable gpu-tune -y", "enable gpu-tune", B4, Aborts),
    writes("node reset", "apply-erroring", "", "node reset node-2 --skyhook gpu-tune", B4, Refuses),
    writes("node ignore", "complete", "", "node ignore node-2", B1, Proceeds),
    writes("node unignore", "complete", "node ignore node-2 -y", "node unignore node-2", B1, Proceeds),
    writes("node unignore", "drain-blocked", "node ignore node-2 -y", "node unignore node-2", B4, Refuses),
    writes("package rerun", "apply-erroring", "", "package rerun driver --skyhook gpu-tune --node node-2", B2, Refuses),
    writes("package retry", "v0.17-pod-rejected", "", "package retry driver --skyhook gpu --node node-2", B2, Refuses),
    writes("reset", "malformed-node-state", "", "reset gpu-tune --unreadable --node node-1", B1, Refuses),
    writes("deployment-policy reset", "rollout-stopped", "", "deployment-policy reset gpu-tune --node node-1", B2, Refuses),
    writes("deployment-policy reset", "rollout-stopped", "", "dp reset gpu-tune", B2, Refuses),
    writes("update-state", "apply-erroring", "", "update-state gpu-tune driver 2.0.1 config complete --node node-2", B2, Refuses),
    writes("uninstall", "complete", "", "uninstall gpu-tune driver --enable", B3, Refuses),
    writes("finalizer strip", "deleted-while-erroring", "", "finalizer strip gpu-tune --force", B4, Refuses),
    writes("leftovers", "finalizer-stripped", "", "leftovers --clean --node node-1", B1, Refuses),
    writes("apply-plan", "complete", "pause gpu-tune --plan-out PLAN", "apply-plan PLAN", B1, Refuses),
    writes("undo", "complete", "pause gpu-tune -y", "undo", B1, Refuses),
    writes("leftovers", "finalizer-stripped", "", "leftovers --clean --namespace skyhook", B2, Refuses),
    writes("undelete", "deleted-while-erroring", "", "undelete gpu-tune", B2, Refuses),
    writes("teardown", "complete", "", "teardown --timeout 1s", B4, Refuses),
];

impl Writes {
    /// The prepared cluster, with the writes and journals so far.
    pub fn test_cluster(&self) -> Prepared<'_> {
        let test_cluster = TestCluster::from_capture(self.cluster);
        let plan = test_cluster.state.path().join("plan.json").display().to_string();
        let words = self.words.replace("PLAN", &plan);
        if !self.first.is_empty() {
            test_cluster.run(&self.first.replace("PLAN", &plan)).expect_code(0);
        }
        Prepared {
            before: (test_cluster.writes().len(), journals(&test_cluster)),
            test_cluster,
            words,
            of: self,
        }
    }
}

pub struct Prepared<'a> {
    of: &'a Writes,
    pub test_cluster: TestCluster,
    pub words: String,
    before: (usize, usize),
}

impl Prepared<'_> {
    fn assert_nothing_written(&self, output: &str) {
        let now = (self.test_cluster.writes().len(), journals(&self.test_cluster));
        assert_eq!(now, self.before, "{} {}: {output}", self.of.name, self.of.cluster);
    }

    fn assert_something_written(&self, output: &str) {
        assert!(
            self.test_cluster.writes().len() > self.before.0,
            "{} {}: {output}",
            self.of.name,
            self.of.cluster
        );
    }
}

/// The names of the commands that take `--confirm`: those that write.
fn writing(command: &clap::Command, path: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = command
        .get_subcommands()
        .flat_map(|sub| writing(sub, format!("{path} {}", sub.get_name()).trim()))
        .collect();
    if command.get_arguments().any(|a| a.get_id() == "confirm") {
        found.insert(path.to_owned());
    }
    found
}

#[test]
fn every_write_command_is_covered() {
    let known: BTreeSet<String> = COMMANDS.iter().map(|c| c.name.to_owned()).collect();
    assert_eq!(writing(&Program::SKYHOOK.tree(), ""), known, "COMMANDS lists every write command");
}

const NOBODY: &str = "error: not confirmed, and there is no terminal for the prompt; nothing was changed\n";

/// The grade in each preview is the declared one.
#[test]
fn impact_grades_match_previews() {
    let mut wrong = Vec::new();
    for command in COMMANDS {
        let prepared = command.test_cluster();
        let ran = prepared.test_cluster.run(&prepared.words);
        let says = format!("; {})\n", command.grade);
        if !ran.stderr.contains(&says) {
            wrong.push(format!("{} {}: {}", command.name, command.cluster, ran.transcript()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unconfirmed_commands_write_nothing() {
    for command in some(COMMANDS, 10) {
        for (flag, stdin) in [("", None), (" --confirm=false", None), ("", Some("")), ("", Some("n\n"))] {
            let prepared = command.test_cluster();
            let run = prepared.test_cluster.command(&format!("{}{flag}", prepared.words));
            let ran = match stdin {
                Some(stdin) => run.stdin(stdin),
                None => run,
            }
            .output();
            if command.unconfirmed == Proceeds {
                prepared.assert_something_written(&ran.transcript());
                ran.expect_code(0);
                continue;
            }
            prepared.assert_nothing_written(&ran.transcript());
            assert_eq!(ran.stdout, "", "{}", ran.transcript());
            let (code, says) = match command.unconfirmed {
                Proceeds => continue,
                Refuses => (3, NOBODY),
                Aborts => (0, "\nAborted.\n"),
            };
            ran.expect_code(code);
            ran.expect_stderr(says);
            ran.expect_stderr("hint: add --confirm");
        }
    }
}

#[test]
fn yes_on_stdin_confirms_at_most_reruns() {
    let graded: BTreeSet<Grade> = COMMANDS.iter().map(|c| c.grade).collect();
    assert_eq!(graded, BTreeSet::from([B1, B2, B3, B4]));
    for command in COMMANDS {
        let prepared = command.test_cluster();
        let child = Child::default();
        // Some commands then wait for an operator that does not exist.
        let fake = &prepared.test_cluster.fake;
        fake.on("PATCH skyhooks").nth(1).after(child.interrupt());
        let run = prepared.test_cluster.command(&prepared.words).child(&child);
        let ran = run.stdin("y\n").output();
        if command.grade <= B2 {
            prepared.assert_something_written(&ran.transcript());
            continue;
        }
        prepared.assert_nothing_written(&ran.transcript());
        ran.expect_code(3);
        let (_, says) = ran.stderr.rsplit_once("\nerror: ").expect("an error");
        let worst = says.strip_prefix("y on standard input is not enough to confirm this change (");
        let rest = worst.and_then(|worst| Some(worst.split_once(')')?.1));
        assert_eq!(
            rest,
            Some("; nothing was changed\nhint: add --confirm, or preview the change with --dry-run\n"),
            "{}",
            ran.transcript()
        );
    }
}

#[test]
fn other_answers_on_a_terminal_write_nothing() {
    for command in COMMANDS {
        let prepared = command.test_cluster();
        let question = match command.grade {
            B3 | B4 => "To confirm, type the name",
            _ => "Proceed? [y/N] ",
        };
        let asked = Terminal::of(&prepared.test_cluster, &prepared.words, question);
        let (output, code) = asked.answer(b"no\n");
        prepared.assert_nothing_written(&output);
        assert_eq!(code, 3, "{output}");
        assert!(output.contains("not confirmed; nothing was changed"), "{output}");
    }
}

#[test]
fn the_right_answer_on_a_terminal_writes() {
    for command in COMMANDS {
        let prepared = command.test_cluster();
        let terminal = |question| Terminal::of(&prepared.test_cluster, &prepared.words, question);
        let answered = prepared.test_cluster.with_operator(|| match command.grade {
            B3 | B4 => {
                let mut asked = terminal("To confirm, type the name");
                asked.expect(": ");
                let output = asked.expect(": ").trim_end_matches(": ").to_owned();
                let (_, name) = output.rsplit_once(": ").expect("the text to type");
                asked.answer(format!("{name}\n").as_bytes())
            }
            _ => terminal("Proceed? [y/N] ").answer(b"y\n"),
        });
        prepared.assert_something_written(&answered.0);
    }
}

/// While the question is open, someone else resets a node, or changes an interrupt to a reboot.
#[test]
fn growing_effects_are_refused_after_the_question() {
    type Edit = fn(&TestCluster);
    let reset: Edit = |cluster| cluster.forget_state("node-2");
    let reboot: Edit = |cluster| cluster.change_interrupt("reboot");
    for (words, question, answer, edit, growth) in [
        (
            "resume gpu-tune",
            "Proceed? [y/N] ",
            "y\n",
            reset,
            "from changes objects, runs nothing (B1) on 0 nodes to services restart, pods are evicted (B3) on 1 node with 1 drain and 1 service restart",
        ),
        (
            "uninstall gpu-tune driver --enable",
            "type the name: gpu-tune: ",
            "gpu-tune\n",
            reboot,
            "from services restart, pods are evicted (B3) on 3 nodes with 3 drains and 3 service restarts to nodes reboot (B4) on 3 nodes with 3 drains and 3 reboots",
        ),
    ] {
        let cluster = TestCluster::from_capture("complete");
        // Older operators do not uninstall.
        cluster.fake.load(operator_of_version("v0.17.0"));
        if words.starts_with("resume") {
            cluster.run("pause gpu-tune --confirm").expect_code(0);
        }
        let before = cluster.writes();
        let asked = Terminal::of(&cluster, words, question);
        edit(&cluster);
        let (output, code) = asked.answer(answer.as_bytes());
        // Only line breaks depend on the width of the terminal.
        let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
        let error = format!(
            "error: the effects of the plan have grown {growth} since the preview; nothing was changed hint: run the command again for a new preview"
        );
        assert_eq!((output, code), (error, 3));
        assert_eq!(cluster.writes(), before);
    }
}

/// Pausing is urgent when someone applies a wrong spec.
#[test]
fn pause_is_applied_although_the_spec_changes_during_the_question() {
    let cluster = TestCluster::captured_with_operator("complete");
    let asked = Terminal::of(&cluster, "pause gpu-tune", "Proceed? [y/N] ");
    cluster.change_interrupt("reboot");
    let (output, code) = asked.answer(b"y\n");
    assert_eq!(code, 0, "{output}");
    assert_eq!(cluster.cr_annotation("pause"), json!("true"));
}

#[test]
fn confirm_flag_is_refused_for_files() {
    // Skip the capture without custom resources, which is refused for another reason.
    let looks = |c: &&Writes| c.first.is_empty() && c.cluster != "finalizer-stripped";
    for command in COMMANDS.iter().filter(looks) {
        let from = format!("--from tests/clusters/{}/cluster.json", command.cluster);
        let ran = run(&format!("{} {from} --confirm", command.words)).output();
        ran.expect_code(64);
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.as_str()),
            (
                "",
                "error: --confirm cannot be used with --from: a capture cannot be changed\n\
                 hint: use only one of them, or add --dry-run\n"
            ),
            "{}",
            ran.transcript()
        );
    }
}

#[test]
fn dry_run_of_every_command_writes_nothing() {
    for command in some(COMMANDS, 12) {
        for dry in ["--dry-run", "--dry-run=server"] {
            let prepared = command.test_cluster();
            let before = prepared.test_cluster.fake.objects();
            let words = format!("{} {dry} --confirm", prepared.words);
            let asked = prepared.test_cluster.fake.requests().len();
            let ran = prepared.test_cluster.run(&words);
            for request in &prepared.test_cluster.fake.requests()[asked..] {
                assert!(is_allowed_in_dry_run(request, dry), "{words}: {request}");
            }
            assert!(matches!(ran.code, Some(0 | 2)), "{}: {}", command.name, ran.transcript());
            let after = (prepared.test_cluster.fake.objects(), journals(&prepared.test_cluster));
            assert_eq!(after, (before, prepared.before.1), "{}: {}", command.name, ran.transcript());
        }
    }
}

/// Whether a dry run may send this request: reads; with `server`, also access reviews and dry-run writes.
fn is_allowed_in_dry_run(request: &Logged, dry: &str) -> bool {
    let all = |value: &Value| *value == json!("All") || *value == json!(["All"]);
    let is_dry_run = request.query.get("dryRun").is_some_and(|v| v == "All") || all(&request.body["dryRun"]);
    match request.method.as_str() {
        "GET" => true,
        "POST" if request.path.ends_with("/selfsubjectaccessreviews") => dry == "--dry-run=server",
        _ => dry == "--dry-run=server" && is_dry_run,
    }
}

/// The number of journals on disk.
fn journals(test_cluster: &TestCluster) -> usize {
    let directory = test_cluster.state.path().join("kubectl-skyhook/journal");
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}
