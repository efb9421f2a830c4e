//! Without a terminal and a confirmation nothing is written, whatever the command.

use std::collections::BTreeSet;

use kubectl_skyhook::program::Program;

use super::{Stage, expect};
use crate::support::run::Ran;

/// What a command does where nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    /// It refuses, and writes nothing.
    Refuses,
    /// It goes ahead, as scripts of old expect.
    GoesAhead,
}
use Does::{GoesAhead, Refuses};

/// Every command that writes: its name in the tree, a cluster in which it has something to do, what is done there
/// before, and the words.
const COMMANDS: &[(&str, &str, &str, &str, Does)] = &[
    ("reset", "apply-erroring", "", "reset gpu-tune", Refuses),
    ("pause", "complete", "", "pause gpu-tune", Refuses),
    (
        "resume",
        "complete",
        "pause gpu-tune -y",
        "resume gpu-tune",
        GoesAhead,
    ),
    ("disable", "complete", "", "disable gpu-tune", Refuses),
    (
        "enable",
        "complete",
        "disable gpu-tune -y",
        "enable gpu-tune",
        GoesAhead,
    ),
    (
        "node reset",
        "apply-erroring",
        "",
        "node reset node-2 --skyhook gpu-tune",
        Refuses,
    ),
    (
        "node ignore",
        "complete",
        "",
        "node ignore node-2",
        GoesAhead,
    ),
    (
        "node unignore",
        "complete",
        "node ignore node-2",
        "node unignore node-2",
        GoesAhead,
    ),
    (
        "package rerun",
        "apply-erroring",
        "",
        "package rerun driver --skyhook gpu-tune --node node-2",
        Refuses,
    ),
    (
        "deployment-policy reset",
        "rollout-stopped",
        "",
        "dp reset gpu-tune",
        Refuses,
    ),
    (
        "update-state",
        "apply-erroring",
        "",
        "update-state gpu-tune driver 2.0.1 config complete --node node-2",
        Refuses,
    ),
    (
        "uninstall",
        "complete",
        "",
        "uninstall gpu-tune driver --enable",
        Refuses,
    ),
    (
        "finalizer strip",
        "deleted-while-erroring",
        "",
        "finalizer strip gpu-tune --force",
        Refuses,
    ),
    (
        "cordon release",
        "finalizer-stripped",
        "",
        "cordon release",
        Refuses,
    ),
    (
        "apply-plan",
        "complete",
        "pause gpu-tune --plan-out PLAN",
        "apply-plan PLAN",
        Refuses,
    ),
    ("undo", "complete", "pause gpu-tune -y", "undo", Refuses),
    (
        "leftovers",
        "finalizer-stripped",
        "",
        "leftovers --clean",
        Refuses,
    ),
    (
        "undelete",
        "deleted-while-erroring",
        "",
        "undelete gpu-tune",
        Refuses,
    ),
    ("teardown", "complete", "", "teardown", Refuses),
];

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
fn every_command_that_writes_is_looked_at() {
    let known: BTreeSet<String> = COMMANDS.iter().map(|c| c.0.to_owned()).collect();
    assert_eq!(
        writing(&Program::SKYHOOK.tree(), ""),
        known,
        "say in COMMANDS what it does"
    );
}

#[test]
fn without_a_terminal_and_a_confirmation_nothing_is_written() {
    for (name, cluster, first, words, does) in COMMANDS {
        for no in ["", " --confirm=false"] {
            let stage = Stage::of(cluster);
            let plan = stage.state.path().join("plan.json").display().to_string();
            let run = |words: &str| stage.run(&words.replace("PLAN", &plan));
            if !first.is_empty() {
                expect(&run(first), 0);
            }
            let written = stage.writes().len();
            let journals = journals(&stage);
            let ran = run(&format!("{words}{no}"));
            if *does == GoesAhead {
                expect(&ran, 0);
                assert!(
                    stage.writes().len() > written,
                    "{name}: {}",
                    ran.transcript()
                );
                continue;
            }
            refuses(&ran);
            assert_eq!(
                stage.writes().len(),
                written,
                "{name}: {}",
                ran.transcript()
            );
            assert_eq!(self::journals(&stage), journals, "{name}");
        }
    }
}

#[test]
fn a_dry_run_writes_nothing_whatever_the_command() {
    for (name, cluster, first, words, _) in COMMANDS {
        for dry in ["--dry-run", "--dry-run=server"] {
            let stage = Stage::of(cluster);
            let plan = stage.state.path().join("plan.json").display().to_string();
            let run = |words: &str| stage.run(&words.replace("PLAN", &plan));
            if !first.is_empty() {
                expect(&run(first), 0);
            }
            let before = (stage.fake.objects(), journals(&stage));
            let ran = run(&format!("{words} {dry} --confirm"));
            assert!(
                matches!(ran.code, Some(0 | 2)),
                "{name}: {}",
                ran.transcript()
            );
            let after = (stage.fake.objects(), journals(&stage));
            assert_eq!(after, before, "{name}: {}", ran.transcript());
        }
    }
}

fn refuses(ran: &Ran) {
    let says = "error: not confirmed, and there is no terminal to ask on; nothing was changed\n";
    expect(ran, 3);
    assert_eq!(ran.stdout, "", "{}", ran.transcript());
    assert!(ran.stderr.contains(says), "{}", ran.transcript());
}

/// The journals that are on the disk.
fn journals(stage: &Stage) -> usize {
    let folder = stage.state.path().join("kubectl-skyhook/journal");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}
