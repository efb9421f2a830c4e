//! Words that users of kubectl and of other tools type, with the corresponding commands.

use std::ffi::OsString;

use clap::CommandFactory;

use super::Cli;
use crate::api::ApiFlavor;
use crate::args::nodes::names_of_type;
use crate::view::{Joined, shell_words};

/// Commands by their aliases, of which none changes anything without a preview, in which a kind is a word of [`KINDS`]; the first match counts.
const ALIASES: &[(&str, &str)] = &[
    ("get node", "node status"),
    ("get package", "package status"),
    ("get pod", "package status"),
    ("get all", "status"),
    ("get events", "events"),
    ("get skyhook", "status"),
    ("get", "status"),
    ("list", "status"),
    ("ls", "status"),
    ("show", "status"),
    ("nodes status", "node status"),
    ("nodes list", "node list"),
    ("packages status", "package status"),
    ("packages logs", "package logs"),
    ("package list", "package status"),
    ("package get", "package status"),
    ("package describe", "package status"),
    ("node describe", "diagnose node"),
    ("node get", "node status"),
    ("node ls", "node list"),
    ("node logs", "package logs"),
    ("skyhooks", "status"),
    ("nodewrights", "status"),
    ("nodes", "node status"),
    ("packages", "package status"),
    ("ps", "package status"),
    ("describe node", "diagnose node"),
    ("describe package", "package status"),
    ("describe skyhook", "status"),
    ("describe", "status"),
    ("rollout status", "wait"),
    ("rollout history", "journal list"),
    ("rollout pause", "pause"),
    ("rollout resume", "resume"),
    ("watch", "status --watch"),
    ("logs", "package logs"),
    ("history", "journal list"),
    ("log", "package logs"),
    ("check", "diagnose check"),
    ("health", "status"),
    ("doctor", "diagnose stuck"),
    ("stuck", "diagnose stuck"),
    ("why", "diagnose"),
    ("troubleshoot", "diagnose stuck"),
    ("must-gather", "collect"),
    ("support", "collect"),
];

/// Kinds of objects with the words for them, compared without case and API group. Only kubectl prints `other` kinds.
const KINDS: &[(&str, &str)] = &[
    ("all", "all"),
    ("events", "ev event events"),
    ("node", "no node nodes"),
    ("package", "package packages pkg pkgs"),
    ("pod", "job jobs po pod pods"),
    (
        "other",
        "cj cm configmap configmaps crd crds cronjob cronjobs daemonset daemonsets deploy deployment \
         deploymentpolicies deploymentpolicy deployments dp ds ing ingress namespace namespaces ns pdb \
         poddisruptionbudget poddisruptionbudgets pv pvc quota replicaset replicasets resourcequota resourcequotas rs \
         sa secret secrets service serviceaccount serviceaccounts services statefulset statefulsets sts svc",
    ),
];

/// API groups of [`KINDS`] besides those of the custom resources.
const GROUPS: [&str; 3] = ["apps", "batch", "policy"];

/// The kind of `KIND`, `KIND.GROUP` or `KIND/NAME`: one of [`KINDS`], or `skyhook` for both APIs.
fn kind(word: &str) -> Option<&'static str> {
    let typed = word.split('/').next().unwrap_or_default().to_lowercase();
    let (bare, group) = typed.split_once('.').unwrap_or((&typed, ""));
    let groups = ApiFlavor::ALL.map(ApiFlavor::group).into_iter().chain(GROUPS);
    let known =
        group.is_empty() || groups.into_iter().any(|of| group == of || group.ends_with(&format!(".{of}")));
    if !known {
        None
    } else if ApiFlavor::ALL.map(names_of_type).concat().iter().any(|name| name == bare) {
        Some("skyhook")
    } else {
        KINDS.iter().find(|(_, words)| has(words, bare)).map(|(kind, _)| *kind)
    }
}

/// Commands whose first argument is a custom resource. As in kubectl, its kind may come before it.
const OF_SKYHOOK: &str = "diagnose disable enable events pause reset resume status teardown uninstall wait";

/// Those of [`OF_SKYHOOK`] that read all custom resources without a name.
const READS_ALL: &str = "diagnose events status wait";

/// Commands on custom resources, and those that do the same on nodes.
const ON_NODES: &[(&str, &str)] = &[
    ("disable", "node ignore"),
    ("enable", "node unignore"),
    ("pause", "node ignore"),
    ("reset", "reset --node"),
    ("resume", "node unignore"),
];

/// Former commands, and the commands that replace them.
const MOVED: &[(&str, &str)] = &[
    ("uninstall status", "status NAME"),
    ("finalizer status", "status NAME"),
    ("cordon release", "leftovers --clean --node NODE"),
    ("node leave-batch", "deployment-policy reset NAME --node NODE"),
    ("node repair", "reset NAME --unreadable"),
    ("rules", "explain"),
];

/// Where a former command went.
pub fn moved(args: &[OsString]) -> Option<String> {
    let words: Vec<&str> = words_of(args).into_iter().filter(|word| !word.starts_with('-')).collect();
    let (former, command) = MOVED.iter().find(|(former, _)| begins_with(&words, former))?;
    Some(format!("`kubectl skyhook {former}` is now `kubectl skyhook {command}`"))
}

/// Tips for words that change something or have several meanings: the command is only suggested.
pub const TIPS: &[(&str, &str)] = &[
    ("unpause", "resume"),
    ("undisable", "enable"),
    ("retry", "package retry"),
    ("rerun", "package rerun"),
    ("pkg", "package"),
];

const ROLL_BACK: &str = "no earlier specs are kept: to roll out an earlier version, use `kubectl apply -f FILE` with the earlier \
     manifest, and before it `kubectl skyhook lint --diff -f FILE`; `kubectl skyhook undo` reverts a command of this plugin";
const RUN_AGAIN: &str = "to run all packages again, use `kubectl skyhook reset NAME`; to run one, \
     `kubectl skyhook package rerun PACKAGE --skyhook NAME --all-nodes`";
const RESTART: &str = "to run one package again, use `kubectl skyhook package rerun PACKAGE --skyhook SKYHOOK --all-nodes`; to \
     run all packages, `kubectl skyhook reset SKYHOOK`";
const STOP: &str = "to stop a custom resource for now, use `kubectl skyhook pause NAME`; to stop it \
     indefinitely, `kubectl skyhook disable NAME`; to stop work on some nodes, `kubectl skyhook node ignore NODE`";
const CONTINUE: &str = "to continue after a pause, use `kubectl skyhook resume NAME`; after disable, \
     `kubectl skyhook enable NAME`; after node ignore, `kubectl skyhook node unignore NODE`";
const SPEC: &str = "packages and their versions are in the spec of the custom resource: edit it with kubectl, and check it \
     first with `kubectl skyhook lint`";
const CLEAN: &str =
    "to remove what deleted custom resources left on nodes, use `kubectl skyhook leftovers --clean`";
const FROM: &str = "captures are read with --from FILE; `kubectl skyhook lint -f FILE` checks manifests";
const DRY_RUN: &str = "each command that changes something has --dry-run; `kubectl skyhook fix --dry-run` previews the \
     remedies of all findings";

const UNINSTALL: &str = "to uninstall a package from all nodes, use `kubectl skyhook uninstall SKYHOOK NAME`";
const CORDON: &str = "to cordon a node by hand, use `kubectl cordon NODE`; operators from v0.20 on keep such a cordon, older ones lift it after an interrupt";
const DRAIN: &str =
    "the operator drains nodes before interrupts; to drain one by hand, use `kubectl drain NODE`";
const UNCORDON: &str = "`kubectl skyhook diagnose node NODE` shows who cordoned a node; the operator removes its own \
     cordons; to remove the cordon of a deleted custom resource, use `kubectl skyhook leftovers --clean --node NODE`; to \
     remove any other cordon, `kubectl uncordon NODE`";
const REBOOT: &str = "`kubectl skyhook diagnose node NODE` shows what a reboot would interrupt now";

/// Tips for commands of kubectl and other tools; the first match counts.
const HABITS: &[(&str, &str)] = &[
    ("ignore", "to make the operator ignore nodes, use `kubectl skyhook node ignore NODE`"),
    (
        "unignore",
        "to make the operator work on ignored nodes again, use `kubectl skyhook node unignore NODE`",
    ),
    ("skip", "to make the operator ignore nodes, use `kubectl skyhook node ignore NODE`"),
    ("delete package", UNINSTALL),
    ("package uninstall", UNINSTALL),
    (
        "delete",
        "`kubectl skyhook teardown NAME` deletes a custom resource after a preview; kubectl's delete \
         waits until the operator has uninstalled the packages with `uninstall.enabled`, and `kubectl skyhook status NAME` \
         shows which are left",
    ),
    ("rollout restart", RUN_AGAIN),
    ("rollout undo", ROLL_BACK),
    (
        "rollout",
        "`kubectl skyhook rollout status SKYHOOK` waits for a rollout; `pause`, `resume`, `reset` and `undo` are commands of \
         their own",
    ),
    ("rollback", ROLL_BACK),
    ("restart", RESTART),
    ("abort", STOP),
    ("stop", STOP),
    ("suspend", STOP),
    ("scale", STOP),
    ("start", CONTINUE),
    ("continue", CONTINUE),
    ("install", SPEC),
    ("upgrade", SPEC),
    ("set", SPEC),
    ("remove", UNINSTALL),
    ("clean", CLEAN),
    ("cleanup", CLEAN),
    ("purge", CLEAN),
    ("repair", "to apply the remedies of all findings, use `kubectl skyhook fix`"),
    ("restore", "to recreate a deleted custom resource, use `kubectl skyhook undelete NAME`"),
    ("cancel", "to cancel an uninstall, use `kubectl skyhook uninstall SKYHOOK PACKAGE --cancel`"),
    ("plan", DRY_RUN),
    ("preview", DRY_RUN),
    ("drain", DRAIN),
    ("cordon", CORDON),
    ("uncordon", UNCORDON),
    ("reboot", REBOOT),
    (
        "apply",
        "kubectl applies manifests: `kubectl apply -f FILE`; `kubectl skyhook lint -f FILE` checks them first",
    ),
    (
        "edit",
        "`kubectl edit nodewright NAME`, or `kubectl edit skyhook NAME`, changes the spec; `kubectl skyhook lint -f FILE` \
         checks a manifest first",
    ),
    (
        "auth",
        "`kubectl skyhook rbac --for COMMAND` prints the permissions that a command needs; `kubectl \
         skyhook diagnose check` tests yours",
    ),
    ("man", "`kubectl skyhook COMMAND --help` has the text of the manual page"),
    ("options", "`kubectl skyhook status --help` also lists the options of all commands"),
    (
        "create",
        "kubectl creates objects: `kubectl create -f FILE`; `kubectl skyhook lint -f FILE` checks them first",
    ),
];

/// Tips for groups of commands that do not have the next word.
pub const GROUP_TIPS: &[(&str, &str)] = &[
    (
        "node",
        "`kubectl skyhook diagnose node NODE` explains a node, `kubectl skyhook node status NODE` shows its state",
    ),
    ("package", "`kubectl skyhook package status PACKAGE` shows a package on all nodes"),
];

/// Commands that only kubectl has.
const OF_KUBECTL: &str = "annotate api-resources api-versions attach autoscale cluster-info config cp debug exec expose \
     kustomize label patch port-forward proxy replace run taint top";

/// Commands of both, with the kinds that kubectl has to handle.
const OF_KUBECTL_FOR: &[(&str, &str)] = &[
    ("get", "other"),
    ("describe", "events other pod"),
    ("delete", "events node other pod"),
    ("explain", "events node other pod skyhook"),
    ("edit", "node other pod"),
    ("logs", "other"),
    ("rollout", "other"),
    ("wait", "node other pod"),
];

/// Global flags that kubectl does not have, each with whether its value is the next word.
const OWN_FLAGS: &[(&str, bool)] =
    &[("--from", true), ("--now", true), ("--api", true), ("--color", true), ("--compat", false)];

/// The typed words behind the name of the program, up to the first that is no Unicode.
fn words_of(args: &[OsString]) -> Vec<&str> {
    args.iter().skip(1).map_while(|word| word.to_str()).collect()
}

/// Whether the words begin with a command, whose words are separated by blanks.
fn begins_with(words: &[&str], command: &str) -> bool {
    words.starts_with(&Vec::from_iter(command.split_whitespace()))
}

/// Whether a list of words, separated by blanks, has this word.
fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

/// The message for a command line that is one of kubectl, with the words that kubectl accepts.
pub fn of_kubectl(args: &[OsString]) -> Option<String> {
    let words = words_of(args);
    let verb = *words.first()?;
    if let ("get" | "describe", Some(types)) = (verb, words.get(1).filter(|word| word.contains(',')))
        && types.split(',').all(|word| kind(word).is_some())
    {
        let each = types.split(',').map(|word| ["kubectl skyhook", verb, word].join(" "));
        return Some(format!("one type at a time: {}", each.joined("; ")));
    }
    if let Some(safer) = safer_patch(verb, &words) {
        return Some(safer);
    }
    let accepted = accepted_by_kubectl(&words);
    // The object of these commands may follow flags or another word.
    let is_object = |word: &&&str| !matches!(verb, "logs" | "rollout") || word.contains('/');
    let typed_object = accepted.iter().skip(1).find(is_object);
    // `kubectl explain` takes the path of a field.
    let is_path = verb == "explain";
    let of_path = |word: &&str| kind(word.split('.').next()?).filter(|_| is_path);
    let object = typed_object.and_then(|word| kind(word).or_else(|| of_path(word))).unwrap_or_default();
    // The names that this plugin prints are those of packages and nodes, which a script must not take for pods.
    let names_pods = (verb, object) == ("get", "pod")
        && words.iter().any(|word| has("name -oname -o=name --output=name", word));
    let typed = match OF_KUBECTL_FOR.iter().find(|(of_both, _)| *of_both == verb) {
        Some((_, kinds)) if has(kinds, object) || names_pods => {
            &words[..1 + usize::from(words.get(1) == typed_object)]
        }
        _ if has(OF_KUBECTL, verb) => &words[..1],
        _ => return None,
    };
    let [typed, accepted] = [typed, &accepted].map(shell_words);
    Some(format!("`{typed}` is a kubectl command: kubectl {accepted}"))
}

/// Parts of edits with kubectl, and the commands that do the same with a preview and an undo.
const SAFER: &[(&str, &str)] = &[
    ("finalizers", "finalizer strip NAME"),
    ("/ignore=", "node ignore NAME"),
    ("/pause=", "pause NAME"),
    ("\"pause\"", "pause NAME"),
    ("/disable=", "disable NAME"),
];

/// The message for an edit with kubectl that a command of this plugin previews.
fn safer_patch(verb: &str, words: &[&str]) -> Option<String> {
    let edits = matches!(verb, "annotate" | "label" | "patch");
    let has = |part: &str| words.iter().any(|word| word.contains(part));
    let (_, command) = SAFER.iter().find(|(part, _)| edits && has(part))?;
    let name = match words.get(1)?.split_once('/') {
        Some((_, name)) => name,
        None => words.get(2)?,
    };
    let command = command.replace("NAME", &shell_words(&[name]));
    Some(format!(
        "`{verb}` is a kubectl command; to make this change with a preview and undo: kubectl skyhook {command}"
    ))
}

/// The words without the flags that only this plugin has.
fn accepted_by_kubectl<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut accepted = Vec::new();
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        let own = OWN_FLAGS.iter().find(|(flag, _)| word.split('=').next() == Some(*flag));
        match own {
            Some((flag, true)) if word == *flag => drop(rest.next()),
            Some(_) => {}
            None => accepted.push(word),
        }
    }
    accepted
}

/// Whether the command line gets objects of a kind (`get KIND`): kubectl prints the objects, this plugin its own document.
pub fn gets_object(args: &[OsString]) -> bool {
    let words = words_of(args);
    words.first() == Some(&"get")
        && words.get(1).and_then(|word| kind(word)).is_some_and(|kind| kind != "package")
}

/// Words that may be typed instead of a command.
pub fn words() -> impl Iterator<Item = &'static str> {
    ALIASES.iter().filter_map(|(alias, _)| alias.split(' ').next()).filter(|word| word.len() > 2)
}

/// Where to find the command for nodes, instead of one for custom resources: `pause node NODE`.
pub fn on_nodes(args: &[OsString]) -> Option<String> {
    let words = words_of(args);
    let (verb, command) = ON_NODES.iter().find(|(verb, _)| words.first() == Some(verb))?;
    let typed = words.get(1).filter(|word| kind(word) == Some("node"))?;
    let node = typed.split_once('/').map(|(_, name)| name).or_else(|| words.get(2).copied())?;
    let node = shell_words(&[node]);
    Some(format!(
        "`kubectl skyhook {verb}` takes custom resources; for a node: kubectl skyhook {command} {node}"
    ))
}

/// Explanations for flags that a command does not have: the first words of the command, the flags (`ARGUMENT` for a
/// further argument), and the tip.
const FLAGS: &[(&str, &str, &str)] = &[
    (
        "uninstall",
        "--node --match -l --selector --nodes",
        "the operator uninstalls from all nodes that the custom resource selects; to uninstall from \
         some nodes only, wait until no package is running, narrow spec.nodeSelectors to these nodes, uninstall, then \
         change spec.nodeSelectors to the other nodes, and run `kubectl skyhook uninstall NAME PACKAGE --cancel`",
    ),
    (
        "pause",
        "--node --match -l --selector",
        "a pause applies to all nodes of a custom resource; to stop work on some, use `kubectl skyhook node ignore NODE`",
    ),
    (
        "",
        "-w --watch",
        "`kubectl skyhook status -w` watches rollouts, `kubectl skyhook events -w` events, and `kubectl get nodes -w` nodes",
    ),
    (
        "teardown",
        "--force --grace-period --now --wait --cascade",
        "ctrl-C ends the wait, not the deletion; for a deletion that hangs, use `kubectl skyhook finalizer strip NAME`",
    ),
    ("version", "--client --short", "`kubectl skyhook version --client-only` needs no cluster"),
    (
        "diagnose",
        "--severity",
        "--fail-on sets the severity from which the exit code is 2; -o json has the severity of each finding",
    ),
    ("status", "--all", "all custom resources are the default"),
    ("wait", "--all", "all custom resources are the default"),
    ("events", "--all", "all custom resources are the default"),
    (
        "reset",
        "--all",
        "name the custom resource: `kubectl skyhook reset NAME`; or nodes: `kubectl skyhook reset --node NODE`",
    ),
    (
        "status",
        "--show-labels --show-kind",
        "`kubectl get nodewrights --show-labels`, or `kubectl get skyhooks --show-labels`, shows labels",
    ),
    (
        "status",
        "-l --selector --field-selector",
        "custom resources are selected by name; by label: `kubectl get nodewrights -l LABELS`, or \
         `kubectl get skyhooks -l LABELS`; `kubectl skyhook node status` selects nodes by label, and shows their labels",
    ),
    ("status", "--node --match", "`kubectl skyhook node status` selects nodes by name or label"),
    (
        "",
        "-L --label-columns",
        "--show-labels shows the labels of nodes; `kubectl get nodes -L KEY` shows one of them as a column",
    ),
    (
        "package status",
        "--field-selector",
        "--node selects a node, `kubectl skyhook package status --failed-only` what fails; kubectl selects pods by field",
    ),
    ("", "<NAME>...", "name custom resources, or use --all for all of them"),
    ("status", "--watch[=<true|false>]", "--timeout ends a watch: add -w"),
    ("events", "--sort-by", "events are sorted by time, the newest last"),
    ("undo", "--to-revision", ROLL_BACK),
    (
        "diagnose node",
        "ARGUMENT <NODE>",
        "`kubectl skyhook node status NODES` shows several nodes, `kubectl skyhook diagnose node NODE` one in full",
    ),
    ("undo", "--list", "`kubectl skyhook journal list` lists the commands that can be undone"),
    ("", "--man", "`kubectl skyhook COMMAND --help` has the text of the manual page"),
    (
        "journal list",
        "ARGUMENT",
        "`kubectl skyhook journal list` lists all commands; `kubectl skyhook events NAME` shows what the operator did",
    ),
    ("node status", "--node --nodes", "nodes are arguments: `kubectl skyhook node status NODE`"),
    (
        "package logs",
        "-c --container --all-containers",
        "without it, all containers of the stage are shown; --stage selects a stage, such as apply or interrupt: \
         `kubectl skyhook logs PACKAGE --node NODE --stage STAGE`; one container of a pod: `kubectl logs POD -c CONTAINER`",
    ),
    (
        "package logs",
        "<PACKAGE>",
        "name the package: `kubectl skyhook logs PACKAGE --node NODE`; `kubectl skyhook package status --failed-only` \
         lists those that fail",
    ),
    ("package logs", "ARGUMENT", "nodes are flags: `kubectl skyhook logs PACKAGE --node NODE`"),
    (
        "diff",
        "-f --filename",
        "`kubectl skyhook lint --diff -f FILE` compares a manifest with the cluster; captures are arguments: \
         `kubectl skyhook diff BEFORE AFTER`",
    ),
    ("diagnose", "-f --filename", FROM),
    ("status", "-f --filename", FROM),
    (
        "node status",
        "--field-selector",
        "--cordoned, --failed-only and --status filter nodes; -l selects them by label",
    ),
    (
        "events",
        "--field-selector --types",
        "`kubectl skyhook events NAME` shows the events of a custom resource, its nodes, pods and jobs; for one object: \
         `kubectl events -A --for KIND/NAME`; by type: \
         `kubectl skyhook events -o json | jq '.items[] | select(.type==\"Warning\")'`",
    ),
    ("", "--interval", "there is no interval: each change is shown when it happens"),
    ("", "--format --json --template", "-o sets the format, such as -o json or -o jsonpath=TEMPLATE"),
    ("lint", "ARGUMENT", "files are flags: `kubectl skyhook lint -f FILE`"),
];

/// The words of a command, and a tip: of an unknown command, or with `invalid` of the command that does not have this
/// flag or argument. `None` if nothing better than a similar name is known.
pub fn tip(args: &[OsString], invalid: Option<&str>) -> Option<(&'static str, &'static str)> {
    let words = words_of(args);
    let Some(invalid) = invalid else {
        let begins = |words: &[&str]| HABITS.iter().find(|(habit, _)| begins_with(words, habit)).copied();
        let group = || GROUP_TIPS.iter().find(|(group, _)| words.first() == Some(group)).copied();
        return begins(&words).or_else(|| begins(words.get(1..)?)).or_else(group);
    };
    let flag = if invalid.starts_with(['-', '<']) { invalid } else { "ARGUMENT" };
    let found = FLAGS.iter().find(|(command, flags, _)| begins_with(&words, command) && has(flags, flag));
    found.map(|(command, _, tip)| (*command, *tip))
}

/// Replaces an alias in the arguments by its command. The first argument is the program.
pub fn resolved(args: Vec<OsString>) -> Vec<OsString> {
    let mut args = words_first(args);
    if of_kubectl(&args).is_some() {
        return args;
    }
    if let [verb @ ("describe" | "diagnose" | "get"), typed, ..] = words_of(&args).as_slice()
        && let Some(kind) = kind(typed)
        && (*verb != "diagnose" || kind == "node")
    {
        let name = typed.split_once('/').map(|(_, name)| OsString::from(name));
        args.splice(2..3, [OsString::from(kind)].into_iter().chain(name));
    }
    if let Some((alias, command)) = ALIASES.iter().find(|(alias, _)| begins_with(&words_of(&args), alias)) {
        args.splice(1..=alias.split(' ').count(), command.split(' ').map(OsString::from));
    }
    if let [command, typed, rest @ ..] = words_of(&args).as_slice()
        && has(OF_SKYHOOK, command)
        && kind(typed) == Some("skyhook")
        && !typed.contains('/')
        && (rest.first().is_some_and(|word| !word.starts_with('-'))
            || typed.ends_with('s') && has(READS_ALL, command))
    {
        args.remove(2);
    }
    args
}

/// Moves global flags before the command behind its words, so that aliases and tips apply: `-n x get nodes` becomes
/// `get nodes -n x`. They stay before the other flags, which override them. A command with an `-o` of its own does
/// not take them.
fn words_first(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if !args.get(1).is_some_and(is_flag) {
        return args;
    }
    let tree = Cli::command();
    let mut command = 1;
    while let Some(length) = args.get(command).and_then(|word| global_flag(&tree, word.to_str()?)) {
        command += length;
    }
    let words = args.iter().skip(command).take_while(|word| !is_flag(word)).count();
    let own = args.get(command).and_then(|word| tree.find_subcommand(word.to_str()?));
    let has_output = own.is_some_and(|own| own.get_arguments().any(|arg| arg.get_short() == Some('o')));
    if words > 0 && !has_output {
        args[1..command + words].rotate_left(command - 1);
    }
    args
}

/// Number of words of a global flag: itself, and its value if that is the next word. `None` for other words.
fn global_flag(tree: &clap::Command, word: &str) -> Option<usize> {
    let short = word.strip_prefix('-')?;
    let (long, has_value) = match short.strip_prefix('-') {
        Some(long) => (Some(long.split('=').next()?), long.contains('=')),
        None => (None, short.chars().count() > 1),
    };
    let flag = tree.get_arguments().filter(|arg| arg.is_global_set()).find(|arg| match long {
        Some(long) => {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => arg.get_short() == short.chars().next(),
    })?;
    let takes_next = flag.get_action().takes_values() && !flag.is_require_equals_set() && !has_value;
    Some(1 + usize::from(takes_next))
}
