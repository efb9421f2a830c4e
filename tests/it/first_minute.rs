//! The first minute of a new user: the way in, errors that teach, several causes, other names, small documents.

use std::ffi::OsString;

use insta::assert_snapshot;

use crate::screens::Fleet;
use crate::support::run::{Run, binary, run};
use crate::support::sample::sizes;

/// The message of a usage error, without its last line, which all of them share.
fn usage_error(words: &str) -> String {
    let ran = run(words).output();
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(64)), "{words}");
    let error = ran.stderr.strip_suffix("\nFor more information, try '--help'.\n");
    error.unwrap_or_else(|| panic!("{words}: {}", ran.stderr)).to_owned()
}

#[test]
fn the_first_page_begins_with_the_way_in() {
    let help = run("").output();
    assert_eq!((help.stderr.as_str(), help.code), ("", Some(0)));
    let mut lines = help.stdout.lines();
    assert_eq!(lines.next(), Some("Something stuck? kubectl skyhook diagnose"));
    for hidden in ["update-state", "apply-plan", "schema"] {
        assert!(!help.stdout.contains(hidden), "{hidden}");
    }
    run("--help").output().expect_stdout("\nWhich command?\n");
}

#[test]
fn the_short_help_of_a_change_counts_rare_options() {
    assert_snapshot!(run("pause -h").output().transcript());
}

#[test]
fn habits_of_other_tools_lead_to_commands() {
    for (words, error) in [
        (
            "uninstall gpu driver --node n021",
            "error: unexpected argument '--node' found\n\n  tip: the operator uninstalls from all nodes \
             that the custom resource selects; to uninstall from some nodes only, wait until no package is \
             running, narrow spec.nodeSelectors to these nodes, uninstall, then change spec.nodeSelectors to the other nodes, \
             and run `kubectl skyhook uninstall NAME PACKAGE --cancel`\n",
        ),
        (
            "ignore n021",
            "error: unrecognized subcommand 'ignore'\n\n  tip: to make the operator ignore nodes, use \
             `kubectl skyhook node ignore NODE`\n",
        ),
        (
            "delete skyhook gpu",
            "error: unrecognized subcommand 'delete'\n\n  tip: `kubectl skyhook teardown NAME` deletes a custom resource after a preview; kubectl's delete waits until the operator has uninstalled the packages with `uninstall.enabled`, and \
             `kubectl skyhook status NAME` shows which are left\n",
        ),
        (
            "uncordon n021",
            "error: unrecognized subcommand 'uncordon'\n\n  tip: `kubectl skyhook diagnose node NODE` shows who cordoned a \
             node; the operator removes its own cordons; to remove the cordon of a deleted custom resource, use `kubectl \
             skyhook leftovers --clean --node NODE`; to remove any other cordon, `kubectl uncordon NODE`\n",
        ),
        (
            "reboot n021",
            "error: unrecognized subcommand 'reboot'\n\n  tip: `kubectl skyhook diagnose node NODE` shows what a reboot would \
             interrupt now\n",
        ),
        (
            "node status -w",
            "error: unexpected argument '-w' found\n\n  tip: `kubectl skyhook status -w` watches rollouts, \
             `kubectl skyhook events -w` events, and `kubectl get nodes -w` nodes\n",
        ),
        (
            "pause gpu --node n021",
            "error: unexpected argument '--node' found\n\n  tip: a pause applies to all nodes of a custom resource; to stop \
             work on some, use `kubectl skyhook node ignore NODE`\n",
        ),
        (
            "drain n021 --force",
            "error: unrecognized subcommand 'drain'\n\n  tip: the operator drains nodes before interrupts; to drain one by hand, \
             use `kubectl drain NODE`\n",
        ),
        (
            "rollout undo gpu",
            "error: unrecognized subcommand 'rollout undo'\n\n  tip: no earlier specs are kept: to roll out an earlier version, \
             use `kubectl apply -f FILE` with the earlier manifest, and before it `kubectl skyhook lint --diff -f FILE`; \
             `kubectl skyhook undo` reverts a command of this plugin\n",
        ),
        (
            "edit gpu",
            "error: unrecognized subcommand 'edit'\n\n  tip: `kubectl edit nodewright NAME`, or `kubectl edit skyhook NAME`, changes \
             the spec; `kubectl skyhook lint -f FILE` checks a manifest first\n",
        ),
        (
            "logs driver node-2",
            "error: unexpected argument 'node-2' found\n\n  tip: nodes are flags: `kubectl skyhook logs PACKAGE --node NODE`\n",
        ),
        (
            "logs driver --all-containers",
            "error: unexpected argument '--all-containers' found\n\n  tip: without it, all containers of the stage are shown; --stage \
             selects a stage, such as apply or interrupt: `kubectl skyhook logs PACKAGE --node NODE --stage STAGE`; one \
             container of a pod: `kubectl logs POD -c CONTAINER`\n",
        ),
        (
            "rollout history gpu",
            "error: unexpected argument 'gpu' found\n\n  tip: `kubectl skyhook journal list` lists all commands; \
             `kubectl skyhook events NAME` shows what the operator did\n",
        ),
        (
            "suspend skyhook/gpu",
            "error: unrecognized subcommand 'suspend'\n\n  tip: to stop a custom resource for now, use \
             `kubectl skyhook pause NAME`; to stop it indefinitely, `kubectl skyhook disable NAME`; to stop work on some \
             nodes, `kubectl skyhook node ignore NODE`\n",
        ),
        (
            "continue skyhook gpu",
            "error: unrecognized subcommand 'continue'\n\n  tip: to continue after a pause, use `kubectl skyhook resume NAME`; \
             after disable, `kubectl skyhook enable NAME`; after node ignore, `kubectl skyhook node unignore NODE`\n",
        ),
        (
            "get skyhooks -l app=x",
            "error: unexpected argument '-l' found\n\n  tip: custom resources are selected by name; by label: \
             `kubectl get nodewrights -l LABELS`, or `kubectl get skyhooks -l LABELS`; `kubectl skyhook node status` selects \
             nodes by label, and shows their labels\n",
        ),
        (
            "options",
            "error: unrecognized subcommand 'options'\n\n  tip: `kubectl skyhook status --help` also lists the options of all \
             commands\n",
        ),
        (
            "status --show-labels",
            "error: unexpected argument '--show-labels' found\n\n  tip: `kubectl get nodewrights --show-labels`, or `kubectl get \
             skyhooks --show-labels`, shows labels\n",
        ),
        (
            "undo --list",
            "error: unexpected argument '--list' found\n\n  tip: `kubectl skyhook journal list` lists the commands that can be \
             undone\n",
        ),
        (
            "pause",
            "error: the following required arguments were not provided:\n  <NAME>...\n\n  tip: name custom resources, or use --all \
             for all of them\n",
        ),
        (
            "events node/n021",
            "error: invalid value 'node/n021' for '[NAME]...': the events of a node: kubectl skyhook events \
             --node n021; its state: kubectl skyhook diagnose node n021\n",
        ),
        (
            "auth can-i reset",
            "error: unrecognized subcommand 'auth'\n\n  tip: `kubectl skyhook rbac --for COMMAND` prints \
             the permissions that a command needs; `kubectl skyhook diagnose check` tests yours\n",
        ),
        (
            "node status --node n021",
            "error: unexpected argument '--node' found\n\n  tip: nodes are arguments: `kubectl skyhook node status NODE`\n",
        ),
        (
            "package restart driver",
            "error: unrecognized subcommand 'restart'\n\n  tip: to run one package again, use `kubectl skyhook package rerun \
             PACKAGE --skyhook SKYHOOK --all-nodes`; to run all packages, `kubectl skyhook reset SKYHOOK`\n",
        ),
        (
            "version --client",
            "error: unexpected argument '--client' found\n\n  tip: `kubectl skyhook version --client-only` needs no cluster\n",
        ),
        (
            "diagnose -f cluster.yaml",
            "error: unexpected argument '-f' found\n\n  tip: captures are read with --from FILE; \
             `kubectl skyhook lint -f FILE` checks manifests\n",
        ),
        (
            "reset --all",
            "error: unexpected argument '--all' found\n\n  tip: name the custom resource: `kubectl skyhook reset NAME`; or \
             nodes: `kubectl skyhook reset --node NODE`\n",
        ),
        (
            "status tests/clusters/complete",
            "error: invalid value 'tests/clusters/complete' for '[NAME]...': this is a path: captures are read with --from PATH\n",
        ),
        ("status one,two", "error: invalid value 'one,two' for '[NAME]...': separate names with spaces\n"),
    ] {
        assert_eq!(usage_error(words), error, "{words}");
    }
    // Unknown words get no advice.
    assert_eq!(
        usage_error("frobnicate"),
        "error: unrecognized subcommand 'frobnicate'\n\nUsage: kubectl skyhook [OPTIONS] <COMMAND>\n"
    );
}

#[test]
fn words_of_questions_are_commands() {
    let from = "--from tests/clusters/nodewright-apply-erroring";
    for (typed, command) in [
        ("stuck", "diagnose stuck"),
        ("why aerr-1", "diagnose node aerr-1"),
        ("nodes", "node status"),
        ("packages", "package status"),
        ("get node/aerr-1", "node status aerr-1"),
        ("nodes status", "node status"),
        ("diagnose nodes aerr-1", "diagnose node aerr-1"),
        ("get all", "status"),
        ("ls", "status"),
    ] {
        let [alias, own] = [typed, command].map(|words| run(&format!("{words} {from}")).output());
        assert_eq!(alias.parts(), own.parts(), "{typed}");
        assert_ne!(own.stdout, "", "{typed}");
    }
}

/// Paths into Kubernetes objects find nothing in the plugin's own documents.
#[test]
fn paths_into_objects_get_a_hint() {
    let from = "--from tests/clusters/two-priorities";
    let fields = "kind, name, exists, status, priority, generation, paused, disabled, deleting, nodes, packages, \
                  compartments, state, completePercent, causeCodes, eta, etaSeconds, message, counts";
    let hint = &*format!("A path matches nothing; each of .items has the fields {fields}.\n");
    let sorting =
        format!("error: --sort-by .spec.priority matches nothing in any item; the fields are {fields}\n");
    for (words, stdout, stderr, code) in [
        ("-o jsonpath={.items[*].metadata.name}", "", hint, 0),
        ("-o jsonpath={range.items[*]}{.name}={.spec.priority};{end}", "first=;second=;", hint, 0),
        ("-o jsonpath={.items[?(@.metadata.name==\"first\")].state}", "", hint, 0),
        ("-o jsonpath={.items[*].status}", "erroring waiting", "", 0),
        (
            "-o custom-columns=NAME:.metadata.name,PRIORITY:.priority",
            "NAME    PRIORITY\n<none>  10\n<none>  20\n",
            hint,
            0,
        ),
        (
            "-o custom-columns=NAME:.name,STATUS:.status",
            "NAME    STATUS\nfirst   erroring\nsecond  waiting\n",
            "",
            0,
        ),
        ("--sort-by .spec.priority", "", &*sorting, 1),
    ] {
        let ran = run(&format!("status {words} {from}")).output();
        assert_eq!(ran.parts(), (stdout, stderr, Some(code)), "{words}");
    }
}

/// Types of kubectl, and words like them.
#[test]
fn types_are_recognized() {
    let from = "--from tests/clusters/two-priorities";
    for [typed, command] in
        [["get sk", "status"], ["get pkg", "package status"], ["describe nw first", "status first"]]
    {
        let [alias, own] = [typed, command].map(|words| run(&format!("{words} {from}")).output());
        assert_eq!(alias.parts(), own.parts(), "{typed}");
    }
    let unknown = |word: &str| format!("error: Skyhook {word:?} not found\nhint: existing: first, second\n");
    for (words, stderr, code) in [
        ("get ndoes", unknown("ndoes"), 1),
        ("describe skyhok first", unknown("skyhok"), 1),
        ("get deploymnts", unknown("deploymnts"), 1),
        (
            "get packages first",
            "error: package \"first\" not found\nhint: existing: base, top\n\
             hint: first is a Skyhook: kubectl skyhook package status --skyhook first\n".into(),
            1,
        ),
        (
            "describe no/node-1 node-2",
            "error: unexpected argument 'node-2' found\n\n  tip: `kubectl skyhook node status NODES` shows several nodes, \
             `kubectl skyhook diagnose node NODE` one in full\n\nFor more information, try '--help'.\n".into(),
            64,
        ),
    ] {
        let ran = run(&format!("{words} {from}")).output();
        assert_eq!(ran.parts(), ("", &*stderr, Some(code)), "{words}");
    }
    let [pods, own] = ["get pods", "package status"].map(|words| run(&format!("{words} {from}")).output());
    assert_eq!(pods.parts(), own.parts());
}

/// A misspelled word is never taken for a change that it merely resembles.
#[test]
fn tips_are_complete_and_harmless() {
    let lines = [
        "delete skyhook gpu --dry-run=client",
        "rollout restart nodewright/gpu --dry-run",
        "drain n1 --ignore-daemonsets",
        "undo gpu --to-revision=1",
        "get nodes -L pool",
        "descibe gpu",
        "renew gpu",
        "rset gpu",
        "logs gpu/driver",
        "logs -f -n skyhook deploy/operator",
        "logs driver --from secrets/none.json",
        "wait --all",
        "events --for pod/x",
    ];
    let transcripts = lines.map(|words| run(words).output().transcript());
    insta::assert_snapshot!(transcripts.join("\n"));
}

/// Scripts read rows.
#[test]
fn without_headings_there_are_only_rows() {
    let from = "--from tests/clusters/apply-erroring";
    for words in ["status", "get skyhooks"] {
        let ran = run(&format!("{words} --no-headers {from}")).output();
        let row =
            "gpu-tune  Stuck  66% (2/3)  1  -  SKY201 package driver fails at stage apply (exit code 2)\n";
        assert_eq!(ran.parts(), (row, "", Some(0)), "{words}");
    }
}

/// Without `--skyhook`, the only custom resource that fits is taken.
#[test]
fn the_only_custom_resource_need_not_be_named() {
    let one = "--from tests/clusters/nodewright-apply-erroring";
    let output = |words: &str| run(&format!("{words} {one}")).output();
    let (named, inferred) = (output("node list --skyhook aerr"), output("node list"));
    assert_eq!(inferred.parts(), named.parts());
    assert_ne!(named.stdout, "");
    let named = output("package logs alpha --skyhook aerr --node aerr-1");
    assert_ne!(named.stderr, "");
    for words in ["logs alpha --node aerr-1", "logs aerr-1", "logs node/aerr-1", "logs No/aerr-1"] {
        assert_eq!(output(words).parts(), named.parts(), "{words}");
    }
    for command in ["rerun", "retry"] {
        let words = |of: &str| format!("package {command} alpha {of} --node aerr-1 --dry-run");
        let named = output(&words("--skyhook aerr"));
        assert_eq!(output(&words("")).parts(), named.parts(), "{command}");
    }
    let pods = "--from tests/clusters/apply-erroring";
    let named = run(&format!("package logs driver --skyhook gpu-tune --node node-2 {pods}")).output();
    for pod in
        ["gpu-tune-driver-2-0-1-apply-node-2-a2c3b676", "pod/gpu-tune-driver-2-0-1-apply-node-2-a2c3b676"]
    {
        assert_eq!(run(&format!("logs {pod} {pods}")).output().parts(), named.parts(), "{pod}");
    }
    for words in ["logs gpu-tune", "logs skyhook/gpu-tune"] {
        let one = run(&format!("{words} {pods}")).output();
        assert_eq!(one.parts(), run(&format!("logs driver {pods}")).output().parts(), "{words}");
    }
    let ran = run("node list --from tests/clusters/two-priorities").output();
    assert_eq!(
        ran.parts(),
        (
            "",
            "error: there are 2 custom resources; select one with --skyhook\nhint: first, second\n",
            Some(64)
        )
    );
}

/// A namespace without an operator is said once, and where the operator is; the answer stays the same.
#[test]
fn a_wrong_namespace_changes_no_answer() {
    let from = "--from tests/clusters/nodewright-apply-erroring";
    let [right, wrong] = ["", "-n elsewhere"].map(|flag| run(&format!("diagnose {flag} {from}")).output());
    assert_eq!((wrong.code, &wrong.stdout), (right.code, &right.stdout));
    let warning = "warning: there is no operator in namespace elsewhere; using that in nodewright\n";
    assert_eq!(wrong.stderr.replacen(warning, "", 1), right.stderr, "{}", wrong.stderr);
    assert_ne!(wrong.stderr, right.stderr);
}

/// A second cause does not hide the remedies of the first.
#[test]
fn two_causes_have_numbers_and_commands() {
    let from = "--from tests/clusters/drain-blocked";
    assert_snapshot!(run(&format!("diagnose {from}")).output().transcript());
    let second = run(&format!("diagnose 2 {from}")).output();
    second.expect_stdout("\nwarning SKY404 interrupt-waits-for-workload  gpu-tune driver on node-2\n");
    second.expect_stdout("\n  remedies, least disruptive first\n");
    second.expect_no_stdout("SKY401 drain-blocked");
}

/// The number of a cause counts within the arguments that limit the diagnosis.
#[test]
fn numbers_of_causes_count_within_the_scope() {
    let fleet = Fleet::of(130);
    let from = format!("--from {} --now 2026-11-20T10:00:00Z", fleet.directory.path().display());
    let all = run(&format!("diagnose stuck --rule SKY201 {from}")).output();
    let pointer =
        all.stdout.lines().find_map(|line| line.strip_prefix("one cause in full: kubectl skyhook "));
    let pointer = pointer.unwrap_or_else(|| panic!("{}", all.stdout));
    assert!(pointer.starts_with("diagnose stuck --rule SKY201 "), "{pointer}");
    let number = pointer.rsplit(' ').next().expect("a number");
    let row = all.stdout.lines().find(|line| line.starts_with(&format!("{number:<2} "))).expect("a row");
    let code = row.split_whitespace().nth(1).expect("a code");
    let one = run(&format!("{pointer} {from}")).output();
    one.expect_stdout(format!(" {code} "));
    let wrong = run(&format!("diagnose stuck 1 gpu-tune {from}")).output();
    assert_eq!(wrong.parts(), ("", "error: 1: the number of a cause comes after all names\n", Some(64)));
}

/// Log commands name one node: the logs of many are unreadable.
#[test]
fn log_commands_name_one_node() {
    let fleet = Fleet::of(130);
    let from = format!("--from {} --now 2026-11-20T10:00:00Z", fleet.directory.path().display());
    let all = run(&format!("diagnose stuck --all {from}")).output();
    let logs: Vec<&str> = all.stdout.lines().filter(|line| line.contains(" package logs ")).collect();
    assert!(!logs.is_empty());
    for line in logs {
        assert_eq!(line.matches("--node ").count(), 1, "{line}");
        assert!(!line.contains('['), "{line}");
    }
}

#[test]
fn fix_with_nothing_to_do_is_short() {
    let fleet = Fleet::of(130);
    let from = format!("--from {} --now 2026-11-20T10:00:00Z", fleet.directory.path().display());
    let ran = run(&format!("fix {from}")).output();
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(2)));
    ran.expect_stderr("fix: nothing to do\n");
    let skips: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("skips ")).collect();
    assert_eq!(skips.len(), 2, "{}", ran.stderr);
    assert!(skips[1].ends_with(" more findings: see `kubectl skyhook diagnose stuck`"), "{}", skips[1]);
}

/// Effects are words; their codes are accepted, too.
#[test]
fn effects_have_words() {
    let from = "--dry-run --from tests/clusters/v0.17-rolled-back";
    let outputs =
        ["rerun", "B2", "Rerun"].map(|effect| run(&format!("fix --up-to {effect} {from}")).output());
    outputs[0].expect_stdout("  (packages run; B2)\n");
    assert_eq!(outputs[0].parts(), outputs[1].parts());
    assert_eq!(outputs[0].parts(), outputs[2].parts());
    assert_eq!(
        usage_error(&format!("fix --up-to most {from}")),
        "error: invalid value 'most' for '--up-to <EFFECT>'\n  [possible values: objects, rerun, restart, reboot]\n"
    );
}

/// A remedy with records at stake does not speak of reboots.
#[test]
fn remedies_name_the_effect_that_they_have() {
    let ran = run("diagnose --from tests/clusters/deleted-while-erroring").output();
    ran.expect_stdout("3. Reset the package on the node (installation records are lost; B4)\n");
    ran.expect_stdout("4. Strip the finalizer (uninstalls do not run; B4)\n");
    ran.expect_no_stdout("reboot");
}

/// All output names commands as the user typed them.
#[test]
fn other_names_of_the_program_are_used_everywhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("kubectl-node_rollout");
    std::os::unix::fs::symlink(binary(), &program).expect("a link");
    let output = |words: &str| {
        let words = words.split_whitespace().map(OsString::from);
        Run::program(program.as_os_str(), words).output()
    };
    let from = "--from tests/clusters/deleted-while-erroring";
    for words in [
        "",
        "--help",
        "pause --help",
        "ignore n021",
        "status",
        "diagnose",
        "diagnose -o json",
        "diagnose -o yaml",
        "diagnose -o junit",
        "fix",
        "resume no-such-name",
    ] {
        let ran = if words.contains("help") || words.is_empty() {
            output(words)
        } else {
            output(&format!("{words} {from}"))
        };
        let all = ran.stdout + &ran.stderr;
        assert!(!all.contains("kubectl skyhook"), "{words}: {all}");
        assert!(!all.contains("\"kubectl\",\n                        \"skyhook\""), "{words}: {all}");
        let named = ["kubectl node-rollout ", "\"node-rollout\"", "- node-rollout\n"];
        let named = named.iter().any(|words| all.contains(words));
        assert!(named || words.starts_with("resume"), "{words}: {all}");
    }
}

/// One finding on many nodes is listed once, and a cause has everything for a script.
#[test]
fn documents_of_many_nodes_are_small() {
    for nodes in sizes([130, 15_000]) {
        let most = if nodes == 130 { 40_000 } else { 1_000_000 };
        let fleet = Fleet::of(nodes);
        let from = format!("--from {} --now 2026-11-20T10:00:00Z", fleet.directory.path().display());
        let ran = run(&format!("diagnose stuck -o json {from}")).output();
        assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(2)));
        assert!(ran.stdout.len() <= most, "{nodes} nodes: {} bytes", ran.stdout.len());
        let document = ran.document();
        for cause in document["causes"].as_array().expect("causes") {
            let grave = cause["severity"] == "Error";
            assert!(!grave || cause["remedies"].as_array().is_some_and(|all| !all.is_empty()), "{cause}");
        }
    }
}

/// A set of nodes in a finding is one that commands accept.
#[test]
fn findings_of_several_nodes_are_about_a_set() {
    let from = "--from tests/clusters/nodewright-apply-erroring";
    let document = run(&format!("diagnose stuck -o json {from}")).output().document();
    let finding = &document["findings"][0];
    assert_eq!((&finding["subject"]["node"], &finding["nodeCount"]), (&"aerr-[1-2]".into(), &2.into()));
    let own = run(&format!("node status -o json {from} aerr-[1-2]")).output().json();
    assert_eq!(own["items"].as_array().map(Vec::len), Some(2));
}

/// A newcomer reads all of it.
#[test]
fn the_readme_is_short() {
    let readme = std::fs::read_to_string("README.md").expect("the README");
    let words = readme.split_whitespace().count();
    assert!(words <= 700, "{words} words");
    let (_, tasks) = readme.split_once("## Tasks").expect("the tasks");
    let rows =
        tasks.lines().filter(|line| line.starts_with("| ")).take_while(|line| !line.contains("Upstream"));
    // The heading and eight tasks; the separator begins with `| -`.
    assert_eq!(rows.filter(|line| !line.starts_with("| -")).count(), 9);
}
