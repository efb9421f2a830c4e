//! `collect`: a capture gives the same output as the cluster, and unreadable sources do not count as absent.

mod faults;
mod file;
mod foreign_dumps;
mod logs;
mod secrets;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::clusters;
use crate::support::fake_api::{FakeApi, Served};
use crate::support::run::{RunOutput, run};
use crate::support::sample::some;

/// A cluster, and a directory for its capture.
struct Scene {
    served: Served,
    directory: TempDir,
}

impl Scene {
    fn of(fake: &FakeApi) -> Scene {
        Scene { served: fake.serve(), directory: tempfile::tempdir().expect("a directory") }
    }

    fn archive(&self) -> PathBuf {
        self.directory.path().join("capture.tar.gz")
    }

    /// Runs a command on the server.
    fn live(&self, words: &str) -> RunOutput {
        run(words).kubeconfig(&self.served.kubeconfig()).output()
    }

    fn collect(&self, words: &str) -> RunOutput {
        let path = self.archive();
        self.live(&format!("collect -o {} {words}", path.display()))
    }

    /// Runs a command on the capture.
    fn from(&self, words: &str) -> RunOutput {
        run(&format!("{words} --from {}", self.archive().display())).output()
    }

    fn files(&self) -> BTreeMap<String, String> {
        unpacked(&self.archive())
    }

    fn index(&self) -> Value {
        serde_json::from_str(&self.files()["index.json"]).expect("an index")
    }
}

/// Contents of the archive's files, by path relative to `skyhook-capture/`.
fn unpacked(archive: &Path) -> BTreeMap<String, String> {
    let packed = std::fs::File::open(archive).expect("an archive");
    let mut archive = tar::Archive::new(flate2::read::MultiGzDecoder::new(packed));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("a tar") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let name = path.strip_prefix("skyhook-capture/").expect("a path in the directory of the capture");
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        files.insert(name.to_owned(), text);
    }
    files
}

/// How each source was read, by its name.
fn outcomes(index: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sources = index["sources"].as_array().expect("sources").iter();
    sources.map(|source| (text(&source["name"]), text(&source["outcome"]))).collect()
}

/// A document without the time when it was read.
fn timeless(ran: &RunOutput) -> Value {
    let mut document = ran.json();
    if let Some(document) = document.as_object_mut() {
        for field in ["takenAt", "takenAtFrom"] {
            document.remove(field);
        }
    }
    document
}

/// Every command that reads files prints the same for the capture as for the cluster.
#[test]
fn capture_gives_the_same_output_as_the_cluster() {
    for cluster in some(clusters::all().into_iter().step_by(8), 3) {
        let fake = cluster.served();
        let scene = Scene::of(&fake);
        let collected = scene.collect("");
        let place = &cluster.name;
        assert_eq!(collected.code, Some(0), "{place}: {}", collected.transcript());
        let name = fake.objects().into_iter().find_map(|o| {
            let ours = o["kind"] == "Skyhook" || o["kind"] == "NodeWright";
            ours.then(|| o["metadata"]["name"].as_str().map(str::to_owned))?
        });
        let mut commands = vec![
            "diagnose stuck --all -o json".to_owned(),
            "status -o json".to_owned(),
            "leftovers -o json".to_owned(),
        ];
        commands.extend(name.map(|name| format!("package status --skyhook {name} -o json")));
        for words in commands {
            let (live, from) = (scene.live(&words), scene.from(&words));
            assert_eq!(live.code, from.code, "{place}: {words}: {}", from.transcript());
            assert_eq!(timeless(&live), timeless(&from), "{place}: {words}");
            assert_eq!(live.stderr, from.stderr, "{place}: {words}");
        }
    }
}

/// Unpacked files give the same output; a removed file is reported as missing.
#[test]
fn file_removed_from_a_capture_is_reported_missing() {
    let scene = Scene::of(&clusters::named("nodewright-in-progress").served());
    assert_eq!(scene.collect("").code, Some(0));
    let directory = scene.directory.path().join("unpacked");
    for (name, text) in scene.files() {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    let words = "diagnose stuck -o json";
    let unpacked = || run(&format!("{words} --from {}", directory.display())).output();
    assert_eq!(unpacked().json(), scene.from(words).json());
    std::fs::remove_file(directory.join("jobs.batch.json")).expect("the jobs file exists");
    let report = unpacked().json().to_string();
    assert!(report.contains("jobs: jobs.batch.json is missing from the capture"), "{report}");
}

/// Without the operator's API, the capture holds what is left on the nodes.
#[test]
fn capture_without_the_operator_api_keeps_node_leftovers() {
    let fake = FakeApi::new();
    let node = serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "node-1",
        "annotations": {kubectl_skyhook::api::ApiFlavor::Skyhook.key("status_gpu"): "complete"},
    }});
    let scene = Scene::of(&fake.with(node));
    let collected = scene.collect("");
    collected.expect_code(0);
    for words in ["leftovers -o json", "status"] {
        let (live, from) = (scene.live(words), scene.from(words));
        assert_eq!((live.stdout, live.stderr, live.code), (from.stdout, from.stderr, from.code));
    }
}

/// Beyond the size limit the least important sources are omitted; the capture and its reports name them.
#[test]
fn max_size_names_what_was_left_out() {
    let fake = clusters::named("nodewright-in-progress").served();
    let scene = Scene::of(&fake);
    let collected = scene.collect("--max-size 4Ki");
    collected.expect_code(4);
    let outcomes = outcomes(&scene.index());
    assert_eq!(outcomes["nodewrights"], "read");
    // Lists are read in parallel: the order in which they finish determines which other sources fit.
    assert!(outcomes.values().any(|o| o == "leftOut"), "{outcomes:?}");
    let report = scene.from("diagnose stuck -o json").json().to_string();
    assert!(report.contains("omitted: the capture is limited to 4 KiB"), "{report}");
}
