lint_rule! {
    /// The name and version of a package do not form a valid label.
    ///
    /// # What it means
    ///
    /// The operator labels each pod of a package with `NAME-VERSION`. The API server rejects the pod if that is longer
    /// than 63 characters or contains `+`, so the package never runs.
    ///
    /// # How to fix
    ///
    /// Use a shorter name or version, or a version without build metadata; tag the image with the same version.
    SKY849 "package-label-refused" Error reports PodLabel
}
