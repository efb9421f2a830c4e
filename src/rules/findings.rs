//! Where rules put what they find, and what they ask each other for.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::node_troubles::NodeTroubles;
use super::{ALL, Finding, Finds, Rule, Subject};
use crate::cluster::{Cluster, Source};

/// Where rules put what they find.
#[derive(Debug)]
pub struct Findings {
    rule: &'static Rule,
    found: Vec<Finding>,
    depends_on: Vec<Source>,
    run: RuleRun,
}

/// One run of rules over one cluster: what a rule finds, others build on, and it is looked for once.
#[derive(Debug, Clone, Default)]
pub struct RuleRun(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    found: RefCell<BTreeMap<&'static str, RuleResult>>,
    troubles: OnceCell<Rc<NodeTroubles>>,
}

/// What a rule found, and the sources on which the answer depends besides those that are needed.
#[derive(Debug, Clone)]
pub struct RuleResult {
    pub findings: Rc<Vec<Finding>>,
    pub depends_on: Vec<Source>,
}

impl RuleRun {
    /// What one rule finds.
    pub fn of(&self, rule: &'static Rule, cluster: &Cluster) -> RuleResult {
        if let Some(found) = self.0.found.borrow().get(rule.code) {
            return found.clone();
        }
        let mut findings = Findings {
            rule,
            found: Vec::new(),
            depends_on: Vec::new(),
            run: self.clone(),
        };
        (rule.detect)(cluster, &mut findings);
        let found = RuleResult {
            findings: Rc::new(findings.found),
            depends_on: findings.depends_on,
        };
        self.0.found.borrow_mut().insert(rule.code, found.clone());
        found
    }
}

impl Findings {
    /// What keeps nodes from making progress, for a rule that looks at effects.
    pub fn troubles(&self, cluster: &Cluster) -> Rc<NodeTroubles> {
        let found = |rule| self.by(rule, cluster);
        let troubles = &self.run.0.troubles;
        Rc::clone(troubles.get_or_init(|| Rc::new(NodeTroubles::of(found))))
    }

    /// The rules of this kind, but for the one that asks.
    pub(super) fn other_rules(&self, finds: Finds) -> impl Iterator<Item = &'static Rule> {
        let own = self.rule.code;
        let all = ALL.iter().copied();
        all.filter(move |rule| rule.finds == finds && rule.code != own)
    }

    /// What the rules find that do not build on what others find.
    pub(super) fn of_all_others(&self, cluster: &Cluster) -> Vec<Finding> {
        let others = ALL.iter().filter(|rule| rule.finds != Finds::Unexplained);
        others
            .flat_map(|rule| self.by(rule, cluster).to_vec())
            .collect()
    }

    /// What another rule finds, for one that builds on it.
    pub(super) fn by(&self, rule: &'static Rule, cluster: &Cluster) -> Rc<Vec<Finding>> {
        self.run.of(rule, cluster).findings
    }

    /// On this cluster the answer depends on a source that the rule can otherwise do without.
    pub fn depends_on(&mut self, source: Source) {
        if !self.depends_on.contains(&source) {
            self.depends_on.push(source);
        }
    }

    /// Adds a finding at the rule's own severity; evidence and remedies are added to what returns.
    pub fn report(&mut self, subject: Subject, message: impl Into<String>) -> &mut Finding {
        self.found
            .push(Finding::new(self.rule, subject, message.into()));
        self.found.last_mut().expect("one was pushed")
    }
}
