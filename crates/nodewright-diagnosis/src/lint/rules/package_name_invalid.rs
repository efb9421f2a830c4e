lint_rule! {
    /// The name of a package is not valid.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. A package name has 2 to 43 lower-case letters, digits and hyphens; it begins and
    /// ends with a letter. The field `name` of a package may only repeat the key.
    ///
    /// # How to fix
    ///
    /// Rename the package, or remove its field `name`.
    SKY811 "package-name-invalid" Error reports PackageName
}
