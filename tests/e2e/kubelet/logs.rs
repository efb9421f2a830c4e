//! Serves container logs to the API server as a kubelet does: over TLS, and only for containers that would
//! have logs.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use anyhow::{Context, Result};
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use super::note;
use crate::api::{Access, Api};

/// Part of every line with a secret; must never appear in our output.
pub const SECRET: &str = "HUNTERTWO";
/// Start of the line in which a failing script names its error.
pub const FAILURE: &str = "mkdir: cannot create directory";

/// Number of unimportant lines at the start of each log.
const UNPACKED: usize = 600;

pub struct Logs {
    pub port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Logs {
    pub fn serve(access: &Access) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let (tls, access, stop) = (Arc::new(tls()?), access.clone(), Arc::default());
        let stopped: Arc<AtomicBool> = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (tls, access) = (tls.clone(), access.clone());
                // Ignore errors of clients that disconnect.
                let answer = move || stream.map(|stream| answer(tls, stream, &access));
                std::thread::spawn(answer);
            }
        });
        let thread = Some(thread);
        Ok(Self { port, stop, thread })
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Connect once, so that the accept loop wakes up and sees the flag.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A self-signed certificate: API servers verify it only if an authority is configured.
fn tls() -> Result<ServerConfig> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder().with_no_client_auth();
    Ok(config.with_single_cert(vec![certificate.der().clone()], key)?)
}

fn answer(tls: Arc<ServerConfig>, stream: TcpStream, access: &Access) -> Result<()> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(tls)?, stream));
    let mut request = String::new();
    stream.read_line(&mut request)?;
    let mut header = String::new();
    while stream.read_line(&mut header)? > 2 {
        header.clear();
    }
    let path = request.split(' ').nth(1).context("a request has a path")?;
    let (status, body) = match log(path, &Api::new(access)?) {
        Ok(text) => ("200 OK", text),
        Err(why) => ("400 Bad Request", format!("{why}\n")),
    };
    let stream = stream.get_mut();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    stream.conn.send_close_notify();
    Ok(stream.flush()?)
}

/// Answers a request such as `/containerLogs/NAMESPACE/POD/CONTAINER?previous=true&tailLines=20`.
fn log(path: &str, api: &Api) -> Result<String, String> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = path.split('/').collect();
    let ["", "containerLogs", namespace, name, container] = parts[..] else {
        return Err(format!("{path} is no log"));
    };
    let pod = api.get(&format!("/api/v1/namespaces/{namespace}/pods/{name}"));
    let pod = pod.map_err(|refused| refused.to_string())?;
    let ended = end(&pod, container, query.contains("previous=true"))?;
    let lines = lines(&pod, ended.as_ref());
    let tail = query.split('&').find_map(|part| part.strip_prefix("tailLines="));
    let tail = tail.and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
    let stamp = if query.contains("timestamps=true") { "2026-11-20T10:00:00.000000000Z " } else { "" };
    let from = lines.len().saturating_sub(tail);
    let lines = lines[from..].iter().map(|line| format!("{stamp}{line}\n"));
    Ok(lines.collect())
}

/// Returns the termination of the container run whose log is requested, or `None` while it is running. Errors
/// are those of a kubelet.
fn end(pod: &Value, container: &str, previous: bool) -> Result<Option<Value>, String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let all = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(|kind| pod["status"][kind].as_array().into_iter().flatten())
        .find(|status| status["name"] == container);
    let status =
        all.ok_or_else(|| format!("container \"{container}\" in pod \"{name}\" is not available"))?;
    let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
    if previous {
        return match last {
            Value::Null => {
                Err(format!("previous terminated container \"{container}\" in pod \"{name}\" not found"))
            }
            last => Ok(Some(last.clone())),
        };
    }
    if state["running"].is_object() {
        return Ok(None);
    }
    match (&state["terminated"], last) {
        (Value::Null, Value::Null) => {
            let reason = match state["waiting"]["reason"].as_str() {
                Some("ErrImagePull") => "image can't be pulled",
                Some("ImagePullBackOff") => "trying and failing to pull image",
                Some(other) => other,
                None => "no logs yet",
            };
            Err(format!("container \"{container}\" in pod \"{name}\" is waiting to start: {reason}"))
        }
        (Value::Null, last) => Ok(Some(last.clone())),
        (ended, _) => Ok(Some(ended.clone())),
    }
}

/// The log lines of a container: many secrets, and for a failed script its error followed by cleanup
/// messages.
fn lines(pod: &Value, ended: Option<&Value>) -> Vec<String> {
    let note = note(pod);
    let (package, stage) = (&note["name"], &note["stage"]);
    let mut lines = vec![format!("stage {stage} of {package} begins")];
    lines.extend(
        (0..UNPACKED).map(|n| format!("unpacking /opt/lib/modules/{n:04}/kernel/drivers/video/it.ko.zst")),
    );
    lines.extend([
        format!("export API_TOKEN={SECRET}"),
        format!(
            "curl -H 'Authorization: Bearer {SECRET}.{SECRET}.{SECRET}' https://user:{SECRET}@example.com/"
        ),
        format!("using AKIA{SECRET}0000000 and ghp_{SECRET}0000000000000"),
        format!("db.password: \"{SECRET} {SECRET}\""),
        "-----BEGIN RSA PRIVATE KEY-----".to_owned(),
        SECRET.to_owned(),
        "-----END RSA PRIVATE KEY-----".to_owned(),
    ]);
    if ended.is_some_and(|ended| ended["exitCode"] != 0) {
        let why = format!("{FAILURE} '/opt/{}': Read-only file system", package.as_str().unwrap_or_default());
        lines.push(why);
        lines.extend(["removing what was unpacked", "leaving the chroot", "bye"].map(str::to_owned));
    }
    lines
}
