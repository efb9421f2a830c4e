lint_rule! {
    /// Kubernetes refuses a toleration of the custom resource.
    ///
    /// # What it means
    ///
    /// The webhook accepts the custom resource, but the API server rejects every pod of its packages, so nothing runs.
    /// `Exists` takes no `value`; an empty `key` requires `Exists`; `tolerationSeconds` requires the effect `NoExecute`.
    ///
    /// # How to fix
    ///
    /// Correct the toleration.
    SKY871 "toleration-refused" Error reports Toleration
}
