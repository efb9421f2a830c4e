//! Faults that tests set by rules.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;

use super::answer::{Answer, Problem, no_such_path, ok};
use super::route::Route;
use super::{FakeApi, State};

/// The reply of a rule to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    Problem(Problem),
    /// 403 as the server sends it; if it is permanent, access reviews deny the request, too.
    Forbidden,
    /// 404 for a path that is not served.
    NotFound,
    /// 409: another client has changed the object in the meantime.
    Conflict,
    /// 200 with this body instead of the real one.
    Body(String),
    /// The real response, with a `Warning` header.
    Warn(String),
    /// The real response, after this change of the state.
    After(Change),
    /// The real response, cut in the middle.
    Half,
    Cut,
    Hang,
}

/// A change of the state.
#[derive(Clone)]
pub struct Change(pub Arc<dyn Fn(&mut State) + Send + Sync>);

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Change")
    }
}

impl From<u16> for Reply {
    fn from(code: u16) -> Reply {
        match code {
            401 => Reply::Problem(Problem::unauthorized()),
            403 => Reply::Forbidden,
            404 => Reply::NotFound,
            409 => Reply::Conflict,
            410 => Reply::Problem(Problem::expired()),
            422 => Reply::Problem(Problem::new(422, "Invalid", "denied by the admission webhook")),
            429 => Reply::Problem(Problem::too_many(1)),
            500 => Reply::Problem(Problem::new(500, "InternalError", "Internal error occurred")),
            503 => Reply::Problem(Problem::new(
                503,
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            )),
            504 => Reply::Problem(Problem::new(504, "Timeout", "request did not complete")),
            code => panic!("no default message for {code}: pass a Problem"),
        }
    }
}

impl From<Problem> for Reply {
    fn from(problem: Problem) -> Reply {
        Reply::Problem(problem)
    }
}

/// Builds a rule: first the requests that it matches, then its reply.
///
/// The pattern is `VERB RESOURCE[/SUBRESOURCE] [NAME]`, such as `LIST nodes` or
/// `PATCH nodes/status node-1`, with `*` for any; or `METHOD /path` for other paths, such as discovery.
/// Rules are tried in order, and the first match gives the reply. Warnings and changes apply additionally.
#[must_use = "a rule does nothing before it is told what to reply"]
pub struct Rule {
    fake: FakeApi,
    rule: ActiveRule,
}

/// A complete rule.
#[derive(Debug, Clone)]
pub struct ActiveRule {
    verb: String,
    resource: String,
    subresource: String,
    name: Option<String>,
    namespace: Option<String>,
    continued: bool,
    /// The first matching request that gets the reply, counted from 1, and the number of such requests.
    first: usize,
    count: usize,
    seen: usize,
    reply: Reply,
}

impl Rule {
    pub(super) fn new(fake: FakeApi, pattern: &str) -> Rule {
        let mut words = pattern.split_whitespace();
        let verb = words.next().expect("a verb").to_lowercase();
        let resource = words.next().expect("a resource").to_owned();
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) if !resource.is_empty() => {
                (resource.to_owned(), subresource.to_owned())
            }
            _ => (resource, String::new()),
        };
        Rule {
            fake,
            rule: ActiveRule {
                verb,
                resource,
                subresource,
                name: words.next().map(str::to_owned),
                namespace: None,
                continued: false,
                first: 1,
                count: usize::MAX,
                seen: 0,
                reply: Reply::Hang,
            },
        }
    }

    /// Matches only requests in this namespace.
    pub fn inside(mut self, namespace: &str) -> Rule {
        self.rule.namespace = Some(namespace.to_owned());
        self
    }

    /// Matches only requests for all namespaces at once.
    pub fn everywhere(self) -> Rule {
        self.inside("")
    }

    /// Matches only pages of a list after the first page.
    pub fn continued(mut self) -> Rule {
        self.rule.continued = true;
        self
    }

    /// Applies only to the n-th matching request, counted from 1.
    pub fn nth(mut self, n: usize) -> Rule {
        self.rule.first = n;
        self.rule.count = 1;
        self
    }

    /// Applies only from the n-th matching request on, counted from 1.
    pub fn since(mut self, n: usize) -> Rule {
        self.rule.first = n;
        self
    }

    /// Applies only to the first n matching requests.
    pub fn times(mut self, n: usize) -> Rule {
        self.rule.count = n;
        self
    }

    /// Activates the rule: changes the state right before the real response.
    pub fn after(self, change: impl Fn(&mut State) + Send + Sync + 'static) {
        self.reply(Reply::After(Change(Arc::new(change))));
    }

    /// Activates the rule.
    pub fn reply(mut self, reply: impl Into<Reply>) {
        self.rule.reply = reply.into();
        self.fake.state().rules.push(self.rule);
    }
}

impl ActiveRule {
    fn fits(&self, route: &Route) -> bool {
        let fits = |pattern: &str, value: &str| pattern == "*" || pattern == value;
        fits(&self.verb, route.verb)
            && fits(&self.resource, &route.kind.plural)
            && (self.resource == "*" || self.subresource == route.subresource)
            && self.name.as_deref().is_none_or(|name| name == route.name)
            && self.namespace.as_deref().is_none_or(|n| n == route.namespace)
    }

    fn fits_path(&self, method: &str, path: &str) -> bool {
        self.verb.eq_ignore_ascii_case(method) && self.resource == path
    }

    /// Whether the rule permanently forbids the request.
    pub fn forbids(&self, route: &Route) -> bool {
        matches!(self.reply, Reply::Forbidden) && self.count == usize::MAX && self.fits(route)
    }
}

/// The result of applying the rules to a request.
#[derive(Default)]
pub struct Verdict {
    /// The response of a rule, which replaces the real one.
    pub answer: Option<Answer>,
    pub warnings: Vec<String>,
    pub half: bool,
    pub changes: Vec<Change>,
}

/// Applies the rules, counting the request for each rule that it matches.
pub fn judge(
    rules: &mut [ActiveRule],
    method: &str,
    path: &str,
    query: &BTreeMap<String, String>,
    route: Option<&Route>,
    user: &str,
) -> Verdict {
    let mut verdict = Verdict::default();
    for rule in rules {
        let fits = rule.fits_path(method, path) || route.is_some_and(|r| rule.fits(r));
        if !fits || (rule.continued && !query.contains_key("continue")) {
            continue;
        }
        rule.seen += 1;
        if rule.seen < rule.first || rule.seen - rule.first >= rule.count {
            continue;
        }
        match (&rule.reply, route) {
            (Reply::Warn(text), _) => {
                verdict.warnings.push(text.clone());
                continue;
            }
            (Reply::After(change), _) => {
                verdict.changes.push(change.clone());
                continue;
            }
            (Reply::Half, _) => verdict.half = true,
            (reply, route) => verdict.answer = Some(answer(reply, route, user)),
        }
        break;
    }
    verdict
}

fn answer(reply: &Reply, route: Option<&Route>, user: &str) -> Answer {
    let problem = |problem: Problem| Answer::Reply(problem.reply());
    match (reply, route) {
        (Reply::Problem(p), _) => problem(p.clone()),
        (Reply::Forbidden, Some(route)) => problem(Problem::forbidden(route, user)),
        (Reply::Forbidden, None) => problem(Problem::new(
            403,
            "Forbidden",
            format!("forbidden: User \"{user}\" cannot get path \"/apis\""),
        )),
        (Reply::Conflict, Some(route)) => problem(Problem::conflict(route)),
        (Reply::NotFound | Reply::Conflict, _) => Answer::Reply(no_such_path()),
        (Reply::Body(text), _) => {
            let mut response: Response<Bytes> = ok(&serde_json::Value::Null);
            *response.body_mut() = Bytes::from(text.clone());
            Answer::Reply(response)
        }
        (Reply::Cut, _) => Answer::Cut,
        (Reply::Hang, _) => Answer::Hang,
        (Reply::Warn(_) | Reply::After(_) | Reply::Half, _) => {
            unreachable!("the real response is kept")
        }
    }
}
