//! The pods of all nodes, kept by a watch.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use kube::Client;
use serde_json::Value;

use crate::api::{Access, Refused};

/// Pods by uid, in their latest version.
#[derive(Default)]
pub struct Pods(Mutex<BTreeMap<String, Value>>);

impl Pods {
    pub fn all(&self) -> Vec<Value> {
        self.0.lock().expect("no holder panics").values().cloned().collect()
    }

    /// Takes a pod over, unless a later version is known.
    pub fn update(&self, pod: Value) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let mut pods = self.0.lock().expect("no holder panics");
        if pods.get(&uid).is_none_or(|known| version(known) < version(&pod)) {
            pods.insert(uid, pod);
        }
    }

    /// The response of the API server, if it is not an error. The response to a write may arrive after the event
    /// of a later deletion, so a pod that the server does not have is removed.
    pub fn forget_missing(&self, uid: &str, response: Result<Value, Refused>) -> Option<Value> {
        if response.as_ref().is_err_and(|refused| refused.code == 404) {
            self.0.lock().expect("no holder panics").remove(uid);
        }
        response.ok()
    }

    /// Watches the pods until `stop` is set, across restarts of the API server.
    pub fn watch(self: Arc<Self>, access: &Access, stop: Arc<AtomicBool>) -> JoinHandle<()> {
        let access = access.clone();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let client = access.client(None).expect("a client");
                while !stop.load(Ordering::Relaxed) {
                    self.0.lock().expect("no holder panics").clear();
                    // The server may be shutting down; the next watch begins with all pods.
                    let _ = self.watch_once(&client, &stop).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        })
    }

    async fn watch_once(&self, client: &Client, stop: &AtomicBool) -> kube::Result<()> {
        let request = Request::get("/api/v1/pods?watch=true").body(Vec::new()).expect("a request");
        let mut lines = client.request_stream(request).await?.lines();
        while !stop.load(Ordering::Relaxed) {
            let Ok(line) = tokio::time::timeout(Duration::from_millis(50), lines.try_next()).await else {
                continue;
            };
            let Ok(Some(line)) = line else { break };
            let mut event: Value = serde_json::from_str(&line).unwrap_or_default();
            let pod = event["object"].take();
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => self.update(pod),
                Some("DELETED") => {
                    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                    self.0.lock().expect("no holder panics").remove(uid);
                }
                _ => break,
            }
        }
        Ok(())
    }
}

fn version(pod: &Value) -> u64 {
    let version = pod["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
