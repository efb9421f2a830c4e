//! Remedies: commands that help against a finding, with undo.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::api::{ApiFlavor, Shared, Skyhook};
use crate::rules::{Grade, Subject};
use crate::text::shell_words;

/// A command that remedies a finding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// The purpose of the command.
    pub title: String,
    #[serde(flatten, serialize_with = "command_line")]
    #[schemars(with = "CommandLine<'static>")]
    pub argv: Vec<String>,
    /// The grade of the command's worst effect on the cluster; absent if the command would be refused now, would change
    /// nothing, or follows the first 50 commands of a report (fewer if a custom resource has more than 100 packages). `--dry-run` shows the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// Whether `undo` can revert the command; absent if the command changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// Limits and risks of the command; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Whether the command requires a decision of the user: no object shows whether it is right.
    #[serde(skip)]
    pub choice: bool,
    /// The worst effect in a few words; absent if it is the meaning of the grade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// A command for programs and for shells.
#[derive(Serialize, JsonSchema)]
struct CommandLine<'a> {
    /// The command, as a list of arguments.
    argv: &'a [String],
    /// The command, quoted for a shell.
    command: String,
}

fn command_line<S: Serializer>(argv: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    CommandLine { argv, command: shell_words(argv) }.serialize(serializer)
}

/// Placeholders for names of a finding's subject; no name contains a null character.
const NODE: &str = "\0node";
const SKYHOOK: &str = "\0skyhook";

/// A remedy with placeholders for the names of its finding's node and custom resource. Remedies of the same
/// problem on thousands of nodes then differ in few words, and are stored once.
#[derive(Debug, Clone)]
pub struct RemedyTemplate(Shared<Remedy>);

impl RemedyTemplate {
    pub fn of(remedy: Remedy, subject: &Subject) -> RemedyTemplate {
        let names = [(&subject.node, NODE), (&subject.skyhook, SKYHOOK)];
        let replace = |word: &mut String| {
            let known = names.iter().find(|(name, _)| name.as_ref() == Some(word));
            if let Some((_, placeholder)) = known {
                *word = (*placeholder).to_owned();
            }
        };
        RemedyTemplate(remedy.with_words(replace).into())
    }

    /// The remedy for a finding about this subject.
    pub fn fill(&self, subject: &Subject) -> Remedy {
        let replace = |word: &mut String| match word.as_str() {
            NODE => word.clone_from(subject.node.as_ref().unwrap_or(&String::new())),
            SKYHOOK => word.clone_from(subject.skyhook.as_ref().unwrap_or(&String::new())),
            _ => {}
        };
        Remedy::clone(&self.0).with_words(replace)
    }
}

impl Remedy {
    /// The remedy with changed words in its commands.
    fn with_words(mut self, change: impl FnMut(&mut String)) -> Remedy {
        self.argv.iter_mut().for_each(change);
        self
    }

    /// A command of the plugin. Without a plan, only those that read have a grade.
    pub fn planned(title: impl Into<String>, words: impl Iterator<Item = String>) -> Remedy {
        let argv: Vec<String> = ["kubectl", "skyhook"].map(str::to_owned).into_iter().chain(words).collect();
        match own(&argv).and_then(known) {
            None => Remedy::graded(Some(Grade::B0), title, argv),
            // Without its finalizer, a custom resource is deleted before its packages are uninstalled.
            Some(own) if own.words == "finalizer strip" => Remedy {
                effect: Some("uninstalls do not run".to_owned()),
                ..Remedy::graded(Some(Grade::B4), title, argv)
            },
            Some(_) => Remedy::graded(None, title, argv),
        }
    }

    /// A command with its grade, if that is known.
    pub fn graded(grade: Option<Grade>, title: impl Into<String>, argv: Vec<String>) -> Remedy {
        let undo = undo_of(&argv, grade);
        let choice = own(&argv).is_some_and(is_choice);
        Remedy { title: title.into(), argv, grade, undo, caveat: None, choice, effect: None }
    }

    /// The arguments after `kubectl skyhook`; `None` for other programs.
    pub fn own(&self) -> Option<&[String]> {
        own(&self.argv)
    }

    /// Whether the command changes something.
    pub fn changes(&self) -> bool {
        self.grade != Some(Grade::B0)
    }

    /// The grade for comparisons: a remedy of unknown effect counts as the gravest.
    pub fn gravity(&self) -> Grade {
        self.grade.unwrap_or(Grade::B4)
    }

    /// The worst effect in a few words, unless it is unknown; [`Grade::B4`] has several meanings.
    pub fn worst_effect(&self) -> &str {
        match (&self.effect, self.grade) {
            (Some(effect), _) => effect,
            (None, Some(Grade::B4)) => "nodes reboot",
            (None, Some(grade)) => grade.meaning(),
            (None, None) => "effects unknown",
        }
    }

    /// Whether the remedy is this command of the plugin: `finalizer strip`.
    pub fn runs(&self, command: &str) -> bool {
        self.own().is_some_and(|words| begin_with(words, command))
    }

    /// Whether the remedy writes the spec or metadata of a custom resource, which admission webhooks check.
    pub fn changes_custom_resources(&self, flavor: ApiFlavor) -> bool {
        const OWN: [&str; 6] = ["pause", "resume", "disable", "enable", "uninstall", "finalizer strip"];
        self.changes()
            && match self.own() {
                Some(words) => OWN.iter().any(|command| begin_with(words, command)),
                None => {
                    let edits = self.argv.get(1).is_some_and(|verb| verb == "edit" || verb == "patch");
                    edits && self.argv.contains(&flavor.resource())
                }
            }
    }

    /// The command for several nodes instead of `node`; `None` for other programs, or if the command does not
    /// name `node`.
    pub fn on_nodes(&self, node: &str, nodes: &[&str]) -> Option<Vec<String>> {
        self.own()?;
        // Prefer the value of `--node`: a custom resource may have the node's name.
        let flagged = self.argv.windows(2).position(|w| w == ["--node", node]);
        let at = flagged.map(|flag| flag + 1).or_else(|| self.argv.iter().position(|w| w == node))?;
        let flag = flagged.is_some().then_some("--node");
        let from = at - usize::from(flag.is_some());
        let each = nodes.iter().flat_map(|node| flag.into_iter().chain([*node]));
        let mut argv = self.argv.clone();
        argv.splice(from..=at, each.map(str::to_owned));
        Some(argv)
    }
}

/// Whether `undo` can revert a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub enum Undo {
    /// Every change can be undone.
    Yes,
    /// The plugin's changes can be undone, but not the operator's work since.
    Partly,
    /// The command deletes an object permanently, or is not a command of this plugin.
    No,
}

/// A command of the plugin that changes something.
struct Own {
    words: &'static str,
    undo: Undo,
    /// Whether the command is a decision of the user: it stops work, ends another user's stop, changes the
    /// spec, or drops a record. No object shows whether that is right.
    choice: bool,
}

const fn choice(words: &'static str, undo: Undo) -> Own {
    Own { words, undo, choice: true }
}

const fn repair(words: &'static str, undo: Undo) -> Own {
    Own { words, undo, choice: false }
}

#[rustfmt::skip]
const OWN: [Own; 18] = [
    choice("pause", Undo::Yes),
    choice("disable", Undo::Yes),
    choice("node ignore", Undo::Yes),
    choice("resume", Undo::Partly),
    choice("enable", Undo::Partly),
    choice("node unignore", Undo::Partly),
    repair("reset --unreadable", Undo::Partly),
    choice("node reset", Undo::Partly),
    repair("deployment-policy reset --node", Undo::Partly),
    choice("reset", Undo::Partly),
    repair("package rerun", Undo::Partly),
    // The command deletes a Job or a pod, which cannot be undone.
    repair("package retry", Undo::No),
    repair("deployment-policy reset", Undo::Partly),
    choice("leftovers --node", Undo::Partly),
    choice("update-state", Undo::Partly),
    choice("uninstall", Undo::Partly),
    choice("finalizer strip", Undo::No),
    repair("leftovers --clean", Undo::Partly),
];

/// The command that uninstalls a package: with `--enable`, unless the spec already enables the uninstall.
pub fn uninstall_command(skyhook: &Skyhook, package: &str) -> String {
    let declared = skyhook.package(package).is_none_or(|p| p.uninstall().enabled);
    let enable = if declared { "" } else { " --enable" };
    format!("kubectl skyhook uninstall {} {package}{enable}", skyhook.name())
}

/// The entry of `OWN` for the words of a command.
fn known(words: &[String]) -> Option<&'static Own> {
    OWN.iter().find(|own| begin_with(words, own.words))
}

/// Whether a command line begins with the words of a command, and contains its flags.
fn begin_with(words: &[String], command: &str) -> bool {
    let mut first = words.iter();
    command.split(' ').all(|part| {
        if part.starts_with("--") {
            words.iter().any(|word| word == part)
        } else {
            first.next().is_some_and(|word| word == part)
        }
    })
}

/// Whether a command can be undone; `None` if it changes nothing.
fn undo_of(argv: &[String], grade: Option<Grade>) -> Option<Undo> {
    if grade == Some(Grade::B0) {
        return None;
    }
    let words = own(argv).unwrap_or_default();
    // The next batch starts at once, which cannot be undone.
    let leaves = words.iter().any(|word| word == "--leave-batch");
    Some(if leaves { Undo::Partly } else { known(words).map_or(Undo::No, |own| own.undo) })
}

/// Whether only the user can decide that a command is right.
fn is_choice(words: &[String]) -> bool {
    const FLAGS: [&str; 2] = ["--runtime-required", "--purge-state"];
    known(words).is_some_and(|own| own.choice) || words.iter().any(|w| FLAGS.contains(&w.as_str()))
}

fn own(argv: &[String]) -> Option<&[String]> {
    match argv {
        [kubectl, ours, words @ ..] if kubectl == "kubectl" && ours == "skyhook" => Some(words),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_own() {
        for (line, grade, expected) in [
            ("kubectl skyhook node list", Some(Grade::B0), None),
            ("kubectl skyhook pause gpu", None, Some(Undo::Yes)),
            ("kubectl skyhook package retry a --node b", None, Some(Undo::No)),
            ("kubectl skyhook finalizer strip gpu", None, Some(Undo::No)),
            ("kubectl delete pod a", Some(Grade::B2), Some(Undo::No)),
        ] {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(undo_of(&argv, grade), expected, "{line}");
        }
    }
}
