lint_rule! {
    /// The `configMap` of a package cannot become a ConfigMap.
    ///
    /// # What it means
    ///
    /// The webhook accepts the custom resource, but the API server rejects the ConfigMap that the operator
    /// creates from it, so the package never runs. Keys consist of letters, digits, `-`, `_` and `.`; all
    /// keys and values together have at most 1 MiB.
    ///
    /// # How to fix
    ///
    /// Rename the key, or move large files into the image.
    SKY872 "config-map-refused" Error reports ConfigMap
}
