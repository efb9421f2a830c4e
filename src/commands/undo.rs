//! `undo`: reverts the changes of a command.

use crate::apply::journal::{Record, Store};
use crate::apply::precondition::RebasedPlan;
use crate::args::safety::Safety;
use crate::cluster::Source;
use crate::commands::shared::command::{Write, command};
use crate::ctx::{CommandOptions, Ctx};
use crate::error::{Error, Exit, Result};
use crate::plan::{Plan, Refusal, Step, planners};
use crate::view::{ago, some_of};

/// Maximum number of objects named in a message before the rest is counted.
const SHOWN: usize = 6;

/// Undo a previous command
///
/// Without an id, undoes the most recent command not yet undone. Values that were changed since, by the operator or by
/// anyone else, are kept and listed. If all of them were changed since, the command still counts as not undone, and an
/// older command can be undone only by its id. Commands that cannot be undone, such as `package retry`, are
/// skipped. An undo is recorded in the journal, too, and can be undone by its id.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook undo
  kubectl skyhook undo 20261120-174612 --dry-run --diff")]
pub struct Args {
    /// Journal id, or the beginning of one; see `journal list`
    #[arg(value_name = "ID", value_parser = crate::args::nodes::journal)]
    id: Option<String>,

    #[command(flatten)]
    safety: Safety,
}

/// A resumed custom resource may have been edited meanwhile.
const NEEDS: [Source; 7] = {
    let [nodes, policies, skyhooks, operator, pods, jobs] = planners::NEEDS;
    [nodes, policies, skyhooks, operator, pods, jobs, Source::ConfigMaps]
};

command! {
    "undo": Args => run,
    needs: NEEDS,
    lists: &[("", "nodes"), ("policy", "poddisruptionbudgets")],
    writes: Write::ALL,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if !ctx.global().reading.from.is_empty() {
        let why = "undo requires a cluster; --from is not supported";
        return Err(Error::usage(why).hint("omit --from"));
    }
    let store = ctx.journals()?;
    store.trusted()?;
    let record = match &args.id {
        Some(id) => {
            let record = store.read(id)?;
            store.complaint(&record).into_iter().for_each(|c| ctx.warn(c));
            if let Some(undo) = store.undone_by(&record.begun.id)? {
                ctx.warn(format!(
                    "this command was already undone {} (journal {})",
                    ago(Some(undo.begun.at), crate::ctx::now()),
                    undo.begun.id
                ));
            }
            record
        }
        None => newest(ctx, &store)?,
    };
    let (mut plan, lost) = record.undo();
    if plan.is_empty() && !lost.is_empty() {
        let command = record.begun.plan.title.clone();
        return Err(Refusal::CannotBeRestored { command, objects: some_of(&lost, SHOWN) }.into());
    }
    for target in lost {
        let lost = format!("{target} cannot be restored");
        plan.consequences.cannot_be_undone.push(lost);
    }
    ctx.same_cluster(&format!("journal {}", record.begun.id), Some(&record.begun.origin())).await?;
    let mut rebased = ctx.rebase(&plan).await?;
    if !rebased.works() {
        let earlier = store.newest_undo_of(&record.begun.id)?;
        plan.stages = earlier.map_or_else(Vec::new, |undo| undo.standing_holds());
        if plan.stages.is_empty() {
            plan.stages = record.standing_holds();
        }
        rebased = rebased.replace_pauses(ctx.rebase(&plan).await?);
        record.set_title(&mut rebased.changes);
        rebased.plan.title.clone_from(&rebased.changes.title);
    }
    let mut shown = shown(ctx, &record, &rebased)?;
    if !shown.is_empty() {
        let cluster = ctx.limit_to(shown.few_nodes()).load_or_leftovers(&NEEDS, &[]).await?;
        ctx.forecast(&cluster, &mut shown).await;
    }
    // Saved plans and journals contain the effects and preconditions of the preview.
    rebased.plan.consequences.clone_from(&shown.consequences);
    rebased.plan.preconditions.clone_from(&shown.preconditions);
    let manner = CommandOptions {
        undoes: Some(record.begun.id.clone()),
        shown: Some(shown),
        ..CommandOptions::default()
    };
    ctx.execute_with(&rebased.plan, &args.safety, manner, None).await
}

/// The journal of the most recent command that is not undone.
fn newest(ctx: &mut Ctx, store: &Store) -> Result<Record> {
    let found = store.newest_in_force()?;
    for complaint in found.complaints {
        ctx.warn(complaint);
    }
    for begun in found.passed_over {
        ctx.note(format!(
            "Skipped, because it cannot be undone: {} (journal {})",
            begun.plan.title, begun.id
        ));
    }
    let begun = &found.record.begun;
    ctx.note(format!("Most recent command not yet undone: {} (journal {})", begun.plan.title, begun.id));
    if let Some(tried) = found.tried {
        ctx.warn(format!(
            "an undo of this command was attempted {}, but not everything could be undone (journal {})",
            ago(Some(tried.at), crate::ctx::now()),
            tried.id
        ));
    }
    Ok(found.record)
}

/// The effective changes of the undo, with a warning about objects that it leaves unchanged.
///
/// # Errors
///
/// Every object has changed since.
fn shown(ctx: &mut Ctx, record: &Record, rebased: &RebasedPlan) -> Result<Plan> {
    if let Some(why) = &rebased.unseen {
        ctx.warn(format!(
            "some objects could not be read in advance ({why}); objects that were changed after the command are left unchanged"
        ));
    }
    let left: Vec<String> = rebased.moved.iter().map(words).collect();
    let mut shown = rebased.changes.clone();
    crate::plan::planners::node::warn_of(&mut shown, &rebased.custom);
    if shown.is_empty() && !left.is_empty() {
        let command = record.begun.plan.title.clone();
        return Err(Refusal::AllHaveChanged { command, objects: some_of(&left, SHOWN) }.into());
    }
    if !left.is_empty() {
        let left = some_of(&left, SHOWN);
        shown.consequences.warn(format!("left unchanged because of later changes: {left}"));
    }
    Ok(shown)
}

fn words((step, why): &(Step, String)) -> String {
    format!("{} ({why})", step.target)
}
