//! The clap commands under the name that was typed, and the parsing of command lines.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use super::aliases::{self, TIPS};
use super::{Cli, by_task};
use crate::args::connection::with_boolean_values;
use crate::args::safety;
use crate::commands::shared::command::CommandInfo;
use crate::commands::{self, EVERYDAY};
use crate::error::{is_slip, near};
use crate::program::{Program, as_typed};
use crate::view::plural;

impl Program {
    /// The clap tree, with usage lines and examples in the name that was typed.
    pub fn tree(self) -> clap::Command {
        let tree = with_boolean_values(Cli::command());
        if self.plugin == Program::SKYHOOK.plugin {
            tree
        } else {
            renamed(tree, &self.words()).bin_name(self.words())
        }
    }

    /// Parses a command line; help is as wide as `columns`, or as the terminal.
    ///
    /// # Errors
    ///
    /// Clap's message about an invalid line, or the help.
    pub fn parse(
        self,
        args: impl IntoIterator<Item = OsString>,
        columns: Option<usize>,
    ) -> Result<Cli, clap::Error> {
        let args = levels_joined(args);
        let explanations = [aliases::moved, aliases::of_kubectl, aliases::on_nodes];
        if let Some(message) = explanations.iter().find_map(|explanation| explanation(&args)) {
            let message = format!("{}\n", as_typed(message.into()));
            return Err(clap::Error::raw(ErrorKind::InvalidSubcommand, message));
        }
        let tree = listing_tasks(self.tree(), &self.words());
        let tree = match columns {
            Some(columns) => tree.term_width(columns),
            None => tree,
        };
        let mut tree =
            if args.iter().any(|word| word == "--help") { tree } else { brief(tree, &self.words()) };
        let contexts = contexts(&args);
        let writes_file = args.iter().any(|word| word == "report");
        let matches = tree.try_get_matches_from_mut(args.clone());
        let matches = matches.map_err(|error| match explained(error, &args) {
            Ok(explained) => explained.with_cmd(&tree),
            Err(error) => nearest(of_file(error, writes_file), &tree),
        })?;
        if let Some(other) = contexts.iter().find(|context| **context != contexts[0]) {
            let one = &contexts[0];
            let message = format!("--context is given as {one} and as {other}; give it once");
            return Err(tree.error(ErrorKind::ArgumentConflict, message));
        }
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut tree))
    }
}

/// Explains a known mistake, instead of similar names and the usage, which would look like the answer. Returns the
/// error unchanged if the mistake is not known.
fn explained(mut error: clap::Error, args: &[OsString]) -> Result<clap::Error, clap::Error> {
    let argument = values(&error, ContextKind::InvalidArg);
    let invalid = match error.kind() {
        ErrorKind::InvalidSubcommand => None,
        ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument => {
            Some(argument.first().map_or("", String::as_str))
        }
        _ => return Err(error),
    };
    let Some((command, tip)) = aliases::tip(args, invalid) else {
        return Err(error);
    };
    // The group is known, and the word behind it is not.
    let is_group = aliases::GROUP_TIPS.iter().any(|(group, _)| *group == command);
    if is_group && !values(&error, ContextKind::SuggestedSubcommand).is_empty() {
        return Err(error);
    }
    if invalid.is_none() && !is_group {
        error.insert(ContextKind::InvalidSubcommand, ContextValue::String(command.to_owned()));
    }
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::Usage] {
        error.remove(kind);
    }
    let tip = as_typed(tip.into()).into_owned();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    Ok(error)
}

/// The texts of a kind in an error.
fn values(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// Keeps only suggestions that differ from the input by a typing error. clap also suggests more distant
/// commands, and some of these make changes although the user only wanted to read.
fn nearest(mut error: clap::Error, tree: &clap::Command) -> clap::Error {
    let values = |kind| values(&error, kind);
    if error.kind() == ErrorKind::UnknownArgument {
        let [typed, suggested] = [ContextKind::InvalidArg, ContextKind::SuggestedArg].map(values);
        let is_near = |typed: &String| !near(typed, suggested.iter().map(String::as_str)).is_empty();
        if !typed.iter().any(is_near) {
            error.remove(ContextKind::SuggestedArg);
        }
        // The advice to pass an unknown flag as a value.
        error.remove(ContextKind::Suggested);
        return error.with_cmd(tree);
    }
    let typed = values(ContextKind::InvalidSubcommand);
    let by_clap = values(ContextKind::SuggestedSubcommand);
    let Some(typed) = typed.first() else {
        return error;
    };
    let suggested: Vec<String> = by_clap.into_iter().chain(aliases::words().map(str::to_owned)).collect();
    // A reader must not be sent to a change by a similar spelling.
    let known = commands::all();
    let only_reads = |command: &str| {
        let is_of = |info: &&&CommandInfo| info.words.split(' ').next() == Some(command);
        known.iter().filter(is_of).all(|info| info.only_reads())
    };
    let near: Vec<String> = match TIPS.iter().find(|(word, _)| word == typed) {
        Some((_, command)) => vec![(*command).to_owned()],
        None => near(typed, suggested.iter().map(String::as_str))
            .into_iter()
            .filter(|command| !is_inverse(typed, command))
            .filter(|command| only_reads(command) || is_slip(typed, command))
            .map(str::to_owned)
            .collect(),
    };
    if near.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::Suggested);
    } else {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
    error.with_cmd(tree)
}

/// Adds the flag for the file to an error about `-o FILE`, if the command has such a flag.
fn of_file(mut error: clap::Error, writes_file: bool) -> clap::Error {
    let is_output =
        values(&error, ContextKind::InvalidArg).iter().any(|argument| argument.starts_with("--output "));
    if writes_file && is_output && error.kind() == ErrorKind::ValueValidation {
        let tip = "to write to this file, use '--output-file'".to_owned();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Whether one command undoes the other: `delete` and `undelete`.
fn is_inverse(typed: &str, command: &str) -> bool {
    let undoes = |a: &str, b: &str| a.strip_prefix("un") == Some(b);
    undoes(typed, command) || undoes(command, typed)
}

/// Groups the commands by task in the help. clap supports only one heading for all commands, so they are
/// hidden and written into its help template.
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

/// The tree for `-h`: only the everyday commands, and for each command its own flags without the global
/// flags.
fn brief(tree: clap::Command, words: &str) -> clap::Command {
    let styles = tree.get_styles();
    let (heading, name) = (styles.get_header(), styles.get_literal());
    let commands = EVERYDAY.iter().filter_map(|name| tree.find_subcommand(name));
    let width = EVERYDAY.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut listed = format!(
        "{heading}Something stuck?{heading:#} {name}{words} diagnose{name:#}\n\n\
         {{about-with-newline}}  \
         {name}{words} status -w gpu-tune{name:#}   watch a rollout\n  \
         {name}{words} fix --dry-run{name:#}        preview the remedies that need no decision\n\n\
         {heading}Everyday commands:{heading:#}\n"
    );
    for command in commands {
        let about = command.get_about().map(ToString::to_string);
        let _ =
            writeln!(listed, "  {name}{:width$}{name:#}  {}", command.get_name(), about.unwrap_or_default());
    }
    let tree = tree.mut_args(|arg| {
        let global = arg.is_global_set();
        arg.hide_short_help(global)
    });
    tree.mut_subcommands(own_flags).help_template(format!(
        "{{before-help}}{listed}\n\
         All commands and flags: {words} --help; for one command: {words} COMMAND -h\n"
    ))
}

/// Keeps the command's own flags and the most used ones of changes, and counts the others.
fn own_flags(command: clap::Command) -> clap::Command {
    let rare = |arg: &clap::Arg| {
        arg.get_help_heading() == Some(safety::HEADING) && !safety::MOST_USED.contains(&arg.get_id().as_str())
    };
    let hidden = command.get_arguments().filter(|arg| rare(arg)).count();
    let more = match hidden {
        0 => "Global flags:".to_owned(),
        n => format!("{}, and global flags:", plural(n, "more option")),
    };
    let after = command.get_after_help().map(ToString::to_string);
    let after = after.map_or(String::new(), |after| format!("{after}\n\n"));
    command
        .mut_args(|arg| if rare(&arg) { arg.hide_short_help(true) } else { arg })
        .mut_subcommands(own_flags)
        .after_help(format!("{after}{more} {GLOBAL_FLAGS}"))
}

const GLOBAL_FLAGS: &str = "-o, --from, --context, --kubeconfig, -n, --api, --color, -v; see --help";

/// Collects the values of `--context`. For other flags, the last value counts; for this flag, that could send
/// a change to the wrong cluster.
fn contexts(args: &[OsString]) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = args.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next().filter(|word| word != "--") {
        match word.strip_prefix("--context") {
            Some("") => found.extend(words.next().map(|value| value.into_owned())),
            Some(value) => found.extend(value.strip_prefix('=').map(str::to_owned)),
            None => {}
        }
    }
    found
}

/// Rewrites `-v 6` and `-v6` as `-v=6`: kubectl accepts all three. After `-v`, one or two digits are a level,
/// not a name.
pub(super) fn levels_joined(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    fn level(word: &OsStr) -> bool {
        let digits = word.to_str().is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()));
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

/// Replaces `kubectl skyhook` in all help texts.
fn renamed(tree: clap::Command, words: &str) -> clap::Command {
    let own = Program::SKYHOOK.words();
    let text =
        |text: Option<&clap::builder::StyledStr>| text.map(|text| text.to_string().replace(&own, words));
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
    fn help_speaks_of_the_name_that_was_typed() {
        let program = Program::of(OsStr::new("kubectl-nodewright"));
        let args = ["kubectl-nodewright", "node", "list", "--help"];
        let help = program.parse(args.map(OsString::from), None).expect_err("help is asked for").to_string();
        assert!(help.contains("\nUsage: kubectl nodewright node list "));
        assert!(help.contains("\n  kubectl nodewright node list --skyhook gpu-tune\n"));
        assert!(!help.contains("kubectl skyhook"), "{help}");
    }
}
