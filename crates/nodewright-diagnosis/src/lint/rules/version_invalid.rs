lint_rule! {
    /// The version of a package is not a semantic version.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. The version is also the tag of the image.
    ///
    /// # How to fix
    ///
    /// Use a version such as `1.2.3`, and tag the image with it. Tags such as `latest` are not possible.
    SKY812 "version-invalid" Error reports Version
}
