//! Nodes of a large GPU cluster: their metadata, status and package states.

use serde_json::{Map, Value, json};

use crate::view::PREFIX;

/// Nodes per custom resource. With five packages, the status of many more nodes would exceed etcd's limit.
pub const IN_A_SKYHOOK: usize = 1_000;
/// Each package depends on the one before it.
pub const PACKAGES: [(&str, &str); 5] = [
    ("kernel-tuning", "1.4.2"),
    ("containerd-config", "2.0.1"),
    ("gpu-driver", "580.82.7"),
    ("fabric-manager", "3.1.0"),
    ("node-checks", "0.9.5"),
];
pub const WHEN: &str = "2026-11-20T16:09:47Z";
/// Number of Node Feature Discovery labels on a GPU node.
const FEATURES: usize = 64;
/// A kubelet reports at most this many images.
const IMAGES: usize = 50;

/// One of the nodes, identified by its number.
#[derive(Clone, Copy, PartialEq)]
pub struct Node(pub usize);

#[derive(Clone, Copy, PartialEq)]
pub enum Doing {
    Complete,
    /// The third package runs.
    InProgress,
    /// The third package fails.
    Failing,
}

impl Node {
    /// The name of the node. The nodes of one custom resource follow the naming scheme of one provider.
    pub fn name(self) -> String {
        let (number, place) = (self.0, self.0 % IN_A_SKYHOOK);
        match self.skyhook() % 3 {
            0 => format!("gpu-{number:05}"),
            1 => format!("ip-10-{}-{}-{}.ec2.internal", self.skyhook(), place / 250, place % 250 + 1),
            _ => {
                let suffix = scattered(number, 4);
                format!("gke-prod-pool-{:02}-8f3a2c1b-{suffix}", self.skyhook())
            }
        }
    }

    pub fn skyhook(self) -> usize {
        self.0 / IN_A_SKYHOOK
    }

    /// One node in 100 fails, in blocks of ten; four others in 100 are in progress.
    pub fn doing(self) -> Doing {
        match self.0 % IN_A_SKYHOOK {
            400..410 => Doing::Failing,
            place if place % 25 == 3 => Doing::InProgress,
            _ => Doing::Complete,
        }
    }

    pub fn status(self) -> &'static str {
        match self.doing() {
            Doing::Complete => "complete",
            Doing::InProgress => "in_progress",
            Doing::Failing => "erroring",
        }
    }

    /// The operator's record of the packages, as stored on the node and in the custom resource's status.
    pub fn state(self) -> Value {
        let mut state = Map::new();
        for (place, (name, version)) in PACKAGES.into_iter().enumerate() {
            let (stage, what) = match (self.doing(), place) {
                (Doing::Complete, _) | (_, 0 | 1) => ("config", "complete"),
                (Doing::InProgress, 2) => ("apply", "in_progress"),
                (Doing::Failing, 2) => ("apply", "erroring"),
                _ => break,
            };
            let mut entry = json!({
                "name": name, "version": version, "image": image(name), "stage": stage, "state": what,
            });
            if what == "erroring" {
                entry["restarts"] = json!(4);
            }
            state.insert(format!("{name}|{version}"), entry);
        }
        Value::Object(state)
    }

    /// The node object. The API server requests container logs from `port`.
    pub fn object(self, port: u16) -> Value {
        let name = self.name();
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": self.labels(), "annotations": self.annotations()},
            "spec": {
                "podCIDR": format!("10.{}.{}.0/24", self.0 / 256 % 256, self.0 % 256),
                "providerID": format!("aws:///us-east-1a/i-{}", scattered(self.0, 17)),
            },
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": "127.0.0.1"},
                    {"type": "ExternalIP", "address": "203.0.113.7"},
                ],
                "allocatable": capacity(), "capacity": capacity(),
                "conditions": self.conditions(),
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                "images": images(),
                "nodeInfo": {
                    "architecture": "amd64", "operatingSystem": "linux", "osImage": "Ubuntu 24.04.2 LTS",
                    "bootID": scattered(self.0, 32), "machineID": scattered(self.0 + 1, 32),
                    "systemUUID": scattered(self.0 + 2, 32), "kernelVersion": "6.8.0-1024-aws",
                    "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.0", "kubeProxyVersion": "",
                },
            },
        })
    }

    fn labels(self) -> Value {
        let skyhook = skyhook_name(self.skyhook());
        let mut labels = json!({
            "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": self.name(),
            "node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/region": "us-east-1",
            "topology.kubernetes.io/zone": "us-east-1a", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.count": "8", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.family": "hopper",
            "nvidia.com/cuda.driver.major": "580", "nvidia.com/mig.strategy": "single",
            "example.com/pool": skyhook, format!("{PREFIX}/status_{skyhook}"): self.status(),
        });
        for feature in 0..FEATURES {
            labels[format!("feature.node.kubernetes.io/cpu-cpuid.{}", flag(feature))] = json!("true");
        }
        labels
    }

    fn annotations(self) -> Value {
        let skyhook = skyhook_name(self.skyhook());
        let features: Vec<_> = (0..FEATURES).map(|feature| format!("cpu-cpuid.{}", flag(feature))).collect();
        json!({
            format!("{PREFIX}/nodeState_{skyhook}"): self.state().to_string(),
            format!("{PREFIX}/status_{skyhook}"): self.status(),
            format!("{PREFIX}/version_{skyhook}"): "v0.17.0",
            "nfd.node.kubernetes.io/feature-labels": features.join(","),
            "node.alpha.kubernetes.io/ttl": "300",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            "csi.volume.kubernetes.io/nodeid": format!("{{\"ebs.csi.aws.com\":\"i-{}\"}}", scattered(self.0, 17)),
            "projectcalico.org/IPv4Address": format!("10.{}.{}.7/16", self.0 / 256 % 256, self.0 % 256),
        })
    }

    fn conditions(self) -> Value {
        let skyhook = skyhook_name(self.skyhook());
        let done = self.doing() == Doing::Complete;
        let erring = self.doing() == Doing::Failing;
        let one = |kind: &str, holds: bool, reason: &str, message: &str| {
            json!({
                "type": kind, "status": if holds { "True" } else { "False" }, "reason": reason, "message": message,
                "lastHeartbeatTime": WHEN, "lastTransitionTime": WHEN,
            })
        };
        json!([
            one(
                "MemoryPressure",
                false,
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available"
            ),
            one("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            one("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            one("KernelDeadlock", false, "KernelHasNoDeadlock", "kernel has no deadlock"),
            one("ReadonlyFilesystem", false, "FilesystemIsNotReadOnly", "Filesystem is not read-only"),
            one("Ready", true, "KubeletReady", "kubelet is posting ready status"),
            one(
                &format!("{PREFIX}/{skyhook}/NotReady"),
                !done,
                if done { "Complete" } else { "Incomplete" },
                &format!("Skyhook {skyhook} Ready")
            ),
            one(
                &format!("{PREFIX}/{skyhook}/Erroring"),
                erring,
                if erring { "Package(s) Erroring or Unknown" } else { "Not Erroring" },
                &format!("Package Erroring or Unknown for {skyhook}")
            ),
        ])
    }
}

pub fn skyhook_name(number: usize) -> String {
    format!("pool-{number:02}")
}

pub fn image(package: &str) -> String {
    format!("ghcr.io/nvidia/skyhook-packages/{package}")
}

fn capacity() -> Value {
    json!({
        "cpu": "192", "memory": "2097152Mi", "pods": "250", "nvidia.com/gpu": "8", "ephemeral-storage": "3810366444Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0", "vpc.amazonaws.com/efa": "32",
    })
}

fn images() -> Value {
    let one = |number: usize| {
        let name = format!("registry.example.com/platform/component-{number:02}");
        let digest = scattered(number, 64);
        json!({
            "names": [format!("{name}@sha256:{digest}"), format!("{name}:v1.{number}.3")],
            "sizeBytes": 123_456_789 + number,
        })
    };
    (0..IMAGES).map(one).collect()
}

fn flag(feature: usize) -> String {
    format!("FEATURE{feature:02}")
}

/// Hexadecimal digits that look random but are the same in every run.
fn scattered(seed: usize, length: usize) -> String {
    let mut state = (seed as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut one = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"0123456789abcdef"[(state >> 60) as usize])
    };
    (0..length).map(|_| one()).collect()
}
