//! The captured clusters in `tests/clusters`.

use std::path::PathBuf;

use super::fake_api::FakeApi;
use kubectl_skyhook::api::ApiFlavor;

/// One captured cluster: a directory with `about.txt`, `cluster.json`, `extra.json` and, if the cluster had
/// no webhooks, an empty list of webhooks.
pub struct Captured {
    pub name: String,
    /// The marks of `about.txt`, such as `SKY101 node-2 gpu-tune driver`.
    pub expect: Vec<String>,
}

/// All captures, sorted by name.
pub fn all() -> Vec<Captured> {
    let mut names: Vec<String> = std::fs::read_dir(directory())
        .expect("tests/clusters exists")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.into_iter().map(|name| named(&name)).collect()
}

/// Names of the captures whose output is compared with snapshots; together they cover every output layout.
const ON_SCREEN: [&str; 10] = [
    "complete",
    "deleted-while-erroring",
    "drain-blocked",
    "in-progress",
    "malformed-node-state",
    "modelled-migration-hold",
    "modelled-uninstall-failing",
    "rollout-stopped",
    "runtime-required-and-ignored",
    "v0.17-rough-reboot",
];

/// The captures whose output is compared with snapshots.
pub fn on_screen() -> [Captured; 10] {
    ON_SCREEN.map(named)
}

pub fn named(name: &str) -> Captured {
    let about = std::fs::read_to_string(directory().join(name).join("about.txt"))
        .unwrap_or_else(|_| panic!("{name} has no about.txt"));
    let expect = about.lines().filter_map(|l| l.strip_prefix("expect: ")).map(str::to_owned);
    Captured { name: name.to_owned(), expect: expect.collect() }
}

impl Captured {
    /// The directory, from the root of the repository.
    pub fn path(&self) -> String {
        format!("tests/clusters/{}", self.name)
    }

    /// An API server that holds the capture.
    pub fn served(&self) -> FakeApi {
        let flavor = if self.name.starts_with("modelled-") || self.name.starts_with("nodewright-") {
            ApiFlavor::NodeWright
        } else {
            ApiFlavor::Skyhook
        };
        let fake = FakeApi::new().serving(flavor);
        for file in ["cluster.json", "extra.json"] {
            fake.load_file(&directory().join(&self.name).join(file));
        }
        fake
    }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clusters")
}
