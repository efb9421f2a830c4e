//! The completion scripts of `kubectl-skyhook` for shells.

use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

/// The environment variable in which a completion script names its shell.
pub const ASKS: &str = "KUBECTL_SKYHOOK_COMPLETE";

/// The shells with completion scripts, each with the usual file name of its script.
pub const SCRIPTS: [(&dyn EnvCompleter, &str); 5] = [
    (&Bash, "kubectl-skyhook.bash"),
    (&Zsh, "_kubectl-skyhook"),
    (&Fish, "kubectl-skyhook.fish"),
    (&Powershell, "_kubectl-skyhook.ps1"),
    (&Elvish, "kubectl-skyhook.elv"),
];

/// The completion script of a shell. The script calls the program for candidates, so it need not change with the
/// program.
pub fn script(shell: &dyn EnvCompleter) -> String {
    let mut bytes = Vec::new();
    let name = "kubectl-skyhook";
    // Writing to memory cannot fail.
    let _ = shell.write_registration(ASKS, name, name, name, &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.trim().lines().map(str::trim_end);
    lines.map(|line| format!("{line}\n")).collect()
}
