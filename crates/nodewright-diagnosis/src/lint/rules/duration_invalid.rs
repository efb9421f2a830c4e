lint_rule! {
    /// A duration is not valid.
    ///
    /// # What it means
    ///
    /// The webhook cannot decode the object and rejects it; negative timeouts are rejected, too.
    ///
    /// # How to fix
    ///
    /// Write numbers with units: `90s`, `15m`, `1h30m`. There is no unit for days.
    SKY821 "duration-invalid" Error reports Duration
}
