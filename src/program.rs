//! The names that this program answers to.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};

use crate::args::boolean::spelled_out;
use crate::cli::{Cli, by_task};

/// What the program was called as. Links of other names make the one binary several plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The plugin's name, as it stands after `kubectl`: `skyhook` or `nodewright`.
    pub plugin: &'static str,
    /// Called by kubectl to complete a command line, as `kubectl_complete-NAME`.
    pub completes: bool,
}

impl Program {
    /// The plugin under its own name.
    pub const SKYHOOK: Program = Program {
        plugin: "skyhook",
        completes: false,
    };

    /// What the first word of the command line makes of the program.
    ///
    /// A name of the user's own, such as `skyhook` or `skyhook-cli`, is the plugin too.
    pub fn of(argv0: &OsStr) -> Program {
        let name = Path::new(argv0)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let name = name.strip_suffix(".exe").unwrap_or(&name);
        let completed = name.strip_prefix("kubectl_complete-");
        let plugin = match completed.or(name.strip_prefix("kubectl-")) {
            Some("nodewright") => "nodewright",
            _ => "skyhook",
        };
        Program {
            plugin,
            completes: completed.is_some(),
        }
    }

    /// The words to type: `kubectl skyhook`.
    pub fn words(self) -> String {
        format!("kubectl {}", self.plugin)
    }

    /// The clap tree, with usage lines and examples in the name that was typed.
    pub fn tree(self) -> clap::Command {
        let tree = spelled_out(Cli::command());
        match self.plugin == Program::SKYHOOK.plugin {
            true => tree,
            false => renamed(tree, &self.words()).bin_name(self.words()),
        }
    }

    /// Parses a command line.
    ///
    /// # Errors
    ///
    /// What clap says of a line that is wrong, or that asks for help.
    pub fn parse(self, args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let mut tree = listing_tasks(self.tree(), &self.words());
        let matches = tree.try_get_matches_from_mut(levels_joined(args))?;
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut tree))
    }
}

/// The tree with a help in which the commands stand under what they are for. clap knows one heading for all, so they
/// are hidden from it and written into its template.
fn listing_tasks(tree: clap::Command, words: &str) -> clap::Command {
    let styles = tree.get_styles();
    let (heading, name) = (styles.get_header(), styles.get_literal());
    let tasks = by_task(&tree);
    let commands = || tasks.iter().flat_map(|(_, commands)| commands);
    let width = commands().map(|c| c.get_name().len()).max().unwrap_or(0);
    let mut listed = String::new();
    for (task, commands) in &tasks {
        let _ = writeln!(listed, "{heading}{task}:{heading:#}");
        for command in commands {
            let about = command.get_about().map(ToString::to_string);
            let aliases: Vec<&str> = command.get_visible_aliases().collect();
            let aliases = match aliases.as_slice() {
                [] => String::new(),
                aliases => format!(" [alias: {}]", aliases.join(", ")),
            };
            let _ = writeln!(
                listed,
                "  {name}{:width$}{name:#}  {}{aliases}",
                command.get_name(),
                about.unwrap_or_default()
            );
        }
        listed.push('\n');
    }
    let usage = format!("{words} [OPTIONS] <COMMAND>");
    tree.mut_subcommands(|command| command.hide(true))
        .override_usage(usage)
        .help_template(format!(
            "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{{all-args}}{{after-help}}"
        ))
}

/// `-v 6` and `-v6` as `-v=6`: kubectl takes all of them, and a level is never a name.
fn levels_joined(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    fn level(word: &OsStr) -> bool {
        let digits = word
            .to_str()
            .is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()));
        digits && (1..=2).contains(&word.len())
    }
    for word in args {
        let attached = word.to_str().and_then(|w| w.strip_prefix("-v"));
        if let Some(attached) = attached.filter(|rest| level(OsStr::new(rest))) {
            joined.push(format!("-v={attached}").into());
            continue;
        }
        match joined.last_mut() {
            Some(flag) if level(&word) && (flag == "-v" || flag == "--v") => {
                flag.push("=");
                flag.push(&word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// The tree with other words for `kubectl skyhook` in its texts.
fn renamed(tree: clap::Command, words: &str) -> clap::Command {
    let own = Program::SKYHOOK.words();
    let text = |text: Option<&clap::builder::StyledStr>| {
        text.map(|text| text.to_string().replace(&own, words))
    };
    let (about, long) = (text(tree.get_about()), text(tree.get_long_about()));
    let after = text(tree.get_after_help());
    let mut tree = tree.mut_args(|arg| {
        let (help, long) = (text(arg.get_help()), text(arg.get_long_help()));
        let arg = match help {
            Some(help) => arg.help(help),
            None => arg,
        };
        match long {
            Some(long) => arg.long_help(long),
            None => arg,
        }
    });
    if let Some(about) = about {
        tree = tree.about(about);
    }
    if let Some(long) = long {
        tree = tree.long_about(long);
    }
    if let Some(after) = after {
        tree = tree.after_help(after);
    }
    tree.mut_subcommands(|command| renamed(command, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_makes_the_plugin() {
        for (name, plugin, completes) in [
            ("kubectl-skyhook", "skyhook", false),
            ("/usr/local/bin/kubectl-nodewright", "nodewright", false),
            ("kubectl-nodewright.exe", "nodewright", false),
            ("kubectl_complete-nodewright", "nodewright", true),
            ("/bin/kubectl_complete-skyhook", "skyhook", true),
            ("skyhook", "skyhook", false),
            ("nodewright", "skyhook", false),
            ("", "skyhook", false),
        ] {
            let expected = Program { plugin, completes };
            assert_eq!(Program::of(OsStr::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn help_speaks_of_the_name_that_was_typed() {
        let program = Program::of(OsStr::new("kubectl-nodewright"));
        let args = ["kubectl-nodewright", "node", "list", "--help"];
        let help = program
            .parse(args.map(OsString::from))
            .expect_err("help is asked for")
            .to_string();
        assert!(help.contains("\nUsage: kubectl nodewright node list "));
        assert!(help.contains("\n  kubectl nodewright node list --skyhook gpu-tune\n"));
        assert!(!help.contains("kubectl skyhook"), "{help}");
    }
}
