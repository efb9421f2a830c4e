//! Completion in real shells, with our scripts and through kubectl.

use std::process::{Command, Stdio};
use std::time::Duration;

use expectrl::{Expect, Session};
use tempfile::TempDir;

use crate::support::clusters;
use crate::support::fake_api::Served;
use crate::support::programs::is_installed;

/// The environment of a shell: a cluster, and a PATH with the plugin and its completion link.
struct ShellEnvironment {
    cluster: Served,
    bin: TempDir,
}

impl ShellEnvironment {
    fn new() -> ShellEnvironment {
        let cluster = clusters::named("two-priorities").served().serve();
        let bin = tempfile::tempdir().expect("a directory");
        for name in ["kubectl-skyhook", "kubectl_complete-skyhook"] {
            let binary = env!("CARGO_BIN_EXE_kubectl-skyhook");
            std::os::unix::fs::symlink(binary, bin.path().join(name)).expect("a link");
        }
        ShellEnvironment { cluster, bin }
    }

    fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .env("PATH", format!("{}:{path}", self.bin.path().display()))
            .env("HOME", self.bin.path())
            .env("TERM", "xterm")
            .env("LANG", "C.UTF-8")
            .env("KUBECONFIG", self.cluster.kubeconfig());
        command
    }

    /// The stdout of a script, whose stderr must be empty.
    fn script(&self, shell: &[&str], script: &str) -> String {
        let (program, flags) = shell.split_first().expect("a shell");
        let output = self
            .command(program)
            .args(flags)
            .args(["-c", script])
            .stdin(Stdio::null())
            .output()
            .expect("the shell runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((&*stderr, output.status.code()), ("", Some(0)), "{script}");
        String::from_utf8(output.stdout).expect("text")
    }
}

#[test]
fn kubectl_calls_the_completion_plugin() {
    if !is_installed("kubectl") {
        return;
    }
    let here = ShellEnvironment::new();
    for (words, expected) in [
        (
            vec!["node", "list", "--skyhook", ""],
            "first\t2/3 nodes complete, erroring\nsecond\t2/3 nodes complete, waiting\n:4\n",
        ),
        (vec!["diagnose", "stuck", "--node", "node-2"], "node-2\n:4\n"),
        (vec!["reset", "second", "--package", ""], "top\t3.0.0\n:4\n"),
        (vec!["completion", "ins"], "install\tEnable shell completion through kubectl\n:4\n"),
    ] {
        let mut kubectl = here.command("kubectl");
        let output = kubectl.args(["__complete", "skyhook"]).args(&words).output();
        let output = output.expect("kubectl runs");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!((&*stdout, output.status.code()), (expected, Some(0)), "{words:?}");
        // kubectl's own stderr, in some versions with debug lines; the plugin adds nothing.
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = stderr.lines().filter(|l| !l.starts_with("[Debug]")).collect();
        assert_eq!(
            lines.join("\n") + "\n",
            "Completion ended with directive: ShellCompDirectiveNoFileComp\n"
        );
    }
}

/// Prints what bash offers for a line, with the function that completes its first word.
const BASH: &str = r#"
offers() {
    COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9
    read -ra COMP_WORDS <<<"$2"
    [[ $2 == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    "$1" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
    printf '%s\n' "${COMPREPLY[@]}"
}
"#;

#[test]
fn bash_completes_with_our_script() {
    if !is_installed("bash") {
        return;
    }
    let here = ShellEnvironment::new();
    let script = format!(
        "{BASH}
        source completions/kubectl-skyhook.bash
        offers _clap_complete_kubectl_skyhook 'kubectl-skyhook node list --skyhook '
        offers _clap_complete_kubectl_skyhook 'kubectl-skyhook node status node-'
        offers _clap_complete_kubectl_skyhook 'kubectl-skyhook completion un'"
    );
    assert_eq!(
        here.script(&["bash", "--noprofile", "--norc"], &script),
        "first\nsecond\nnode-1\nnode-2\nnode-3\nuninstall\n"
    );
}

/// bash-completion, which kubectl's bash script requires.
const BASH_COMPLETION: &str = "/usr/share/bash-completion/bash_completion";

#[test]
fn bash_completes_through_kubectl() {
    if !is_installed("bash") || !is_installed("kubectl") || !is_installed(BASH_COMPLETION) {
        return;
    }
    let here = ShellEnvironment::new();
    let script = format!(
        "{BASH}
        source {BASH_COMPLETION}
        source <(kubectl completion bash)
        offers __start_kubectl 'kubectl skyhook node list --skyhook fi'
        offers __start_kubectl 'kubectl skyhook reset second --package t'
        offers __start_kubectl 'kubectl skyhook explain SKY601'"
    );
    // cobra's script omits the description of a single candidate.
    assert_eq!(here.script(&["bash", "--noprofile", "--norc"], &script), "first\ntop\nSKY601\n");
}

#[test]
fn fish_completes_with_our_script() {
    if !is_installed("fish") {
        return;
    }
    let here = ShellEnvironment::new();
    let script = "source completions/kubectl-skyhook.fish
        complete -C 'kubectl-skyhook node list --skyhook '
        complete -C 'kubectl-skyhook reset second --package '";
    assert_eq!(
        here.script(&["fish", "--no-config"], script),
        "first\t2/3 nodes complete, erroring\nsecond\t2/3 nodes complete, waiting\ntop\t3.0.0\n"
    );
}

#[test]
fn fish_completes_through_kubectl() {
    if !is_installed("fish") || !is_installed("kubectl") {
        return;
    }
    let here = ShellEnvironment::new();
    let script = "kubectl completion fish | source
        complete -C 'kubectl skyhook node list --skyhook '
        complete -C 'kubectl skyhook reset second --package '";
    assert_eq!(
        here.script(&["fish", "--no-config"], script),
        "first\t2/3 nodes complete, erroring\nsecond\t2/3 nodes complete, waiting\ntop\t3.0.0\n"
    );
}

const PRESSED_AGAIN_AFTER: Duration = Duration::from_secs(10);
const PRESSES: usize = 6;

/// Types a line into zsh, presses Tab, and compares the line, or the list below it.
fn zsh(load: &str, typed: &str, expected: &[&str]) {
    let here = ShellEnvironment::new();
    let mut command = here.command("zsh");
    command.args(["-f", "-i"]);
    let mut session = Session::spawn(command).expect("zsh starts on a terminal");
    session.set_expect_timeout(Some(Duration::from_secs(60)));
    // Ctrl-X prints the current line.
    let prepare = format!(
        "PROMPT='> '; autoload -U compinit; compinit -u -D; {load}; \
         line() {{ print -r -- \"<$BUFFER>\" }}; zle -N line; bindkey '^X' line; print rea''dy"
    );
    session.send_line(&prepare).expect("zsh reads input");
    session.expect("ready").expect("zsh is prepared");
    session.send(typed).expect("zsh reads input");
    session.set_expect_timeout(Some(PRESSED_AGAIN_AFTER));
    let offers = |session: &mut Session<_, _>| {
        session.send("\t").expect("zsh reads input");
        expected.iter().try_for_each(|text| {
            if text.starts_with('<') {
                session.send("\x18").expect("zsh reads input");
            }
            session.expect(text).map(|_| ()).map_err(|error| format!("no {text:?}: {error}"))
        })
    };
    // On a busy machine completion may time out: press Tab again.
    let tried: Vec<_> = (0..PRESSES).map(|_| offers(&mut session)).take_while(Result::is_err).collect();
    assert!(tried.len() < PRESSES, "{typed}: {tried:?}");
}

#[test]
fn zsh_completes_with_our_script() {
    if !is_installed("zsh") {
        return;
    }
    let load = "source completions/_kubectl-skyhook";
    let typed = "kubectl-skyhook node list --skyhook ";
    zsh(load, typed, &["2/3 nodes complete, erroring", "2/3 nodes complete, waiting"]);
    zsh(load, &format!("{typed}fi"), &["<kubectl-skyhook node list --skyhook first >"]);
}

#[test]
fn zsh_completes_through_kubectl() {
    if !is_installed("zsh") || !is_installed("kubectl") {
        return;
    }
    let load = "source <(kubectl completion zsh)";
    let typed = "kubectl skyhook node list --skyhook ";
    zsh(load, typed, &["2/3 nodes complete, erroring", "2/3 nodes complete, waiting"]);
    zsh(load, &format!("{typed}fi"), &["<kubectl skyhook node list --skyhook first >"]);
}

/// elvish has an editor, which the script extends, only on a terminal.
#[test]
fn elvish_completes_with_our_script() {
    if !is_installed("elvish") {
        return;
    }
    let here = ShellEnvironment::new();
    let mut session = Session::spawn(here.command("elvish")).expect("elvish starts on a terminal");
    session.set_expect_timeout(Some(Duration::from_secs(60)));
    let offered = here.bin.path().join("offered");
    let ask = format!(
        "eval (slurp < completions/kubectl-skyhook.elv); var offer = $edit:completion:arg-completer[kubectl-skyhook]; \
         {{ $offer kubectl-skyhook node list --skyhook ''; $offer kubectl-skyhook completion un }} > {}; \
         echo rea''dy",
        offered.display()
    );
    session.send_line(&ask).expect("zsh reads input");
    session.expect("ready").expect("elvish has written the candidates");
    let offered = std::fs::read_to_string(offered).expect("the file of candidates exists");
    assert_eq!(offered, "first\nsecond\nuninstall\n");
}
