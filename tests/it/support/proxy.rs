//! A proxy between the binary and an API server, real or not, which spoils requests on demand.
//!
//! It counts what the binary asks, passes it on as the client that it was given, and does to the answers what an
//! overloaded server, a load balancer or a bad line do. The binary reaches it without TLS and without credentials.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

use super::run::Child;

/// How long a request is on its way that the client does not wait for any more.
pub const LATE: Duration = Duration::from_millis(1_600);
/// How long a server is not there that restarts.
pub const AWAY: Duration = Duration::from_millis(700);
/// How far a stream comes that is cut.
pub const BEGUN: Duration = Duration::from_millis(30);
/// The time limit that makes clients give such a request up.
pub const LIMIT: &str = "1s";

/// What reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaches {
    Never,
    Now,
    /// Once the client has failed permanently.
    Late,
    /// Now, and a copy before whatever comes next.
    AndAgain,
    /// Now, and a copy when all is over.
    AndAtTheEnd,
}

/// What the client hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hears {
    TheAnswer,
    /// The connection is closed.
    Closed,
    /// The connection is closed, and so is every other for [`AWAY`], as while the server restarts.
    Away,
    /// Half of the answer, then the connection is closed.
    Half,
    Nothing,
    /// An error of the API server, and after how many seconds it would be asked again.
    Status(u16, Option<u32>),
    /// An error of what stands before the server.
    Gateway(u16),
    Page,
    Null,
    /// It is killed.
    Killed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub reaches: Reaches,
    pub hears: Hears,
}

impl Fault {
    /// Whether only requests that change something are spoiled by it.
    pub fn of_writes(self) -> bool {
        matches!(self.reaches, Reaches::AndAgain | Reaches::AndAtTheEnd)
    }

    /// Whether the client has to be told to give up early.
    pub fn needs_limit(self) -> bool {
        self.hears == Hears::Nothing
    }
}

/// Which requests are spoiled, counted from 1, and how.
#[derive(Clone)]
pub struct Spoil {
    pub first: usize,
    pub last: usize,
    pub fault: Fault,
    /// Who asks, where that is killed.
    pub child: Child,
}

/// A request that can be sent more than once.
#[derive(Clone)]
struct Kept {
    head: Arc<Parts>,
    body: Bytes,
}

impl Kept {
    fn streams(&self) -> bool {
        let query = self.head.uri.query().unwrap_or_default();
        let streams = ["watch=true", "watch=1", "follow=true"];
        streams.iter().any(|s| query.contains(s))
    }
}

#[derive(Default)]
struct State {
    spoil: Option<Spoil>,
    asked: Vec<String>,
    /// Sent again before the next request.
    again: Vec<Kept>,
    /// Sent again when all is over.
    at_the_end: Vec<Kept>,
    /// Requests that are still on their way.
    late: usize,
    /// The server restarts until then.
    away: Option<Instant>,
    /// A custom resource may have been paused.
    moved: bool,
    stands_in: bool,
    logs: Option<Logs>,
}

#[derive(Clone)]
struct Shared {
    client: Client,
    state: Arc<Mutex<State>>,
    /// Streams that began before its last change are over.
    cut: watch::Sender<()>,
}

/// It listens until this is dropped.
#[allow(dead_code, reason = "not every test binary has streams to cut")]
pub struct Proxy {
    pub url: String,
    dir: TempDir,
    shared: Shared,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// The lines of a container that runs, for a query: servers without kubelets have none.
pub type Logs = Arc<dyn Fn(&str) -> BoxStream<'static, Bytes> + Send + Sync>;

#[allow(dead_code, reason = "not every test binary has streams to cut")]
impl Proxy {
    /// Stands before the server of this client, which is made in the runtime that it is used in.
    pub fn before(client: impl FnOnce() -> Client + Send + 'static) -> Proxy {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let shared = Shared {
                    client: client(),
                    state: Arc::default(),
                    cut: watch::Sender::new(()),
                };
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let address = listener.local_addr().expect("a bound socket");
                let all = (address, shared.clone(), Handle::current());
                assert!(tell.send(all).is_ok(), "someone waits for it");
                tokio::select! {
                    () = accept(shared, listener) => {}
                    _ = stopped => {}
                }
            });
        });
        let (address, shared, handle) = told.recv().expect("it listens");
        let url = format!("http://{address}");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": url}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "users": [{"name": "proxy", "user": {}}],
        });
        std::fs::write(dir.path().join("kubeconfig"), config.to_string()).expect("it is written");
        Proxy {
            url,
            dir,
            shared,
            handle,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Stands in for the operator as far as that says that it has paused and that it goes on, and lets go of a custom
    /// resource whose packages are not to be uninstalled, once its deletion is asked for.
    pub fn standing_in(self) -> Proxy {
        self.state().stands_in = true;
        self
    }

    /// Stands in for kubelets, as far as those hand out logs.
    pub fn handing_out(self, logs: Logs) -> Proxy {
        self.state().logs = Some(logs);
        self
    }

    /// A kubeconfig whose only context is this proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Counts from 1 again, and spoils what is asked for.
    pub fn spoils(&self, spoil: Option<Spoil>) {
        let mut state = self.state();
        state.asked.clear();
        state.spoil = spoil;
    }

    /// What was asked since it began to count: `GET /api/v1/nodes`.
    pub fn asked(&self) -> Vec<String> {
        self.state().asked.clone()
    }

    /// Spoils nothing any more, and returns once all that is on its way has arrived.
    pub fn heals(&self) {
        {
            let mut state = self.state();
            (state.spoil, state.away) = (None, None);
        }
        let shared = self.shared.clone();
        let (tell, told) = mpsc::channel();
        self.handle.spawn(async move {
            while shared.lock().late > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let copies = {
                let mut state = shared.lock();
                let again = std::mem::take(&mut state.again);
                let at_the_end = std::mem::take(&mut state.at_the_end);
                [again, at_the_end].concat()
            };
            for copy in copies {
                shared.pass_on_for_nobody(copy).await;
            }
            let _ = tell.send(());
        });
        told.recv().expect("its thread runs");
    }

    /// Cuts all watches and logs that are followed.
    pub fn cuts_streams(&self) {
        self.shared.cut.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(shared: Shared, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let shared = shared.clone();
        let service = service_fn(move |request| shared.clone().answer(request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // A closed connection is a fault that was asked for.
            let _ = connection.await;
        });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds this")
    }

    async fn answer(self, request: Request<Incoming>) -> io::Result<Answer> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let kept = Kept {
            head: Arc::new(head),
            body,
        };
        let (spoil, copies) = {
            let mut state = self.lock();
            state
                .asked
                .push(format!("{} {}", kept.head.method, kept.head.uri));
            if state.away.is_some_and(|until| Instant::now() < until) {
                return Err(closed());
            }
            let number = state.asked.len();
            let spoil = state.spoil.clone().filter(|spoil| {
                let asks = matches!(kept.head.method, Method::GET);
                (spoil.first..=spoil.last).contains(&number) && !(asks && spoil.fault.of_writes())
            });
            (spoil, std::mem::take(&mut state.again))
        };
        for copy in copies {
            self.pass_on_for_nobody(copy).await;
        }
        match spoil {
            Some(spoil) => self.spoiled(&spoil, kept).await,
            None => self.pass_on(&kept).await,
        }
    }

    async fn spoiled(&self, spoil: &Spoil, kept: Kept) -> io::Result<Answer> {
        let answer = match spoil.fault.reaches {
            Reaches::Never => None,
            Reaches::Late => {
                self.lock().late += 1;
                let (shared, kept) = (self.clone(), kept.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(LATE).await;
                    shared.pass_on_for_nobody(kept).await;
                    shared.lock().late -= 1;
                });
                None
            }
            Reaches::Now if kept.streams() => return self.spoiled_stream(spoil, &kept).await,
            Reaches::Now => Some(self.whole(&kept).await?),
            Reaches::AndAgain | Reaches::AndAtTheEnd => {
                let answer = self.whole(&kept).await?;
                let mut state = self.lock();
                match spoil.fault.reaches {
                    Reaches::AndAgain => state.again.push(kept.clone()),
                    _ => state.at_the_end.push(kept.clone()),
                }
                Some(answer)
            }
        };
        match spoil.fault.hears {
            Hears::Closed => Err(closed()),
            Hears::Away => {
                self.lock().away = Some(Instant::now() + AWAY);
                self.cut.send_replace(());
                Err(closed())
            }
            Hears::Nothing => std::future::pending().await,
            Hears::Killed => {
                spoil.child.kill::<()>()(&mut ());
                Err(closed())
            }
            Hears::Status(code, wait) => Ok(problem(code, wait)),
            Hears::Gateway(code) => Ok(text(code, "text/html", "<html>bad gateway</html>")),
            Hears::Page => Ok(text(200, "text/html", "<html>log in</html>")),
            Hears::Null => Ok(text(200, "application/json", "null")),
            Hears::TheAnswer => answer.map(|whole| whole.map(full)).ok_or_else(closed),
            Hears::Half => answer.map(|whole| whole.map(half)).ok_or_else(closed),
        }
    }

    /// A stream has no end to wait for: it begins, and then that happens.
    async fn spoiled_stream(&self, spoil: &Spoil, kept: &Kept) -> io::Result<Answer> {
        let answer = self.pass_on(kept).await?;
        let (shared, fault) = (self.clone(), spoil.clone());
        tokio::spawn(async move {
            tokio::time::sleep(BEGUN).await;
            match fault.fault.hears {
                Hears::Killed => fault.child.kill::<()>()(&mut ()),
                Hears::Away => shared.lock().away = Some(Instant::now() + AWAY),
                _ => {}
            }
            shared.cut.send_replace(());
        });
        Ok(answer)
    }

    /// Passes a request on, and reads the answer to its end.
    async fn whole(&self, kept: &Kept) -> io::Result<Response<Bytes>> {
        let (head, body) = self.pass_on(kept).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    /// The client is not there any more.
    async fn pass_on_for_nobody(&self, kept: Kept) {
        let _ = self.whole(&kept).await;
    }

    async fn pass_on(&self, kept: &Kept) -> io::Result<Answer> {
        let path = kept.head.uri.path();
        let query = kept.head.uri.query().unwrap_or_default();
        if path.contains("/skyhooks") {
            if kept.head.method != Method::GET {
                self.lock().moved = true;
            } else if self.is_to_look() {
                see_pauses(&self.client).await;
            }
        }
        let logs = self.lock().logs.clone().filter(|_| path.ends_with("/log"));
        if let Some(logs) = logs {
            let lines = logs(query).map(Ok);
            return Ok(Response::new(self.until_cut(lines.boxed())));
        }
        let place = kept.head.uri.path_and_query().map_or("/", |p| p.as_str());
        let mut request = Request::builder()
            .method(kept.head.method.clone())
            .uri(place);
        for name in [ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE] {
            if let Some(value) = kept.head.headers.get(&name) {
                request = request.header(name, value);
            }
        }
        let request = request.body(Body::from(kept.body.to_vec()));
        let sent = self.client.send(request.map_err(io::Error::other)?).await;
        let response = sent.map_err(|_| closed())?;
        if kept.head.method == Method::DELETE && response.status().is_success() {
            let name = path.split_once("/skyhooks/").map(|(_, name)| name);
            if let Some(name) = name.filter(|_| self.lock().stands_in) {
                let_go(&self.client, name).await;
            }
        }
        Ok(response.map(|body| {
            let body = body.map_err(io::Error::other);
            if kept.streams() {
                self.until_cut(body.into_data_stream())
            } else {
                body.boxed_unsync()
            }
        }))
    }

    /// A cut is the end of the connection, and not of what there is to say.
    fn until_cut(
        &self,
        data: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> UnsyncBoxBody<Bytes, io::Error> {
        let mut cut = self.cut.subscribe();
        let (end, ended) = oneshot::channel();
        let cut = async move {
            // Whoever cuts lives as long as the proxy.
            let _ = cut.changed().await;
            let _ = end.send(());
        };
        let broken = async move {
            let cut = ended.await.is_ok();
            cut.then(|| Err(closed()))
        };
        let data = data.map(|data| data.map(Frame::data)).take_until(cut);
        let broken = futures::stream::once(broken).filter_map(std::future::ready);
        StreamBody::new(data.chain(broken)).boxed_unsync()
    }

    fn is_to_look(&self) -> bool {
        let mut state = self.lock();
        state.stands_in && std::mem::take(&mut state.moved)
    }
}

/// Says of each custom resource that is to be paused that it is, and of one that is to go on that it does.
async fn see_pauses(client: &Client) {
    let of = ApiFlavor::Skyhook;
    for item in items(client, &skyhooks()).await {
        let asked = item["metadata"]["annotations"][of.key("pause")] == "true";
        if asked != (item["status"]["status"] == "paused") {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            let says = if asked { "paused" } else { "in_progress" };
            let path = format!("{}/{name}/status", skyhooks());
            merge(client, &path, &json!({"status": {"status": says}})).await;
        }
    }
}

/// Takes the keys of a custom resource off all nodes, and the finalizer off it.
async fn let_go(client: &Client, name: &str) {
    let ends = format!("_{name}");
    for node in items(client, NODES).await {
        let keys = |part: &str| -> Value {
            let all = node["metadata"][part].as_object().into_iter().flatten();
            let own = all.filter(|(key, _)| key.ends_with(&ends));
            own.map(|(key, _)| (key.clone(), Value::Null)).collect()
        };
        let metadata = json!({"annotations": keys("annotations"), "labels": keys("labels")});
        let node = node["metadata"]["name"].as_str().unwrap_or_default();
        merge(
            client,
            &format!("{NODES}/{node}"),
            &json!({"metadata": metadata}),
        )
        .await;
    }
    let path = format!("{}/{name}", skyhooks());
    merge(client, &path, &json!({"metadata": {"finalizers": null}})).await;
}

const NODES: &str = "/api/v1/nodes";

fn skyhooks() -> String {
    format!("/apis/{}/skyhooks", ApiFlavor::Skyhook.api_version())
}

/// Nothing, where they cannot be read.
async fn items(client: &Client, collection: &str) -> Vec<Value> {
    let list = Request::get(collection).body(Vec::new());
    let list = list.expect("a request of ASCII parts");
    let mut list = client.request::<Value>(list).await.unwrap_or_default();
    match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

async fn merge(client: &Client, path: &str, patch: &Value) {
    let patch = Request::patch(path)
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(patch.to_string().into_bytes());
    let patch = patch.expect("a request of ASCII parts");
    let patched = client.request::<Value>(patch).await;
    patched.expect("a patch of known parts is accepted");
}

fn closed() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

fn full(body: Bytes) -> UnsyncBoxBody<Bytes, io::Error> {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn half(body: Bytes) -> UnsyncBoxBody<Bytes, io::Error> {
    let half = body.slice(..body.len() / 2);
    // A break that comes at once would take the first half along.
    let later = async {
        tokio::task::yield_now().await;
        Err(io::Error::from(io::ErrorKind::UnexpectedEof))
    };
    let frames = futures::stream::once(async { Ok(Frame::data(half)) });
    StreamBody::new(frames.chain(futures::stream::once(later))).boxed_unsync()
}

fn text(code: u16, kind: &'static str, text: &'static str) -> Answer {
    let response = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, kind)
        .body(full(Bytes::from_static(text.as_bytes())));
    response.expect("a response of known parts")
}

/// As the API server says it.
fn problem(code: u16, wait: Option<u32>) -> Answer {
    let (reason, message) = match code {
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "forbidden: User \"jane\" cannot do this"),
        409 => (
            "Conflict",
            "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version \
             and try again",
        ),
        410 => ("Expired", "The provided continue parameter is too old"),
        422 => ("Invalid", "denied by the admission webhook"),
        429 => (
            "TooManyRequests",
            "Too many requests, please try again later",
        ),
        500 => ("InternalError", "Internal error occurred"),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "request did not complete within the allotted time",
        ),
        code => panic!("no words for {code}"),
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let mut response = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json")
        .body(full(Bytes::from(status.to_string())))
        .expect("a response of known parts");
    if let Some(wait) = wait {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(wait));
    }
    response
}
