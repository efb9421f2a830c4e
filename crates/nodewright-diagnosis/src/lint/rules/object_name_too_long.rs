lint_rule! {
    /// The name of a custom resource is too long for the keys on its nodes.
    ///
    /// # What it means
    ///
    /// The name is part of annotation keys, which are limited to 63 characters. Above 53 characters the operator cannot
    /// record progress, and its reconcile ends with that error: custom resources that come later stop, too.
    ///
    /// # How to fix
    ///
    /// Use a name of at most 53 characters.
    SKY850 "object-name-too-long" Error reports ObjectName
}
