//! Words that users of kubectl and of other tools type, with the corresponding commands.

use std::ffi::OsString;

/// Read-only commands by their aliases; the first match counts.
const ALIASES: &[(&[&str], &[&str])] = &[
    (&["get", "node"], &["node", "status"]),
    (&["get", "nodes"], &["node", "status"]),
    (&["get", "no"], &["node", "status"]),
    (&["get", "packages"], &["package", "status"]),
    (&["get", "pods"], &["package", "status"]),
    (&["get", "pod"], &["package", "status"]),
    (&["get", "po"], &["package", "status"]),
    (&["get", "jobs"], &["package", "status"]),
    (&["get", "job"], &["package", "status"]),
    (&["get", "all"], &["status"]),
    (&["get", "events"], &["events"]),
    (&["get", "skyhook"], &["status"]),
    (&["get", "skyhooks"], &["status"]),
    (&["get", "nodewright"], &["status"]),
    (&["get", "nodewrights"], &["status"]),
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
    (&["node", "logs"], &["package", "logs"]),
    (&["skyhooks"], &["status"]),
    (&["nodewrights"], &["status"]),
    (&["diagnose", "nodes"], &["diagnose", "node"]),
    (&["nodes"], &["node", "status"]),
    (&["packages"], &["package", "status"]),
    (&["ps"], &["package", "status"]),
    (&["describe", "node"], &["diagnose", "node"]),
    (&["describe", "package"], &["package", "status"]),
    (&["describe", "skyhook"], &["status"]),
    (&["describe", "nodewright"], &["status"]),
    (&["describe"], &["status"]),
    (&["rollout", "status"], &["status"]),
    (&["rollout", "history"], &["journal", "list"]),
    (&["watch"], &["status", "--watch"]),
    (&["logs"], &["package", "logs"]),
    (&["history"], &["journal", "list"]),
    (&["log"], &["package", "logs"]),
    (&["check"], &["diagnose", "check"]),
    (&["health"], &["diagnose", "check"]),
    (&["doctor"], &["diagnose", "stuck"]),
    (&["stuck"], &["diagnose", "stuck"]),
    (&["why"], &["diagnose"]),
    (&["troubleshoot"], &["diagnose", "stuck"]),
    (&["must-gather"], &["collect"]),
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
    ("rollout", "status"),
    ("pkg", "package"),
];

const ROLL_BACK: &str = "`kubectl skyhook undo` reverts a command of this plugin; to roll out an earlier version, apply the earlier \
     manifest";
const RUN_AGAIN: &str = "to run one package again, use `kubectl skyhook package rerun`; to run all packages, \
     `kubectl skyhook reset`";
const STOP: &str = "to stop a custom resource for now, use `kubectl skyhook pause`; for long, `kubectl skyhook disable`; on some \
     nodes, `kubectl skyhook node ignore`";
const CONTINUE: &str = "to continue after a pause, use `kubectl skyhook resume`; after disable, \
     `kubectl skyhook enable`; after node ignore, `kubectl skyhook node unignore`";
const SPEC: &str = "packages and their versions are in the spec of the custom resource: edit it with kubectl, and check it \
     first with `kubectl skyhook lint`";
const CLEAN: &str =
    "to remove what deleted custom resources left on nodes, use `kubectl skyhook leftovers --clean`";
const FROM: &str = "captures are read with --from FILE; `kubectl skyhook lint -f FILE` checks manifests";
const DRY_RUN: &str = "each command that changes something has --dry-run; `kubectl skyhook fix --dry-run` previews the \
     remedies of all findings";

const CORDON: &str = "to cordon a node by hand, use kubectl cordon; the operator does not lift such a cordon";
const UNCORDON: &str = "`kubectl skyhook diagnose node NODE` shows who cordoned a node; the operator lifts its own cordon, \
     and `kubectl skyhook leftovers --clean --node NODE` that of a deleted custom resource; for others, use kubectl uncordon";
const REBOOT: &str = "`kubectl skyhook diagnose node NODE` shows what a reboot would interrupt now";

/// What the user may have meant by commands of kubectl and other tools; the first match counts.
const HABITS: &[(&[&str], &str)] = &[
    (&["ignore"], "to make the operator ignore nodes, use `kubectl skyhook node ignore NODE`"),
    (
        &["unignore"],
        "to make the operator work on ignored nodes again, use `kubectl skyhook node unignore NODE`",
    ),
    (&["skip"], "to make the operator ignore nodes, use `kubectl skyhook node ignore NODE`"),
    (
        &["delete"],
        "kubectl deletes a custom resource, which waits until the operator has uninstalled its packages: \
         `kubectl skyhook teardown NAME --dry-run` shows what happens then, `kubectl skyhook status NAME` for what a \
         deletion waits",
    ),
    (
        &["node", "drain"],
        "the operator drains nodes before interrupts; to drain one by hand, use kubectl drain",
    ),
    (&["node", "cordon"], CORDON),
    (&["node", "uncordon"], UNCORDON),
    (&["package", "restart"], RUN_AGAIN),
    (&["package", "delete"], "to uninstall a package from all nodes, use `kubectl skyhook uninstall`"),
    (&["rollout", "pause"], STOP),
    (&["rollout", "resume"], CONTINUE),
    (&["rollout", "restart"], RUN_AGAIN),
    (&["rollout", "undo"], ROLL_BACK),
    (&["rollback"], ROLL_BACK),
    (&["restart"], RUN_AGAIN),
    (&["stop"], STOP),
    (&["suspend"], STOP),
    (&["start"], CONTINUE),
    (&["continue"], CONTINUE),
    (&["install"], SPEC),
    (&["upgrade"], SPEC),
    (&["set"], SPEC),
    (&["remove"], "to uninstall a package from all nodes, use `kubectl skyhook uninstall`"),
    (&["clean"], CLEAN),
    (&["cleanup"], CLEAN),
    (&["purge"], CLEAN),
    (&["repair"], "to apply the remedies of all findings, use `kubectl skyhook fix`"),
    (&["cancel"], "to cancel an uninstall, use `kubectl skyhook uninstall NAME PACKAGE --cancel`"),
    (&["plan"], DRY_RUN),
    (&["preview"], DRY_RUN),
    (&["drain"], "the operator drains nodes before interrupts; to drain one by hand, use kubectl drain"),
    (&["cordon"], CORDON),
    (&["uncordon"], UNCORDON),
    (&["reboot"], REBOOT),
    (&["node", "reboot"], REBOOT),
    (&["apply"], "kubectl applies manifests; `kubectl skyhook lint -f FILE` checks them first"),
    (
        &["edit"],
        "`kubectl edit nodewright NAME`, or `kubectl edit skyhook NAME`, changes the spec; `kubectl skyhook lint -f FILE` \
         checks a manifest first",
    ),
    (
        &["auth"],
        "`kubectl skyhook rbac --for COMMAND` prints the rights that a command needs; `kubectl skyhook diagnose check` \
         tests yours",
    ),
    (&["man"], "`kubectl skyhook COMMAND --help` has the text of the manual page"),
    (&["create"], "kubectl creates objects; `kubectl skyhook lint -f FILE` checks them first"),
];

/// Commands that only kubectl has.
const OF_KUBECTL: &[&str] = &[
    "annotate",
    "api-resources",
    "attach",
    "config",
    "cp",
    "debug",
    "exec",
    "expose",
    "get",
    "kustomize",
    "label",
    "patch",
    "port-forward",
    "proxy",
    "replace",
    "run",
    "scale",
    "taint",
    "top",
];

/// Kinds of objects that only kubectl prints.
const OTHER_KINDS: &[&str] = &[
    "cm",
    "configmap",
    "configmaps",
    "crd",
    "crds",
    "deploy",
    "deployment",
    "deploymentpolicies",
    "deploymentpolicy",
    "deployments",
    "namespace",
    "namespaces",
    "ns",
    "pdb",
    "poddisruptionbudget",
    "poddisruptionbudgets",
    "secret",
    "secrets",
];

const LOGS: &[&str] = &["package", "logs"];

/// Explanations for flags that a command does not have: the first words of the command, the flags (none for a further
/// argument), and the tip.
const FLAGS: &[(&[&str], &[&str], &str)] = &[
    (
        &["uninstall"],
        &["--node", "--match", "-l", "--selector", "--nodes"],
        "the operator uninstalls from all nodes that the custom resource selects; for some nodes, once nothing runs: select \
         only them in spec.nodeSelectors, uninstall, select only the other nodes, and run `kubectl skyhook uninstall NAME \
         PACKAGE --cancel`",
    ),
    (
        &["pause"],
        &["--node", "--match", "-l", "--selector"],
        "a pause applies to all nodes of a custom resource; to stop work on some, use `kubectl skyhook node ignore NODE`",
    ),
    (
        &[],
        &["-w", "--watch"],
        "`kubectl skyhook status -w` watches rollouts, and `kubectl skyhook events -w` events",
    ),
    (&["version"], &["--client", "--short"], "`kubectl skyhook version --client-only` needs no cluster"),
    (
        &["diagnose"],
        &["--severity"],
        "--fail-on sets the severity from which the exit code is 2; -o json has the severity of each finding",
    ),
    (&["status"], &["--all"], "all custom resources are the default"),
    (&["events"], &["--all"], "all custom resources are the default"),
    (
        &["reset"],
        &["--all"],
        "name the custom resource: `kubectl skyhook reset NAME`; or nodes: `kubectl skyhook reset --node NODE`",
    ),
    (
        &["status"],
        &["-l", "--selector", "--node", "--match", "--field-selector", "--show-labels"],
        "`kubectl skyhook node status` selects nodes by name or label, and shows their labels",
    ),
    (&[], &["<NAME>..."], "name custom resources, or use --all for all of them"),
    (&["status"], &["--watch[=<true|false>]"], "--timeout ends a watch: add -w"),
    (&["events"], &["--sort-by"], "events are sorted by time, the newest last"),
    (&["undo"], &["--list"], "`kubectl skyhook journal list` lists the commands that can be undone"),
    (&[], &["--man"], "`kubectl skyhook COMMAND --help` has the text of the manual page"),
    (
        &["journal", "list"],
        &[],
        "`kubectl skyhook journal list` lists all commands; `kubectl skyhook events NAME` shows what the operator did",
    ),
    (&["events"], &["--types"], "-o json has the type of each event"),
    (&["node", "status"], &["--node", "--nodes"], "nodes are arguments: `kubectl skyhook node status NODE`"),
    (&["events"], &["--for"], "events are selected by custom resource: `kubectl skyhook events NAME`"),
    (
        LOGS,
        &["-c", "--container", "--all-containers"],
        "--stage selects a stage; its scripts run in containers of the same pod",
    ),
    (LOGS, &[], "nodes are flags: `kubectl skyhook logs PACKAGE --node NODE`"),
    (
        &["diff"],
        &["-f", "--filename"],
        "captures are arguments: `kubectl skyhook diff BEFORE AFTER`; `kubectl skyhook lint --diff -f FILE` compares a manifest",
    ),
    (&["diagnose"], &["-f", "--filename"], FROM),
    (&["status"], &["-f", "--filename"], FROM),
    (&[], &["--field-selector"], "nodes are selected with --node, --match or -l"),
];

/// The tip for an unknown command or flag; `None` if nothing better than a similar name is known.
pub fn tip(args: &[OsString], invalid: &Invalid<'_>) -> Option<String> {
    let words: Vec<&str> = args.iter().skip(1).map_while(|word| word.to_str()).collect();
    match invalid {
        Invalid::Command(typed) => {
            let tip =
                HABITS.iter().find(|(habit, _)| words.starts_with(habit)).map(|(_, tip)| (*tip).to_owned());
            tip.or_else(|| {
                let known = OF_KUBECTL.contains(typed) && words.first() == Some(typed);
                known.then(|| {
                    format!(
                        "this is a command of kubectl itself: kubectl {}",
                        crate::view::shell_words(&words)
                    )
                })
            })
        }
        Invalid::Flag(flag) => FLAGS
            .iter()
            .find(|(command, flags, _)| {
                let argument = flags.is_empty() && !flag.starts_with(['-', '<']);
                words.starts_with(command) && (argument || flags.contains(flag))
            })
            .map(|(_, _, tip)| (*tip).to_owned()),
    }
}

/// The word that clap refuses.
pub enum Invalid<'a> {
    Command(&'a str),
    Flag(&'a str),
}

/// Replaces an alias in the arguments by its command. The first argument is the program.
pub fn resolved(args: Vec<OsString>) -> Vec<OsString> {
    let word = |at: usize| args.get(at).and_then(|word| word.to_str());
    if let Some(verb @ ("describe" | "diagnose" | "get")) = word(1)
        && let Some(("node" | "nodes", name)) = word(2).and_then(|word| word.split_once('/'))
    {
        let command = if verb == "get" { ["node", "status"] } else { ["diagnose", "node"] };
        return replaced(&args, 2, command.into_iter().chain([name]).map(OsString::from));
    }
    let typed = |alias: &[&str]| {
        let mut words = alias.iter().enumerate();
        words.all(|(at, alias)| word(at + 1) == Some(alias))
    };
    if word(1) == Some("get") && word(2).is_some_and(|kind| OTHER_KINDS.contains(&kind)) {
        return args;
    }
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
