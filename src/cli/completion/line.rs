//! The words of the command line before the word to complete, and the kinds of words that arguments take.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgMatches, FromArgMatches, ValueHint};

use crate::args::connection::Connection;
use crate::args::global::{Global, Reading};
use crate::program::Program;

/// The part of a command line that candidates for its next word depend on.
#[derive(Debug, Clone, Default)]
pub struct Typed {
    pub global: Global,
    /// The custom resource, from an option or a positional argument.
    pub skyhook: Option<String>,
    pub package: Option<String>,
    pub words: Vec<OsString>,
}

impl Typed {
    /// Parses an unfinished line, ignoring invalid parts.
    pub fn read(program: Program, words: &[OsString]) -> Typed {
        let tree = program.tree().ignore_errors(true).disable_help_flag(true).disable_version_flag(true);
        let name = OsString::from("kubectl-skyhook");
        let line = std::iter::once(name).chain(words.iter().cloned());
        let Ok(matches) = tree.try_get_matches_from(line) else {
            return Typed::default();
        };
        let reading = Reading::from_arg_matches(&matches);
        let connection = Connection::from_arg_matches(&matches);
        Typed {
            global: Global {
                reading: reading.unwrap_or_default(),
                connection: connection.unwrap_or_default(),
                ..Global::default()
            },
            skyhook: value(&matches, &["skyhook", "name"]),
            package: value(&matches, &["package"]),
            words: words.to_vec(),
        }
    }

    /// Whether the line already has this word.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == OsStr::new(word))
    }
}

/// The value of the first of these arguments that is set in the innermost command.
fn value(matches: &ArgMatches, ids: &[&str]) -> Option<String> {
    let mut innermost = matches;
    while let Some((_, inner)) = innermost.subcommand() {
        innermost = inner;
    }
    ids.iter().find_map(|id| Some(innermost.try_get_raw(id).ok()??.next()?.to_string_lossy().into_owned()))
}

/// A kind of word that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CandidateKind {
    /// The name of a custom resource.
    Skyhook,
    Node,
    /// A package of the custom resource on the line, or of any.
    Package,
    /// A version of the package on the line, or of any.
    Version,
    /// The code or name of a rule.
    Rule,
    /// The code or name of a rule, including the rules of `lint`.
    Topic,
    Stage,
    State,
    /// A value of `-o`.
    Format,
    Context,
    Cluster,
    User,
    Namespace,
    /// The id of a journal.
    Journal,
    /// One of several fixed words.
    Word(Vec<String>),
    /// A file or directory, which the shell itself completes.
    File,
}

impl CandidateKind {
    /// The kind of an argument's values, by the argument's id; `None` for free text, and for values that clap
    /// itself lists.
    ///
    /// An id has the same meaning in every command; only for `format`, the value name decides.
    pub fn of(arg: &Arg) -> Option<CandidateKind> {
        if !arg.get_action().takes_values() || !arg.get_possible_values().is_empty() {
            return None;
        }
        if let Some(words) = words(value_name(arg)) {
            return Some(CandidateKind::Word(words));
        }
        Some(match arg.get_id().as_str() {
            "skyhook" | "skyhooks" | "name" | "names" => CandidateKind::Skyhook,
            "node" | "nodes" | "force_uncordon" => CandidateKind::Node,
            "package" | "packages" => CandidateKind::Package,
            "version" => CandidateKind::Version,
            // The versions whose behavior is known.
            "operator_version" => {
                CandidateKind::Word((15..=21).map(|minor| format!("v0.{minor}.0")).collect())
            }
            "rule" | "rules" => CandidateKind::Rule,
            "topics" => CandidateKind::Topic,
            "stage" => CandidateKind::Stage,
            "state" => CandidateKind::State,
            "format" if value_name(arg) == "FILE" => CandidateKind::File,
            "format" => CandidateKind::Format,
            "context" | "contexts" => CandidateKind::Context,
            "cluster" => CandidateKind::Cluster,
            "user" => CandidateKind::User,
            "namespace" => CandidateKind::Namespace,
            "id" => CandidateKind::Journal,
            _ => match arg.get_value_hint() {
                ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath => CandidateKind::File,
                _ if value_name(arg) == "BOOL" => CandidateKind::Word(words("true|false")?),
                _ => return None,
            },
        })
    }
}

fn value_name(arg: &Arg) -> &str {
    match arg.get_value_names() {
        Some([name]) => name,
        _ => "",
    }
}

/// The choices in a value name such as `client|server|none`; `None` if it has placeholders in capitals.
fn words(name: &str) -> Option<Vec<String>> {
    let literal = name.contains('|') && !name.contains(|c: char| c.is_uppercase());
    literal.then(|| name.split('|').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Typed {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Typed::read(Program::SKYHOOK, &words)
    }

    #[test]
    fn the_flags_that_say_where_to_read_are_found_on_unfinished_lines() {
        for line in [
            "--context c --from a --from=b node status",
            "node status --context c --from a --from b --node",
            "node reset --context=c --from a --from b",
            "update-state gpu-tune --context=c --from a --from b",
            "finalizer --context=c --from a --from b",
            "--context=c --from a --from b",
            "diagnose --context=c --from a stuck --from b --no-such-flag",
        ] {
            let typed = read(line);
            let connection = &typed.global.connection;
            assert_eq!(connection.context.as_deref(), Some("c"), "{line}");
            assert_eq!(typed.global.reading.from, ["a", "b"].map(std::path::PathBuf::from), "{line}");
        }
    }

    #[test]
    fn custom_resource_and_package_are_found_wherever_they_stand() {
        for (line, skyhook, package) in [
            ("uninstall gpu-tune driver", Some("gpu-tune"), Some("driver")),
            ("package rerun driver --skyhook gpu-tune", Some("gpu-tune"), Some("driver")),
            ("package rerun --nodewright gpu-tune", Some("gpu-tune"), None),
            ("reset gpu-tune --package driver", Some("gpu-tune"), Some("driver")),
            ("reset --package", None, None),
        ] {
            let typed = read(line);
            assert_eq!(typed.skyhook.as_deref(), skyhook, "{line}");
            assert_eq!(typed.package.as_deref(), package, "{line}");
        }
    }

    #[test]
    fn value_names_that_list_words_complete_to_these_words() {
        let dry_run = Arg::new("dry_run").long("dry-run").value_name("client|server");
        let expected = CandidateKind::Word(vec!["client".into(), "server".into()]);
        assert_eq!(CandidateKind::of(&dry_run), Some(expected));
        let other = Arg::new("other").value_name("CODE|NAME");
        assert_eq!(CandidateKind::of(&other), None);
    }

    #[test]
    fn every_argument_that_names_something_is_completed() {
        // Free text, for which there are no candidates.
        let free = [
            "--as",
            "--as-group",
            "--as-uid",
            "--as-user-extra",
            "--canary",
            "--compartment",
            "--digest",
            "--journal",
            "--match",
            "--max-failures",
            "--max-nodes",
            "--max-parallel",
            "--max-size",
            "--now",
            "--pause-between",
            "--reason",
            "--request-timeout",
            "--selector",
            "--server",
            "--since",
            "--sort-by",
            "--tail",
            "--timeout",
            "--title",
            "--tls-server-name",
            "--token",
            "--tolerate",
            "--verbose",
        ];
        fn walk(command: &clap::Command, found: &mut Vec<String>) {
            for arg in command.get_arguments() {
                let takes = arg.get_action().takes_values();
                if takes && arg.get_possible_values().is_empty() && CandidateKind::of(arg).is_none() {
                    found.push(match arg.get_long() {
                        Some(long) => format!("--{long}"),
                        None => arg.get_id().to_string(),
                    });
                }
            }
            command.get_subcommands().for_each(|c| walk(c, found));
        }
        let mut found = Vec::new();
        walk(&crate::program::Program::SKYHOOK.tree(), &mut found);
        found.sort();
        found.dedup();
        let surprises: Vec<_> = found.iter().filter(|f| !free.contains(&f.as_str())).collect();
        assert_eq!(surprises, Vec::<&String>::new());
    }
}
