//! The server as a tower service.

use std::convert::Infallible;
use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::header::DATE;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;
use tower::Service;

use super::answer::{Answer, Problem, no_such_path, ok, reply};
use super::route::{Route, query};
use super::{FakeApi, Logged, State, container_log, discovery, fault, metadata, review, watch};

pub type FakeBody = BoxBody<Bytes, io::Error>;

impl<B> Service<Request<B>> for FakeApi
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Debug,
{
    type Response = Response<FakeBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Response<FakeBody>, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let fake = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body that can be read");
            let latency = fake.state().latency;
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            let path = head.uri.path().to_owned();
            let answer = fake.state().answer(head, &body.to_bytes());
            fake.note_event();
            if let Answer::Reply(response) = &answer {
                let mut state = fake.state();
                let [count, bytes] = state.answered.entry(path).or_default();
                (*count, *bytes) = (*count + 1, *bytes + response.body().len());
            }
            let date = fake.state().date();
            let cut = || io::Error::from(io::ErrorKind::ConnectionReset);
            match answer {
                Answer::Reply(mut response) => {
                    response.headers_mut().extend(date.map(|date| (DATE, date)));
                    Ok(response.map(whole))
                }
                Answer::Half(response) => Ok(response.map(half)),
                Answer::Follow { response, key, from, stamped } => {
                    let follow = |first| container_log::follow(fake, first, key, from, stamped);
                    Ok(response.map(|first| BodyExt::boxed(StreamBody::new(follow(first)))))
                }
                Answer::Watch(watching) => {
                    let mut response = ok(&Value::Null);
                    response.headers_mut().extend(date.map(|date| (DATE, date)));
                    let changes = || StreamBody::new(watch::changes(fake, watching));
                    Ok(response.map(|_| BodyExt::boxed(changes())))
                }
                Answer::Cut => Err(cut()),
                Answer::Hang => std::future::pending().await,
            }
        })
    }
}

fn whole(body: Bytes) -> FakeBody {
    Full::new(body).map_err(|never: Infallible| match never {}).boxed()
}

fn half(body: Bytes) -> FakeBody {
    let half = body.slice(..body.len() / 2);
    let broken = io::Error::from(io::ErrorKind::UnexpectedEof);
    // An immediate error would discard the first half, too.
    let later = async move {
        tokio::task::yield_now().await;
        Err(broken)
    };
    let frames = futures::stream::once(async { Ok(Frame::data(half)) });
    let frames = frames.chain(futures::stream::once(later));
    BodyExt::boxed(StreamBody::new(frames))
}

impl State {
    /// The `Date` header, if the server's clock differs from this machine's clock.
    fn date(&self) -> Option<HeaderValue> {
        let now = kubectl_skyhook::ctx::now() + self.clock_ahead?;
        let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        Some(HeaderValue::from_str(&date).expect("ASCII"))
    }

    /// Logs a request, and returns its response.
    fn answer(&mut self, head: Parts, body: &[u8]) -> Answer {
        let logged = Logged {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: query(head.uri.query().unwrap_or_default()),
            headers: head.headers,
            body: serde_json::from_slice(body).unwrap_or(Value::Null),
            text: String::from_utf8_lossy(body).into_owned(),
        };
        self.log.push(logged.clone());
        if let Some(token) = &self.token
            && logged.header("authorization") != format!("Bearer {token}")
        {
            return Answer::Reply(Problem::unauthorized().reply());
        }
        let (method, path) = (logged.method.as_str(), logged.path.as_str());
        let route = Route::parse(&self.store.kinds, method, path, &logged.query);
        let user = match logged.header("impersonate-user") {
            user if user.is_empty() => "jane".to_owned(),
            user => user,
        };
        let verdict = fault::judge(&mut self.rules, method, path, &logged.query, route.as_ref(), &user);
        if let Some(answer) = verdict.answer {
            return answer;
        }
        for change in verdict.changes {
            (change.0)(self);
        }
        if let Some(route) = route.as_ref().filter(|r| r.verb == "get" && r.subresource == "log") {
            return match (self.read_log(route, &logged.query), verdict.half) {
                (Answer::Reply(response) | Answer::Follow { response, .. }, true) => Answer::Half(response),
                (answer, _) => answer,
            };
        }
        if let Some(route) = route.as_ref().filter(|r| r.verb == "watch") {
            return match self.store.history.begin(route, &logged.query) {
                Ok(watching) => Answer::Watch(watching),
                Err(problem) => Answer::Reply(problem.reply()),
            };
        }
        let mut response = match &route {
            Some(route) => self.perform(route, &logged).unwrap_or_else(|problem| problem.reply()),
            None if path == review::PATH && method == "POST" => {
                let review = review::answer(self, logged.body.clone());
                reply(StatusCode::CREATED, &review)
            }
            None => match discovery::document(&self.store.kinds, path) {
                Some(document) if method == "GET" => ok(&document),
                _ => no_such_path(),
            },
        };
        for warning in verdict.warnings {
            let value = format!("299 - \"{}\"", warning.replace('"', "\\\""));
            let value = HeaderValue::from_str(&value).expect("a warning that a header can hold");
            response.headers_mut().append(http::header::WARNING, value);
        }
        if verdict.half { Answer::Half(response) } else { Answer::Reply(response) }
    }

    /// Executes a request for objects.
    fn perform(&mut self, route: &Route, asked: &Logged) -> Result<Response<Bytes>, Problem> {
        let dry = match (route.verb, &asked.body) {
            // Like a real server, ignore the query of a deletion with a body.
            ("delete", body) if body.is_object() => body["dryRun"][0].as_str(),
            _ => asked.query.get("dryRun").map(String::as_str),
        } == Some("All");
        let store = &mut self.store;
        match route.verb {
            "list" if !self.whole_objects && metadata::requested(asked) => {
                store.list(route, &asked.query).map(metadata::of_list)
            }
            "list" => store.list(route, &asked.query),
            "get" => store.get(route),
            "create" => {
                let made = store.create(route, asked.body.clone(), dry)?;
                return Ok(reply(StatusCode::CREATED, &made));
            }
            "update" => store.update(route, asked.body.clone(), dry),
            "patch" => {
                let content_type = asked.header("content-type");
                if super::patch::test_never_matches(&content_type, asked) {
                    return Err(Problem::rejected_patch());
                }
                store.patch(route, &content_type, &asked.body, dry)
            }
            "delete" => store.delete(route, &asked.body, dry),
            verb => Err(Problem::new(405, "MethodNotAllowed", format!("{verb} is not served here"))),
        }
        .map(|object| ok(&object))
    }
}
