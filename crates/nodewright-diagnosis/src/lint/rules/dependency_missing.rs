lint_rule! {
    /// A package depends on a package or version that is not in the spec.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. `dependsOn` names a package of the same custom resource with exactly its version.
    ///
    /// # How to fix
    ///
    /// Add the package, or write its version.
    SKY818 "dependency-missing" Error reports Dependency
}
