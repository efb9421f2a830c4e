//! Responses and errors of the proxy itself.

use std::io;

use bytes::Bytes;
use futures::StreamExt;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::json;

use super::ProxyResponse;

pub fn closed() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

pub fn full(body: Bytes) -> UnsyncBoxBody<Bytes, io::Error> {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

pub fn half(body: Bytes) -> UnsyncBoxBody<Bytes, io::Error> {
    let half = body.slice(..body.len() / 2);
    // An immediate error would discard the first half, too.
    let later = async {
        tokio::task::yield_now().await;
        Err(io::Error::from(io::ErrorKind::UnexpectedEof))
    };
    let frames = futures::stream::once(async { Ok(Frame::data(half)) });
    StreamBody::new(frames.chain(futures::stream::once(later))).boxed_unsync()
}

pub fn text(code: u16, kind: &'static str, text: &'static str) -> ProxyResponse {
    let response = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, kind)
        .body(full(Bytes::from_static(text.as_bytes())));
    response.expect("a response of known parts")
}

/// An error as the API server sends it.
pub fn api_error(code: u16, wait: Option<u32>) -> ProxyResponse {
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
        429 => ("TooManyRequests", "Too many requests, please try again later"),
        500 => ("InternalError", "Internal error occurred"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "request did not complete within the allotted time"),
        code => panic!("no error message for {code}"),
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
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait));
    }
    response
}
