//! An API server in memory: objects by path, JSON Patch with the semantics of the real server, and faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kubectl_skyhook::connect;
use serde_json::{Value, json};

/// The fault that the server injects into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This status code, without applying the request.
    Answer(u16),
    /// 429 with this `Retry-After`.
    RetryAfter(u32),
    /// This status code, after applying the request.
    DoneBut(u16),
    /// 200 with this body, without applying the request.
    Body(&'static str),
    /// 200 with this body, after applying the request.
    DoneButBody(&'static str),
    /// No response, without applying the request.
    Hang,
    /// No response, after applying the request.
    DoneAndHang,
    /// The credential plugin fails before the request is sent.
    NoCredentials,
}

type Hook = Box<dyn FnMut(&mut Store, &Call) -> Option<Fault> + Send>;

/// A request as passed to the hook.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// The path of the object, without subresource.
    pub path: String,
    pub uri: String,
    /// The number of earlier requests with this method and path.
    pub nth: usize,
}

#[derive(Default)]
pub struct Store {
    pub objects: BTreeMap<String, Value>,
    /// How often each path was written.
    pub writes: BTreeMap<String, usize>,
    pub calls: Vec<Call>,
    /// Requests by method and path.
    counts: BTreeMap<(String, String), usize>,
    /// Verbs and resources that are forbidden: `patch nodes`.
    pub denied: BTreeSet<String>,
    /// Exceptions that a role grants by name: verb, resource and name.
    pub granted: BTreeSet<String>,
}

#[derive(Clone)]
pub struct Server {
    pub store: Arc<Mutex<Store>>,
    hook: Arc<Mutex<Hook>>,
}

impl Server {
    pub fn new(objects: impl IntoIterator<Item = (String, Value)>) -> Server {
        let store = Store { objects: objects.into_iter().collect(), ..Store::default() };
        Server { store: Arc::new(Mutex::new(store)), hook: Arc::new(Mutex::new(Box::new(|_, _| None))) }
    }

    /// Sets the hook that is called before each request, and may change the store or return a fault.
    pub fn on_request(self, hook: impl FnMut(&mut Store, &Call) -> Option<Fault> + Send + 'static) -> Server {
        *self.hook.lock().expect("no panic") = Box::new(hook);
        self
    }

    pub fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        kube::Client::new(service, "default")
    }

    pub fn objects(&self) -> BTreeMap<String, Value> {
        self.store.lock().expect("no panic").objects.clone()
    }

    pub fn object(&self, path: &str) -> Value {
        self.objects().get(path).cloned().unwrap_or_default()
    }

    pub fn writes(&self) -> BTreeMap<String, usize> {
        self.store.lock().expect("no panic").writes.clone()
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, connect::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a body in memory").to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let uri = head.uri.path();
        let path = uri.strip_suffix("/status").unwrap_or(uri).to_owned();
        let (fault, reply) = {
            let mut store = self.store.lock().expect("no panic");
            let so_far = store.counts.entry((head.method.to_string(), path.clone()));
            let so_far = so_far.or_default();
            *so_far += 1;
            let call = Call {
                nth: *so_far - 1,
                method: head.method.clone(),
                path: path.clone(),
                uri: head.uri.to_string(),
            };
            let fault = (self.hook.lock().expect("no panic"))(&mut store, &call);
            store.calls.push(call);
            let reply = match fault {
                Some(Fault::Answer(code)) => (code, status(code, "as the test has it")),
                Some(Fault::RetryAfter(_)) => (429, status(429, "as the test has it")),
                Some(Fault::Hang | Fault::Body(_) | Fault::NoCredentials) => (0, Value::Null),
                _ => store.execute(&head.method, &head.uri, &path, &body),
            };
            (fault, reply)
        };
        let (code, body) = match fault {
            Some(Fault::Hang | Fault::DoneAndHang) => std::future::pending().await,
            Some(Fault::DoneBut(code)) => (code, status(code, "as the test has it")),
            Some(Fault::NoCredentials) => {
                return Err(connect::Error::PluginFailed {
                    command: "login".to_owned(),
                    why: "exit status: 1".to_owned(),
                });
            }
            _ => reply,
        };
        // Without this delay, each request would finish at its first poll, and none would ever be in flight.
        tokio::time::sleep(Duration::from_micros(100)).await;
        if let Some(Fault::Body(text) | Fault::DoneButBody(text)) = fault {
            return Ok(Response::new(Body::from(text.as_bytes().to_vec())));
        }
        let mut response = Response::builder().status(code);
        match fault {
            Some(Fault::RetryAfter(seconds)) => response = response.header("Retry-After", seconds),
            _ if code == 429 => response = response.header("Retry-After", "0"),
            _ => {}
        }
        let body = Body::from(body.to_string().into_bytes());
        Ok(response.body(body).expect("a response"))
    }
}

impl Store {
    fn execute(&mut self, method: &Method, uri: &http::Uri, path: &str, body: &Value) -> (u16, Value) {
        if path.ends_with("selfsubjectaccessreviews") {
            let wanted = &body["spec"]["resourceAttributes"];
            let text = |key: &str| wanted[key].as_str().unwrap_or_default().to_owned();
            let mut resource = format!("{} {}", text("verb"), text("resource"));
            if !text("subresource").is_empty() {
                resource = format!("{resource}/{}", text("subresource"));
            }
            let named = format!("{resource} {}", text("name"));
            let allowed = !self.denied.contains(&resource) || self.granted.contains(&named);
            return (201, json!({"status": {"allowed": allowed}}));
        }
        if let Some(selector) = uri.query().and_then(|q| q.strip_prefix("labelSelector=")) {
            let selector = percent_encoding::percent_decode_str(selector).decode_utf8();
            let selector = selector.expect("text");
            let (key, value) = selector.split_once('=').expect("an equality");
            let inside = format!("{path}/");
            let items: Vec<&Value> = self
                .objects
                .iter()
                .filter(|(p, o)| p.starts_with(&inside) && o["metadata"]["labels"][key] == value)
                .map(|(_, o)| o)
                .collect();
            return (200, json!({"kind": "PartialObjectMetadataList", "items": items}));
        }
        let Some(object) = self.objects.get(path) else {
            return (404, status(404, "not found"));
        };
        match *method {
            Method::GET => (200, object.clone()),
            Method::DELETE => {
                let uid = object["metadata"]["uid"].clone();
                let name = object["metadata"]["name"].clone();
                self.objects.remove(path);
                *self.writes.entry(path.to_owned()).or_default() += 1;
                let details = json!({"name": name, "uid": uid});
                (200, json!({"kind": "Status", "status": "Success", "details": details}))
            }
            Method::PATCH => {
                let Some(after) = patched(object, body) else {
                    let says = "the server rejected our request due to an error in our request";
                    return (422, status(422, says));
                };
                if !uri.query().unwrap_or_default().contains("dryRun=All") {
                    self.objects.insert(path.to_owned(), after.clone());
                    *self.writes.entry(path.to_owned()).or_default() += 1;
                }
                (200, after)
            }
            _ => (405, status(405, "not here")),
        }
    }

    /// Sets a value as the operator or a user would; null removes it.
    pub fn set(&mut self, path: &str, pointer: &[&str], value: Value) {
        let mut at = self.objects.get_mut(path).expect("the object exists");
        for step in pointer {
            at = &mut at[*step];
        }
        *at = value;
    }
}

/// Applies a JSON Patch as the API server does: a `test` against null passes for an absent value,
/// but not below an absent map.
pub fn patched(object: &Value, patch: &Value) -> Option<Value> {
    let mut after = object.clone();
    for operation in patch.as_array().expect("a JSON Patch") {
        let path = operation["path"].as_str().expect("a path");
        if operation["op"] == "test" && operation["value"].is_null() {
            let (parent, _) = path.rsplit_once('/').expect("a pointer");
            after.pointer(parent)?;
            if after.pointer(path).is_some_and(|v| !v.is_null()) {
                return None;
            }
            continue;
        }
        let one: json_patch::Patch = serde_json::from_value(json!([operation])).expect("an operation");
        json_patch::patch(&mut after, &one).ok()?;
    }
    Some(after)
}

fn status(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "code": code, "message": message})
}
