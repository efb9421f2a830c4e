//! Words that users of kubectl and of other tools type, and our command for them.

use std::ffi::OsString;

/// Commands that only read, by their aliases; of several that match, the first counts.
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

/// Commands that change something, and words with several meanings: only a tip names the command.
pub const TIPS: &[(&str, &str)] = &[
    ("unpause", "resume"),
    ("undisable", "enable"),
    ("uncordon", "cordon release"),
    ("retry", "package retry"),
    ("rerun", "package rerun"),
    ("rollout", "status"),
];

/// The arguments, the first of which is the program, with our command in place of an alias.
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

/// The arguments with other words in place of the first ones after the program.
fn replaced(args: &[OsString], words: usize, command: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let program = args[..1].iter().cloned();
    let rest = args[1 + words..].iter().cloned();
    program.chain(command).chain(rest).collect()
}
