lint_rule! {
    /// An entry of `configInterrupts` matches no key of `configMap`.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. Only `*` is special in the keys of `configInterrupts`.
    ///
    /// # How to fix
    ///
    /// Correct the key, or remove the entry.
    SKY820 "config-interrupt-unmatched" Error reports ConfigInterrupt
}
