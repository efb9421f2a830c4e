//! `undo`: what a command did is taken back.

use crate::apply::journal::{Record, Store};
use crate::args::safety::Safety;
use crate::ctx::{Ctx, Manner};
use crate::error::{Exit, Result};

/// Take back what a command did
///
/// Without an id, the newest command that is still in force. Values that were changed since, by the operator
/// or by anyone, are left alone and named. An undo is in the journal, too, and can be taken back by its id.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook undo
  kubectl skyhook undo 20261120-174612 --dry-run --diff")]
pub struct Args {
    /// The journal, or the beginning of its id; see `journal list`
    #[arg(value_name = "ID")]
    id: Option<String>,

    #[command(flatten)]
    safety: Safety,
}

pub async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let store = Store::of(crate::ctx::variable)?;
    let record = match &args.id {
        Some(id) => store.read(id)?,
        None => {
            let newest = store.newest_in_force()?;
            let begun = &newest.begun;
            ctx.note(format!(
                "The newest command still in force: {} ({})",
                begun.plan.title, begun.id
            ));
            newest
        }
    };
    let (mut plan, lost) = record.undo();
    for target in lost {
        let lost = format!("{target}: cannot be brought back");
        plan.consequences.cannot_be_undone.push(lost);
    }
    other_server(ctx, &record).await?;
    let manner = Manner {
        undoes: Some(record.begun.id.clone()),
        ..Manner::default()
    };
    ctx.carry_out(&plan, &args.safety, manner).await
}

/// Says so where the journal is of another server. It may be the same cluster by another name, and
/// every object is tested for being the one that was changed.
async fn other_server(ctx: &mut Ctx, record: &Record) -> Result<()> {
    let (then, now) = (record.begun.server.clone(), ctx.server().await?);
    if !then.is_empty() && then != now {
        ctx.warn(format!("the journal is of {then}, and this is {now}"));
    }
    Ok(())
}
