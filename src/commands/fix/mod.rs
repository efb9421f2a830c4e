//! `fix`: the remedies of all findings, as one plan.

mod choose;
mod merge;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use self::choose::{Chosen, FixLimits, choose};
use self::merge::Part;
use crate::args::named;
use crate::args::nodes::NodeFlags;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::rule::find_rule;
use crate::commands::shared::{scope, selection};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::{Grade, Plan};
use crate::rules::{self, Report, Scope};
use crate::view::{plural, shell_words, text};

/// Apply the remedies of all findings as one plan
///
/// Runs the rules as `diagnose stuck` does and takes, for each cause, the least disruptive remedy that changes
/// something and needs no decision, up to --up-to. These remedies form one plan, with preview, confirmation,
/// journal and undo as for any other command. Findings that follow from a cause are not fixed separately: run `diagnose
/// stuck` again afterwards.
///
/// Findings that are not fixed are listed with the reason: those that only a person can repair, such as an image, a
/// script or a PodDisruptionBudget; those whose remedy needs a decision, such as pausing, resuming, ignoring a node,
/// releasing a cordon, resetting, or canceling an uninstall; and those whose remedy is above --up-to. Findings that may
/// resolve themselves are fixed only if their codes are named. With --node or --match, no other node is changed.
///
/// Exits with 2 if nothing is fixed although there are errors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Show what would be fixed, and what would be skipped
  kubectl skyhook fix --dry-run

  # Rerun failing packages after the cause of the failure is fixed
  kubectl skyhook fix package-erroring --up-to rerun

  # Limit fixes to one custom resource and one node
  kubectl skyhook fix --skyhook gpu-tune --node gpu-0001 --up-to reboot")]
pub struct Args {
    /// Only fix findings of these rules, by code or name
    #[arg(value_name = "CODE")]
    rules: Vec<String>,

    /// Only fix findings of this custom resource; may be repeated
    #[arg(long = "skyhook", value_name = "NAME", alias = "nodewright", value_parser = named::skyhook)]
    skyhooks: Vec<String>,

    #[command(flatten)]
    on: NodeFlags,

    /// Worst effect of the remedies to apply: objects, rerun, restart or reboot
    ///
    /// objects changes objects and runs nothing, rerun runs packages again, restart restarts services or evicts pods,
    /// reboot reboots nodes or permanently removes a record. The grades B1 to B4 are accepted, too.
    #[arg(long, value_name = "EFFECT", value_parser = grades(), default_value = "objects", ignore_case = true,
        hide_possible_values = true)]
    up_to: Grade,

    /// Do not pause the custom resource, even if the operator could write to the same nodes
    #[arg(long)]
    no_pause: bool,

    #[command(flatten)]
    safety: Safety,
}

/// The grades above B0, by their words or codes.
fn grades() -> impl TypedValueParser<Value = Grade> {
    let grades = Grade::ALL[1..].iter();
    PossibleValuesParser::new(grades.map(|grade| PossibleValue::new(grade.word()).alias(grade.to_string())))
        .map(|name| Grade::named(&name).expect("the parser accepts only grade names"))
}

command! {
    "fix": Args => run,
    needs: Scope::default().needs(),
    writes: &[
        Write::Nodes,
        Write::Skyhooks,
        Write::SkyhookStatus,
        Write::DeletePods,
        Write::DeleteJobs,
    ],
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let rules = args.rules.iter().map(|rule| find_rule(rule));
    let rules = rules.collect::<Result<Vec<_>>>()?;
    let cluster = ctx.load_to_change(&Scope::default().needs(), &Source::OF_WORK).await?;
    let limits = FixLimits {
        // The causes of a finding are reported by other rules.
        scope: scope::of(&cluster, &args.skyhooks, &args.on, Vec::new())?,
        rules,
        up_to: args.up_to,
        no_pause: args.no_pause,
    };
    let report = rules::diagnose(&cluster, &limits.scope);
    let plan = plan(&cluster, &report, &limits)?;
    if plan.is_empty() {
        // An empty plan has no preview that lists the skipped findings.
        for line in few(&plan.consequences.notes).iter().chain(&plan.consequences.warnings) {
            ctx.note(text::prose(line));
        }
    }
    let empty = plan.is_empty();
    let exit = ctx.execute(&cluster, plan, &args.safety).await?;
    let errors = report.counts.errors;
    // An empty plan does not mean that there are no errors.
    if exit == Exit::Done && empty && errors > 0 {
        let remain = if errors == 1 { "remains" } else { "remain" };
        let causes = plural(errors, "cause");
        ctx.note(format!("{causes} {remain}: see `kubectl skyhook diagnose stuck`"));
        return Ok(Exit::Findings);
    }
    Ok(exit)
}

/// The lines about skipped findings, at most two.
fn few(lines: &[String]) -> Vec<String> {
    match lines {
        [first, _, _, ..] => {
            let more = plural(lines.len() - 1, "more finding");
            vec![first.clone(), format!("skips {more}: see `kubectl skyhook diagnose stuck`")]
        }
        few => few.to_vec(),
    }
}

/// The plan with the remedies of the findings; its notes list the skipped findings.
///
/// # Errors
///
/// Two remedies contradict each other; or the input has no custom resources, so that leftovers may be in use.
fn plan(cluster: &Cluster, report: &Report, limits: &FixLimits) -> Result<Plan> {
    selection::not_left_out(cluster, ", so it is unknown what is still in use")?;
    let Chosen { parts, left } = choose(cluster, &report.findings, limits);
    let cured: Vec<String> = parts.iter().map(Part::describe).collect();
    let mut plan = merge::merged(cluster, parts)?;
    if plan.grade() > limits.up_to {
        let grade = plan.grade();
        let meaning = plan.consequences.at_worst(grade);
        let why =
            format!("together, the remedies exceed --up-to {}: {meaning} ({grade})", limits.up_to.word());
        let argv = ["kubectl", "skyhook", "fix", "--up-to", grade.word()];
        return Err(Error::unchanged(why).hint(shell_words(&argv)));
    }
    let notes = std::mem::take(&mut plan.consequences.notes);
    plan.consequences.notes = cured.into_iter().chain(notes).chain(left).collect();
    if !report.not_checked.is_empty() {
        plan.consequences.warn("some rules could not be checked: see `kubectl skyhook diagnose stuck`");
    }
    Ok(plan)
}
