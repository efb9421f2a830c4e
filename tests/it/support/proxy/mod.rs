//! A proxy between the binary and an API server, real or fake, that injects faults into requests.
//!
//! It counts the requests of the binary and forwards them with the client it was given. Its faults are those
//! of an overloaded server, a load balancer or an unreliable network. The binary needs no TLS and no
//! credentials for it.

mod fault;
mod operator;
mod responses;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

pub use self::fault::{Delivery, Fault, FaultInjection, FaultResponse, REQUEST_TIMEOUT};
use self::operator::{acknowledge_pauses, finish_deletion};
use self::responses::closed;
use super::run::Child;

/// A request that can be sent more than once.
#[derive(Clone)]
struct SavedRequest {
    head: Arc<Parts>,
    body: Bytes,
}

impl SavedRequest {
    fn is_stream(&self) -> bool {
        let query = self.head.uri.query().unwrap_or_default();
        let streams = ["watch=true", "watch=1", "follow=true"];
        streams.iter().any(|s| query.contains(s))
    }
}

#[derive(Default)]
struct State {
    injection: Option<FaultInjection>,
    requests: Vec<String>,
    /// Requests to deliver again before the next request.
    resend_next: Vec<SavedRequest>,
    /// Requests to deliver again in [`Proxy::stop_faults`].
    resend_at_end: Vec<SavedRequest>,
    /// The number of late requests that are not delivered yet.
    late: usize,
    /// The end of the simulated restart of the server.
    down_until: Option<Instant>,
    /// A custom resource was written, so it may have been paused or resumed.
    pause_may_have_changed: bool,
    simulates_operator: bool,
    logs: Option<Logs>,
}

#[derive(Clone)]
struct Shared {
    client: Client,
    state: Arc<Mutex<State>>,
    /// A change ends all streams that started before it.
    cut: watch::Sender<()>,
}

/// A listening proxy; stops when dropped.
#[allow(dead_code, reason = "not every test binary uses all of it")]
pub struct Proxy {
    pub url: String,
    dir: TempDir,
    shared: Shared,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

type ProxyResponse = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Returns the log lines of a running container for a query, since servers without kubelets have no logs.
pub type Logs = Arc<dyn Fn(&str) -> BoxStream<'static, Bytes> + Send + Sync>;

#[allow(dead_code, reason = "not every test binary uses all of it")]
impl Proxy {
    /// Starts a proxy to the server of a client. `client` creates it in the proxy's runtime.
    pub fn to(client: impl FnOnce() -> Client + Send + 'static) -> Proxy {
        let (stop, stopped) = oneshot::channel();
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let shared = Shared { client: client(), state: Arc::default(), cut: watch::Sender::new(()) };
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let address = listener.local_addr().expect("a bound socket");
                let all = (address, shared.clone(), Handle::current());
                assert!(sender.send(all).is_ok(), "the caller waits for the address");
                tokio::select! {
                    () = accept(shared, listener) => {}
                    _ = stopped => {}
                }
            });
        });
        let (address, shared, handle) = receiver.recv().expect("the proxy listens");
        let url = format!("http://{address}");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": url}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "users": [{"name": "proxy", "user": {}}],
        });
        std::fs::write(dir.path().join("kubeconfig"), config.to_string()).expect("a writable file");
        Proxy { url, dir, shared, handle, stop: Some(stop), thread: Some(thread) }
    }

    /// Simulates the operator as far as commands wait for it: acknowledges pauses and resumes, and removes
    /// the finalizers of a deleted custom resource without uninstalls.
    pub fn simulating_operator(self) -> Proxy {
        self.state().simulates_operator = true;
        self
    }

    /// Serves container logs, as kubelets do.
    pub fn serving_logs(self, logs: Logs) -> Proxy {
        self.state().logs = Some(logs);
        self
    }

    /// A kubeconfig whose only context is this proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Restarts the count of requests, and injects these faults from now on, or none.
    pub fn inject(&self, injection: Option<FaultInjection>) {
        let mut state = self.state();
        state.requests.clear();
        state.injection = injection;
    }

    /// The requests since the count was restarted: `GET /api/v1/nodes`.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Stops injecting faults, and returns once all late and repeated requests are delivered.
    pub fn stop_faults(&self) {
        {
            let mut state = self.state();
            (state.injection, state.down_until) = (None, None);
        }
        let shared = self.shared.clone();
        let (sender, receiver) = mpsc::channel();
        self.handle.spawn(async move {
            while shared.lock().late > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let copies = {
                let mut state = shared.lock();
                let next = std::mem::take(&mut state.resend_next);
                let at_end = std::mem::take(&mut state.resend_at_end);
                [next, at_end].concat()
            };
            for copy in copies {
                shared.forward_and_discard(copy).await;
            }
            let _ = sender.send(());
        });
        receiver.recv().expect("the proxy thread runs");
    }

    /// Cuts all watches and followed logs.
    pub fn cut_streams(&self) {
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
            // A closed connection is a requested fault.
            let _ = connection.await;
        });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    async fn answer(self, request: Request<Incoming>) -> io::Result<ProxyResponse> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let kept = SavedRequest { head: Arc::new(head), body };
        let (injection, copies) = {
            let mut state = self.lock();
            state.requests.push(format!("{} {}", kept.head.method, kept.head.uri));
            if state.down_until.is_some_and(|until| Instant::now() < until) {
                return Err(closed());
            }
            let number = state.requests.len();
            let injection = state.injection.clone().filter(|injection| {
                let reads = matches!(kept.head.method, Method::GET);
                (injection.first..=injection.last).contains(&number)
                    && !(reads && injection.fault.only_writes())
            });
            (injection, std::mem::take(&mut state.resend_next))
        };
        for copy in copies {
            self.forward_and_discard(copy).await;
        }
        match injection {
            Some(injection) => self.answer_with_fault(&injection, kept).await,
            None => self.forward(&kept).await,
        }
    }

    /// Forwards a request, and reads the whole response.
    async fn forward_whole(&self, kept: &SavedRequest) -> io::Result<Response<Bytes>> {
        let (head, body) = self.forward(kept).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    /// Forwards a request without a client that waits for the response.
    async fn forward_and_discard(&self, kept: SavedRequest) {
        let _ = self.forward_whole(&kept).await;
    }

    async fn forward(&self, kept: &SavedRequest) -> io::Result<ProxyResponse> {
        let path = kept.head.uri.path();
        let query = kept.head.uri.query().unwrap_or_default();
        if path.contains("/skyhooks") {
            if kept.head.method != Method::GET {
                self.lock().pause_may_have_changed = true;
            } else if self.must_acknowledge_pauses() {
                acknowledge_pauses(&self.client).await;
            }
        }
        let logs = self.lock().logs.clone().filter(|_| path.ends_with("/log"));
        if let Some(logs) = logs {
            let lines = logs(query).map(Ok);
            return Ok(Response::new(self.until_cut(lines.boxed())));
        }
        let uri = kept.head.uri.path_and_query().map_or("/", |p| p.as_str());
        let mut request = Request::builder().method(kept.head.method.clone()).uri(uri);
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
            if let Some(name) = name.filter(|_| self.lock().simulates_operator) {
                finish_deletion(&self.client, name).await;
            }
        }
        Ok(response.map(|body| {
            let body = body.map_err(io::Error::other);
            if kept.is_stream() { self.until_cut(body.into_data_stream()) } else { body.boxed_unsync() }
        }))
    }

    /// The body until a cut. The cut is a connection error, not a regular end of the stream.
    fn until_cut(
        &self,
        data: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> UnsyncBoxBody<Bytes, io::Error> {
        let mut cut = self.cut.subscribe();
        let (end, ended) = oneshot::channel();
        let cut = async move {
            // The sender lives as long as the proxy.
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

    fn must_acknowledge_pauses(&self) -> bool {
        let mut state = self.lock();
        state.simulates_operator && std::mem::take(&mut state.pause_may_have_changed)
    }
}
