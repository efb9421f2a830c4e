//! Groups of commands whose costs are compared.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::{
    bare,
    measure::Invocation,
    nodes::{IN_A_SKYHOOK, Node, skyhook_name},
    results::{Contender, Group},
};
use crate::control_plane::ControlPlane;

pub struct Setting<'a> {
    pub ours: &'a Path,
    pub empty: &'a Path,
    pub upstream: &'a Path,
    pub plane: &'a ControlPlane,
    pub capture: &'a Path,
    pub capture_bytes: u64,
    pub count: usize,
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const METADATA_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const NODES: &str = "/api/v1/nodes";
/// Exit codes of `diagnose` and `lint`: 2 means findings, and these clusters have some.
const FOUND: &[i32] = &[0, 2];
const DONE: &[i32] = &[0];
const TIMED_OUT: &[i32] = &[5];
/// Number of changes in an hour per 100 nodes, if 1 % of the nodes change every minute.
const CHANGES_IN_AN_HOUR: usize = 60;

pub fn of(setting: &Setting<'_>) -> Result<Vec<Group>> {
    let one = Node(97.min(setting.count - 1)).name();
    Ok(vec![
        setting.all_nodes(),
        setting.metadata_of_all_nodes(),
        setting.one_node(&one),
        setting.capture(),
        setting.collect(),
        setting.lint()?,
        setting.writes()?,
        setting.waiting(),
        setting.watching(),
        setting.completion(),
        setting.start(),
    ])
}

impl Setting<'_> {
    fn all_nodes(&self) -> Group {
        let bare = |name: &str, accept: &str| self.bare(name, &["list", NODES, accept], true);
        let mut contenders = vec![
            self.ours(&["node", "status", "-o", "json"], DONE),
            self.ours(&["status"], DONE),
            // The other commands read no logs.
            self.ours(&["diagnose", "stuck", "--no-logs"], FOUND),
            self.upstream(&["node", "status", "-o", "json"]),
            bare("bare list, JSON", JSON),
            bare("bare list, protobuf", PROTOBUF),
            bare("bare list, metadata as JSON", METADATA),
            bare("bare list, metadata as protobuf", METADATA_PROTOBUF),
        ];
        let get = ["get", "nodes", "-o", "json"];
        let kubectl = found("kubectl").map(|it| self.foreign("kubectl get nodes -o json", it, &get));
        contenders.extend(kubectl.map(once));
        Group::of("All nodes", contenders)
    }

    /// Commands that read only the metadata and cordons of nodes.
    fn metadata_of_all_nodes(&self) -> Group {
        let skyhook = skyhook_name(0);
        let bare = ["list", NODES, METADATA_PROTOBUF];
        Group::of(
            "Metadata of all nodes",
            vec![
                self.ours(&["node", "status"], DONE),
                self.ours(&["node", "list", "--skyhook", &skyhook], DONE),
                self.ours(&["package", "status", "-o", "json"], DONE),
                self.bare("bare list, metadata as protobuf", &bare, true),
            ],
        )
    }

    fn one_node(&self, node: &str) -> Group {
        let path = format!("{NODES}/{node}");
        Group::of(
            "One node by its name",
            vec![
                self.ours(&["node", "status", node], DONE),
                self.ours(&["diagnose", "node", node], FOUND),
                self.upstream(&["node", "status", node]),
                self.bare("bare GET, JSON", &["get", &path, JSON], true),
                self.bare("bare GET, protobuf", &["get", &path, PROTOBUF], true),
            ],
        )
    }

    fn capture(&self) -> Group {
        let file = self.capture.display().to_string();
        let mut contenders = vec![self.ours(&["diagnose", "stuck", "--from", &file], FOUND)];
        contenders[0].name = "diagnose stuck --from FILE".to_owned();
        let jq = found("jq").map(|jq| self.foreign("jq '.items | length'", jq, &[".items | length", &file]));
        contenders.extend(jq.map(once));
        contenders.push(self.bare("bare read of the file", &["read", &file], true));
        let mut group = Group::of("A capture of the same cluster", contenders);
        group.input_bytes = Some(self.capture_bytes);
        group
    }

    /// `collect`: writes everything that a diagnosis reads into one file.
    fn collect(&self) -> Group {
        let file = self.plane.servers.dir().join("collected.tar.gz");
        let path = file.display().to_string();
        let mut ours = self.ours(&["collect", "--force", "-o", &path], DONE);
        ours.name = "collect -o FILE".to_owned();
        ours.writes = Some(file);
        let bare = self.bare("bare list, JSON", &["list", NODES, JSON], true);
        Group::of("A capture made of the cluster", vec![ours, bare])
    }

    /// Lints a custom resource for all nodes: checks the rules, and simulates the whole rollout.
    fn lint(&self) -> Result<Group> {
        let file = self.plane.servers.dir().join("lint.json");
        let manifest = json!({
            "apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": {"name": "bench-lint"},
            "spec": {
                "interruptionBudget": {"percent": 5},
                "packages": {"driver": {
                    "version": "1.0.0", "image": "ghcr.io/example/driver", "interrupt": {"type": "reboot"},
                }},
            },
        });
        std::fs::write(&file, manifest.to_string())?;
        let mut ours = self.ours(&["lint", "-f", &file.display().to_string()], FOUND);
        ours.name = "lint -f FILE".to_owned();
        let bare = self.bare("bare list, JSON", &["list", NODES, JSON], true);
        Ok(Group::of("A manifest for all nodes", vec![ours, bare]))
    }

    fn writes(&self) -> Result<Group> {
        let nodes = IN_A_SKYHOOK.min(self.count);
        let skyhook = skyhook_name(0);
        let read = ["list", NODES, PROTOBUF];
        Ok(Group::of(
            &format!("A custom resource of {nodes} nodes written"),
            vec![
                // `--no-pause`: no operator runs here that could confirm a pause.
                self.ours(&["reset", &skyhook, "--no-pause", "--confirm"], DONE),
                // Undoes the preceding command for the next round.
                self.ours(&["undo", "--confirm"], DONE),
                self.patches(nodes),
                self.bare("bare list, protobuf", &read, false),
            ],
        ))
    }

    /// Waits that time out. The difference between 10 s and 70 s is the cost of one minute.
    fn waiting(&self) -> Group {
        let skyhook = skyhook_name(0);
        let wait = |timeout: &str| {
            let args = ["wait", &skyhook, "--keep-going", "--timeout", timeout];
            self.ours(&args, TIMED_OUT)
        };
        let changed = self.count * CHANGES_IN_AN_HOUR / 100;
        let mut churned = wait("70s");
        churned.beside = Some(self.patches(changed).invocation);
        churned.name = format!("the same beside {changed} patches of nodes");
        let read = ["list", NODES, PROTOBUF];
        Group::of(
            "Waiting",
            vec![
                once(wait("10s")),
                once(wait("70s")),
                once(churned),
                self.bare("bare list, protobuf", &read, true),
            ],
        )
    }

    /// `status -w` until its timeout, while nodes send heartbeats. The difference between 20 s and 200 s is
    /// the cost of three minutes.
    fn watching(&self) -> Group {
        let watch = |seconds: usize| {
            let timeout = format!("{seconds}s");
            let mut ours = self.ours(&["status", "-w", "--timeout", &timeout], TIMED_OUT);
            ours.beside = Some(self.heartbeats(seconds).invocation);
            ours.name += " beside heartbeats";
            once(ours)
        };
        let read = ["list", NODES, PROTOBUF];
        Group::of("Watching", vec![watch(20), watch(200), self.bare("bare list, protobuf", &read, true)])
    }

    fn completion(&self) -> Group {
        let path = format!("{NODES}?includeObject=None");
        let words = ["__complete", "reset", "pool-00", "--node", "gpu-0009"];
        let mut ours = self.ours(&words, DONE);
        ours.name = "completion of --node gpu-0009".to_owned();
        let bare = self.bare("bare table of all names", &["get", &path, TABLE], true);
        let mut group = Group::of("Completion of a name", vec![ours, bare]);
        group.quick = true;
        group
    }

    fn start(&self) -> Group {
        let mut empty = self.foreign("an empty Rust program", self.empty.to_owned(), &[]);
        empty.floor = true;
        let mut group = Group::of(
            "Without a cluster",
            vec![
                self.ours(&["version", "--client-only"], DONE),
                self.ours(&["--help"], DONE),
                self.upstream(&["version", "--client-only"]),
                empty,
            ],
        );
        group.quick = true;
        group
    }

    fn ours(&self, args: &[&str], exits: &'static [i32]) -> Contender {
        let name = args.join(" ");
        let mut contender = self.foreign(&name, self.ours.to_owned(), args);
        contender.invocation.exits = exits;
        contender
    }

    fn upstream(&self, args: &[&str]) -> Contender {
        let name = format!("upstream's CLI: {}", args.join(" "));
        self.foreign(&name, self.upstream.to_owned(), args)
    }

    fn bare(&self, name: &str, args: &[&str], floor: bool) -> Contender {
        let myself = std::env::current_exe().expect("a running program has a path");
        let args = [&[bare::MODE], args].concat();
        let mut contender = self.foreign(name, myself, &args);
        contender.floor = floor;
        let authority = self.plane.servers.dir().join("ca.crt");
        contender.invocation.env = vec![
            (bare::SERVER, self.plane.access("admin").url),
            (bare::AUTHORITY, authority.display().to_string()),
        ];
        contender
    }

    /// Patches each of the first `nodes` nodes once.
    fn patches(&self, nodes: usize) -> Contender {
        let names: Vec<String> = (0..nodes).map(|number| Node(number).name()).collect();
        let mut words = vec!["patch"];
        words.extend(names.iter().map(String::as_str));
        self.bare(&format!("bare, {nodes} patches, 32 in flight"), &words, true)
    }

    /// Patches the status of each node every five minutes.
    fn heartbeats(&self, seconds: usize) -> Contender {
        let names: Vec<String> = (0..self.count).map(|number| Node(number).name()).collect();
        let seconds = seconds.to_string();
        let mut words = vec!["heartbeats", &seconds];
        words.extend(names.iter().map(String::as_str));
        self.bare("bare, heartbeats", &words, true)
    }

    fn foreign(&self, name: &str, program: PathBuf, args: &[&str]) -> Contender {
        let dir = self.plane.servers.dir();
        let kubeconfig = self.plane.kubeconfig("admin");
        Contender {
            name: name.to_owned(),
            floor: false,
            once: false,
            writes: None,
            beside: None,
            invocation: Invocation {
                program,
                args: args.iter().map(|&arg| arg.to_owned()).collect(),
                env: vec![
                    ("KUBECONFIG", kubeconfig.display().to_string()),
                    // Journals and discovery caches are deleted together with the cluster.
                    ("XDG_STATE_HOME", dir.join("state").display().to_string()),
                    ("HOME", dir.display().to_string()),
                ],
                exits: DONE,
            },
        }
    }
}

fn once(mut contender: Contender) -> Contender {
    contender.once = true;
    contender.name += " (once)";
    contender
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
