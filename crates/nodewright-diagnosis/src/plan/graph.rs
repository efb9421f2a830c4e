//! The order of a plan's stages.

use std::collections::BTreeSet;

use super::{Condition, Goal, Plan, PlanStage, Step, Target};

impl Plan {
    /// The stages that must be over before this one begins; their numbers are lower.
    pub fn before(&self, number: usize) -> Vec<usize> {
        before(&self.stages, number)
    }

    /// The stages that directly depend on this one.
    fn following(&self, number: usize) -> impl Iterator<Item = usize> {
        let later = number + 1..self.stages.len();
        later.filter(move |later| self.before(*later).contains(&number))
    }

    /// Whether this stage, or one that depends on it, waits for an effect.
    pub fn is_relied_on(&self, number: usize) -> bool {
        let mut from_here = BTreeSet::from([number]);
        for later in number + 1..self.stages.len() {
            if self.before(later).iter().any(|b| from_here.contains(b)) {
                from_here.insert(later);
            }
        }
        from_here.iter().any(|n| self.stages[*n].until.is_some())
    }

    /// Whether each stage depends only on stages with lower numbers, as [`Plan::before`] requires.
    pub fn is_in_order(&self) -> bool {
        self.stages
            .iter()
            .enumerate()
            .all(|(number, stage)| stage.after.iter().flatten().all(|before| *before < number))
    }

    /// The plan that undoes this one, last stage first, and the steps that cannot be undone. The end of a pause
    /// becomes a pause with the wait for that pause, and the pause becomes its end.
    pub fn inverse(&self) -> (Vec<PlanStage>, Vec<&Step>) {
        let mut lost = Vec::new();
        let mut stages = Vec::new();
        let last = self.stages.len().saturating_sub(1);
        for (number, stage) in self.stages.iter().enumerate().rev() {
            let mut steps = Vec::new();
            for step in &stage.steps {
                match step.inverse() {
                    Some(step) if !self.replaces(&step.target) => steps.push(step),
                    _ => lost.push(step),
                }
            }
            let following: Vec<usize> = self.following(number).collect();
            // An order without a dependency stays one.
            let ordered = following == [number + 1] && self.stages[number + 1].after.is_none();
            let needed = following.iter().map(|later| last - later).collect();
            stages.push(PlanStage {
                after: Some(needed).filter(|_| number < last && !ordered),
                until: self.stages.iter().find_map(|pause| pause.pause_ended_by(stage)).cloned(),
                always: self.stages.iter().any(|end| stage.pause_ended_by(end).is_some()),
                steps,
            });
        }
        retain_stages(&mut stages, |s| !s.steps.is_empty());
        (stages, lost)
    }
}

impl PlanStage {
    /// The wait for this stage's pause, if `end` ends that pause.
    fn pause_ended_by(&self, end: &PlanStage) -> Option<&Goal> {
        let ends = |target: &Target| end.steps.iter().any(|step| step.target.same_object_name(target));
        let paused = |until: &&Goal| until.condition == Condition::Paused && ends(&until.target);
        self.until.as_ref().filter(paused).filter(|_| end.always)
    }
}

/// Removes stages. A stage that came after a removed one comes after those before the removed one instead.
pub fn retain_stages(stages: &mut Vec<PlanStage>, keep: impl Fn(&PlanStage) -> bool) {
    // The new numbers that replace each stage, its own or those before it, and whether they are needed.
    let mut now: Vec<(BTreeSet<usize>, bool)> = Vec::new();
    let mut kept: Vec<PlanStage> = Vec::new();
    for (number, stage) in stages.iter().enumerate() {
        let mut after = BTreeSet::new();
        let mut needed = stage.after.is_some();
        for earlier in before(stages, number) {
            after.extend(&now[earlier].0);
            needed |= now[earlier].1;
        }
        if !keep(stage) {
            now.push((after, needed));
            continue;
        }
        now.push((BTreeSet::from([kept.len()]), false));
        let follows = !needed && after.iter().copied().eq(kept.len().checked_sub(1));
        kept.push(PlanStage { after: (!follows).then(|| after.into_iter().collect()), ..stage.clone() });
    }
    *stages = kept;
}

fn before(stages: &[PlanStage], number: usize) -> Vec<usize> {
    match &stages[number].after {
        Some(after) => after.iter().copied().filter(|b| *b < number).collect(),
        None => number.checked_sub(1).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Change, Edit, Hold, Metadata};

    fn stage(name: &str, after: Option<&[usize]>) -> PlanStage {
        let edit = Metadata::default().label("key", Edit::new(None, Some("new")));
        let target = Target::node(name, None);
        PlanStage {
            after: after.map(<[usize]>::to_vec),
            ..PlanStage::of(vec![Step::new(target, Change::Metadata(edit), "a test")])
        }
    }

    /// A plan with four stages: `a`, then `b` and `c` in parallel, then `d`.
    fn diamond() -> Plan {
        Plan {
            stages: vec![
                stage("a", None),
                stage("b", Some(&[0])),
                stage("c", Some(&[0])),
                stage("d", Some(&[1, 2])),
            ],
            ..Plan::default()
        }
    }

    /// Each stage with the stages that it depends on, by the names of their nodes.
    fn order(stages: &[PlanStage]) -> Vec<String> {
        let name = |number: usize| stages[number].steps[0].target.name.clone();
        let line = |number| {
            let after: Vec<String> = before(stages, number).into_iter().map(name).collect();
            format!("{} after {}", name(number), after.join(" and "))
        };
        (0..stages.len()).map(line).collect()
    }

    #[test]
    fn a_graph_is_taken_back_from_its_ends() {
        let (back, _) = diamond().inverse();
        assert_eq!(order(&back), ["d after ", "c after d", "b after d", "a after c and b"]);
        let mut list = diamond();
        list.stages.iter_mut().for_each(|s| s.after = None);
        let (back, _) = list.inverse();
        assert!(back.iter().all(|s| s.after.is_none()), "{back:?}");
    }

    #[test]
    fn what_came_after_a_stage_that_is_left_out_comes_after_what_that_came_after() {
        let left = |out: &[&str]| {
            let mut stages = diamond().stages;
            retain_stages(&mut stages, |s| !out.contains(&s.steps[0].target.name.as_str()));
            order(&stages)
        };
        assert_eq!(left(&["a"]), ["b after ", "c after ", "d after b and c"]);
        assert_eq!(left(&["b"]), ["a after ", "c after a", "d after a and c"]);
        assert_eq!(left(&["b", "c"]), ["a after ", "d after a"]);
    }

    #[test]
    fn an_order_stays_an_order_and_a_dependency_a_dependency() {
        for (dependency, after) in [(None, None), (Some(vec![0]), Some(vec![0]))] {
            let mut stages = diamond().stages;
            stages.iter_mut().for_each(|stage| stage.after = None);
            stages[1].after = dependency;
            retain_stages(&mut stages, |stage| stage.steps[0].target.name != "b");
            assert_eq!(stages[1].after, after);
            assert_eq!(stages[2].after, None);
            let plan = Plan { stages, ..Plan::default() };
            let (back, _) = plan.inverse();
            assert_eq!(back[1].after, None);
            assert_eq!(back[2].after, after.map(|_| vec![1]));
        }
    }

    #[test]
    fn a_stage_is_relied_on_by_what_waits_after_it() {
        let mut plan = diamond();
        plan.stages[1].until =
            Some(Goal { target: Target::node("b", None), condition: Condition::Gone, at_most: 1 });
        let relied_on: Vec<bool> = (0..4).map(|n| plan.is_relied_on(n)).collect();
        assert_eq!(relied_on, [true, true, false, false]);
    }

    #[test]
    fn deleted_objects_are_made_again_without_waiting_for_them_to_go() {
        let delete = |name: &str| {
            let target = Target::skyhook(crate::api::ApiFlavor::Skyhook, name, Some("1"));
            let was = Some(Box::new(serde_json::json!({"metadata": {"name": name}})));
            let step = Step::new(target.clone(), Change::Delete { was }, "a test");
            PlanStage {
                until: Some(Goal { target, condition: Condition::Gone, at_most: 1 }),
                after: Some(Vec::new()),
                ..PlanStage::of(vec![step])
            }
        };
        let plan = Plan { stages: vec![delete("a"), delete("b")], ..Plan::default() };
        let (back, lost) = plan.inverse();
        assert_eq!((back.len(), lost.len()), (2, 0));
        assert!(back.iter().all(|s| s.until.is_none()), "{back:?}");
        assert!(Plan { stages: back, ..Plan::default() }.is_in_order());
    }

    /// Two pauses, a change under both, and their ends in the order of the pauses.
    fn two_pauses() -> Plan {
        let cr = |name: &str| Target::skyhook(crate::api::ApiFlavor::Skyhook, name, Some("1"));
        let pair = |name: &str| {
            let [hold, end] = Hold::around("pause", "a test", |_| None, None);
            let until = Goal { target: cr(name), condition: Condition::Paused, at_most: 1 };
            let pause = Step::new(cr(name), Change::Hold(hold), "a test");
            let end = Step::new(cr(name), Change::Release(end), "a test");
            let pause = PlanStage { until: Some(until), after: Some(vec![]), ..PlanStage::of(vec![pause]) };
            [pause, PlanStage { always: true, ..PlanStage::of(vec![end]) }]
        };
        let ([a, mut end_of_a], [b, mut end_of_b]) = (pair("a"), pair("b"));
        end_of_a.after = Some(vec![0, 2]);
        end_of_b.after = Some(vec![1, 2]);
        Plan { stages: vec![a, b, stage("node", Some(&[0, 1])), end_of_a, end_of_b], ..Plan::default() }
    }

    #[test]
    fn the_undo_waits_for_each_pause_where_it_is_set() {
        let plan = two_pauses();
        let (back, lost) = plan.inverse();
        assert_eq!(lost.len(), 0);
        let shape: Vec<(&str, bool, Option<&str>, bool)> = back
            .iter()
            .map(|stage| {
                let step = &stage.steps[0];
                let until = stage.until.as_ref().map(|until| until.target.name.as_str());
                (step.target.name.as_str(), step.change.holds(), until, stage.always)
            })
            .collect();
        assert_eq!(
            shape,
            [
                ("b", true, Some("b"), false),
                ("a", true, Some("a"), false),
                ("node", false, None, false),
                ("b", false, None, true),
                ("a", false, None, true),
            ]
        );
        assert_eq!(
            order(&back),
            ["b after ", "a after ", "node after b and a", "b after b and node", "a after a and node"]
        );
        let back = Plan { stages: back, ..Plan::default() };
        assert_eq!(back.inverse().0.len(), 5);
        assert_eq!(back.inverse().0[0].until.as_ref().map(|until| until.target.name.as_str()), Some("a"));
    }

    #[test]
    fn a_stage_cannot_come_after_itself_or_a_later_one() {
        let mut plan = diamond();
        assert!(plan.is_in_order());
        plan.stages[1].after = Some(vec![3]);
        assert!(!plan.is_in_order());
        assert_eq!(plan.before(1), [0usize; 0]);
    }
}
