//! Responses of the server: objects, or errors with the API server's messages.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::route::Route;
use super::watch::Watching;

/// The response to a request.
pub enum Answer {
    Reply(Response<Bytes>),
    /// The head and half of the body, then a connection error.
    Half(Response<Bytes>),
    /// The head and the log so far, then new lines.
    Follow {
        response: Response<Bytes>,
        /// Pod, container, and whether it is the log of the container's previous run.
        key: (String, String, bool),
        from: usize,
        stamped: bool,
    },
    /// The head, then watch events.
    Watch(Watching),
    /// A connection error without a response.
    Cut,
    /// No response, on an open connection.
    Hang,
}

pub fn ok(body: &Value) -> Response<Bytes> {
    reply(StatusCode::OK, body)
}

pub fn reply(status: StatusCode, body: &Value) -> Response<Bytes> {
    let body = serde_json::to_vec(body).expect("JSON values can be written");
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(body.into())
        .expect("a well-formed response")
}

/// The response of a real server to an unknown path.
pub fn no_such_path() -> Response<Bytes> {
    Response::builder()
        .status(StatusCode::NOT_FOUND)
        .header("content-type", "text/plain; charset=utf-8")
        .body(Bytes::from_static(b"404 page not found\n"))
        .expect("a well-formed response")
}

/// An error, as a `Status` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    /// Seconds, also sent as the `Retry-After` header.
    pub retry_after: Option<u64>,
}

impl Problem {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Problem {
        Problem { code, reason, message: message.into(), retry_after: None }
    }

    pub fn bad_request(message: impl Into<String>) -> Problem {
        Problem::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Problem {
        Problem::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn forbidden(route: &Route, user: &str) -> Problem {
        let kind = &route.kind;
        let place = match route.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let named = match route.name.as_str() {
            "" => String::new(),
            name => format!(" \"{name}\""),
        };
        let resource = match route.subresource.as_str() {
            "" => kind.plural.clone(),
            subresource => format!("{}/{subresource}", kind.plural),
        };
        Problem::new(
            403,
            "Forbidden",
            format!(
                "{}{named} is forbidden: User \"{user}\" cannot {} resource \"{resource}\" in API \
                 group \"{}\" {place}",
                kind.resource(),
                route.verb,
                kind.group,
            ),
        )
    }

    pub fn not_found(route: &Route) -> Problem {
        let message = format!("{} \"{}\" not found", route.kind.resource(), route.name);
        Problem::new(404, "NotFound", message)
    }

    pub fn already_exists(route: &Route, name: &str) -> Problem {
        let message = format!("{} \"{name}\" already exists", route.kind.resource());
        Problem::new(409, "AlreadyExists", message)
    }

    pub fn conflict(route: &Route) -> Problem {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please \
             apply your changes to the latest version and try again",
            route.kind.resource(),
            route.name
        );
        Problem::new(409, "Conflict", message)
    }

    pub fn expired() -> Problem {
        Problem::new(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter, or use the continue token in \
             this response to retrieve the remainder of the results.",
        )
    }

    /// The error for a JSON Patch whose `test` failed. Like a real server, it does not name the test.
    pub fn rejected_patch() -> Problem {
        Problem::new(422, "Invalid", "the server rejected our request due to an error in our request")
    }

    pub fn too_many(retry_after: u64) -> Problem {
        Problem {
            retry_after: Some(retry_after),
            ..Problem::new(
                429,
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later",
            )
        }
    }

    pub fn body(&self) -> Value {
        let mut details = json!({});
        if let Some(seconds) = self.retry_after {
            details["retryAfterSeconds"] = seconds.into();
        }
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        })
    }

    pub fn reply(&self) -> Response<Bytes> {
        let status = StatusCode::from_u16(self.code).expect("an HTTP status");
        let mut response = reply(status, &self.body());
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
