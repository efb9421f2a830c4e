lint_rule! {
    /// The resources of a package are incomplete or contradictory.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. If one of `cpuRequest`, `cpuLimit`, `memoryRequest` and `memoryLimit` is set,
    /// all four must be; they are positive, and no limit is below its request.
    ///
    /// # How to fix
    ///
    /// Set all four, or none.
    SKY814 "resources-invalid" Error reports Resources
}
