//! One look at a cluster that one waits for, and how much trouble with it is borne.

use std::time::Duration;

use crate::cluster::live::LoadError;
use crate::cluster::{Cluster, Source};
use crate::ctx::Ctx;
use crate::error::{Error, Result};

/// A look that takes longer is given up, and taken again.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often in a row a server may refuse the credentials, as one does that is just starting.
const REFUSALS: u32 = 5;

/// Reads sources anew.
pub async fn look(
    ctx: &Ctx,
    client: &kube::Client,
    needs: Vec<Source>,
) -> std::result::Result<Cluster, LoadError> {
    let read = ctx.reload(client, needs);
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(read) => read,
        Err(_) => Err(LoadError::Discovery {
            server: None,
            why: "it does not answer".to_owned(),
        }),
    }
}

/// What a look at the cluster gave.
pub enum Look {
    At(Box<Cluster>),
    /// The server is away for the moment.
    Away,
    /// The API is no longer served, and with it went what was to be deleted.
    Gone,
}

/// Looks that failed, in a row.
#[derive(Default)]
pub struct Trouble {
    said: bool,
    refusals: u32,
    not_served: u32,
}

impl Trouble {
    /// Bears what may pass; with `may_go`, what is looked at may go with the API that serves it.
    pub fn bear(
        &mut self,
        ctx: &mut Ctx,
        may_go: bool,
        read: std::result::Result<Cluster, LoadError>,
    ) -> Result<Look> {
        let error = match read {
            Ok(cluster) => {
                (self.refusals, self.not_served) = (0, 0);
                return Ok(Look::At(Box::new(cluster)));
            }
            Err(error) => error,
        };
        let in_a_row = match &error {
            LoadError::Unauthorized { .. } | LoadError::Credentials(_) => &mut self.refusals,
            LoadError::NotServed => &mut self.not_served,
            _ => &mut 0,
        };
        *in_a_row += 1;
        match &error {
            LoadError::NotServed if *in_a_row > 1 && may_go => {
                return Ok(Look::Gone);
            }
            _ if *in_a_row > REFUSALS => return Err(Error::from(error)),
            _ => {}
        }
        if !std::mem::replace(&mut self.said, true) {
            ctx.warn(format!("{error}; still waiting"));
        }
        Ok(Look::Away)
    }
}
