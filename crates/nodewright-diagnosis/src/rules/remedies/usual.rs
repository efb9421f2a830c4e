//! Remedies that many rules use.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::api::{Entry, Skyhook, Stage};
use crate::cluster::admission::WebhookConfiguration;
use crate::cluster::package_run::PackageRun;
use crate::cluster::{Cluster, Deployment, Job, Node, NodeRecord, Pod};
use crate::plan::planners::batches::may_free_others;
use crate::rules::{Finding, Grade, Remedy};
use crate::text::{NodeSet, expand};

/// The label of the operator's Deployment and its pods.
pub const OPERATOR: &str = "control-plane=controller-manager";

/// Caveat of remedies after which the uninstall script of a package does not run.
pub const CHANGES_REMAIN: &str =
    "uninstall.sh does not run: changes that the package made to the host remain";

impl Finding {
    /// Adds a manual edit of the custom resource.
    pub fn edit(&mut self, grade: Grade, title: impl Into<String>, skyhook: &Skyhook) -> &mut Self {
        let words = ["edit", &resource(skyhook), skyhook.name()];
        self.kubectl(grade, title, words)
    }

    /// Adds a manual edit of the custom resource after which its packages run, with their interrupts.
    pub fn edit_to_continue(&mut self, title: impl Into<String>, skyhook: &Skyhook) -> &mut Self {
        self.edit(Grade::of_running(skyhook), title, skyhook)
    }

    /// Adds a patch of the custom resource, with these arguments of `kubectl patch`.
    pub fn patch(
        &mut self,
        grade: Grade,
        title: impl Into<String>,
        skyhook: &Skyhook,
        arguments: &[&str],
    ) -> &mut Self {
        let resource = resource(skyhook);
        let words = ["patch", &resource, skyhook.name()];
        self.kubectl(grade, title, words.iter().chain(arguments))
    }

    /// Adds a command that shows the manifest of the custom resource.
    pub fn show_manifest(&mut self, title: &str, skyhook: &Skyhook) -> &mut Self {
        let words = ["get", &resource(skyhook), skyhook.name(), "-o", "yaml"];
        self.kubectl(Grade::B0, title, words)
    }

    /// Adds the command that lets the operator continue: `resume` or `enable`. While pods of the older operator run,
    /// the command would be refused: adds a check for them instead.
    pub fn offer_resume(
        &mut self,
        cluster: &Cluster,
        skyhook: &Skyhook,
        title: &str,
        verb: &str,
    ) -> &mut Self {
        let name = skyhook.name();
        if cluster.runs_of_older_operator(name).is_empty() {
            return self.remedy(title, [verb, name]);
        }
        let selector = format!("{}={name}", cluster.flavor().other().key("name"));
        let title = "Check that the package pods of the older operator have ended";
        self.kubectl(Grade::B0, title, ["get", "pods", "-A", "-l", &selector])
            .caveat(format!("afterwards, run `kubectl skyhook {verb} {name}`"))
    }

    /// Adds a command that ends a deletion if nothing else ends it.
    pub fn strip_finalizer(&mut self, title: &str, skyhook: &Skyhook) -> &mut Self {
        let words = ["finalizer", "strip", skyhook.name(), "--force"];
        self.remedy(title, words).caveat("uninstall.sh does not run on any node")
    }

    /// Adds a command that cancels a requested uninstall.
    pub fn cancel_uninstall(
        &mut self,
        title: impl Into<String>,
        skyhook: &Skyhook,
        package: &str,
    ) -> &mut Self {
        let words = ["uninstall", skyhook.name(), package, "--cancel"];
        self.remedy(title, words)
    }

    /// Adds a command that removes the record of one package from a node state.
    pub fn reset_record(&mut self, skyhook: &str, node: &str, entry: &Entry) -> &mut Self {
        let package = format!("{}:{}", entry.name, entry.version);
        let words = ["reset", skyhook, "--node", node, "--package", &package];
        self.remedy("Reset the package on the node", words)
    }

    /// Like [`Finding::reset_record`], for a package with a pending uninstall: the uninstall does not run.
    pub fn skip_uninstall(&mut self, skyhook: &str, node: &str, entry: &Entry) -> &mut Self {
        self.reset_record(skyhook, node, entry).caveat(CHANGES_REMAIN)
    }

    /// Adds a command that resets the batch state, so that the rollout starts again.
    ///
    /// With `compartment`, only the batch state of this compartment is reset.
    pub fn reset_batches(&mut self, title: &str, skyhook: &Skyhook, compartment: Option<&str>) -> &mut Self {
        let words = ["deployment-policy", "reset", skyhook.name()];
        let limit = compartment.into_iter().flat_map(|name| ["--compartment", name]);
        self.remedy(title, words.into_iter().chain(limit))
    }

    /// Adds a command that lists the nodes of a custom resource with their status.
    pub fn list_nodes(&mut self, title: &str, skyhook: &Skyhook) -> &mut Self {
        self.remedy(title, ["node", "list", "--skyhook", skyhook.name()])
    }

    /// Adds a command that shows the packages of a custom resource on each node.
    pub fn node_status(&mut self, title: &str, skyhook: &Skyhook) -> &mut Self {
        let words = ["node", "status", "--skyhook", skyhook.name()];
        self.remedy(title, words)
    }

    /// Adds a command that shows the log of a failing stage.
    pub fn read_logs(&mut self, skyhook: &str, node: &str, package: &str, stage: &Stage) -> &mut Self {
        let title = "Check the logs for the cause, then fix the package";
        let stage = stage.as_str();
        let words = ["package", "logs", package, "--skyhook", skyhook, "--node", node, "--stage", stage];
        self.remedy(title, words)
    }

    /// Adds a command that shows the operator's log.
    pub fn operator_log(&mut self, cluster: &Cluster, title: &str) -> &mut Self {
        let namespace = cluster.operator().deployment().map(Deployment::namespace);
        let namespace = namespace
            .or_else(|| cluster.operator().namespaces().first().copied())
            .unwrap_or(cluster.flavor().default_namespace());
        let words = ["logs", "-n", namespace, "-l", OPERATOR, "--tail=200"];
        self.kubectl(Grade::B0, title, words)
    }

    /// Adds a command that lists the Deployments of controllers, including the operator's.
    pub fn list_operators(&mut self, title: &str) -> &mut Self {
        let words = ["get", "deployments", "-A", "-l", OPERATOR];
        self.kubectl(Grade::B0, title, words)
    }

    /// Adds a command that describes the Deployments and pods in the operator's namespace.
    pub fn describe_operator(&mut self, title: &str, operator: &Deployment) -> &mut Self {
        let words = ["describe", "deployment,pods", "-n", operator.namespace()];
        self.kubectl(Grade::B0, title, words)
    }

    pub fn edit_operator(&mut self, grade: Grade, title: &str, operator: &Deployment) -> &mut Self {
        let (namespace, name) = (operator.namespace(), operator.name());
        let words = ["edit", "deployment", "-n", namespace, name];
        self.kubectl(grade, title, words)
    }

    /// Adds a command that starts an operator that was scaled to zero.
    pub fn scale_up(&mut self, title: &str, operator: &Deployment) -> &mut Self {
        let (namespace, name) = (operator.namespace(), operator.name());
        let words = ["scale", "deployment", "-n", namespace, name, "--replicas=1"];
        self.kubectl(Grade::B2, title, words).caveat("rollouts that were in progress continue immediately")
    }

    pub fn describe_pod(&mut self, title: &str, pod: &Pod) -> &mut Self {
        self.describe(title, "pod", pod.namespace(), pod.name())
    }

    pub fn describe_job(&mut self, title: &str, job: &Job) -> &mut Self {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        self.describe(title, "job", namespace, &job.metadata.name)
    }

    pub fn describe(&mut self, title: &str, kind: &str, namespace: &str, name: &str) -> &mut Self {
        self.kubectl(Grade::B0, title, ["describe", kind, "-n", namespace, name])
    }

    pub fn describe_node(&mut self, title: impl Into<String>, node: &str) -> &mut Self {
        self.kubectl(Grade::B0, title, ["describe", "node", node])
    }

    /// Adds a command that lets the API server ignore failures of the webhooks at these places of their configuration.
    pub fn ignore_failures(
        &mut self,
        title: &str,
        configuration: &WebhookConfiguration,
        places: impl Iterator<Item = usize>,
    ) -> &mut Self {
        let operations = places.map(|place| {
            json!({"op": "add", "path": format!("/webhooks/{place}/failurePolicy"), "value": "Ignore"})
        });
        let patch = operations.collect::<Value>().to_string();
        let (resource, name) = (configuration.resource(), &configuration.metadata.name);
        self.kubectl(Grade::B1, title, ["patch", resource, name, "--type=json", "-p", &patch])
    }

    /// Adds a command that lists the pods on a node.
    pub fn pods_on_node(&mut self, title: &str, node: &str) -> &mut Self {
        let selector = format!("spec.nodeName={node}");
        let words = ["get", "pods", "-A", "-o", "wide", "--field-selector", &selector];
        self.kubectl(Grade::B0, title, words)
    }

    /// Adds a forced deletion of a pod that does not terminate.
    pub fn force_delete(&mut self, grade: Grade, title: &str, pod: &Pod) -> &mut Self {
        let words = ["delete", "pod", "-n", pod.namespace(), pod.name(), "--force", "--grace-period=0"];
        self.kubectl(grade, title, words)
    }

    /// Adds a command that removes a taint. `taint` has kubectl's notation.
    pub fn remove_taint(&mut self, grade: Grade, title: &str, node: &str, taint: &str) -> &mut Self {
        let words = ["taint", "node", node, &format!("{taint}-")];
        self.kubectl(grade, title, words)
    }

    /// Adds commands that list and remove leftovers. `only_record`: whether nothing else remains than the record of packages.
    pub fn remove_leftovers(&mut self, only_record: bool) -> &mut Self {
        self.remedy("List all leftovers", ["leftovers"]);
        if only_record {
            self.remedy(
                "Remove the record once the files are gone from the host",
                ["leftovers", "--clean", "--purge-state"],
            )
            .caveat(
                "the record of which packages are on the host is lost; nothing on the host itself is changed",
            )
        } else {
            self.remedy("Remove the leftovers", ["leftovers", "--clean"])
                .caveat("package records are kept, because package files may still be on the host")
        }
    }

    /// Adds that the capture has no custom resources, and a check whether this one exists.
    pub fn not_in_input(&mut self, cluster: &Cluster, skyhook: &str) -> &mut Self {
        let title = "Check that the custom resource no longer exists";
        let words = ["get", &cluster.flavor().resource(), skyhook];
        self.evidence("capture", "custom resources", "none").kubectl(Grade::B0, title, words)
    }
}

fn resource(skyhook: &Skyhook) -> String {
    skyhook.flavor().map_or_else(String::new, |flavor| flavor.resource())
}

/// Maximum number of nodes that are listed by name; more are folded to one node set.
const NAMED: usize = 8;
/// Remedies ignore at most one of this many nodes.
const MOST_IGNORED: usize = 10;

/// Removes the remedies of [`Finding::ignore_nodes`] where they would ignore many nodes of a custom resource: ignoring a fleet repairs nothing.
pub fn withhold_ignoring_many(cluster: &Cluster, findings: &mut [Finding]) {
    let ignored = |remedy: &Remedy| remedy.runs("node ignore");
    let mut nodes: HashMap<(&str, Option<String>), usize> = HashMap::new();
    let key = |finding: &Finding| (finding.rule.code, finding.subject.skyhook.clone());
    for finding in findings.iter() {
        if let Some(remedy) = finding.remedies().find(ignored) {
            let sets = remedy.own().unwrap_or_default().iter().skip(2).filter_map(|word| expand(word)?.ok());
            *nodes.entry(key(finding)).or_default() += sets.map(|set| set.len()).sum::<usize>().max(1);
        }
    }
    nodes.retain(|(_, name), number| {
        let skyhook = name.as_deref().and_then(|name| cluster.skyhook(name));
        let selected =
            skyhook.map_or(cluster.nodes.items().len(), |skyhook| cluster.selected(skyhook).count());
        *number > (selected / MOST_IGNORED).max(1)
    });
    if nodes.is_empty() {
        return;
    }
    for finding in findings {
        if nodes.contains_key(&key(finding)) && finding.remedies().any(|remedy| ignored(&remedy)) {
            finding.change_remedies(|remedies| remedies.retain(|remedy| !ignored(remedy)));
            finding.compact();
        }
    }
}

impl Finding {
    /// Adds a remedy that ignores these nodes, and removes them from the batch if ignored nodes keep their places. Reports
    /// withhold it from many nodes: see [`withhold_ignoring_many`].
    pub fn ignore_nodes(
        &mut self,
        cluster: &Cluster,
        skyhook: &Skyhook,
        nodes: &[&str],
        title: &str,
    ) -> &mut Self {
        let in_batch = nodes.iter().any(|node| skyhook.status.node_priority.contains_key(*node));
        let flag = (in_batch && crate::model::profile::blocked_nodes_keep_places(cluster))
            .then_some("--leave-batch");
        let freed = nodes.iter().filter_map(|node| cluster.node(node));
        let next = if in_batch || { freed }.any(|node| may_free_others(cluster, skyhook, node)) {
            "; the next batch may start immediately"
        } else {
            ""
        };
        let (them, until) = match nodes {
            [_] => ("the node", "it is"),
            _ => ("the nodes", "they are"),
        };
        let set = NodeSet::of(nodes).to_string();
        let names = if nodes.len() > NAMED { &[&*set] } else { nodes };
        let words = ["node", "ignore"].iter().chain(names).copied().chain(flag);
        self.remedy(title, words).caveat(format!(
            "the operator skips {them} for every custom resource until {until} unignored{next}"
        ))
    }
}

impl Finding {
    /// Adds remedies for a node state that cannot be read: a restore if the operator's own copy can be read, and a
    /// reset.
    pub fn repair_node_state(&mut self, skyhook: &Skyhook, node: &Node, on: &NodeRecord) -> &mut Self {
        if crate::plan::planners::reset::repaired(skyhook, node, on).is_some() {
            let title = "Restore the node state from the status of the custom resource";
            let words = ["reset", skyhook.name(), "--unreadable", "--node", &node.name];
            self.remedy(title, words).caveat("the operator then continues for every custom resource");
        }
        let words = ["reset", skyhook.name(), "--node", &node.name];
        self.remedy("Reset the node", words).caveat(
            "the record of what is installed is lost: packages are installed again, and packages that a deletion \
             would have uninstalled stay on the host",
        )
    }

    /// Adds a remedy that makes the operator uninstall on this node: once other nodes have finished their part of a
    /// deletion, it works only on nodes in progress.
    pub fn set_in_progress(
        &mut self,
        title: &str,
        skyhook: &Skyhook,
        node: &str,
        package: &str,
    ) -> &mut Self {
        self.retry(title, skyhook.name(), node, package)
            .caveat("once other nodes have finished the uninstall, the operator works only on nodes with status in_progress")
    }

    /// Adds a remedy that runs a permanently failed stage again and keeps its record.
    pub fn retry(&mut self, title: &str, skyhook: &str, node: &str, package: &str) -> &mut Self {
        self.remedy(title, ["package", "retry", package, "--skyhook", skyhook, "--node", node])
    }

    /// If the stage has failed permanently, adds a remedy that runs it again, and returns true.
    pub fn retry_given_up(
        &mut self,
        package_run: Option<&PackageRun<'_>>,
        skyhook: &Skyhook,
        node: &str,
        entry: &Entry,
    ) -> bool {
        let at_this_stage = |run: &&PackageRun<'_>| run.stage == entry.stage || run.interrupt;
        let given_up = package_run.filter(at_this_stage).is_some_and(PackageRun::given_up);
        if given_up {
            let title = "Once the cause is gone, retry the stage";
            self.retry(title, skyhook.name(), node, &entry.name);
        }
        given_up
    }

    /// Adds a remedy that runs a package again from its start, unless its uninstall is requested or the custom resource is
    /// being deleted: the operator does not rerun such a package.
    pub fn rerun(&mut self, title: &str, skyhook: &Skyhook, node: &Node, package: &str) -> &mut Self {
        let spec = skyhook.package(package);
        if skyhook.deleting() || spec.is_some_and(|p| skyhook.uninstalls(p)) {
            return self;
        }
        let words = ["package", "rerun", package, "--skyhook", skyhook.name(), "--node", &node.name];
        self.remedy(title, words);
        if let Some(kind) = spec.and_then(|p| skyhook.pending_interrupt(package, p)) {
            self.caveat(format!("its interrupt ({kind}) runs after the node is drained"));
        }
        self
    }

    /// Adds a remedy that deletes a pod, which the operator then recreates.
    pub fn delete_pod(&mut self, title: &str, pod: &Pod) -> &mut Self {
        // The new pod has the same name: without the flag, kubectl may wait for the deletion of both.
        let words = ["delete", "pod", "--wait=false", "-n", pod.namespace(), pod.name()];
        self.kubectl(Grade::B2, title, words)
    }
}

impl Finding {
    /// Adds a remedy that resets all packages of a custom resource on a node.
    pub fn reset_node(
        &mut self,
        title: &str,
        cluster: &Cluster,
        skyhook: &Skyhook,
        node: &Node,
    ) -> &mut Self {
        let on = cluster.on_node(node, skyhook.name());
        let entries = on.map_or(&[][..], |on| on.entries());
        let words = ["reset", skyhook.name(), "--node", &node.name];
        self.remedy(title, words)
            .caveat(match (skyhook.deleting(), entries.is_empty()) {
                (_, true) => {
                    "no package is recorded on the node yet: all packages run from their first stage, including interrupts"
                }
                (true, false) => {
                    "the record of what is installed is lost: packages that the deletion would have uninstalled stay on the host"
                }
                (false, false) => "all packages run again, including their interrupts",
            })
    }
}
