//! API client with raw paths and JSON instead of typed objects, so that tests show the requests that they
//! send.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::{Client, Config, config::AuthInfo};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// One user's API client. It owns its runtime, so that synchronous code can use it from any thread.
pub struct Api {
    runtime: Runtime,
    client: Client,
}

#[derive(Clone)]
pub struct Access {
    pub url: String,
    pub ca: Vec<u8>,
    pub token: String,
}

#[derive(Debug)]
pub struct Refused {
    pub code: u16,
    pub message: String,
}

impl Access {
    /// Builds a client; call it inside the runtime that will use the client.
    pub fn client(&self, read_timeout: Option<Duration>) -> Result<Client> {
        let mut config = Config::new(self.url.parse()?);
        config.root_cert = Some(vec![self.ca.clone()]);
        config.auth_info = AuthInfo { token: Some(self.token.clone().into()), ..AuthInfo::default() };
        config.default_retry = false;
        config.read_timeout = read_timeout;
        Ok(Client::try_from(config)?)
    }
}

impl Api {
    pub fn new(access: &Access) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = {
            let _inside = runtime.enter();
            access.client(Some(Duration::from_secs(20)))?
        };
        Ok(Self { runtime, client })
    }

    /// Sends a GET request, with up to three retries if there is no response: on a busy machine connections
    /// may close.
    pub fn get(&self, path: &str) -> Result<Value, Refused> {
        let ask = || self.send(Method::GET, path, "application/json", None);
        let mut answer = ask();
        for _ in 0..3 {
            if !answer.as_ref().is_err_and(|refused| refused.code == 0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            answer = ask();
        }
        answer
    }

    /// Reads a list in the encoding that `accept` names.
    pub fn bytes(&self, path: &str, accept: &str) -> Vec<u8> {
        let request = Request::get(path).header("accept", accept);
        let request = request.body(Vec::new().into()).expect("a request");
        let answer = self.runtime.block_on(async {
            let response = self.client.send(request).await?;
            response.into_body().collect().await
        });
        answer.expect("an answer").to_bytes().to_vec()
    }

    /// Returns `None` for 404, and an error for any other failure.
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.get(path) {
            Ok(value) => Ok(Some(value)),
            Err(refused) if refused.code == 404 => Ok(None),
            Err(refused) => Err(anyhow!("GET {path}: {} {}", refused.code, refused.message)),
        }
    }

    pub fn items(&self, path: &str) -> Result<Vec<Value>> {
        let list =
            self.get(path).map_err(|refused| anyhow!("GET {path}: {} {}", refused.code, refused.message))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.send(Method::POST, path, "application/json", Some(body))
    }

    pub fn put(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.send(Method::PUT, path, "application/json", Some(body))
    }

    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value, Refused> {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(patch))
    }

    pub fn delete(&self, path: &str, options: &Value) -> Result<Value, Refused> {
        self.send(Method::DELETE, path, "application/json", Some(options))
    }

    /// Sends a merge patch; returns the server's warnings.
    pub fn merge_warned(&self, path: &str, patch: &Value) -> Result<Vec<String>> {
        let request = Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(patch.to_string().into_bytes().into())?;
        let response = self.runtime.block_on(self.client.send(request))?;
        anyhow::ensure!(response.status().is_success(), "{path}: {}", response.status());
        let warnings = response.headers().get_all("warning").iter();
        Ok(warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect())
    }

    /// Reads a body that is not JSON, such as the server's metrics.
    pub fn text(&self, path: &str) -> Result<String> {
        let request = Request::get(path).body(Vec::new())?;
        Ok(self.runtime.block_on(self.client.request_text(request))?)
    }

    /// Waits until the server is ready.
    pub fn await_ready(&self, limit: Duration) -> Result<()> {
        let path = Request::get("/readyz").body(Vec::new())?;
        let begun = Instant::now();
        loop {
            match self.runtime.block_on(self.client.request_text(path.clone())) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > limit => {
                    return Err(error).context("the API server is not ready");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(25)),
            }
        }
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        let bytes = body.map(|value| value.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content)
            .body(bytes)
            .map_err(|error| Refused { code: 0, message: error.to_string() })?;
        self.runtime.block_on(self.client.request(request)).map_err(|error| match error {
            kube::Error::Api(status) => Refused { code: status.code, message: status.message.clone() },
            other => Refused { code: 0, message: format!("{other:#}") },
        })
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.code, self.message)
    }
}

impl std::error::Error for Refused {}
