lint_rule! {
    /// Kubernetes refuses pods with an environment variable of a package.
    ///
    /// # What it means
    ///
    /// The webhook accepts the custom resource, but the API server rejects every pod of the package, so it never runs. A
    /// variable has a name without `=`, and either `value` or exactly one source in `valueFrom`.
    ///
    /// # How to fix
    ///
    /// Correct the variable.
    SKY873 "env-refused" Error reports Env
}
