//! A custom resource, with its edits and waits.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    api::Refused,
    cluster::{Cluster, PATIENCE, SKYHOOKS, poll_interval},
    kubelet::Target,
    operator::NAMESPACE,
    ours,
    view::{Condition, PREFIX, View},
};

/// A custom resource in a cluster.
pub struct Rollout<'a> {
    pub cluster: &'a Cluster,
    pub name: String,
}

impl Rollout<'_> {
    pub fn view(&self) -> View {
        let api = &self.cluster.api;
        let selector = format!("labelSelector={PREFIX}/name={}", self.name);
        View {
            name: self.name.clone(),
            object: api.find(&self.path()).expect("the API server responds"),
            nodes: api.items("/api/v1/nodes").expect("the API server responds"),
            pods: api
                .items(&format!("/api/v1/namespaces/{NAMESPACE}/pods?{selector}"))
                .expect("the API server responds"),
        }
    }

    #[track_caller]
    pub fn until(&self, condition: Condition) -> &Self {
        let begun = Instant::now();
        loop {
            let view = self.view();
            if (condition.holds)(&view) {
                return self;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "timed out waiting for {}: {}\noperator:\n{}",
                condition.what,
                view.summary(),
                self.cluster.operator_log(15)
            );
            std::thread::sleep(poll_interval(begun.elapsed()));
        }
    }

    /// Asserts that the condition holds all the time: the operator runs, but changes nothing about it.
    #[track_caller]
    pub fn stays(&self, condition: &Condition, time: Duration) -> &Self {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let view = self.view();
            assert!((condition.holds)(&view), "no longer {}: {}", condition.what, view.summary());
            std::thread::sleep(poll_interval(begun.elapsed()));
        }
        self
    }

    #[track_caller]
    pub fn edit(&self, spec: Value) -> &Self {
        self.try_edit(spec).unwrap_or_else(|refused| panic!("the edit is accepted: {refused}"));
        self
    }

    pub fn try_edit(&self, spec: Value) -> Result<Value, Refused> {
        self.cluster.api.merge(&self.path(), &json!({"spec": spec}))
    }

    #[track_caller]
    pub fn uninstall(&self, package: &str, apply: bool) -> &Self {
        self.edit(json!({"packages": {package: {"uninstall": {"enabled": true, "apply": apply}}}}))
    }

    #[track_caller]
    pub fn annotate(&self, key: &str, value: Value) -> &Self {
        let patch = json!({"metadata": {"annotations": {format!("{PREFIX}/{key}"): value}}});
        self.cluster.api.merge(&self.path(), &patch).expect("the annotation is accepted");
        self
    }

    #[track_caller]
    pub fn delete(&self) -> &Self {
        self.cluster.api.delete(&self.path(), &json!({})).expect("the custom resource can be deleted");
        self
    }

    /// Removes all finalizers, the last resort if a deletion hangs.
    #[track_caller]
    pub fn strip_finalizer(&self) -> &Self {
        self.cluster
            .api
            .merge(&self.path(), &json!({"metadata": {"finalizers": null}}))
            .expect("finalizers can be removed");
        self
    }

    /// Asserts that our binary reports this code on this subject.
    #[track_caller]
    pub fn diagnosed(&self, code: &str, subject: Value) -> &Self {
        self.report().has(code, &subject);
        self
    }

    /// Asserts that our binary reports no error.
    #[track_caller]
    pub fn well(&self) -> &Self {
        let report = self.report();
        assert!(report.errors().is_empty(), "nothing is wrong here: {:#}", report.json);
        self
    }

    #[track_caller]
    pub fn report(&self) -> ours::Report {
        self.cluster.report(&[&self.name])
    }

    pub fn capture(&self, name: &str) -> &Self {
        self.cluster.capture(name);
        self
    }

    pub fn path(&self) -> String {
        format!("{SKYHOOKS}/{}", self.name)
    }
}

/// Selects the pods of a package at this stage.
pub fn pods(package: &str, stage: &str) -> Target {
    Target { package: Some(package.to_owned()), stage: Some(stage.to_owned()), ..Target::default() }
}

impl Target {
    #[must_use]
    pub fn on(self, node: &str) -> Self {
        Self { node: Some(node.to_owned()), ..self }
    }
}
