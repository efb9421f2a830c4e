//! The commands that the README shows are run as it shows them.

use crate::support::run::run;

/// The lines after `$ ` in the blocks of the README, without the transcripts, which the end-to-end tests run.
fn commands() -> Vec<String> {
    let readme = std::fs::read_to_string("README.md").expect("the README");
    readme
        .split("<!-- /transcript -->")
        .filter_map(|part| part.split("<!-- transcript: ").next())
        .flat_map(str::lines)
        .filter_map(|l| l.strip_prefix("$ "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_first_command_prints_what_is_stuck() {
    let commands = commands();
    let words = commands[0]
        .strip_prefix("cargo run --quiet -- ")
        .expect("the first command");
    insta::assert_snapshot!(run(words).go().transcript());
    assert_eq!(commands[1], "tests/run");
}

/// The others talk to a cluster; here they get the captured one of the first.
#[test]
fn the_others_do_what_they_say() {
    let mut ran = 0;
    for command in commands() {
        let Some(words) = command.strip_prefix("kubectl skyhook ") else {
            continue;
        };
        let words = match words.split_once(" --from ") {
            Some((words, _)) => words,
            None => words,
        };
        let done = run(&format!(
            "{words} --from tests/clusters/deleted-while-erroring"
        ))
        .go();
        assert_eq!(
            done.stderr
                .lines()
                .filter(|l| l.starts_with("error"))
                .count(),
            0,
            "{command}"
        );
        let stuck = words.starts_with("diagnose");
        assert_eq!(done.code, Some(if stuck { 2 } else { 0 }), "{command}");
        assert_ne!(done.stdout, "", "{command}");
        ran += 1;
    }
    assert!(ran >= 5, "{ran}");
}
