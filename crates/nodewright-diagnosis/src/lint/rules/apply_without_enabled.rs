lint_rule! {
    /// `uninstall.apply` is set without `uninstall.enabled`.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object.
    ///
    /// # How to fix
    ///
    /// Set `uninstall.enabled: true` as well if the package should be uninstalled. Otherwise remove `apply`.
    SKY819 "apply-without-enabled" Error reports ApplyWithoutEnabled
}
