//! Single objects, whole, as they stand on the server.

use serde_json::Value;

use super::Ctx;
use crate::error::{Error, Result};
use crate::plan::Target;

impl Ctx {
    /// The object as it is now, with all of its fields; null if there is none.
    pub async fn object(&mut self, target: &Target) -> Result<Value> {
        let client = self.writer().await?;
        let request = http::Request::get(target.path()).body(Vec::new());
        let request = request.expect("a path of names");
        match client.request::<Value>(request).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
            Err(error) => Err(Error::failed(format!("cannot read {target}: {error}"))),
        }
    }
}
