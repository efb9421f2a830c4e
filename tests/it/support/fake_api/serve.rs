//! The server on a loopback socket, for the binary.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::{FakeApi, tls};

/// A listening server; stops when dropped.
pub struct Served {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    dir: TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeApi {
    /// Listens on a free port, in its own thread.
    pub fn serve(&self) -> Served {
        self.listen(None)
    }

    /// Serves with TLS: the certificate is for `fake.example`, and client certificates are optional.
    ///
    /// [`Served::dir`] then holds the authority's `ca.crt`, and `client.crt` with `client.key`.
    pub fn serve_tls(&self) -> Served {
        let served = self.listen(Some(tls::acceptor()));
        tls::write_client_files(served.dir());
        served
    }

    fn listen(&self, tls: Option<TlsAcceptor>) -> Served {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let fake = self.clone();
        let (stop, stopped) = oneshot::channel();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let address = listener.local_addr().expect("a bound socket");
                sender.send(address).expect("someone waits for the address");
                tokio::select! {
                    () = listen(fake, listener, tls) => {}
                    _ = stopped => {}
                }
            });
        });
        let url = format!("{scheme}://{}", receiver.recv().expect("an address"));
        let dir = tempfile::tempdir().expect("a temporary directory");
        let served = Served { url, dir, stop: Some(stop), thread: Some(thread) };
        let config = kubeconfig(&served.url, "fake").to_string();
        std::fs::write(served.kubeconfig(), config).expect("a kubeconfig that can be written");
        served
    }
}

impl Served {
    /// A kubeconfig whose only context, `fake`, is this server.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// A directory for additional files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Fails if the thread has already ended; then there is nothing to stop.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A kubeconfig with one context, cluster and user of that name.
pub fn kubeconfig(url: &str, name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": {}}],
    })
}

/// Accepts connections, except while they are refused.
async fn listen(fake: FakeApi, mut listener: TcpListener, tls: Option<TlsAcceptor>) {
    let address = listener.local_addr().expect("a bound socket");
    let mut refuses = fake.state().refuses.subscribe();
    loop {
        tokio::select! {
            () = accept(&fake, &listener, &tls) => {}
            _ = refuses.wait_for(|refuses| *refuses) => {}
        }
        drop(listener);
        let _ = refuses.wait_for(|refuses| !*refuses).await;
        listener = TcpListener::bind(address).await.expect("the same port");
    }
}

async fn accept(fake: &FakeApi, listener: &TcpListener, tls: &Option<TlsAcceptor>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (fake, tls) = (fake.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => converse(fake, stream, false).await,
                // A client that does not trust the certificate closes the connection.
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        let shown = stream.get_ref().1.peer_certificates().is_some();
                        converse(fake, stream, shown).await;
                    }
                }
            }
        });
    }
}

/// Serves one connection. If the client sent a certificate, requests are logged with an additional header.
async fn converse(fake: FakeApi, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, certificate: bool) {
    let mut refuses = fake.state().refuses.subscribe();
    let service = service_fn(move |mut request: Request<Incoming>| {
        if certificate {
            let shown = HeaderValue::from_static("shown");
            request.headers_mut().insert("x-client-certificate", shown);
        }
        fake.clone().call(request)
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let refused = async {
        let _ = refuses.wait_for(|refuses| *refuses).await.is_ok();
    };
    tokio::select! {
        // Ignore errors: a cut connection is a requested fault.
        _ = connection.as_mut() => return,
        () = refused => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
