//! Container logs, and the streams that follow them.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::Stream;
use http::{Response, StatusCode};
use http_body::Frame;
use tokio::sync::watch;

use super::answer::{Answer, Problem};
use super::route::Route;
use super::{FakeApi, State};

/// Pod, container, and whether it is the log of the container's previous run.
type Key = (String, String, bool);

/// All logs, by pod name: every test has only one namespace with package pods.
#[derive(Default)]
pub struct Logs {
    written: BTreeMap<Key, Written>,
    /// Notified of every change.
    changes: watch::Sender<()>,
}

#[derive(Default, Clone)]
struct Written {
    /// Lines, each prefixed with its timestamp.
    text: String,
    ended: bool,
}

impl Logs {
    /// Adds lines, each prefixed with its timestamp: `2026-11-20T12:00:00Z it begins`.
    pub fn write(&mut self, pod: &str, container: &str, text: &str) {
        self.of(pod, container, false).text += text;
        self.changes.send_replace(());
    }

    /// Sets the whole log of the container's previous run.
    pub fn write_previous(&mut self, pod: &str, container: &str, text: &str) {
        let written = self.of(pod, container, true);
        text.clone_into(&mut written.text);
        written.ended = true;
    }

    /// Ends the container, and with it the streams that follow its log.
    pub fn end(&mut self, pod: &str, container: &str) {
        self.of(pod, container, false).ended = true;
        self.changes.send_replace(());
    }

    fn of(&mut self, pod: &str, container: &str, previous: bool) -> &mut Written {
        let key = (pod.to_owned(), container.to_owned(), previous);
        self.written.entry(key).or_default()
    }
}

impl State {
    /// The response to `GET pods/NAME/log`, like that of a server and a kubelet.
    pub fn read_log(&self, route: &Route, query: &BTreeMap<String, String>) -> Answer {
        let asked = |flag: &str| query.get(flag).is_some_and(|v| v == "true");
        let container = query.get("container").map_or("", String::as_str);
        let key = (route.name.clone(), container.to_owned(), asked("previous"));
        let problem = |problem: Problem| Answer::Reply(problem.reply());
        if let Err(missing) = self.store.get(&Route { subresource: String::new(), ..route.clone() }) {
            return problem(missing);
        }
        let pod = &route.name;
        let Some(written) = self.logs.written.get(&key) else {
            return problem(Problem::bad_request(if asked("previous") {
                format!("previous terminated container \"{container}\" in pod \"{pod}\" not found")
            } else {
                format!("container \"{container}\" in pod \"{pod}\" is waiting to start: PodInitializing")
            }));
        };
        let head = |body: Bytes| {
            Response::builder()
                .status(StatusCode::OK)
                .header("content-type", "text/plain")
                .body(body)
                .expect("a well-formed response")
        };
        let stamped = asked("timestamps");
        let text = shown(&chosen(&written.text, query), stamped);
        if asked("follow") {
            Answer::Follow { response: head(text.into()), key, from: written.text.len(), stamped }
        } else {
            Answer::Reply(head(text.into()))
        }
    }
}

/// The lines selected by `tailLines`, `sinceTime` and `sinceSeconds`.
fn chosen(text: &str, query: &BTreeMap<String, String>) -> String {
    let time = |text: &str| text.parse::<jiff::Timestamp>().expect("a time");
    let since = query.get("sinceTime").map(|t| time(t)).or_else(|| {
        let seconds = query.get("sinceSeconds")?.parse().expect("a number");
        Some(time(super::store::NOW) - jiff::SignedDuration::from_secs(seconds))
    });
    let lines: Vec<&str> = text
        .split_inclusive('\n')
        .filter(|line| since.is_none_or(|since| time(line.split(' ').next().unwrap_or("")) >= since))
        .collect();
    let tail = query.get("tailLines").map(|n| n.parse().expect("a number"));
    let skipped = lines.len().saturating_sub(tail.unwrap_or(usize::MAX));
    lines[skipped..].concat()
}

/// The lines, with timestamps only if `stamped`.
fn shown(text: &str, stamped: bool) -> String {
    if stamped {
        text.to_owned()
    } else {
        text.split_inclusive('\n').map(|line| line.split_once(' ').map_or(line, |(_, line)| line)).collect()
    }
}

/// Streams `first`, and then the log from byte `from` on, until the container ends.
pub fn follow(
    fake: FakeApi,
    first: Bytes,
    key: Key,
    from: usize,
    stamped: bool,
) -> impl Stream<Item = std::io::Result<Frame<Bytes>>> {
    let changes = fake.state().logs.changes.subscribe();
    let start = (fake, changes, from, Some(first));
    futures::stream::unfold(start, move |(fake, mut changes, from, first)| {
        let key = key.clone();
        async move {
            if let Some(first) = first.filter(|first| !first.is_empty()) {
                return Some((Ok(Frame::data(first)), (fake, changes, from, None)));
            }
            loop {
                changes.borrow_and_update();
                let written = fake.state().logs.written[&key].clone();
                if written.text.len() > from {
                    let text = shown(&written.text[from..], stamped);
                    let data = Ok(Frame::data(Bytes::from(text)));
                    return Some((data, (fake, changes, written.text.len(), None)));
                }
                if written.ended || changes.changed().await.is_err() {
                    return None;
                }
            }
        }
    })
}
