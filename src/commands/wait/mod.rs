use std::cell::OnceCell;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::shared::command::command;
use super::shared::diagnosis::Diagnosis;
use super::shared::scope;
use crate::api::Skyhook;
use crate::apply::StopReason;
use crate::args::connection::duration;
use crate::cluster::live::WATCHED;
use crate::cluster::{Cluster, Source};
use crate::ctx::{Aim, AimProgress, Ctx};
use crate::error::{Error, Exit, Result};
use crate::plan::{Condition, Goal};
use crate::rules::Scope;
use crate::view::text::{self, Text};
use crate::view::{View, document, duration_text, shell_words};
use crate::wait::{BlockerCheck, Blockers, Wait};

/// Wait for a condition on custom resources
///
/// Waits until all of the custom resources meet the condition; with --for=erroring, until one does. Exits with 2, and
/// prints the reason, as soon as the rules find, twice in a row, that someone has to intervene, and with 5 on timeout.
/// A custom resource that selects no node is not complete. Failures that are retried, node reboots and a temporarily
/// unavailable API server do not end the wait.
///
/// An unknown name is an error, even with --for=deleted, unless nodes still have records of it.
/// `kubectl wait --for=delete` succeeds for any such name, so that a mistyped name passes a pipeline;
/// --ignore-not-found does the same here.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # After changing the spec
  kubectl skyhook wait gpu-tune --timeout 1h

  kubectl skyhook wait gpu-tune --for=uninstalled=driver

  # After kubectl delete --wait=false
  kubectl skyhook wait gpu-tune --for=deleted --ignore-not-found")]
pub struct Args {
    /// Names of custom resources; default: all
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    names: Vec<String>,

    /// Condition to wait for; uninstalled=PACKAGE waits for this package only
    #[arg(long = "for", value_name = "complete|uninstalled|deleted|erroring", default_value = "complete")]
    condition: Condition,

    /// With --for=deleted, count a custom resource that does not exist as deleted
    #[arg(long)]
    ignore_not_found: bool,

    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration)]
    timeout: Duration,

    /// Keep waiting even if a blocking problem is found
    #[arg(long)]
    keep_going: bool,

    /// How long to tolerate retried failures [default: 2m; 0 with operators from v0.18, which give up a stage
    /// only after its last attempt]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tolerate: Option<Duration>,
}

command! {
    "wait": Args => run,
    needs: Scope::default().needs(),
    watches: &WATCHED,
    prints: { "Waited": Document, "Diagnosis": crate::commands::shared::diagnosis::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = Scope::default().needs();
    if !ctx.global().reading.from.is_empty() {
        let names = args.names.iter().map(String::as_str);
        let words = ["kubectl", "skyhook", "status"].into_iter().chain(names).chain(["--from", "PATH"]);
        return Err(Error::usage("a wait requires a cluster; --from is not supported")
            .hint(shell_words(&words.collect::<Vec<_>>())));
    }
    if args.ignore_not_found && args.condition != Condition::Gone {
        return Err(Error::usage("--ignore-not-found requires --for=deleted"));
    }
    let cluster = super::shared::progress::load_within(ctx, &needs, args.timeout).await?;
    let names = args.subjects(&cluster)?;
    scope::warn_unreadable(ctx, &cluster, &needs);
    let goals = names.iter().map(|name| Goal::of(&cluster, name, args.condition.clone()));
    let mut waited = Waited {
        kind: cluster.flavor().kind(),
        condition: args.condition.clone(),
        goals: goals.map(|goal| (goal, Wait::Pending(String::new()))).collect(),
        blockers: None,
    };
    if !args.keep_going {
        waited.blockers = Some(Blockers::new(&cluster, args.tolerate));
    }
    match ctx.wait(&mut waited, cluster, args.timeout).await? {
        StopReason::Blocked { .. } => {
            let found = waited.blockers.as_ref().and_then(Diagnosis::of_blockers);
            ctx.show(&found.expect("a blocked wait has blockers"))?;
            Ok(Exit::Findings)
        }
        StopReason::TimedOut { waiting } => {
            ctx.show(&waited)?;
            Err(Error {
                exit: Exit::TimedOut,
                ..Error::failed(format!("timed out after {}: {waiting}", duration_text(args.timeout)))
            }
            .hint(format!("kubectl skyhook diagnose stuck {}", names.join(" "))))
        }
        StopReason::Interrupted => {
            ctx.note(format!("Interrupted: {}.", waited.missing().join("; ")));
            Ok(Exit::Interrupted)
        }
        _ => {
            ctx.show(&waited)?;
            Ok(Exit::Done)
        }
    }
}

impl Args {
    /// The names of the custom resources to wait for.
    fn subjects(&self, cluster: &Cluster) -> Result<Vec<String>> {
        scope::complete(cluster, Source::Skyhooks)?;
        if self.condition != Condition::Erroring && self.condition != Condition::Gone {
            scope::complete(cluster, Source::Nodes)?;
        }
        for name in &self.names {
            scope::not_only_in_other_api(cluster, name)?;
            if !self.ignore_not_found {
                let hint = "kubectl skyhook wait --for=deleted --ignore-not-found accepts a name that does not exist";
                let known = scope::known_skyhook(cluster, name);
                known.map_err(|error| match self.condition {
                    Condition::Gone => error.hint(hint),
                    _ => error,
                })?;
            }
        }
        let mut names = self.names.clone();
        if names.is_empty() {
            let all = cluster.skyhooks.items();
            let uninstalled = matches!(self.condition, Condition::Uninstalled { package: None, .. });
            let uninstalls = uninstalled && all.iter().any(Skyhook::requests_uninstall);
            let concerned = all.iter().filter(|s| !uninstalls || s.requests_uninstall());
            names.extend(concerned.map(|s| s.name().to_owned()));
        }
        if names.is_empty() && self.condition != Condition::Gone {
            return Err(Error::failed(format!("there is no {}", cluster.flavor().kind())));
        }
        if let Condition::Uninstalled { package: Some(package), .. } = &self.condition {
            for name in &names {
                scope::known_package(cluster, name, package)?;
            }
        }
        Ok(names)
    }
}

/// The awaited custom resources and their progress.
pub struct Waited {
    kind: &'static str,
    condition: Condition,
    /// The goal of each custom resource, with its state at the last check. A goal that was met stays met.
    goals: Vec<(Goal, Wait)>,
    /// The blockers that end the wait; `None` with `--keep-going`.
    blockers: Option<Blockers>,
}

impl Waited {
    /// The names of the custom resources that meet the condition.
    fn met(&self) -> impl Iterator<Item = &str> {
        self.goals.iter().filter(|(_, state)| *state == Wait::Met).map(|(goal, _)| goal.target.name.as_str())
    }

    /// The custom resources whose condition is not met: `gpu-tune: in_progress, 2 of 3 nodes done`.
    fn missing(&self) -> Vec<String> {
        let missing =
            |(goal, state): &(Goal, Wait)| Some(format!("{}: {}", goal.target.name, progress(state)?));
        self.goals.iter().filter_map(missing).collect()
    }
}

fn progress(state: &Wait) -> Option<&str> {
    match state {
        Wait::Pending(progress) | Wait::Never(progress, _) => Some(progress),
        Wait::Met | Wait::Blocked(_) => None,
    }
}

impl Aim for Waited {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        let model = OnceCell::new();
        for (goal, state) in self.goals.iter_mut().filter(|(_, state)| *state != Wait::Met) {
            *state = goal.reached(cluster, &model);
        }
        let missing = self.missing();
        // One failure is sufficient.
        let any = self.condition == Condition::Erroring;
        let reached = if any { self.met().next().is_some() } else { missing.is_empty() };
        let never = |state: &&Wait| matches!(state, Wait::Never(..));
        let states = || self.goals.iter().map(|(_, state)| state);
        let ends = !any || states().all(|state| never(&state));
        let state = match states().find(never).filter(|_| ends) {
            _ if reached => Wait::Met,
            Some(state) => state.clone(),
            None => Wait::Pending(missing.join("; ")),
        };
        let mut whole = Text::new();
        for line in missing {
            whole.paragraph(line);
        }
        AimProgress { state, whole, news: Vec::new() }
    }

    fn blocked(&mut self, cluster: &Cluster) -> BlockerCheck {
        let open = self.goals.iter().filter(|(_, state)| *state != Wait::Met);
        let open: Vec<Goal> = open.map(|(goal, _)| goal.clone()).collect();
        match &mut self.blockers {
            Some(blockers) if self.condition != Condition::Erroring => blockers.judge(cluster, &open),
            _ => BlockerCheck::default(),
        }
    }
}

impl View for Waited {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        for name in self.names() {
            text.line(text::plain(name + " ") + text::good(&self.condition));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let kind = self.kind.to_lowercase();
        self.met().map(|name| format!("{kind}/{name}")).collect()
    }

    fn document(&self) -> Value {
        let items = self.goals.iter().map(|(goal, state)| WaitedResource {
            kind: self.kind.to_owned(),
            skyhook: goal.target.name.clone(),
            met: *state == Wait::Met,
            progress: progress(state).map(str::to_owned),
        });
        let items = items.collect();
        document("Waited", &Document { condition: self.condition.to_string(), items })
    }
}

/// The results of a wait.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The awaited condition.
    condition: String,
    /// The result for each custom resource.
    items: Vec<WaitedResource>,
}

/// The result of the wait for a custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WaitedResource {
    /// `Skyhook` or `NodeWright`.
    kind: String,
    /// The custom resource.
    #[serde(rename = "name")]
    skyhook: String,
    /// Whether the condition is met.
    met: bool,
    /// The progress so far, or why the condition can never be met; absent if it is met or blocked by
    /// findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
}
