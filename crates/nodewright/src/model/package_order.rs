//! The order of packages on a node: which packages may run, given the complete packages.

use super::operator::Operator;

/// The dependencies of each package, by index; `None` for a dependency that the spec lacks.
pub(super) struct Order {
    pub depends_on: Vec<Vec<Option<usize>>>,
}

impl Order {
    /// The packages that run next (operator `Next` of the dependency graph).
    pub fn next(&self, operator: &Operator<'_>, complete: &[bool]) -> Vec<usize> {
        let done = complete.iter().filter(|done| **done).count();
        let ready = |at: &usize| {
            let mut depends_on = self.depends_on[*at].iter();
            !complete[*at] && depends_on.all(|on| on.is_some_and(|on| complete[on]))
        };
        let all = 0..self.depends_on.len();
        if !operator.before(0, 18) || done == 0 {
            return all.filter(ready).collect();
        }
        // Before v0.18, a package without dependencies is considered only while the number of complete packages does
        // not exceed the number of packages without dependencies (upstream 387).
        let roots = all.clone().filter(|at| self.depends_on[*at].is_empty());
        let roots: Vec<usize> = roots.collect();
        if done <= roots.len() {
            let open: Vec<usize> = roots.into_iter().filter(|at| !complete[*at]).collect();
            if !open.is_empty() {
                return open;
            }
        }
        all.filter(|at| !self.depends_on[*at].is_empty()).filter(ready).collect()
    }
}
