//! `completion`: scripts for shells, and the files that kubectl runs.

mod install;
mod shell;

pub use install::shim;
pub use shell::{ASKS, SCRIPTS, script};

use clap::Subcommand;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::commands::shared::command::command;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Print a completion script, or install live completion
///
/// kubectl 1.26 and later complete `kubectl skyhook` live, with the names of custom resources, nodes, packages and
/// rules: `kubectl skyhook completion install` sets that up. The scripts are for those who call the program by its
/// own name, kubectl-skyhook; they complete the same things.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  # Complete `kubectl skyhook` wherever kubectl itself is completed
  kubectl skyhook completion install

  # Complete `kubectl-skyhook` in this shell
  source <(kubectl skyhook completion bash)")]
pub enum Command {
    /// Print the script for bash
    ///
    /// To load it in every shell, write it to ~/.local/share/bash-completion/completions/kubectl-skyhook.
    #[command(after_help = "Examples:
  source <(kubectl skyhook completion bash)")]
    Bash,
    /// Print the script for zsh
    ///
    /// To load it in every shell, write it to a file _kubectl-skyhook in a directory of $fpath.
    #[command(after_help = "Examples:
  source <(kubectl skyhook completion zsh)")]
    Zsh,
    /// Print the script for fish
    ///
    /// To load it in every shell, write it to ~/.config/fish/completions/kubectl-skyhook.fish.
    #[command(after_help = "Examples:
  kubectl skyhook completion fish | source")]
    Fish,
    /// Print the script for PowerShell
    ///
    /// To load it in every shell, add it to the file that $PROFILE names.
    #[command(after_help = "Examples:
  kubectl skyhook completion powershell | Out-String | Invoke-Expression")]
    Powershell,
    /// Print the script for elvish
    ///
    /// To load it in every shell, write it to ~/.config/elvish/lib/kubectl-skyhook.elv and `use kubectl-skyhook`.
    #[command(after_help = "Examples:
  kubectl skyhook completion elvish > ~/.config/elvish/lib/kubectl-skyhook.elv")]
    Elvish,
    Install(install::Install),
    Uninstall(install::Uninstall),
}

command! {
    "completion": Command => run,
}

async fn run(ctx: &mut Ctx, command: &Command) -> Result<Exit> {
    let shell: &dyn EnvCompleter = match command {
        Command::Bash => &Bash,
        Command::Zsh => &Zsh,
        Command::Fish => &Fish,
        Command::Powershell => &Powershell,
        Command::Elvish => &Elvish,
        Command::Install(args) => return install::install(ctx, args),
        Command::Uninstall(args) => return install::uninstall(ctx, args),
    };
    ctx.print(&script(shell))?;
    Ok(Exit::Done)
}
