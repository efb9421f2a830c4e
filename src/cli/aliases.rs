//! Words that users of kubectl and of other tools type, with the corresponding commands.

use std::ffi::OsString;

use clap::CommandFactory;

use super::Cli;
use crate::api::ApiFlavor;
use crate::args::nodes::names_of_type;
use crate::error::near;
use crate::view::{Joined, shell_words};

/// Commands by their aliases, of which none changes anything without a preview, in which a kind is a word of [`KINDS`]; the first match counts.
const ALIASES: &[(&[&str], &[&str])] = &[
    (&["get", "node"], &["node", "status"]),
    (&["get", "package"], &["package", "status"]),
    (&["get", "pod"], &["package", "status"]),
    (&["get", "all"], &["status"]),
    (&["get", "events"], &["events"]),
    (&["get", "skyhook"], &["status"]),
    (&["get"], &["status"]),
    (&["list"], &["status"]),
    (&["ls"], &["status"]),
    (&["show"], &["status"]),
    (&["nodes", "status"], &["node", "status"]),
    (&["nodes", "list"], &["node", "list"]),
    (&["packages", "status"], &["package", "status"]),
    (&["packages", "logs"], &["package", "logs"]),
    (&["package", "list"], &["package", "status"]),
    (&["package", "get"], &["package", "status"]),
    (&["package", "describe"], &["package", "status"]),
    (&["node", "describe"], &["diagnose", "node"]),
    (&["node", "get"], &["node", "status"]),
    (&["node", "ls"], &["node", "list"]),
    (&["node", "logs"], &["package", "logs"]),
    (&["skyhooks"], &["status"]),
    (&["nodewrights"], &["status"]),
    (&["nodes"], &["node", "status"]),
    (&["packages"], &["package", "status"]),
    (&["ps"], &["package", "status"]),
    (&["describe", "node"], &["diagnose", "node"]),
    (&["describe", "package"], &["package", "status"]),
    (&["describe", "skyhook"], &["status"]),
    (&["describe"], &["status"]),
    (&["rollout", "status"], &["wait"]),
    (&["rollout", "history"], &["journal", "list"]),
    (&["rollout", "pause"], &["pause"]),
    (&["rollout", "resume"], &["resume"]),
    (&["watch"], &["status", "--watch"]),
    (&["logs"], &["package", "logs"]),
    (&["history"], &["journal", "list"]),
    (&["log"], &["package", "logs"]),
    (&["check"], &["diagnose", "check"]),
    (&["health"], &["status"]),
    (&["doctor"], &["diagnose", "stuck"]),
    (&["stuck"], &["diagnose", "stuck"]),
    (&["why"], &["diagnose"]),
    (&["troubleshoot"], &["diagnose", "stuck"]),
    (&["must-gather"], &["collect"]),
    (&["support"], &["collect"]),
];

/// Kinds of objects with the words for them, compared without case and API group. Only kubectl prints `other` kinds.
const KINDS: &[(&str, &[&str])] = &[
    ("all", &["all"]),
    ("events", &["ev", "event", "events"]),
    ("node", &["no", "node", "nodes"]),
    ("package", &["package", "packages", "pkg", "pkgs"]),
    ("pod", &["job", "jobs", "po", "pod", "pods"]),
    (
        "other",
        &[
            "cj",
            "cm",
            "configmap",
            "configmaps",
            "crd",
            "crds",
            "cronjob",
            "cronjobs",
            "daemonset",
            "daemonsets",
            "deploy",
            "deployment",
            "deploymentpolicies",
            "deploymentpolicy",
            "deployments",
            "dp",
            "ds",
            "ing",
            "ingress",
            "namespace",
            "namespaces",
            "ns",
            "pdb",
            "poddisruptionbudget",
            "poddisruptionbudgets",
            "pv",
            "pvc",
            "quota",
            "replicaset",
            "replicasets",
            "resourcequota",
            "resourcequotas",
            "rs",
            "sa",
            "secret",
            "secrets",
            "service",
            "serviceaccount",
            "serviceaccounts",
            "services",
            "statefulset",
            "statefulsets",
            "sts",
            "svc",
        ],
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
        KINDS.iter().find(|(_, words)| words.contains(&bare)).map(|(kind, _)| *kind)
    }
}

/// Commands whose first argument is a custom resource. As in kubectl, its kind may come before it.
const OF_SKYHOOK: &[&str] = &[
    "diagnose",
    "disable",
    "enable",
    "events",
    "pause",
    "reset",
    "resume",
    "status",
    "teardown",
    "uninstall",
    "wait",
];

/// Those of [`OF_SKYHOOK`] that read all custom resources without a name.
const READS_ALL: &[&str] = &["diagnose", "events", "status", "wait"];

/// Commands on custom resources, and those that do the same on nodes.
const ON_NODES: &[(&str, &str)] = &[
    ("disable", "node ignore"),
    ("enable", "node unignore"),
    ("pause", "node ignore"),
    ("reset", "reset --node"),
    ("resume", "node unignore"),
];

/// Former commands, and the commands that replace them.
const MOVED: &[(&[&str], &str)] = &[
    (&["uninstall", "status"], "status NAME"),
    (&["finalizer", "status"], "status NAME"),
    (&["cordon", "release"], "leftovers --clean --node NODE"),
    (&["node", "leave-batch"], "deployment-policy reset NAME --node NODE"),
    (&["node", "repair"], "reset NAME --unreadable"),
    (&["rules"], "explain"),
];

/// Where a former command went.
pub fn moved(args: &[OsString]) -> Option<String> {
    let words = args.iter().skip(1).filter_map(|word| word.to_str()).filter(|word| !word.starts_with('-'));
    let words: Vec<&str> = words.take(2).collect();
    let (former, command) = MOVED.iter().find(|(former, _)| words.starts_with(former))?;
    Some(format!("`kubectl skyhook {}` is now `kubectl skyhook {command}`", former.join(" ")))
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
const CORDON: &str = "to cordon a node by hand, use `LINE`; operators from v0.20 on keep such a cordon, older ones lift it after an interrupt";
const DRAIN: &str = "the operator drains nodes before interrupts; to drain one by hand, use `LINE`";
const UNCORDON: &str = "`kubectl skyhook diagnose node NODES` shows who cordoned a node; the operator removes its own \
     cordons; to remove the cordon of a deleted custom resource, use `kubectl skyhook leftovers --clean --node NODES`; to \
     remove any other cordon, `LINE`";
const REBOOT: &str = "`kubectl skyhook diagnose node NODE` shows what a reboot would interrupt now";

/// Tips for commands of kubectl and other tools; the first match counts. NAME and FILE are replaced by the words of the
/// command line.
const HABITS: &[(&[&str], &str)] = &[
    (&["ignore"], "to make the operator ignore nodes, use `kubectl skyhook node ignore NODE`"),
    (
        &["unignore"],
        "to make the operator work on ignored nodes again, use `kubectl skyhook node unignore NODE`",
    ),
    (&["skip"], "to make the operator ignore nodes, use `kubectl skyhook node ignore NODE`"),
    (&["delete", "package"], UNINSTALL),
    (&["package", "uninstall"], UNINSTALL),
    (
        &["delete"],
        "`kubectl skyhook teardown NAME` deletes a custom resource after a preview; kubectl's delete \
         waits until the operator has uninstalled its packages, and `kubectl skyhook status NAME` shows which are left",
    ),
    (&["rollout", "restart"], RUN_AGAIN),
    (&["rollout", "undo"], ROLL_BACK),
    (
        &["rollout"],
        "`kubectl skyhook rollout status SKYHOOK` waits for a rollout; `pause`, `resume`, `reset` and `undo` are commands of \
         their own",
    ),
    (&["rollback"], ROLL_BACK),
    (&["restart"], RESTART),
    (&["abort"], STOP),
    (&["stop"], STOP),
    (&["suspend"], STOP),
    (&["scale"], STOP),
    (&["start"], CONTINUE),
    (&["continue"], CONTINUE),
    (&["install"], SPEC),
    (&["upgrade"], SPEC),
    (&["set"], SPEC),
    (&["remove"], UNINSTALL),
    (&["clean"], CLEAN),
    (&["cleanup"], CLEAN),
    (&["purge"], CLEAN),
    (&["repair"], "to apply the remedies of all findings, use `kubectl skyhook fix`"),
    (&["restore"], "to recreate a deleted custom resource, use `kubectl skyhook undelete NAME`"),
    (&["cancel"], "to cancel an uninstall, use `kubectl skyhook uninstall SKYHOOK PACKAGE --cancel`"),
    (&["plan"], DRY_RUN),
    (&["preview"], DRY_RUN),
    (&["drain"], DRAIN),
    (&["cordon"], CORDON),
    (&["uncordon"], UNCORDON),
    (&["reboot"], REBOOT),
    (&["apply"], "kubectl applies manifests: `LINE`; `kubectl skyhook lint -f FILE` checks them first"),
    (
        &["edit"],
        "`kubectl edit nodewright NAME`, or `kubectl edit skyhook NAME`, changes the spec; `kubectl skyhook lint -f FILE` \
         checks a manifest first",
    ),
    (
        &["auth"],
        "`kubectl skyhook rbac --for COMMAND` prints the permissions that a command needs; `kubectl \
         skyhook diagnose check` tests yours",
    ),
    (&["man"], "`kubectl skyhook COMMAND --help` has the text of the manual page"),
    (&["options"], "`kubectl skyhook status --help` also lists the options of all commands"),
    (&["create"], "kubectl creates objects: `LINE`; `kubectl skyhook lint -f FILE` checks them first"),
];

/// Commands that only kubectl has.
const OF_KUBECTL: &[&str] = &[
    "annotate",
    "api-resources",
    "api-versions",
    "attach",
    "autoscale",
    "cluster-info",
    "config",
    "cp",
    "debug",
    "exec",
    "expose",
    "kustomize",
    "label",
    "patch",
    "port-forward",
    "proxy",
    "replace",
    "run",
    "taint",
    "top",
];

/// Commands of both, with the kinds that kubectl has to handle.
const OF_KUBECTL_FOR: &[(&str, &[&str])] = &[
    ("get", &["other"]),
    ("describe", &["events", "other", "pod"]),
    ("delete", &["events", "node", "other", "pod"]),
    ("explain", &["events", "node", "other", "pod", "skyhook"]),
    ("edit", &["node", "other", "pod"]),
    ("logs", &["other"]),
    ("rollout", &["other"]),
    ("wait", &["node", "other", "pod"]),
];

/// Global flags that kubectl does not have, each with whether its value is the next word.
const OWN_FLAGS: &[(&str, bool)] =
    &[("--from", true), ("--now", true), ("--api", true), ("--color", true), ("--compat", false)];

/// The message for a command line that is one of kubectl, with the words that kubectl accepts.
pub fn of_kubectl(args: &[OsString]) -> Option<String> {
    let words: Vec<&str> = args.iter().skip(1).map_while(|word| word.to_str()).collect();
    let verb = *words.first()?;
    if let ("get" | "describe", Some(types)) = (verb, words.get(1).filter(|word| word.contains(',')))
        && types.split(',').all(|word| kind(word).is_some())
    {
        let each = types.split(',').map(|word| ["kubectl skyhook", verb, word].join(" "));
        return Some(format!("one type at a time: {}", each.joined("; ")));
    }
    let object = words.iter().skip(1).find(|word| verb != "rollout" || word.contains('/'));
    let is_handled = |kinds: &[&str]| object.and_then(|word| kind(word)).is_some_and(|k| kinds.contains(&k));
    let names_pods =
        words.iter().any(|word| matches!(*word, "name" | "-oname" | "-o=name" | "--output=name"));
    if names_pods && verb == "get" && is_handled(&["pod"]) {
        return Some(format!("`get {} -o name` is a kubectl command: {}", words[1], by_kubectl(&words)));
    }
    if let Some(safer) = safer_patch(verb, &words) {
        return Some(safer);
    }
    // An object of kubectl may follow flags; a file of this plugin's flags is none.
    let is_other = |pair: &&[&str]| {
        let is_value = OWN_FLAGS.iter().any(|(flag, value)| *value && *flag == pair[0]);
        !is_value && pair[1].contains('/') && kind(pair[1]) == Some("other")
    };
    if let ("logs", Some(pair)) = (verb, words.windows(2).find(is_other)) {
        return Some(format!("`logs {}` is a kubectl command: {}", pair[1], by_kubectl(&words)));
    }
    let typed = match OF_KUBECTL_FOR.iter().find(|(of_both, _)| *of_both == verb) {
        Some((_, kinds)) if is_handled(kinds) => &words[..2],
        _ if OF_KUBECTL.contains(&verb) => &words[..1],
        _ => return None,
    };
    let [typed, accepted] = [shell_words(typed), by_kubectl(&words)];
    let on_node = if verb == "exec" { "; on a node: kubectl debug node/NODE -it --image=IMAGE" } else { "" };
    Some(format!("`{typed}` is a kubectl command: {accepted}{on_node}"))
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

/// The line of kubectl with these words, without the flags that only this plugin has.
fn by_kubectl(words: &[&str]) -> String {
    let mut accepted = vec!["kubectl"];
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let own = OWN_FLAGS.iter().find(|(flag, _)| word.split('=').next() == Some(flag));
        match own {
            Some((flag, true)) if word == flag => drop(rest.next()),
            Some(_) => {}
            None => accepted.push(word),
        }
    }
    shell_words(&accepted)
}

/// The line of kubectl for `get KIND`, which prints the object where this plugin prints a document about it; custom
/// resources of the API `active`, if it is known.
pub fn gets_object(args: &[OsString], active: Option<ApiFlavor>) -> Option<String> {
    let mut words: Vec<&str> = args.iter().skip(1).map_while(|word| word.to_str()).collect();
    let ["get", typed, ..] = words.as_slice() else {
        return None;
    };
    let kind = kind(typed).filter(|kind| *kind != "package")?;
    let (of, name) = typed.split_once('/').map_or((*typed, None), |(of, name)| (of, Some(name)));
    let renamed = active
        .filter(|active| kind == "skyhook" && !names_of_type(*active).contains(&of.to_lowercase()))
        .map(|active| {
            let of = active.kind().to_lowercase();
            name.map_or_else(|| of.clone(), |name| format!("{of}/{name}"))
        });
    if let Some(renamed) = &renamed {
        words[1] = renamed;
    }
    let has_namespace = |word: &&str| {
        word.starts_with("-n")
            || word.starts_with("-A")
            || word.starts_with("--namespace")
            || *word == "--all-namespaces"
    };
    let is_named = name.is_some() || words.get(2).is_some_and(|word| !word.starts_with('-'));
    if kind == "pod" && !is_named && !words.iter().any(has_namespace) {
        words.push("-A");
    }
    Some(by_kubectl(&words))
}

/// A hint for `get TYPE` and `describe TYPE` with a word that is no type, and was read as a name.
pub fn types(args: &[OsString]) -> Option<String> {
    let words: Vec<&str> = args.iter().skip(1).map_while(|word| word.to_str()).collect();
    let (verb, typed) = (*words.first()?, *words.get(1)?);
    let verb = Some(verb).filter(|verb| matches!(*verb, "get" | "describe"))?;
    let typed =
        Some(typed.split('/').next()?).filter(|word| kind(word).is_none() && !word.starts_with('-'))?;
    let types = ["skyhooks", "nodes", "packages", "events"];
    let (near, all) = (near(typed, types), types.iter());
    let meant = if near.is_empty() { all.copied().collect() } else { near };
    let lines = meant.iter().map(|of| ["kubectl skyhook", verb, of].join(" "));
    Some(lines.joined(", "))
}

/// Words that may be typed instead of a command.
pub fn words() -> impl Iterator<Item = &'static str> {
    ALIASES.iter().filter_map(|(alias, _)| alias.first().copied()).filter(|word| word.len() > 2)
}

/// Where to find the command for nodes, instead of one for custom resources: `pause node NODE`.
pub fn on_nodes(args: &[OsString]) -> Option<String> {
    let words: Vec<&str> = args.iter().skip(1).map_while(|word| word.to_str()).collect();
    let (verb, command) = ON_NODES.iter().find(|(verb, _)| words.first() == Some(verb))?;
    let typed = words.get(1).filter(|word| kind(word) == Some("node"))?;
    let node = typed.split_once('/').map(|(_, name)| name).or_else(|| words.get(2).copied())?;
    let node = shell_words(&[node]);
    Some(format!(
        "`kubectl skyhook {verb}` takes custom resources; for a node: kubectl skyhook {command} {node}"
    ))
}

const LOGS: &[&str] = &["package", "logs"];

/// Explanations for flags that a command does not have: the first words of the command, the flags (empty for a further
/// argument), and the tip.
const FLAGS: &[(&[&str], &[&str], &str)] = &[
    (
        &["uninstall"],
        &["--node", "--match", "-l", "--selector", "--nodes"],
        "the operator uninstalls from all nodes that the custom resource selects; to uninstall from \
         some nodes only, wait until no package is running, narrow spec.nodeSelectors to these nodes, uninstall, then \
         change spec.nodeSelectors to the other nodes, and run `kubectl skyhook uninstall NAME PACKAGE --cancel`",
    ),
    (
        &["pause"],
        &["--node", "--match", "-l", "--selector"],
        "a pause applies to all nodes of a custom resource; to stop work on some, use `kubectl skyhook node ignore NODE`",
    ),
    (
        &[],
        &["-w", "--watch"],
        "`kubectl skyhook status -w` watches rollouts, `kubectl skyhook events -w` events, and `kubectl get nodes -w` nodes",
    ),
    (&["version"], &["--client", "--short"], "`kubectl skyhook version --client-only` needs no cluster"),
    (
        &["diagnose"],
        &["--severity"],
        "--fail-on sets the severity from which the exit code is 2; -o json has the severity of each finding",
    ),
    (&["status"], &["--all"], "all custom resources are the default"),
    (&["wait"], &["--all"], "all custom resources are the default"),
    (&["events"], &["--all"], "all custom resources are the default"),
    (
        &["reset"],
        &["--all"],
        "name the custom resource: `kubectl skyhook reset NAME`; or nodes: `kubectl skyhook reset --node NODE`",
    ),
    (
        &["status"],
        &["--show-labels", "--show-kind"],
        "`kubectl get nodewrights --show-labels`, or `kubectl get skyhooks --show-labels`, shows labels",
    ),
    (
        &["status"],
        &["-l", "--selector", "--field-selector"],
        "custom resources are selected by name; by label: `kubectl get nodewrights -l LABELS`, or \
         `kubectl get skyhooks -l LABELS`; `kubectl skyhook node status` selects nodes by label, and shows their labels",
    ),
    (&["status"], &["--node", "--match"], "`kubectl skyhook node status` selects nodes by name or label"),
    (
        &[],
        &["-L", "--label-columns"],
        "--show-labels shows the labels of nodes; `kubectl get nodes -L KEY` shows one of them as a column",
    ),
    (
        &["package", "status"],
        &["--field-selector"],
        "--node selects a node, `kubectl skyhook package status --failed-only` what fails; kubectl selects pods by field",
    ),
    (&[], &["<NAME>..."], "name custom resources, or use --all for all of them"),
    (&["status"], &["--watch[=<true|false>]"], "--timeout ends a watch: add -w"),
    (&["events"], &["--sort-by"], "events are sorted by time, the newest last"),
    (&["undo"], &["--to-revision"], ROLL_BACK),
    (
        &["diagnose", "node"],
        &["", "<NODE>"],
        "`kubectl skyhook node status NODES` shows several nodes, `kubectl skyhook diagnose node NODE` one in full",
    ),
    (&["undo"], &["--list"], "`kubectl skyhook journal list` lists the commands that can be undone"),
    (&[], &["--man"], "`kubectl skyhook COMMAND --help` has the text of the manual page"),
    (
        &["journal", "list"],
        &[""],
        "`kubectl skyhook journal list` lists all commands; `kubectl skyhook events NAME` shows what the operator did",
    ),
    (&["node", "status"], &["--node", "--nodes"], "nodes are arguments: `kubectl skyhook node status NODE`"),
    (
        LOGS,
        &["-c", "--container", "--all-containers"],
        "without it, all containers of the stage are shown; --stage selects a stage, such as apply or interrupt: \
         `kubectl skyhook logs PACKAGE --node NODE --stage STAGE`; one container of a pod: `kubectl logs POD -c CONTAINER`",
    ),
    (
        LOGS,
        &["<PACKAGE>"],
        "name the package: `kubectl skyhook logs PACKAGE --node NODE`; `kubectl skyhook package status --failed-only` \
         lists those that fail",
    ),
    (LOGS, &[""], "nodes are flags: `kubectl skyhook logs PACKAGE --node NODE`"),
    (
        &["diff"],
        &["-f", "--filename"],
        "`kubectl skyhook lint --diff -f FILE` compares a manifest with the cluster; captures are arguments: \
         `kubectl skyhook diff BEFORE AFTER`",
    ),
    (&["diagnose"], &["-f", "--filename"], FROM),
    (&["status"], &["-f", "--filename"], FROM),
    (
        &["node", "status"],
        &["--field-selector"],
        "--cordoned, --failed-only and --status filter nodes; -l selects them by label",
    ),
    (
        &["events"],
        &["--field-selector", "--types"],
        "`kubectl skyhook events NAME` shows the events of a custom resource, its nodes, pods and jobs; for one object: \
         `kubectl events -A --for KIND/NAME`; by type: \
         `kubectl skyhook events -o json | jq '.items[] | select(.type==\"Warning\")'`",
    ),
    (
        &[],
        &["--field-selector"],
        "spec.nodeName=NODE, metadata.name=NODE and spec.unschedulable=true select nodes; -l selects them by label",
    ),
    (&[], &["--interval"], "there is no interval: each change is shown when it happens"),
    (
        &[],
        &["--format", "--json", "--template"],
        "-o sets the format, such as -o json or -o jsonpath=TEMPLATE",
    ),
    (&["lint"], &[""], "files are flags: `kubectl skyhook lint -f FILE`"),
];

/// The words of an unknown command, or of the command with an unknown flag, and a tip; `None` if nothing better than a
/// similar name is known.
pub fn tip(args: &[OsString], invalid: &Invalid<'_>) -> Option<(String, String)> {
    let words: Vec<&str> = args.iter().skip(1).map_while(|word| word.to_str()).collect();
    let (command, tip) = match invalid {
        Invalid::Command => *HABITS.iter().find(|(habit, _)| words.starts_with(habit))?,
        Invalid::Flag(flag) => {
            let found = FLAGS.iter().find(|(command, flags, _)| {
                let flag = if flag.starts_with(['-', '<']) { flag } else { "" };
                words.starts_with(command) && flags.contains(&flag)
            });
            found.map(|(command, _, tip)| (*command, *tip))?
        }
    };
    Some((command.join(" "), filled(tip, &words, command.len())))
}

/// Commands that change a cluster, in tips.
const CHANGES: &[&str] =
    &["disable", "enable", "node", "package", "pause", "reset", "resume", "teardown", "uninstall"];

/// Fills in a tip from the typed words, of which the first `command` ones are the command: the name of a custom resource,
/// nodes, a file, `--dry-run`, and the same line for kubectl.
fn filled(tip: &str, typed: &[&str], command: usize) -> String {
    let words = &typed[command..];
    let named = match words {
        [kind_word, named @ ..] if kind(kind_word) == Some("skyhook") && !kind_word.contains('/') => named,
        named => named,
    };
    let name = named.first().filter(|word| !word.starts_with('-'));
    let name = name.and_then(|word| match (kind(word), word.split_once('/')) {
        (Some("skyhook"), Some((_, name))) => Some(name),
        (None, None) => Some(*word),
        _ => None,
    });
    let file = words.iter().skip_while(|word| !matches!(**word, "-f" | "--filename")).nth(1).copied();
    let nodes = words.iter().take_while(|word| !word.starts_with('-'));
    let nodes: Vec<&str> = nodes.map(|word| word.split_once('/').map_or(*word, |(_, name)| name)).collect();
    let nodes = (!nodes.is_empty()).then(|| shell_words(&nodes));
    let object = words.iter().find(|word| word.contains('/') && kind(word).is_some());
    let values = [
        ("LINE", Some(by_kubectl(typed))),
        ("KIND/NAME", object.map(|object| (*object).to_owned())),
        ("NAME", name.map(|name| shell_words(&[name]))),
        ("FILE", file.map(|file| shell_words(&[file]))),
        ("NODES", nodes),
    ];
    let filled = values.into_iter().fold(tip.to_owned(), |tip, (placeholder, value)| match value {
        Some(value) => tip.replace(placeholder, &value),
        None => tip,
    });
    if !typed.iter().any(|word| word.starts_with("--dry-run")) {
        return filled;
    }
    let changes = |code: &str| {
        let verb = code.strip_prefix("kubectl skyhook ").and_then(|rest| rest.split(' ').next());
        verb.is_some_and(|verb| CHANGES.contains(&verb))
    };
    let parts = filled.split('`').enumerate().map(|(at, part)| match at % 2 {
        1 if changes(part) => format!("{part} --dry-run"),
        _ => part.to_owned(),
    });
    parts.joined("`")
}

/// The word that clap refuses.
pub enum Invalid<'a> {
    Command,
    Flag(&'a str),
}

/// Replaces an alias in the arguments by its command. The first argument is the program.
pub fn resolved(args: Vec<OsString>) -> Vec<OsString> {
    let mut args = words_first(args);
    put_verb_first(&mut args);
    if of_kubectl(&args).is_some() {
        return args;
    }
    let word = |at: usize| args.get(at).and_then(|word| word.to_str());
    let verb = word(1).unwrap_or_default();
    if let ("describe" | "diagnose" | "get", Some(typed)) = (verb, word(2))
        && let Some(kind) = kind(typed)
        && (verb != "diagnose" || kind == "node")
    {
        let name = typed.split_once('/').map(|(_, name)| OsString::from(name));
        args.splice(2..3, [OsString::from(kind)].into_iter().chain(name));
    }
    // A manifest is compared with the cluster by `lint`, captures with each other by `diff`.
    let names_file = |word: &OsString| word == "-f" || word == "--filename";
    if args.get(1).is_some_and(|word| word == "diff") && args.iter().any(names_file) {
        args.splice(1..2, ["lint", "--diff"].map(OsString::from));
    }
    // kubectl watches a rollout by default.
    if args.get(1..3).is_some_and(|words| words == ["rollout", "status"]) {
        let unwatched = args.iter().any(|word| word == "--watch=false" || word == "-w=false");
        args.retain(|word| {
            !matches!(word.to_str(), Some("-w" | "-w=false" | "--watch" | "--watch=true" | "--watch=false"))
        });
        if unwatched {
            args.remove(1);
        }
    }
    let typed = |alias: &[&str]| {
        let mut words = alias.iter().zip(args.get(1..).unwrap_or_default());
        alias.len() < args.len() && words.all(|(alias, word)| word == alias)
    };
    if let Some((alias, command)) = ALIASES.iter().find(|(alias, _)| typed(alias)) {
        args.splice(1..=alias.len(), command.iter().map(OsString::from));
    }
    select_nodes(&mut args);
    let word = |at: usize| args.get(at).and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'));
    if let (Some(command), Some(typed)) = (word(1), word(2))
        && OF_SKYHOOK.contains(&command)
        && kind(typed) == Some("skyhook")
        && !typed.contains('/')
        && (word(3).is_some() || typed.ends_with('s') && READS_ALL.contains(&command))
    {
        args.remove(2);
    }
    args
}

/// Puts a verb of kubectl, or of other tools, before its kind: `node taint NODE` becomes `taint node NODE`, and
/// `node drain NODE` becomes `drain NODE`.
fn put_verb_first(args: &mut Vec<OsString>) {
    let word = |at: usize| args.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let (of, verb) = (word(1), word(2));
    let of = if of.contains('/') { None } else { kind(of) };
    let is_verb = HABITS.iter().any(|(habit, _)| habit.first() == Some(&verb))
        || OF_KUBECTL.contains(&verb)
        || OF_KUBECTL_FOR.iter().any(|(of_both, _)| *of_both == verb);
    let Some(of) = of.filter(|of| is_verb && matches!(*of, "node" | "package")) else {
        return;
    };
    let is_known = ALIASES.iter().any(|(alias, _)| *alias == [of, verb])
        || MOVED.iter().any(|(former, _)| *former == [of, verb]);
    let tree = Cli::command();
    let is_own = tree.find_subcommand(of).is_some_and(|command| command.find_subcommand(verb).is_some());
    if is_known || is_own {
        return;
    }
    args.swap(1, 2);
    if ["cordon", "drain", "uncordon"].iter().any(|of_node| args[1] == *of_node) {
        args.remove(2);
    }
}

/// Replaces kubectl's field selectors of nodes by the flags that do the same.
fn select_nodes(args: &mut Vec<OsString>) {
    const FLAG: &str = "--field-selector";
    let words = |at: usize| args.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let named = match [words(1), words(2)] {
        ["node", "status"] => None,
        ["package", "status"] => Some("--node"),
        _ => return,
    };
    let Some(at) = args.iter().position(|word| word.to_str().is_some_and(|word| word.starts_with(FLAG)))
    else {
        return;
    };
    let (length, selector) = match words(at).strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('=')) {
        Some(selector) => (1, selector),
        None => (2, words(at + 1)),
    };
    let flags: Vec<OsString> = match selector.split_once('=') {
        Some(("spec.unschedulable", "true")) => vec!["--cordoned".into()],
        Some(("spec.nodeName" | "metadata.name", node)) => {
            named.into_iter().chain([node]).map(OsString::from).collect()
        }
        _ => return,
    };
    args.splice(at..at + length, flags);
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
