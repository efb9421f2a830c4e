//! (edge) The only writer: applies a plan. Each step is one guarded request, which may be retried.
//!
//! Reports each [`ApplyEvent`]. Progress, the result table, JSON and the journal are built from these events.

mod event;
pub mod file;
pub mod journal;
pub mod precondition;
mod send;
mod stages;
mod step;

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{LocalBoxFuture, join_all};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;
use precondition::SharedCheck;
use send::ApiWriter;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time;

use crate::args::connection::Connection;
use crate::plan::{Goal, Permission, Plan, Step, Target};

pub use event::{ApplyEvent, PlanOutcome, PlanVerdict, StepResult, StopReason, Tally};
pub use journal::Journal;
pub use precondition::unmet;
pub use stages::{Canary, Share};

/// Options for applying a plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum number of concurrent requests.
    pub parallel: usize,
    /// Whether the server only validates the requests (`dryRun=All`).
    pub dry_run: bool,
    /// The size of the first wave of nodes, and the pause between waves.
    pub canary: Option<Canary>,
    /// Maximum number of failed steps. Between two waves, erroring nodes count as failures, and `None` means
    /// 0.
    pub max_failures: Option<usize>,
    /// Timeout of a request.
    pub timeout: Duration,
    /// Maximum wait for a `Retry-After` of the server.
    pub longest_wait: Duration,
    /// The identity written into our pauses.
    pub holder: String,
    /// Interval between polls for a stage's effect, and delay before the first retry.
    pub retry_wait: Duration,
    /// The value of `--namespace`, where the operator is looked for if not all namespaces may be read.
    pub namespace: Option<String>,
}

impl Options {
    /// The defaults with the timeout of `--request-timeout`.
    pub fn of_connection(connection: &Connection) -> Options {
        let mut options = Options { namespace: connection.namespace.clone(), ..Options::default() };
        if let Some(limit) = connection.timeout() {
            options.timeout = limit;
            options.longest_wait = options.longest_wait.min(limit);
        }
        options
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parallel: 32,
            dry_run: false,
            canary: None,
            max_failures: None,
            timeout: Duration::from_secs(30),
            longest_wait: Duration::from_secs(60),
            holder: precondition::of(jiff::Timestamp::UNIX_EPOCH, |_| None).identity(),
            retry_wait: Duration::from_millis(250),
            namespace: None,
        }
    }
}

/// Applies a plan. The journal, if any, is on disk before the first request.
///
/// After a stop by the user, a journal failure or too many failed steps, requests in flight are finished, and
/// only steps that restore the plan's own changes are sent. Without a `wait_strategy`, the effects of stages
/// are polled.
pub async fn apply<'h>(
    client: &Client,
    plan: &Plan,
    options: &Options,
    journal: Option<&'h mut Journal>,
    stop: &Stop,
    on_event: &'h mut dyn FnMut(&ApplyEvent<'_>),
    wait_strategy: Option<&mut dyn WaitStrategy>,
) -> PlanOutcome {
    let run = PlanRun {
        in_flight: Semaphore::new(options.parallel.max(1)),
        checks: plan.preconditions.resources.iter().map(|_| SharedCheck::default()).collect(),
        unmet: RefCell::new(None),
        api: ApiWriter::new(client.clone(), options),
        plan,
        options,
        stop,
        on_event: RefCell::new(on_event),
        journal: RefCell::new(journal),
        results: RefCell::new(PlanOutcome::not_begun(plan, StopReason::Finished).results),
    };
    run.emit(&ApplyEvent::Started { steps: plan.steps().count() });
    let ended = run.stages(wait_strategy).await;
    let outcome = PlanOutcome { ended, results: run.results.take() };
    run.emit(&ApplyEvent::Done { outcome: &outcome });
    outcome
}

struct PlanRun<'a, 'h> {
    /// Limits the concurrent requests of all stages.
    in_flight: Semaphore,
    /// The check of each custom resource in the plan's preconditions.
    checks: Vec<SharedCheck>,
    /// A precondition that is not met any more: no further stage runs, except those with `always`.
    unmet: RefCell<Option<String>>,
    api: ApiWriter,
    plan: &'a Plan,
    options: &'a Options,
    stop: &'a Stop,
    on_event: RefCell<&'h mut dyn FnMut(&ApplyEvent<'_>)>,
    journal: RefCell<Option<&'h mut Journal>>,
    results: RefCell<Vec<Vec<StepResult>>>,
}

impl PlanRun<'_, '_> {
    fn emit(&self, event: &ApplyEvent<'_>) {
        if let Some(journal) = self.journal.borrow_mut().as_mut() {
            journal.on_event(event);
        }
        (self.on_event.borrow_mut())(event);
    }

    /// Why the journal is incomplete; `None` if it is complete or not written at all.
    fn unjournalled(&self) -> Option<String> {
        let journal = self.journal.borrow();
        journal.as_ref().and_then(|journal| journal.trouble()).map(str::to_owned)
    }

    /// Runs the steps of a stage and polls for its effect; returns `None` if the wait strategy waits for the
    /// effect.
    async fn stage(&self, number: usize, by_strategy: bool) -> Option<StopReason> {
        let ended = self.take_steps(number).await;
        match &self.plan.stages[number].until {
            Some(until) if ended == StopReason::Finished && !self.options.dry_run => {
                if by_strategy {
                    self.emit(&ApplyEvent::Waiting { until });
                    return None;
                }
                Some(self.wait_until(until).await)
            }
            _ => Some(ended),
        }
    }

    async fn take_steps(&self, number: usize) -> StopReason {
        let stage = &self.plan.stages[number];
        let waves = match &self.options.canary {
            Some(canary) => canary.waves(stage),
            None => std::iter::once(0..stage.steps.len()).collect(),
        };
        if let Some(first) = stage.until.as_ref().and_then(Goal::first)
            && !self.options.dry_run
            && self.holds(&first).await != Ok(true)
        {
            let ended = self.wait_until(&first).await;
            if ended != StopReason::Finished {
                return ended;
            }
        }
        let last = waves.len().saturating_sub(1);
        // A step that waits for the operator sends no requests during the wait, and must not occupy a slot.
        let waits = stage.steps.iter().any(|s| !s.stays_removed.is_empty());
        let at_once = if waits { stage.steps.len() } else { self.options.parallel };
        for (nth, wave) in waves.into_iter().enumerate() {
            if !stage.always && !self.operator_is_met().await {
                return self.precondition_failed();
            }
            let done = wave.end;
            let at = |at| (at, &stage.steps[at]);
            futures::stream::iter(wave.map(at))
                .map(|(at, step)| self.step(number, at, step, stage.always))
                .buffer_unordered(at_once.max(1))
                .collect::<Vec<()>>()
                .await;
            if self.stop.asked() && !stage.always {
                return StopReason::Interrupted;
            }
            if let Some(reason) = self.unjournalled().filter(|_| !stage.always) {
                return StopReason::JournalFailed { reason };
            }
            if self.unmet.borrow().is_some() && !stage.always {
                return self.precondition_failed();
            }
            let failed = self.failed();
            if nth < last {
                if let Some(ended) =
                    self.between(number, &stage.steps[..done], stage.steps.len() - done).await
                {
                    return ended;
                }
            } else if self.options.max_failures.is_some_and(|most| failed > most) && !stage.always {
                return StopReason::TooManyFailures { failed };
            }
        }
        // The effect of a stage requires all of its steps.
        let missed = !self.results.borrow()[number].iter().all(StepResult::is_settled);
        if missed && self.plan.is_relied_on(number) {
            return StopReason::DependencyFailed;
        }
        StopReason::Finished
    }

    async fn step(&self, stage: usize, at: usize, step: &Step, always: bool) {
        let mut permit = self.in_flight.acquire().await.ok();
        let fails = self.options.max_failures.is_some_and(|most| self.failed() > most);
        let unmet = self.unmet.borrow().is_some();
        if !always && (unmet || self.stop.asked() || fails || self.unjournalled().is_some()) {
            return;
        }
        self.emit(&ApplyEvent::Sending { step });
        // In a dry run, skip requests that would fail: a recreated object still exists, and a created object
        // does not exist yet.
        let beyond = self.plan.recreates(step) || self.plan.targets_created_object(step);
        let result = if self.options.dry_run && beyond {
            StepResult::Applied
        } else {
            self.execute(&mut permit, (stage, at), step, always).await
        };
        self.emit(&ApplyEvent::Step { place: (stage, at), step, result: &result });
        self.results.borrow_mut()[stage][at] = result;
    }

    fn failed(&self) -> usize {
        self.results.borrow().iter().flatten().filter(|result| is_failure(result)).count()
    }

    /// Pauses between two waves. Returns a stop reason if the user stops the plan, too many steps failed or
    /// nodes are erroring, or the nodes cannot be read.
    async fn between(&self, stage: usize, done: &[Step], left: usize) -> Option<StopReason> {
        let pause = self.options.canary.as_ref().map_or(Duration::ZERO, |c| c.pause);
        let most = self.options.max_failures.unwrap_or(0);
        if self.failed() > most {
            return Some(StopReason::TooManyFailures { failed: self.failed() });
        }
        self.emit(&ApplyEvent::Pausing { pause, done: done.len(), left });
        if self.stop.during(time::sleep(pause)).await.is_none() {
            return Some(StopReason::Interrupted);
        }
        let erroring = match self.erroring(stage, done).await {
            Ok(erroring) => erroring,
            Err(reason) => return Some(StopReason::NodesUnreadable { reason }),
        };
        let failed = self.failed() + erroring.len();
        (failed > most).then_some(if erroring.is_empty() {
            StopReason::TooManyFailures { failed }
        } else {
            StopReason::NodesErroring { nodes: erroring }
        })
    }

    /// The names of the nodes of these steps that match the plan's `erroring` selector, without failed steps.
    async fn erroring(&self, stage: usize, done: &[Step]) -> Result<Vec<String>, String> {
        let Some(selector) = &self.plan.erroring else {
            return Ok(Vec::new());
        };
        let failed = |at: usize| is_failure(&self.results.borrow()[stage][at]);
        let written = done.iter().enumerate().filter(|(at, _)| !failed(*at));
        let written: Vec<&str> = written.map(|(_, step)| step.target.name.as_str()).collect();
        let mut nodes = self.api.retried(async || self.api.named("/api/v1/nodes", selector).await).await?;
        nodes.retain(|n| written.contains(&n.as_str()));
        Ok(nodes)
    }
}

/// Whether a result counts against `--max-failures`.
fn is_failure(result: &StepResult) -> bool {
    matches!(result, StepResult::Failed { .. } | StepResult::Unknown { .. })
}

/// The result of the permission checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionCheck {
    /// The missing permissions.
    pub denied: Vec<Permission>,
    /// Why permissions could not be checked.
    pub unknown: Option<String>,
}

/// Maximum number of objects whose permissions are checked by name.
const MOST_NAMES: usize = 32;

/// Checks exactly the verbs that the plan needs.
pub async fn preflight(client: &Client, plan: &Plan, options: &Options) -> PermissionCheck {
    let api = ApiWriter::new(client.clone(), options);
    let permissions = plan.permissions();
    let answers = join_all(permissions.iter().map(|p| api.review(review(p, None)))).await;
    let mut preflight = PermissionCheck::default();
    for (permission, answer) in permissions.into_iter().zip(answers) {
        match answer {
            Ok(true) => {}
            Ok(false) if allowed_by_name(&api, plan, &permission).await => {}
            Ok(false) => preflight.denied.push(permission),
            Err(reason) => preflight.unknown = Some(reason),
        }
    }
    preflight
}

/// Whether the permission is granted for each object of the plan by name, as with `resourceNames` of a role.
/// `false` for creations, and for more than [`MOST_NAMES`] objects, which are not checked by name.
async fn allowed_by_name(api: &ApiWriter, plan: &Plan, permission: &Permission) -> bool {
    let names = plan.needed_for(permission);
    if permission.verb == "create" || names.len() > MOST_NAMES {
        return false;
    }
    let asked = names.iter().map(|name| api.review(review(permission, Some(name))));
    join_all(asked).await.iter().all(|a| *a == Ok(true))
}

fn review(permission: &Permission, name: Option<&str>) -> SelfSubjectAccessReview {
    let text = |text: &str| Some(text.to_owned());
    SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: text(permission.verb),
                group: text(permission.group),
                resource: text(permission.resource),
                subresource: permission.subresource.and_then(text),
                name: name.and_then(text),
                namespace: permission.namespace.clone(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    }
}

/// Requests that a plan stops.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Observes the stop request of a plan.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    pub fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    pub fn asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Runs a future until a stop is requested; `None` if that happens first.
    pub async fn during<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut receiver = self.0.clone();
        let asked = async move {
            // A dropped sender never stops us.
            if receiver.wait_for(|asked| *asked).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = asked => None,
            output = future => Some(output),
        }
    }
}

/// Why the server refuses a manifest in a dry run, which stores nothing; `None` if it accepts the manifest.
///
/// # Errors
///
/// The server could not be asked.
pub async fn refusal(
    client: &Client,
    options: &Options,
    target: &Target,
    manifest: &Value,
) -> Result<Option<String>, String> {
    ApiWriter::new(client.clone(), options).refusal(target, manifest).await
}

/// Waits on behalf of the writer for slow effects, shows progress, and reports when an effect cannot occur.
pub trait WaitStrategy {
    /// Waits for these goals until at least one wait ends; returns the indices of the ended waits, and the
    /// reason.
    ///
    /// The future may be dropped at any time, and `wait` called again with more goals.
    fn wait<'a>(&'a mut self, goals: &'a [&'a Goal]) -> LocalBoxFuture<'a, (Vec<usize>, StopReason)>;
}

impl PlanRun<'_, '_> {
    /// Polls the object until the condition holds. If the last read before the timeout failed, the result is
    /// unknown.
    async fn wait_until(&self, until: &Goal) -> StopReason {
        self.emit(&ApplyEvent::Waiting { until });
        let unread = RefCell::new(None);
        let come_about = async {
            loop {
                let looked = self.holds(until).await;
                if looked == Ok(true) {
                    return StopReason::Finished;
                }
                unread.replace(looked.err());
                time::sleep(self.options.retry_wait).await;
            }
        };
        let ended = self.stop.during(async {
            if until.at_most == 0 {
                return come_about.await;
            }
            let limit = Duration::from_secs(until.at_most);
            let ended = time::timeout(limit, come_about).await;
            ended.unwrap_or_else(|_| match unread.take() {
                Some(reason) => StopReason::Unknown {
                    reason: format!("cannot tell whether {}: {reason}", until.describe()),
                },
                None => StopReason::TimedOut { waiting: until.describe() },
            })
        });
        ended.await.unwrap_or(StopReason::Interrupted)
    }

    /// Whether the condition holds; or why the object could not be read.
    async fn holds(&self, until: &Goal) -> Result<bool, String> {
        let object = self.api.read(&until.target).await?;
        Ok(until.holds(&object))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        connection: Connection,
    }

    #[test]
    fn a_request_may_take_as_long_as_the_flag_says_and_thirty_seconds_otherwise() {
        for (flag, seconds) in [
            (None, 30),
            (Some("--request-timeout=0"), 30),
            (Some("--request-timeout=1s"), 1),
            (Some("--request-timeout=2m"), 120),
        ] {
            let flags = Flags::parse_from(["x"].into_iter().chain(flag));
            let options = Options::of_connection(&flags.connection);
            assert_eq!(options.timeout, Duration::from_secs(seconds), "{flag:?}");
        }
    }
}
