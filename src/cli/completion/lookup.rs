//! Looks up candidates in a cluster, in files and in the kubeconfig.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::candidates::{self, Candidate};
use super::line::Typed;
use super::wanted::CandidateKind;
use crate::api::{Stage, State};
use crate::apply::journal::Store;
use crate::cluster::{Cluster, Read, Source};
use crate::connect;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::program::Program;

/// Time limit for all requests of one lookup: the user waits at the prompt.
const BUDGET: Duration = Duration::from_millis(1500);
/// Time limit for one request, which leaves time to repeat a lost one.
const REQUEST: Duration = Duration::from_millis(1000);

/// Maximum number of nodes whose conditions are read.
const MANY: usize = 300;

/// Looks up the candidates for one word of a line, and records how the lookup went.
#[derive(Debug)]
pub struct Lookup {
    program: Program,
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
    pub directories: bool,
    /// Whether the shell has to keep the order of the candidates.
    pub ordered: bool,
}

impl Lookup {
    pub fn new(program: Program, typed: Typed) -> Lookup {
        Lookup { program, typed, begun: Instant::now(), outcome: Mutex::default() }
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
            CandidateKind::Skyhook => self.read(Source::Skyhooks, candidates::skyhooks),
            CandidateKind::Node => self.nodes(),
            CandidateKind::Package => {
                self.read(Source::Skyhooks, |cluster| candidates::packages(cluster, skyhook))
            }
            CandidateKind::Version => self.read(Source::Skyhooks, |cluster| {
                candidates::versions(cluster, skyhook, self.typed.package.as_deref())
            }),
            CandidateKind::Rule => candidates::rules(current),
            CandidateKind::Topic => candidates::all_rules(current),
            CandidateKind::Stage => candidates::plain(Stage::KNOWN),
            CandidateKind::State => candidates::plain(State::KNOWN),
            CandidateKind::Format => candidates::formats(),
            CandidateKind::Context => self.kubeconfig(|names| names.contexts),
            CandidateKind::Cluster => self.kubeconfig(|names| names.clusters),
            CandidateKind::User => self.kubeconfig(|names| names.users),
            CandidateKind::Namespace => self.namespaces(),
            CandidateKind::Journal => self.journals(),
            CandidateKind::Word(words) => candidates::plain(words),
            CandidateKind::File => {
                self.locked().files = true;
                Vec::new()
            }
            CandidateKind::Directory => {
                self.locked().directories = true;
                Vec::new()
            }
        }
    }

    /// The nodes. Above [`MANY`] nodes, their conditions are omitted: reading them takes too long.
    fn nodes(&self) -> Vec<Candidate> {
        match self.ask(async |ctx| ctx.names("nodes").await) {
            Some(Some(names)) if names.len() > MANY => candidates::names(&names, "Ready"),
            Some(_) => self.read(Source::Nodes, candidates::nodes),
            None => self.failed(),
        }
    }

    /// The namespaces of the cluster. With `--from`, or if they cannot be read, the namespaces of the
    /// kubeconfig's contexts.
    fn namespaces(&self) -> Vec<Candidate> {
        match self.ask(async |ctx| ctx.names("namespaces").await) {
            Some(Some(names)) => candidates::names(&names, "Active"),
            _ => self.kubeconfig(|names| names.namespaces),
        }
    }

    /// The ids of the journals, newest first. The journals are not read, which would take too long.
    fn journals(&self) -> Vec<Candidate> {
        let ids = Store::of(crate::ctx::variable).and_then(|store| store.ids());
        let mut outcome = self.locked();
        outcome.ordered = true;
        outcome.failed |= ids.is_err();
        candidates::plain(ids.unwrap_or_default())
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
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                let mut ctx = Ctx::silent(global, "completion");
                // Ignore send errors: the receiver is dropped after the timeout.
                let _ = sender.send(runtime.block_on(question(&mut ctx)).ok());
            }
        });
        let left = BUDGET.saturating_sub(self.begun.elapsed());
        receiver.recv_timeout(left).ok().flatten()
    }

    fn kubeconfig(&self, pick: impl FnOnce(connect::Names) -> Vec<String>) -> Vec<Candidate> {
        match connect::names(&self.typed.global.connection) {
            Ok(names) => candidates::plain(pick(names)),
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

    pub fn program(&self) -> Program {
        self.program
    }
}
