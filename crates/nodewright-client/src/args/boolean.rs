//! Boolean flags in kubectl's syntax.

use clap::{Arg, ArgAction, Command};

/// Parses the spellings of a Boolean that Go accepts.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// [`boolean`] for a flag that an environment variable can set as well: an empty variable counts as unset.
fn boolean_or_empty(text: &str) -> Result<bool, String> {
    if text.is_empty() { Ok(false) } else { boolean(text) }
}

/// Makes every plain flag also accept `=true` and `=false`, as in kubectl. If a flag that takes one value is
/// repeated, the last value counts.
pub fn with_boolean_values(tree: Command) -> Command {
    let spell = |flag: Arg| match (flag.get_action(), flag.get_env().is_some()) {
        (ArgAction::SetTrue, has_variable) => flag
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("true|false")
            .value_parser(if has_variable { boolean_or_empty } else { boolean })
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true),
        _ => flag,
    };
    tree.args_override_self(true).mut_args(spell).mut_subcommands(with_boolean_values)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[arg(short, long)]
        force: bool,
        #[arg(long, conflicts_with = "force")]
        gently: bool,
        name: Option<String>,
    }

    fn parse(words: &str) -> Option<Cli> {
        let words = ["x"].into_iter().chain(words.split_whitespace());
        let matches = with_boolean_values(Cli::command()).try_get_matches_from(words);
        matches.ok().map(|m| Cli::from_arg_matches(&m).expect("it fits"))
    }

    #[test]
    fn a_plain_flag_is_spelled_in_all_ways() {
        for (words, force) in [
            ("", false),
            ("--force", true),
            ("-f", true),
            ("--force=true", true),
            ("--force=0", false),
            ("-f=F", false),
            ("--force --force=false", false),
            ("--force=false --force", true),
        ] {
            let cli = parse(words).unwrap_or_else(|| panic!("{words} does not parse"));
            assert_eq!((cli.force, cli.gently), (force, false), "{words}");
        }
        let cli = parse("--force name").expect("a name behind it is a name");
        assert_eq!((cli.force, cli.name.as_deref()), (true, Some("name")));
        for words in ["--force=yes", "--force=", "--force --gently"] {
            assert!(parse(words).is_none(), "{words}");
        }
    }
}
