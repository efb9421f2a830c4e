//! The words of the command line before the word to complete.

use std::ffi::{OsStr, OsString};

use clap::{ArgMatches, FromArgMatches};

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
    ids.iter().find_map(|id| {
        let mut raw = innermost.try_get_raw(id).ok()??;
        Some(raw.next()?.to_string_lossy().into_owned())
    })
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
}
