//! Looks up candidates in a cluster, in files and in the kubeconfig.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::line::{CandidateKind, Typed};
use crate::api::{Skyhook, Stage, State, Status};
use crate::apply::journal::Store;
use crate::cluster::live::Named;
use crate::cluster::{Cluster, Read, Source};
use crate::connect::{self, Environment};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::program::{Process, Program};
use crate::view::list;
use crate::{lint, rules};

/// Time limit for all requests of one lookup: the user waits at the prompt.
const BUDGET: Duration = Duration::from_millis(1500);
/// Time limit for one request, which leaves time to repeat a lost one.
const REQUEST: Duration = Duration::from_millis(1000);

/// Looks up the candidates for one word of a line, and records how the lookup went.
#[derive(Debug)]
pub struct Lookup {
    process: Process,
    pub program: Program,
    typed: Typed,
    begun: Instant,
    outcome: Mutex<Directive>,
}

/// The result of a lookup, and instructions for the shell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Directive {
    /// Whether something could not be read, so that candidates may be missing.
    pub failed: bool,
    pub files: bool,
    /// Whether the shell has to keep the order of the candidates.
    pub ordered: bool,
}

impl Lookup {
    pub fn new(process: &Process, program: Program, typed: Typed) -> Lookup {
        Lookup { process: process.clone(), program, typed, begun: Instant::now(), outcome: Mutex::default() }
    }

    pub fn outcome(&self) -> Directive {
        *self.locked()
    }

    /// The candidates of a kind with the typed prefix.
    ///
    /// `many`: the argument takes several values; those already on the line are omitted.
    pub fn candidates(&self, wanted: &CandidateKind, many: bool, current: &str) -> Vec<Candidate> {
        let mut found = self.all(wanted, current);
        found.retain(|c| c.value.starts_with(current) && !(many && self.typed.has(&c.value)));
        found
    }

    fn all(&self, wanted: &CandidateKind, current: &str) -> Vec<Candidate> {
        let skyhook = self.typed.skyhook.as_deref();
        match wanted {
            CandidateKind::Skyhook => self.read(Source::Skyhooks, skyhooks),
            CandidateKind::Node => self.nodes(),
            CandidateKind::Package => self.read(Source::Skyhooks, |cluster| packages(cluster, skyhook)),
            CandidateKind::Version => self
                .read(Source::Skyhooks, |cluster| versions(cluster, skyhook, self.typed.package.as_deref())),
            CandidateKind::Rule => rules(current),
            CandidateKind::Topic => all_rules(current),
            CandidateKind::Stage => plain(Stage::KNOWN),
            CandidateKind::State => plain(State::KNOWN),
            CandidateKind::Format => formats(),
            CandidateKind::Context => self.kubeconfig(|names| names.contexts),
            CandidateKind::Cluster => self.kubeconfig(|names| names.clusters),
            CandidateKind::User => self.kubeconfig(|names| names.users),
            CandidateKind::Namespace => self.namespaces(),
            CandidateKind::Journal => self.journals(),
            CandidateKind::Word(words) => plain(words),
            CandidateKind::File => {
                self.locked().files = true;
                Vec::new()
            }
        }
    }

    /// The nodes. Of files, only their names are known.
    fn nodes(&self) -> Vec<Candidate> {
        match self.ask(async |ctx| ctx.names("nodes").await) {
            Some(Some(names)) => names_with_status(&names, "Ready"),
            Some(None) => {
                self.read(Source::Nodes, |cluster| plain(cluster.nodes.iter().map(|node| &node.name)))
            }
            None => self.failed(),
        }
    }

    /// The namespaces of the cluster. With `--from`, or if they cannot be read, the namespaces of the
    /// kubeconfig's contexts.
    fn namespaces(&self) -> Vec<Candidate> {
        match self.ask(async |ctx| ctx.names("namespaces").await) {
            Some(Some(names)) => names_with_status(&names, "Active"),
            _ => self.kubeconfig(|names| names.namespaces),
        }
    }

    /// The ids of the journals, newest first. The journals are not read, which would take too long.
    fn journals(&self) -> Vec<Candidate> {
        let ids = Store::of(|name| self.process.variable(name)).and_then(|store| store.ids());
        let mut outcome = self.locked();
        outcome.ordered = true;
        outcome.failed |= ids.is_err();
        plain(ids.unwrap_or_default())
    }

    fn read(&self, source: Source, candidates: impl FnOnce(&Cluster) -> Vec<Candidate>) -> Vec<Candidate> {
        let cluster = self.ask(async move |ctx| ctx.load(&[source]).await);
        let readable = |c: &Cluster| matches!(c.source(source), Read::Ok(_));
        match cluster.filter(readable) {
            Some(cluster) => candidates(&cluster),
            None => self.failed(),
        }
    }

    /// Runs a question on its own thread: a hanging name server or credential plugin blocks only that thread,
    /// which ends with the process.
    fn ask<T: Send + 'static>(
        &self,
        question: impl AsyncFnOnce(&mut Ctx) -> Result<T> + Send + 'static,
    ) -> Option<T> {
        let mut global = self.typed.global.clone();
        if global.reading.from.iter().any(|path| path == "-") {
            // Standard input belongs to the shell.
            return None;
        }
        let timeout = &mut global.connection.request_timeout;
        *timeout = Some(timeout.unwrap_or(REQUEST).min(REQUEST));
        let (sender, receiver) = mpsc::channel();
        let process = self.process.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                let mut ctx = Ctx::silent(&process, global, "completion");
                // Ignore send errors: the receiver is dropped after the timeout.
                let _ = sender.send(runtime.block_on(question(&mut ctx)).ok());
            }
        });
        let left = BUDGET.saturating_sub(self.begun.elapsed());
        receiver.recv_timeout(left).ok().flatten()
    }

    fn kubeconfig(&self, pick: impl FnOnce(connect::Names) -> Vec<String>) -> Vec<Candidate> {
        let environment = Environment::of(|name| self.process.variable_os(name));
        match connect::names(&environment, &self.typed.global.connection) {
            Ok(names) => plain(pick(names)),
            Err(_) => self.failed(),
        }
    }

    /// Records that something could not be read; returns no candidates.
    fn failed(&self) -> Vec<Candidate> {
        self.locked().failed = true;
        Vec::new()
    }

    fn locked(&self) -> MutexGuard<'_, Directive> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A word, and its description, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub value: String,
    pub about: String,
}

impl Candidate {
    pub fn new(value: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate { value: value.into(), about: about.into() }
    }
}

/// Candidates without descriptions.
pub fn plain<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Vec<Candidate> {
    words.into_iter().map(|w| Candidate::new(w.as_ref(), "")).collect()
}

/// The codes of all rules, or their names if no code begins with the typed text.
pub fn rules(current: &str) -> Vec<Candidate> {
    let rules = rules::ALL.iter().map(|r| (r.code, r.name, r.summary()));
    candidates(current, rules)
}

/// [`rules()`], including the rules of `lint`.
pub fn all_rules(current: &str) -> Vec<Candidate> {
    let rules = rules::ALL.iter().map(|r| (r.code, r.name, r.summary()));
    let of_lint = lint::ALL.iter().map(|r| (r.code, r.name, r.summary()));
    candidates(current, rules.chain(of_lint))
}

/// Candidates for (code, name, summary): the codes, or the names if no code begins with the typed text.
fn candidates<'a>(
    current: &str,
    rules: impl Iterator<Item = (&'a str, &'a str, &'a str)> + Clone,
) -> Vec<Candidate> {
    let by_code = rules.clone().any(|(code, ..)| code.starts_with(current));
    rules
        .map(|(code, name, summary)| {
            let (word, other) = if by_code { (code, name) } else { (name, code) };
            Candidate::new(word, format!("{other}: {summary}"))
        })
        .collect()
}

pub fn formats() -> Vec<Candidate> {
    [
        ("table", "for people"),
        ("wide", "a table with more columns"),
        ("json", "for programs"),
        ("yaml", "for programs"),
        ("name", "one resource/name per line"),
        ("jsonpath=", "a kubectl JSONPath template"),
        ("jsonpath-file=", "a template in a file"),
        ("jsonpath-as-json=", "the results of a template, as JSON"),
        ("custom-columns=", "HEADING:PATH,…"),
        ("custom-columns-file=", "column headings and paths, in a file"),
    ]
    .map(|(value, about)| Candidate::new(value, about))
    .to_vec()
}

/// The custom resources, with their progress.
pub fn skyhooks(cluster: &Cluster) -> Vec<Candidate> {
    cluster.skyhooks.iter().map(|s| Candidate::new(s.name(), progress(s))).collect()
}

/// The progress of a custom resource: `3/5 nodes complete, paused`.
fn progress(skyhook: &Skyhook) -> String {
    let mut words = Vec::new();
    if !skyhook.status.complete_nodes.is_empty() {
        words.push(format!("{} nodes complete", skyhook.status.complete_nodes));
    }
    for (is, word) in [
        (skyhook.deleting(), "being deleted"),
        (skyhook.paused(), "paused"),
        (skyhook.disabled(), "disabled"),
    ] {
        words.extend(is.then(|| word.to_owned()));
    }
    match &skyhook.status.status {
        // The annotation or the count shows these states already.
        None | Some(Status::Complete | Status::Paused | Status::Disabled | Status::Unknown) => {}
        Some(status) => words.push(status.as_str().replace('_', " ")),
    }
    words.join(", ")
}

/// Names, described by their status in `kubectl get` unless it is `usual`.
pub fn names_with_status(names: &[Named], usual: &str) -> Vec<Candidate> {
    let about = |status: &str| {
        if status == usual { String::new() } else { status.replace(',', ", ") }
    };
    names.iter().map(|n| Candidate::new(&n.name, about(&n.status))).collect()
}

/// The packages of one custom resource, or of all, with their versions.
pub fn packages(cluster: &Cluster, skyhook: Option<&str>) -> Vec<Candidate> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in all_packages(cluster, skyhook) {
        versions.entry(name).or_default().insert(version);
    }
    let candidate = |(name, versions)| Candidate::new(name, list(&Vec::from_iter(versions)));
    versions.into_iter().map(candidate).collect()
}

/// The versions of a package, or of all packages, in the specs.
pub fn versions(cluster: &Cluster, skyhook: Option<&str>, package: Option<&str>) -> Vec<Candidate> {
    let of_package = all_packages(cluster, skyhook).filter(|(name, _)| package.is_none_or(|p| p == *name));
    plain(of_package.map(|(_, version)| version).collect::<BTreeSet<_>>())
}

fn all_packages<'a>(cluster: &'a Cluster, skyhook: Option<&str>) -> impl Iterator<Item = (&'a str, &'a str)> {
    cluster
        .skyhooks
        .iter()
        .filter(move |s| skyhook.is_none_or(|name| name == s.name()))
        .flat_map(|s| s.packages().map(|(name, p)| (name, p.version.as_str())))
}
