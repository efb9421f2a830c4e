//! Control planes that scenarios use one after another. Starting one takes more processor time than most
//! scenarios do.
//!
//! After a scenario that passed, every object that it created is deleted. A control plane is reused only if
//! everything else is then as it was before its first scenario; otherwise it ends with the scenario.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Cluster;
use crate::{
    api::{Api, Refused},
    control_plane::ControlPlane,
    model,
    tools::Tools,
};

/// Timeout for the deletion of a scenario's objects.
const PATIENCE: Duration = Duration::from_secs(20);

/// Resources whose objects the API server and its admission plugins cache for seconds, or that add APIs.
const LINGERING: [&str; 5] = [
    "/apis/admissionregistration.k8s.io/",
    "/apis/apiextensions.k8s.io/",
    "/apis/apiregistration.k8s.io/",
    "/api/v1/limitranges",
    "/api/v1/resourcequotas",
];

/// The CRDs and roles that are installed.
#[derive(Clone, Copy, PartialEq)]
pub enum Generation {
    /// Those of operator v0.17.0.
    Skyhook,
    /// Those of the newer API, without an operator.
    NodeWright,
}

/// A control plane between two scenarios.
struct Idle {
    generation: Generation,
    plane: ControlPlane,
    baseline: Baseline,
}

static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());
/// Number of scenarios that took an idle control plane.
static REUSED: AtomicUsize = AtomicUsize::new(0);

impl Cluster {
    /// A control plane of an earlier scenario, or a new one, with the CRDs and roles of this generation.
    pub(super) fn shared(tools: &Tools, generation: Generation) -> Result<Self> {
        if let Some(Idle { plane, baseline, .. }) = take(generation) {
            plane.write_kubeconfigs()?;
            let cluster = Self::on(plane, tools, false)?;
            cluster.shared.set(Some((generation, baseline)));
            return Ok(cluster);
        }
        let cluster = Self::kubernetes(tools, false)?;
        match generation {
            Generation::Skyhook => cluster.install_crds_and_roles()?,
            Generation::NodeWright => {
                model::install_crds(tools, &cluster.api)?;
                model::make_namespace(&cluster.api)?;
            }
        }
        let baseline = Baseline::take(&cluster.plane.borrow(), &cluster.api)?;
        cluster.shared.set(Some((generation, baseline)));
        Ok(cluster)
    }

    /// Leaves the control plane to the next scenario, if its original state can be restored.
    pub fn give_back(self) {
        let Self { api, kubelet, recorder, plane, shared, .. } = self;
        drop((kubelet, recorder));
        let mut plane = plane.into_inner();
        let Some((generation, baseline)) = shared.into_inner() else {
            return;
        };
        let stopped = plane.servers.stop("operator");
        if stopped.and_then(|()| baseline.restore(&plane, &api)).is_ok() {
            give_back(Idle { generation, plane, baseline });
        }
    }
}

/// Takes an idle control plane. If all of them have another generation, one of them ends, so that there are
/// never more control planes than threads.
fn take(generation: Generation) -> Option<Idle> {
    let idle = {
        let mut all = IDLE.lock().expect("no holder panics");
        let fitting = all.iter().position(|idle| idle.generation == generation);
        fitting.map(|at| all.swap_remove(at)).or_else(|| all.pop())
    };
    let idle = idle.filter(|idle| idle.generation == generation)?;
    REUSED.fetch_add(1, Ordering::Relaxed);
    Some(idle)
}

fn give_back(idle: Idle) {
    IDLE.lock().expect("no holder panics").push(idle);
}

/// Ends all idle control planes, and prints how many scenarios saved the start of one.
pub fn end() {
    let reused = REUSED.load(Ordering::Relaxed);
    if reused > 0 {
        eprintln!("{reused} scenarios reused a control plane");
    }
    IDLE.lock().expect("no holder panics").clear();
}

/// Objects and files of a control plane before its first scenario.
pub struct Baseline {
    /// Paths that list all objects of a resource.
    lists: Vec<String>,
    /// The specs of all objects.
    objects: BTreeMap<String, Value>,
    files: BTreeSet<OsString>,
}

impl Baseline {
    pub fn take(plane: &ControlPlane, api: &Api) -> Result<Self> {
        let lists = lists(api)?;
        let mut objects = BTreeMap::new();
        for list in &lists {
            for object in api.items(list)? {
                objects.insert(key(list, &object), spec(object));
            }
        }
        Ok(Self { lists, objects, files: plane.servers.files()? })
    }

    /// Deletes all later objects and files. Fails if another object has changed or is missing.
    pub fn restore(&self, plane: &ControlPlane, api: &Api) -> Result<()> {
        let begun = Instant::now();
        let mut found = BTreeSet::new();
        let mut lists: Vec<&String> = self.lists.iter().collect();
        while !lists.is_empty() {
            let mut dirty = Vec::new();
            for list in lists {
                let mut deleted = false;
                for object in api.items(list)? {
                    let key = key(list, &object);
                    match self.objects.get(&key) {
                        Some(before) => {
                            ensure!(is_generated(&key) || *before == spec(object), "{key} has changed");
                            found.insert(key);
                        }
                        None if is_generated(&key) => {}
                        None => {
                            ensure!(!LINGERING.iter().any(|path| list.starts_with(path)), "{key} lingers");
                            delete(api, list, &object).with_context(|| key.clone())?;
                            deleted = true;
                        }
                    }
                }
                if deleted {
                    dirty.push(list);
                }
            }
            if begun.elapsed() > PATIENCE {
                bail!("not deleted: {dirty:?}");
            }
            lists = dirty;
        }
        let missing = self.objects.keys().find(|key| !found.contains(*key) && !is_generated(key));
        if let Some(missing) = missing {
            bail!("{missing} is missing");
        }
        plane.servers.remove_other_files(&self.files)
    }
}

/// Paths that list the objects of all resources, in the preferred version of each group.
fn lists(api: &Api) -> Result<Vec<String>> {
    let groups = api.get("/apis")?;
    let groups = groups["groups"].as_array().context("discovery lists groups")?;
    let versions = groups.iter().filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
    let roots = versions.map(|version| format!("/apis/{version}")).chain(["/api/v1".to_owned()]);
    let mut lists = Vec::new();
    for root in roots {
        let resources = api.get(&root)?;
        for resource in resources["resources"].as_array().context("discovery lists resources")? {
            let can = |verb: &str| resource["verbs"].as_array().is_some_and(|all| all.contains(&json!(verb)));
            let name = resource["name"].as_str().context("a resource has a name")?;
            if can("list") && can("delete") && !name.contains('/') {
                lists.push(format!("{root}/{name}"));
            }
        }
    }
    Ok(lists)
}

fn key(list: &str, object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    format!("{list} {}/{}", text("namespace"), text("name"))
}

/// The object without its status and without the fields that the API server sets at each write.
fn spec(mut object: Value) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for counted in ["resourceVersion", "generation", "managedFields"] {
            metadata.remove(counted);
        }
    }
    object
}

/// Whether Kubernetes creates this object itself, some time after its start.
fn is_generated(key: &str) -> bool {
    let (list, name) = key.rsplit_once(' ').unwrap_or_default();
    name.starts_with("kube-system/")
        || name.ends_with("/kube-root-ca.crt")
        || list == "/api/v1/serviceaccounts" && name.ends_with("/default")
}

fn delete(api: &Api, list: &str, object: &Value) -> Result<(), Refused> {
    let metadata = &object["metadata"];
    let (root, plural) = list.rsplit_once('/').unwrap_or_default();
    let name = metadata["name"].as_str().unwrap_or_default();
    let path = match metadata["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("{list}/{name}"),
    };
    let gone = |answer: Result<Value, Refused>| match answer {
        Err(refused) if ![404, 409].contains(&refused.code) => Err(refused),
        _ => Ok(()),
    };
    if metadata["finalizers"].is_array() {
        gone(api.merge(&path, &json!({"metadata": {"finalizers": null}})))?;
    }
    gone(api.delete(&path, &json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"})))
}
