use jiff::SignedDuration;

use super::{Input, LintFindings};

lint_rule! {
    /// `stageTimeout` is shorter than a stage of the package took before.
    ///
    /// # What it means
    ///
    /// The stage is stopped before it can finish, tried again, and fails.
    ///
    /// # How to fix
    ///
    /// Set a timeout above the longest duration, with a margin.
    SKY868 "stage-timeout-too-short" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let Some(cluster) = input.cluster else {
        return;
    };
    for (manifest, skyhook) in input.skyhooks() {
        let runs = cluster.package_runs_for(skyhook.name());
        for (name, package) in skyhook.packages() {
            let timeout = package.whole["stageTimeout"].as_str();
            let timeout = timeout.and_then(|text| text.parse::<SignedDuration>().ok());
            let Some(timeout) = timeout.filter(SignedDuration::is_positive) else {
                continue;
            };
            let of_package = runs.all().iter().filter(|run| run.package == name && !run.interrupt);
            let took = of_package.filter_map(|run| Some((run.took()?, run)));
            let Some((took, run)) = took.max_by_key(|(took, _)| *took).filter(|(took, _)| *took >= timeout)
            else {
                continue;
            };
            let message = format!(
                "stageTimeout {timeout:#} is shorter than the {took:#} that stage {} took on {}",
                run.stage.as_str(),
                run.node
            );
            findings
                .report(manifest, &["spec", "packages", name, "stageTimeout"], message)
                .fix("Set a timeout above the longest duration, with a margin");
        }
    }
}
