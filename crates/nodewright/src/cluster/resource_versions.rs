//! Resource versions at which lists were read from a server, and from which watches continue.

use std::collections::BTreeMap;

use crate::api::ApiFlavor;

/// Resource versions by list.
#[derive(Debug, Clone, Default)]
pub struct ResourceVersions(BTreeMap<String, String>);

impl ResourceVersions {
    pub fn note(&mut self, list: String, version: String) {
        // Without a resource version, a watch cannot continue.
        if !version.is_empty() {
            self.0.insert(list, version);
        }
    }

    pub fn of(&self, list: &str) -> Option<&str> {
        self.0.get(list).map(String::as_str)
    }

    /// Drops the versions of lists of custom resources, because custom resources have been written since.
    pub fn without_custom(mut self) -> ResourceVersions {
        let custom = |list: &str| ApiFlavor::ALL.iter().any(|flavor| list.contains(&flavor.api_version()));
        self.0.retain(|list, _| !custom(list));
        self
    }
}
