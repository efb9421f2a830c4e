//! Checks and errors of commands with `--watch`.

use std::time::Duration;

use crate::cluster::{Cluster, Source};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::view::duration_text;

/// Refuses `--watch` with files and with data formats; the hint names a command to use instead of a data format.
///
/// # Errors
///
/// The input is files, or the format is for programs.
pub fn refuse(ctx: &Ctx, hint: Option<&str>) -> Result<()> {
    let global = ctx.global();
    if !global.reading.from.is_empty() {
        return Err(Error::usage("--watch requires a cluster; --from is not supported"));
    }
    if global.output.format.is_data() {
        let error = Error::usage("--watch prints text; -o is not supported");
        return Err(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        });
    }
    Ok(())
}

/// Loads the sources of a command that watches, within its `--timeout`.
///
/// # Errors
///
/// The sources cannot be read; or not within that time, because the API server does not respond.
pub async fn load_within(ctx: &mut Ctx, needs: &[Source], limit: Option<Duration>) -> Result<Cluster> {
    let Some(limit) = limit else {
        return ctx.load(needs).await;
    };
    let loaded = tokio::time::timeout(limit, ctx.load(needs)).await;
    loaded.unwrap_or_else(|_| {
        let late =
            format!("the API server did not return the cluster's state within {}", duration_text(limit));
        Err(Error { exit: Exit::TimedOut, ..Error::failed(late) }.hint("kubectl skyhook diagnose check"))
    })
}

/// The error after `--timeout`.
pub fn timed_out(after: Duration) -> Error {
    Error { exit: Exit::TimedOut, ..Error::failed(format!("timed out after {}", duration_text(after))) }
}
