//! Help, manuals and pages for users: their style, and their examples.

use clap::Command;
use kubectl_skyhook::program::Program;
use kubectl_skyhook::rules;

use super::source::sources;
use super::{check, examples, source};

/// Whether a text contains emoji or an exclamation mark.
fn shouts(text: &str) -> bool {
    let emoji = |c: char| matches!(u32::from(c), 0x1F000..|0x2600..=0x27BF| 0x2B00..=0x2BFF | 0xFE0F);
    text.replace("!=", "").contains('!') || text.contains(emoji)
}

/// The pages for users.
const PAGES: [&str; 6] = [
    "README.md",
    "SECURITY.md",
    "docs/commands.md",
    "docs/rules.md",
    "docs/stuck-states.md",
    "docs/tasks.md",
];

#[test]
fn texts_have_no_emoji_or_exclamation_marks() {
    let manuals = rules::ALL.iter().filter(|r| shouts(r.docs));
    check(manuals.map(|r| format!("{}: its documentation shouts", r.code)));
    let tree = Program::SKYHOOK.tree();
    let mut texts = Vec::new();
    texts_of(&tree, &mut texts);
    for page in PAGES {
        let page = source::read(page).replace("<!--", "").replace("![", "");
        texts.extend(page.lines().map(str::to_owned));
    }
    check(texts.into_iter().filter(|t| shouts(t)));
}

/// All texts that help prints.
fn texts_of(command: &Command, texts: &mut Vec<String>) {
    let own = [
        command.get_about(),
        command.get_long_about(),
        command.get_after_help(),
        command.get_after_long_help(),
    ];
    let args = command.get_arguments();
    let args = args.flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
    texts.extend(own.into_iter().chain(args).flatten().map(ToString::to_string));
    for sub in command.get_subcommands() {
        texts_of(sub, texts);
    }
}

#[test]
fn help_summaries_have_no_full_stop() {
    fn walk(command: &Command, wrong: &mut Vec<String>) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let capital = about.starts_with(|c: char| c.is_uppercase());
        if about.ends_with('.') || !capital {
            wrong.push(format!("{}: {about:?}", command.get_name()));
        }
        command.get_subcommands().for_each(|c| walk(c, wrong));
    }
    let mut wrong = Vec::new();
    walk(&Program::SKYHOOK.tree(), &mut wrong);
    check(wrong.into_iter());
}

/// Collects each command with the examples in its help; groups have none.
fn examples_of(command: &Command, words: &str, found: &mut Vec<(String, String)>) {
    let after = command.get_after_help().map(ToString::to_string);
    for sub in command.get_subcommands() {
        examples_of(sub, &format!("{words} {}", sub.get_name()), found);
    }
    if !command.has_subcommands() {
        found.push((words.to_owned(), after.unwrap_or_default()));
    }
}

#[test]
fn every_command_has_an_example() {
    let mut found = Vec::new();
    examples_of(&Program::SKYHOOK.tree(), "kubectl skyhook", &mut found);
    assert!(found.len() > 30, "{}", found.len());
    let lacks = |(words, after): &(String, String)| {
        let own = after.starts_with("Examples:\n") && after.contains(words);
        (!own).then(|| format!("{words}: no example in its help"))
    };
    check(found.iter().filter_map(lacks));
}

#[test]
fn examples_parse() {
    let mut texts = Vec::new();
    texts_of(&Program::SKYHOOK.tree(), &mut texts);
    texts.extend(rules::ALL.iter().map(|r| r.docs.to_owned()));
    texts.extend(PAGES.map(source::read));
    texts.extend(["krew-manifest.yaml", "CHANGELOG.md"].map(source::read));
    texts.extend(sources().filter(|s| !s.is_in("cli/tree.rs")).flat_map(|s| s.hints()));
    check(texts.iter().flat_map(|text| examples::wrong(text)));
}
