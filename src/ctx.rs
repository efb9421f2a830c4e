//! The I/O of a command: loading a cluster and printing a view.

mod execute;
mod origin;
mod process;
mod wait;
mod watch;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use crate::apply::{ApplyEvent, StepResult, precondition};
use crate::args::global::Global;
use crate::bounded::{self, MOST_PLAN};
use crate::cluster::attempts::ContainerLog;
use crate::cluster::capture::ReadOutcome;
use crate::cluster::live::logs::tail;
use crate::cluster::live::{self, CollectRequest, Collected};
use crate::cluster::{Clock, Cluster, NamedNodes, NodeFields, Read, Source, Unread};
use crate::connect::{self, Connected, Environment, HttpTrace, ServerClock};
use crate::dump;
use crate::error::{Error, Result, plain_reason};
use crate::model::Model;
use crate::plan::{Plan, ResourceState};
use crate::program::Process;
use crate::screen::{self, OutputStream, Screen, Shown};
use crate::view::contexts::Captured;
use crate::view::{CLOCK_SKEW, Joined, Upstream, View, human, list, plural, text};

pub use execute::CommandOptions;
pub use origin::Here;
pub use origin::PermissionCheck;
pub use process::survive_file_size_limit;
pub use wait::AimProgress;
pub use wait::{Aim, PlanWait};
pub use watch::{ContactNotice, Watch, WatchUpdate, pause_after};

pub use crate::view::outcome_view::Document as OutcomeDocument;

/// The load that a change was planned from, to repeat it.
#[derive(Debug, Clone, Default)]
struct PlannedFrom {
    /// Empty without a load.
    needs: Vec<Source>,
    required: Vec<Source>,
    /// Whether a cluster without the operator's API is accepted.
    leftovers: bool,
    /// The limit of the load to named nodes.
    named: Option<NamedNodes>,
    specs: Vec<ResourceState>,
}

/// I/O of one command: connection, screen and flags. Only commands that stream or wait get the client.
pub struct Ctx {
    process: Process,
    global: Global,
    verb: &'static str,
    screen: Screen,
    connected: Option<Connected>,
    /// Unreadable sources that the current plan does without.
    unread: Vec<(Source, Unread)>,
    refused: bool,
    /// The current cluster's identity, once read.
    here: Option<Here>,
    /// The names in the command's arguments, for the next load.
    named_nodes: Option<NamedNodes>,
    node_fields: NodeFields,
    /// What a change was planned from.
    planned_from: PlannedFrom,
    /// The captured output, with `--contexts`.
    captured: Option<Captured>,
}

impl Ctx {
    pub fn new(process: &Process, global: Global, verb: &'static str) -> Ctx {
        let screen = Screen::new(global.output.color, process);
        Ctx {
            process: process.clone(),
            global,
            verb,
            screen,
            connected: None,
            unread: Vec::new(),
            refused: false,
            here: None,
            named_nodes: None,
            node_fields: NodeFields::All,
            planned_from: PlannedFrom::default(),
            captured: None,
        }
    }

    /// A `Ctx` for one context of `--contexts`: captures the output, and prefixes all other lines with the
    /// context.
    pub fn of_context(process: &Process, global: Global, verb: &'static str, context: &str) -> Ctx {
        let mut ctx = Ctx::new(process, global, verb);
        ctx.screen = Screen::prefixed(context, process);
        ctx.captured = Some(Captured::of(context));
        ctx
    }

    /// The kubeconfig context, with `--contexts`.
    pub fn context(&self) -> Option<&str> {
        Some(&self.captured.as_ref()?.context)
    }

    /// The output captured since [`Ctx::of_context`].
    pub fn into_captured(self) -> Captured {
        self.captured.unwrap_or_default()
    }

    /// A `Ctx` without notices on stderr, for completion: a shell would print them over the prompt.
    pub fn silent(process: &Process, global: Global, verb: &'static str) -> Ctx {
        let mut ctx = Ctx::new(process, global, verb);
        ctx.screen.err = OutputStream::pipe(std::io::sink());
        ctx
    }

    pub fn global(&self) -> &Global {
        &self.global
    }

    /// Whether the server refused a read or a planned change.
    pub fn refused(&self) -> bool {
        self.refused
    }

    /// Records that the server refused something other than a [`Source`], for the advice on permissions.
    pub fn note_refusal(&mut self) {
        self.refused = true;
    }

    /// Limits the next load to the nodes that the command names. Loads all nodes if these do not suffice. No
    /// effect on files.
    pub fn limit_to(&mut self, named: Option<NamedNodes>) -> &mut Ctx {
        self.named_nodes = named;
        self
    }

    /// The node fields to load from now on. Loads for a change and loads of named nodes always include all
    /// fields.
    pub fn node_fields(&mut self, fields: NodeFields) -> &mut Ctx {
        self.node_fields = fields;
        self
    }

    /// Reads the sources from the files or the cluster that the flags name.
    pub async fn load(&mut self, needs: &[Source]) -> Result<Cluster> {
        let cluster = self.load_inner(needs, false).await?;
        // Documents list unreadable sources themselves.
        if !self.global.output.format.is_data() {
            any(&cluster, needs)?;
        }
        Ok(cluster)
    }

    /// Like [`Ctx::load`]; `None` if neither files nor a cluster are configured.
    ///
    /// # Errors
    ///
    /// The configured cluster or files cannot be read.
    pub async fn load_if_configured(&mut self, needs: &[Source]) -> Result<Option<Cluster>> {
        if self.global.reading.from.is_empty() && self.connected.is_none() {
            match self.connect().await {
                Ok(connected) => self.connected = Some(connected),
                Err(connect::Error::NoKubeconfig(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        self.load_inner(needs, false).await.map(Some)
    }

    /// [`Ctx::load`] for a command that changes something. Fails without the required sources.
    /// [`Ctx::execute_with`] warns about other unreadable sources.
    ///
    /// # Errors
    ///
    /// A required source could not be read completely, for any reason.
    pub async fn load_to_change(&mut self, needs: &[Source], required: &[Source]) -> Result<Cluster> {
        self.load_to_plan(needs, required, false).await
    }

    /// [`Ctx::load_to_change`] that also accepts a cluster without the operator's API: nodes may still have
    /// the operator's keys.
    pub async fn load_or_leftovers(&mut self, needs: &[Source], required: &[Source]) -> Result<Cluster> {
        self.load_to_plan(needs, required, true).await
    }

    async fn load_to_plan(
        &mut self,
        needs: &[Source],
        required: &[Source],
        leftovers: bool,
    ) -> Result<Cluster> {
        // Previews and guards need whole nodes.
        self.node_fields = NodeFields::All;
        if let Some(named) = &mut self.named_nodes {
            named.to_change = true;
        }
        let named = self.named_nodes.clone();
        let cluster = self.load_inner(needs, leftovers).await?;
        self.unread = check_required(&cluster, needs, required)?;
        self.refuse_other_api(&cluster, leftovers)?;
        self.planned_from = PlannedFrom {
            needs: needs.to_vec(),
            required: required.to_vec(),
            leftovers,
            named,
            specs: ResourceState::all(&cluster),
        };
        Ok(cluster)
    }

    async fn load_inner(&mut self, needs: &[Source], leftovers: bool) -> Result<Cluster> {
        let named = self.named_nodes.take();
        let reading = &self.global.reading;
        let cluster = if reading.from.is_empty() {
            let connected = self.connected().await?;
            let (client, namespace) = (connected.client.clone(), connected.namespace.clone());
            let clock = connected.clock.clone();
            let api = self.global.reading.api;
            let namespace = namespace.as_deref();
            let fields = self.node_fields;
            let now = || time_of(&clock);
            // Boxed: two such futures would overflow the stack of a debug build.
            let load = |named| Box::pin(live::load(&client, needs, fields, named, api, namespace, &now));
            let mut loaded = load(named.as_ref()).await;
            if let (Some(named), Ok(cluster)) = (&named, &loaded)
                && cluster.limited_to_named_nodes
                && !Model::new(cluster).suffices(named)
            {
                loaded = load(None).await;
            }
            match loaded {
                Err(live::LoadError::NotServed) if leftovers => {
                    Ok(live::leftovers(&client, api, namespace, &now).await)
                }
                loaded => loaded,
            }
        } else {
            let mut cluster = dump::load(&reading.from, reading.api)?;
            if cluster.collected && cluster.active_api.served.is_empty() && !leftovers {
                return Err(live::LoadError::NotServed.into());
            }
            if let Some(now) = reading.now {
                cluster.taken_at = now;
                cluster.clock = Clock::Given;
            }
            cluster.notes.iter().for_each(|note| self.screen.note(note.as_str()));
            Ok(cluster)
        };
        self.pass_on_warnings();
        let mut cluster = cluster?;
        let operators = cluster.operators.iter().filter(|deployment| deployment.runs_operator());
        let namespaces: BTreeSet<&str> = operators.map(|deployment| deployment.namespace()).collect();
        let given = &mut self.global.connection.namespace;
        if let Some(wrong) = given.take_if(|given| !namespaces.is_empty() && !namespaces.contains(&**given)) {
            let there = list(&Vec::from_iter(namespaces));
            self.screen.warn(format!("there is no operator in namespace {wrong}; using that in {there}"));
        }
        cluster.namespace_flag.clone_from(given);
        if !cluster.from_files {
            precondition::look(&mut cluster);
        }
        self.refused |= unread(&cluster, needs).any(|(_, reason)| reason.is_forbidden());
        if self.global.reading.verbose.0 > 0 {
            let active_api = &cluster.active_api;
            self.screen.note(format!(
                "acting on {}: {}",
                active_api.flavor.resource(),
                active_api.reasons.join("; ")
            ));
        }
        Ok(cluster)
    }

    /// The names of all nodes or namespaces, much cheaper than [`Ctx::load`]; `None` for files.
    pub async fn names(&mut self, plural: &str) -> Result<Option<Vec<live::Named>>> {
        if !self.global.reading.from.is_empty() {
            return Ok(None);
        }
        let client = self.connected_client().await?;
        let names = live::names(&client, plural).await;
        self.pass_on_warnings();
        match names {
            Ok(names) => Ok(Some(names)),
            Err(reason) => Err(Error::failed(format!("cannot read {plural}: {reason}"))),
        }
    }

    /// The connection, established on first use.
    async fn connected(&mut self) -> Result<&Connected> {
        if self.connected.is_none() {
            self.connected = Some(self.connect().await?);
        }
        Ok(self.connected.as_ref().expect("the connection was just made"))
    }

    async fn connect(&self) -> std::result::Result<Connected, connect::Error> {
        let level = self.global.reading.verbose.0;
        let trace = (level >= HttpTrace::FROM).then(|| {
            let process = self.process.clone();
            HttpTrace { level, say: Arc::new(move |line: &str| screen::trace(&process, line)) }
        });
        let environment = Environment::of(|name| self.process.variable_os(name));
        connect::connect(&environment, &self.global.connection, self.verb, trace).await
    }

    /// The client of the connection; `None` for files, and before the first load.
    ///
    /// Only for commands that stream or wait, such as `package logs` and `wait`: all others load and print.
    /// `collect` has [`Ctx::collect`].
    pub fn client(&self) -> Option<kube::Client> {
        self.connected.as_ref().map(|c| c.client.clone())
    }

    /// Prints a log line, or part of one; `false` if the reader has closed the pipe.
    pub fn log(&mut self, prefix: &text::Line, bytes: &[u8]) -> Result<bool> {
        Ok(self.screen.log(prefix, bytes)? == Shown::Whole)
    }

    /// Prints a view on stdout in the requested format, or captures it with `--contexts`.
    pub fn show(&mut self, view: &dyn View) -> Result<()> {
        let upstream = Upstream(view);
        let view = if self.global.output.compat { &upstream } else { view };
        if let Some(captured) = &mut self.captured {
            captured.add(view, &self.global.output.format);
            return Ok(());
        }
        let _ = self.screen.show(view, &self.global.output)?;
        Ok(())
    }

    /// Whether stdout is a terminal.
    pub fn on_terminal(&self) -> bool {
        self.screen.out.terminal
    }

    /// Whether the output can be redrawn in place.
    pub fn redraws(&self) -> bool {
        self.screen.out.redraws
    }

    /// Prints text with its own format on stdout, such as a script, regardless of `-o`.
    pub fn print(&mut self, text: &str) -> Result<()> {
        let _ = self.screen.print(text)?;
        Ok(())
    }

    /// Refuses to write a file to a terminal.
    ///
    /// # Errors
    ///
    /// Standard output is a terminal.
    pub fn refuse_terminal(&self) -> Result<()> {
        if self.screen.out.terminal {
            return Err(Error::usage("standard output is a terminal; redirect it, or specify a file"));
        }
        Ok(())
    }

    /// Prints binary data on stdout.
    ///
    /// # Errors
    ///
    /// Standard output is a terminal.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.refuse_terminal()?;
        let _ = self.screen.log(&text::Line::default(), bytes)?;
        Ok(())
    }

    /// Prints a notice on stderr.
    pub fn note(&mut self, note: impl Into<text::Text>) {
        self.screen.note(note);
    }

    /// Prints a warning on stderr.
    pub fn warn(&mut self, warning: impl Into<text::Line>) {
        self.screen.warn(warning);
    }

    /// Prints an error on stderr.
    pub fn error(&mut self, error: &crate::error::Error) {
        self.screen.error(&error.message, &error.hints);
    }

    fn pass_on_warnings(&mut self) {
        let warnings = self.connected.iter().flat_map(|c| c.warnings.take()).collect::<Vec<_>>();
        for warning in warnings {
            self.screen.warn(warning.as_str());
        }
        self.report_clock_difference();
    }
}

impl Ctx {
    /// Reads a file of at most `MOST_PLAN` bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let bytes = bounded::open(path).and_then(|file| bounded::read(file, MOST_PLAN));
        bytes.map_err(|error| {
            let path = path.display();
            Error::failed(format!("cannot read {path}: {}", plain_reason(&error)))
        })
    }

    /// Loads a capture other than the input of `--from`.
    ///
    /// # Errors
    ///
    /// The capture cannot be read.
    pub fn load_capture(&self, path: &Path) -> Result<Cluster> {
        Ok(dump::load(&[path.to_owned()], self.global.reading.api)?)
    }
}

/// Time limit for all logs together.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Maximum number of logs read at once.
const AT_ONCE: usize = 16;

/// The result of a log request: the index of the first candidate with lines, and its last lines; `None` if all logs are
/// empty or no longer exist; or why the log could not be read.
pub type Tail = Result<Option<(usize, Vec<String>)>, String>;

impl Ctx {
    /// The last lines of each log, read concurrently. Each log has several candidates, and the first one with lines
    /// counts. Logs that are not read within `TIME_LIMIT` are given up. A capture returns its recorded logs; other
    /// files return none.
    pub async fn tails(&self, cluster: &Cluster, wanted: &[Vec<ContainerLog>], lines: usize) -> Vec<Tail> {
        if let Some(kept) = &cluster.kept_logs {
            return wanted.iter().map(|pieces| kept.tail(pieces, lines)).collect();
        }
        let Some(client) = self.client() else {
            return Vec::new();
        };
        let until = Instant::now() + TIME_LIMIT;
        let read = |pieces| {
            let client = client.clone();
            async move {
                let read = timeout_at(until, tail(&client, pieces, lines)).await;
                let read = read.map_err(|_| "no response within a second".to_owned())?;
                read.map_err(|error| error.to_string())
            }
        };
        futures::stream::iter(wanted).map(|pieces| read(pieces.as_slice())).buffered(AT_ONCE).collect().await
    }
}

impl Ctx {
    /// Warns once if this machine's clock differs from the API server's.
    fn report_clock_difference(&mut self) {
        let Some(connected) = &mut self.connected else {
            return;
        };
        let ahead = server_ahead(&connected.clock, now());
        let Some(ahead) = ahead.filter(|_| !connected.reported_clock) else {
            return;
        };
        connected.reported_clock = true;
        let direction = if ahead.is_positive() { "behind" } else { "ahead of" };
        self.screen.warn(format!(
            "the clock of this machine is {} {direction} that of the API server; ages are counted by the server's clock",
            human(ahead.abs())
        ));
    }
}

/// How far the server's clock is ahead, if the difference is more than the usual clock skew.
fn server_ahead(clock: &ServerClock, local: Timestamp) -> Option<jiff::SignedDuration> {
    clock.ahead_of(local).filter(|ahead| ahead.abs() > CLOCK_SKEW)
}

/// The API server's time if its clock differs from this machine's, otherwise the local time.
fn time_of(clock: &ServerClock) -> Timestamp {
    let local = now();
    let ahead = server_ahead(clock, local).unwrap_or_default();
    local.saturating_add(ahead).unwrap_or(local)
}

#[expect(clippy::disallowed_methods, reason = "the one clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

impl Ctx {
    /// Reads the cluster for `request`, completed by `--api`, `--namespace` and the state of this plugin's processes on
    /// this machine.
    ///
    /// # Errors
    ///
    /// The input is files, or the server does not respond at all.
    pub async fn collect(&mut self, request: CollectRequest) -> Result<Collected> {
        if !self.global.reading.from.is_empty() {
            let reason =
                "collect requires a cluster; --from is not supported because a capture can be shared as is";
            return Err(Error::usage(reason));
        }
        let api = self.global.reading.api;
        let connected = self.connected().await?;
        let request = CollectRequest {
            see_holders: precondition::look,
            api,
            namespace: connected.namespace.clone(),
            ..request
        };
        let clock = connected.clock.clone();
        let collected = live::collect(&connected.client, &request, &|| time_of(&clock)).await;
        self.pass_on_warnings();
        let collected = collected?;
        let index = &collected.index;
        let mut outcomes =
            index.sources.iter().map(|source| source.outcome).chain(index.logs.iter().map(|log| log.outcome));
        self.refused |= outcomes.any(|outcome| outcome == ReadOutcome::Refused);
        Ok(collected)
    }
}

/// The needed sources that could not be read, with the reasons.
pub fn unread(cluster: &Cluster, needs: &[Source]) -> impl Iterator<Item = (Source, Unread)> {
    needs.iter().filter_map(|need| match cluster.source(*need) {
        Read::Incomplete(_, reason) | Read::Unreadable(reason) => Some((*need, reason)),
        Read::Ok(_) => Some((*need, cluster.undecoded(*need)?.into())),
        Read::NotRequested => None,
    })
}

/// Returns the unreadable sources that a writing command can do without, for a warning.
///
/// # Errors
///
/// A required source was not read completely: an object that was not read must not count as absent. Or a
/// value in a required source cannot be read.
pub fn check_required(
    cluster: &Cluster,
    needs: &[Source],
    required: &[Source],
) -> Result<Vec<(Source, Unread)>> {
    let (missed, without): (Vec<_>, Vec<_>) =
        unread(cluster, needs).partition(|(source, _)| required.contains(source));
    if missed.is_empty() {
        Ok(without)
    } else {
        let reasons = one_line(&missed);
        Err(Error::failed(format!("{reasons}; nothing was changed")))
    }
}

/// Fails if none of several sources may be read: otherwise each result would have its own reason.
///
/// # Errors
///
/// Several sources were requested, and all are forbidden.
pub fn any(cluster: &Cluster, needs: &[Source]) -> Result<()> {
    let asked = needs.iter().filter(|need| cluster.source(**need).was_asked());
    let unread: Vec<_> = unread(cluster, needs).collect();
    let forbidden = unread.iter().all(|(_, reason)| reason.is_forbidden());
    if unread.len() > 1 && forbidden && unread.len() == asked.count() {
        Err(Error::failed(one_line(&unread)))
    } else {
        Ok(())
    }
}

/// The unreadable sources with the reasons, in one line; equal reasons are listed once.
pub fn one_line(unread: &[(Source, Unread)]) -> String {
    let mut parts: Vec<(&Unread, Vec<String>)> = Vec::new();
    for (source, reason) in unread {
        let like = |other: &Unread| other == reason || other.is_forbidden() && reason.is_forbidden();
        match parts.iter_mut().find(|(other, _)| like(other)) {
            Some((_, more)) => more.push(source.to_string()),
            None => parts.push((reason, vec![source.to_string()])),
        }
    }
    let part = |(reason, sources): (&Unread, Vec<String>)| match sources.as_slice() {
        [one] => format!("cannot read {one}: {reason}"),
        [first, rest @ ..] => {
            format!("cannot read {first}: {reason}; same error for {}", rest.join(", "))
        }
        [] => String::new(),
    };
    parts.into_iter().map(part).joined("; ")
}

/// The progress of applying a plan.
pub struct Progress {
    process: Process,
    bar: ProgressBar,
    failed: usize,
    /// Whether throttling was reported.
    throttled: bool,
}

impl Progress {
    pub fn of(process: &Process, plan: &Plan, terminal: bool) -> Progress {
        let steps = plan.steps().filter(|step| plan.is_work(step)).count();
        // A single step ends before anybody could read the line.
        let target =
            if terminal && steps > 1 { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(u64::try_from(steps).ok(), target);
        let style = ProgressStyle::with_template("{pos}/{len} objects  {rate}  {msg}");
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // Ignore write errors of the progress bar.
            let _ = write!(out, "{:.1}/s", state.per_sec());
        };
        bar.set_style(style.expect("the template is sound").with_key("rate", rate));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { process: process.clone(), bar, failed: 0, throttled: false }
    }

    pub fn on_event(&mut self, event: &ApplyEvent<'_>) {
        match event {
            ApplyEvent::Step { step, result, .. } => {
                self.failed +=
                    usize::from(matches!(result, StepResult::Failed { .. } | StepResult::Unknown { .. }));
                if self.failed > 0 {
                    self.bar.set_message(format!("{} failed", self.failed));
                }
                self.bar.inc(u64::from(!step.change.is_hold()));
            }
            ApplyEvent::Throttled { wait } => self.throttled(*wait),
            ApplyEvent::Waiting { until } => {
                self.bar.set_message(format!("waiting until {}", until.describe()))
            }
            ApplyEvent::Pausing { pause, left, .. } => {
                let seconds = pause.as_secs();
                self.bar.set_message(format!("{} left; pausing for {seconds} s", plural(*left, "node")));
            }
            _ => {}
        }
    }

    /// Shows the wait in the progress line, and once on its own line: a silent wait looks like a hang.
    fn throttled(&mut self, wait: Duration) {
        let seconds = wait.as_secs_f32().ceil();
        let message = format!("throttled by the API server, retrying in {seconds} s");
        if !std::mem::replace(&mut self.throttled, true) {
            let process = &self.process;
            self.bar.suspend(|| screen::trace(process, &message));
        }
        self.bar.set_message(message);
    }

    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}
