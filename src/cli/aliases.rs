//! Words that users of kubectl and of other tools type, with the corresponding commands.

use std::ffi::OsString;

/// Read-only commands by their aliases; the first match counts.
const ALIASES: &[(&[&str], &[&str])] = &[
    (&["get", "node"], &["node", "status"]),
    (&["get", "nodes"], &["node", "status"]),
    (&["get", "packages"], &["package", "status"]),
    (&["get", "events"], &["events"]),
    (&["get", "skyhook"], &["status"]),
    (&["get", "skyhooks"], &["status"]),
    (&["get", "nodewright"], &["status"]),
    (&["get", "nodewrights"], &["status"]),
    (&["get"], &["status"]),
    (&["list"], &["status"]),
    (&["describe", "node"], &["diagnose", "node"]),
    (&["describe", "skyhook"], &["status"]),
    (&["describe", "nodewright"], &["status"]),
    (&["describe"], &["status"]),
    (&["rollout", "status"], &["status"]),
    (&["rollout", "history"], &["journal", "list"]),
    (&["watch"], &["status", "--watch"]),
    (&["logs"], &["package", "logs"]),
    (&["history"], &["journal", "list"]),
    (&["check"], &["diagnose", "check"]),
    (&["doctor"], &["diagnose", "stuck"]),
    (&["must-gather"], &["collect"]),
];

/// Tips for words that change something or have several meanings: the command is only suggested.
pub const TIPS: &[(&str, &str)] = &[
    ("unpause", "resume"),
    ("undisable", "enable"),
    ("uncordon", "cordon release"),
    ("retry", "package retry"),
    ("rerun", "package rerun"),
    ("rollout", "status"),
    ("rules", "explain"),
];

/// Replaces an alias in the arguments by its command. The first argument is the program.
pub fn resolved(args: Vec<OsString>) -> Vec<OsString> {
    let word = |at: usize| args.get(at).and_then(|word| word.to_str());
    if let Some("describe" | "diagnose") = word(1)
        && let Some(("node" | "nodes", name)) = word(2).and_then(|word| word.split_once('/'))
    {
        let words = ["diagnose", "node", name].map(OsString::from);
        return replaced(&args, 2, words);
    }
    let typed = |alias: &[&str]| {
        let mut words = alias.iter().enumerate();
        words.all(|(at, alias)| word(at + 1) == Some(alias))
    };
    match ALIASES.iter().find(|(alias, _)| typed(alias)) {
        Some((alias, command)) => replaced(&args, alias.len(), command.iter().map(OsString::from)),
        None => args,
    }
}

/// Replaces the first `words` arguments after the program name with `command`.
fn replaced(args: &[OsString], words: usize, command: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let program = args[..1].iter().cloned();
    let rest = args[1 + words..].iter().cloned();
    program.chain(command).chain(rest).collect()
}
