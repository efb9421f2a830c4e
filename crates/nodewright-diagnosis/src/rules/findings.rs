//! The findings of one run of the rules, and queries of rules for each other's findings.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::support::standstill::NodeTroubles;
use super::{ALL, Finding, Finds, Rule, Subject};
use crate::api::Skyhook;
use crate::cluster::history::Changes;
use crate::cluster::{Cluster, PackageRuns, Source};
use crate::model::{Batch, Model};

/// Collects the findings of a rule.
pub struct Findings<'c> {
    rule: &'static Rule,
    found: Vec<Finding>,
    depends_on: Vec<Source>,
    undetermined: Vec<String>,
    run: Rc<RuleRun<'c>>,
}

/// One run of the rules over one cluster. Caches the findings of each rule, and data that many rules need.
pub struct RuleRun<'c> {
    cluster: &'c Cluster,
    found: RefCell<BTreeMap<&'static str, RuleResult>>,
    troubles: OnceCell<Rc<NodeTroubles>>,
    package_runs: OnceCell<Rc<PackageRuns<'c>>>,
    model: OnceCell<Rc<Model<'c>>>,
    changes: OnceCell<Rc<Changes<'c>>>,
}

/// The findings of a rule, and further sources that they depend on.
#[derive(Debug, Clone)]
pub struct RuleResult {
    pub findings: Rc<Vec<Finding>>,
    pub depends_on: Vec<Source>,
    /// Questions that the rule cannot decide on this cluster, with reasons.
    pub undetermined: Vec<String>,
}

impl<'c> RuleRun<'c> {
    pub fn new(cluster: &'c Cluster) -> Rc<RuleRun<'c>> {
        Rc::new(RuleRun {
            cluster,
            found: RefCell::default(),
            troubles: OnceCell::new(),
            package_runs: OnceCell::new(),
            model: OnceCell::new(),
            changes: OnceCell::new(),
        })
    }

    /// Runs a rule, or returns its cached result.
    pub fn of(self: &Rc<Self>, rule: &'static Rule) -> RuleResult {
        if let Some(found) = self.found.borrow().get(rule.code) {
            return found.clone();
        }
        let mut findings = Findings {
            rule,
            found: Vec::new(),
            depends_on: Vec::new(),
            undetermined: Vec::new(),
            run: Rc::clone(self),
        };
        (rule.detect)(self.cluster, &mut findings);
        findings.found.last_mut().map(Finding::finish);
        findings.found.shrink_to_fit();
        let found = RuleResult {
            findings: Rc::new(findings.found),
            depends_on: findings.depends_on,
            undetermined: findings.undetermined,
        };
        self.found.borrow_mut().insert(rule.code, found.clone());
        found
    }

    /// Ends the run, and returns the results by code: the caller owns the findings.
    pub fn finish(self: Rc<Self>) -> BTreeMap<&'static str, RuleResult> {
        self.found.take()
    }
}

impl<'c> Findings<'c> {
    /// The cluster that is diagnosed.
    pub fn cluster(&self) -> &'c Cluster {
        self.run.cluster
    }

    /// The pods and Jobs that run stages in the active API.
    pub fn package_runs(&self) -> Rc<PackageRuns<'c>> {
        let run = &self.run;
        let all = || Rc::new(run.cluster.package_runs());
        Rc::clone(run.package_runs.get_or_init(all))
    }

    /// One reconcile of the operator.
    pub fn model(&self) -> Rc<Model<'c>> {
        let run = &self.run;
        Rc::clone(run.model.get_or_init(|| Rc::new(Model::new(run.cluster))))
    }

    /// The recorded changes after which the operator should act.
    pub fn changes(&self) -> Rc<Changes<'c>> {
        let run = &self.run;
        Rc::clone(run.changes.get_or_init(|| Rc::new(Changes::new(run.cluster, self.package_runs()))))
    }

    /// The findings that keep nodes from making progress, for rules about effects.
    pub fn troubles(&self) -> Rc<NodeTroubles> {
        let troubles = &self.run.troubles;
        Rc::clone(troubles.get_or_init(|| Rc::new(NodeTroubles::of(|rule| self.of_rule(rule)))))
    }

    /// All rules of this kind except the running one.
    pub(super) fn other_rules(&self, finds: Finds) -> impl Iterator<Item = &'static Rule> {
        let own = self.rule.code;
        ALL.iter().copied().filter(move |rule| rule.finds == finds && rule.code != own)
    }

    /// The outlines of the findings of all rules except those about missing progress without a cause and about
    /// unreadable values.
    pub(super) fn of_all_others(&self) -> Vec<Finding> {
        let explains = |rule: &&&Rule| !matches!(rule.finds, Finds::Unexplained | Finds::Unknowns);
        let mut outlines = Vec::new();
        for rule in ALL.iter().filter(explains) {
            outlines.extend(self.of_rule(rule).iter().map(Finding::outline));
        }
        outlines
    }

    /// The findings of another rule.
    pub(super) fn of_rule(&self, rule: &'static Rule) -> Rc<Vec<Finding>> {
        self.run.of(rule).findings
    }

    /// The current batches of a custom resource.
    pub fn batches(&mut self, skyhook: &Skyhook) -> Vec<Batch<'c>> {
        if self.cluster().policy_not_read(skyhook) {
            self.depends_on(Source::Policies);
        }
        self.model().batches(skyhook)
    }

    /// Declares that the result on this cluster depends on a source that is otherwise optional.
    pub fn depends_on(&mut self, source: Source) {
        if !self.depends_on.contains(&source) {
            self.depends_on.push(source);
        }
    }

    /// Records a question that the rule cannot decide on this cluster: the object, and its unknown value.
    pub fn undetermined(&mut self, reason: impl Into<String>) {
        self.undetermined.push(reason.into());
    }

    /// Adds a finding with the rule's severity, and returns it for evidence and remedies.
    pub fn report(&mut self, subject: Subject, message: impl Into<String>) -> &mut Finding {
        self.found.last_mut().map(Finding::finish);
        self.found.push(Finding::new(self.rule, subject, message.into()));
        self.found.last_mut().expect("a finding was just pushed")
    }
}
