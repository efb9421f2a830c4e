//! A node's machine, and the resources that pods may request.

use serde::Deserialize;

use crate::api::{Name, quantity};

/// Resources that pods may request in sum (`status.allocatable`), in thousandths of a core and of a byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Allocatable {
    #[serde(deserialize_with = "quantity::optional_thousandths")]
    pub cpu: Option<u64>,
    #[serde(deserialize_with = "quantity::optional_thousandths")]
    pub memory: Option<u64>,
}

/// The machine (`status.nodeInfo`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct System {
    pub os_image: Name,
    pub kernel_version: Name,
    pub kubelet_version: Name,
    pub container_runtime_version: Name,
    pub architecture: Name,
}

impl System {
    /// Name and value of each field, with the names of `status.nodeInfo`.
    pub fn attributes(&self) -> [(&str, &str); 5] {
        [
            ("osImage", &self.os_image),
            ("kernelVersion", &self.kernel_version),
            ("kubeletVersion", &self.kubelet_version),
            ("containerRuntimeVersion", &self.container_runtime_version),
            ("architecture", &self.architecture),
        ]
        .map(|(name, value)| (name, value.as_str()))
    }
}
