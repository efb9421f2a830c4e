lint_rule! {
    /// `interruptionBudget` and `deploymentPolicy` are both set.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object: a policy has its own budgets.
    ///
    /// # How to fix
    ///
    /// Remove one of the two.
    SKY816 "budget-and-policy" Error reports BudgetAndPolicy
}
