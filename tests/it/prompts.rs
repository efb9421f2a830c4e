//! The confirmation prompts on a terminal.

use std::process::Command;

use crate::support::terminal::Terminal;
use crate::support::test_cluster::TestCluster;

const YES_NO: &str = "Proceed? [y/N] ";

/// A reset after which a node reboots.
const REBOOTS: &str = "reset gpu-tune --node node-2 --no-pause";
const NAME_AND_NODES: &str = "To confirm, type the name and the number of nodes (1): gpu-tune 1: ";

/// Asserts that the output has no escape sequences, which would have to be reverted when the prompt ends.
fn is_plain(output: &str) {
    assert!(!output.contains('\u{1b}'), "{output:?}");
}

#[test]
fn answer_decides_exit_code_and_writes() {
    for (words, question, keys, code) in [
        ("pause gpu-tune", YES_NO, "y\n", 0),
        ("pause gpu-tune", YES_NO, "yes\n", 0),
        ("pause gpu-tune", YES_NO, " YES \n", 0),
        // The line can be edited: a backspace removes a character.
        ("pause gpu-tune", YES_NO, "n\x7fy\n", 0),
        ("pause gpu-tune", YES_NO, "n\n", 3),
        ("pause gpu-tune", YES_NO, "\n", 3),
        ("pause gpu-tune", YES_NO, "yesterday\n", 3),
        ("pause gpu-tune", YES_NO, "\x04", 3),
        ("pause gpu-tune", YES_NO, "y\x04\x04", 3),
        ("pause gpu-tune", YES_NO, "\x03", 130),
        ("pause gpu-tune", YES_NO, "y\x03", 130),
        (REBOOTS, NAME_AND_NODES, "gpu-tune 1\n", 0),
        (REBOOTS, NAME_AND_NODES, "gpu-tune 2\n", 3),
        (REBOOTS, NAME_AND_NODES, "y\n", 3),
        (REBOOTS, NAME_AND_NODES, "\x04", 3),
        (REBOOTS, NAME_AND_NODES, "\x03", 130),
    ] {
        let cluster = TestCluster::from_capture("apply-erroring");
        let (output, ended) = Terminal::of(&cluster, words, question).answer(keys.as_bytes());
        assert_eq!(ended, code, "{words} {keys:?}: {output}");
        let written = usize::from(code == 0);
        assert_eq!(cluster.writes().len(), written, "{words} {keys:?}: {output}");
        let says = match code {
            0 => "1 changed",
            3 => "error: not confirmed; nothing was changed",
            _ => "error: interrupted; nothing was changed",
        };
        assert!(output.contains(says), "{words} {keys:?}: {output}");
        is_plain(&output);
    }
}

/// The prompt consumes one line; the shell gets the next one.
#[test]
fn prompt_consumes_exactly_one_line() {
    let cluster = TestCluster::from_capture("complete");
    let mut shell = Command::new("sh");
    let script = format!(
        "'{}' pause gpu-tune; read -r rest; echo \"left: <$rest>\"",
        env!("CARGO_BIN_EXE_kubectl-skyhook")
    );
    shell
        .args(["-c", &script])
        .env("HOME", cluster.state.path())
        .env("XDG_STATE_HOME", cluster.state.path())
        .env("KUBECONFIG", cluster.served.kubeconfig());
    let (output, _) = Terminal::running(shell, YES_NO).answer(b"yes\nnext\n");
    assert!(output.contains("1 changed"), "{output}");
    assert!(output.contains("left: <next>"), "{output}");
}
