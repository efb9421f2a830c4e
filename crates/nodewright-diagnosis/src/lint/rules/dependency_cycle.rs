lint_rule! {
    /// Packages depend on each other in a cycle.
    ///
    /// # What it means
    ///
    /// The webhook accepts the object, but the operator never runs these packages: each waits for the next.
    ///
    /// # How to fix
    ///
    /// Remove one of the dependencies.
    SKY830 "dependency-cycle-in-manifest" Error reports DependencyCycle
}
