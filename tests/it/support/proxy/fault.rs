//! Faults, and how the proxy injects them.

use std::io;
use std::time::{Duration, Instant};

use super::responses::{api_error, closed, full, half, text};
use super::{Child, ProxyResponse, SavedRequest, Shared};

/// The delay of a request with [`Delivery::Late`], which is longer than [`REQUEST_TIMEOUT`].
const LATE_AFTER: Duration = Duration::from_millis(1_600);
/// How long a restarting server refuses connections.
const RESTART_TIME: Duration = Duration::from_millis(700);
/// How long a stream lasts before it is cut.
const CUT_AFTER: Duration = Duration::from_millis(30);
/// The `--request-timeout` of clients whose requests hang.
pub const REQUEST_TIMEOUT: &str = "1s";

/// How often, and when, a request with a fault is delivered to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Never,
    Once,
    /// Once, after the client has given up.
    Late,
    /// Immediately, and again before the next request.
    RepeatedBeforeNext,
    /// Immediately, and again when the command has ended.
    RepeatedAtEnd,
}

/// The response of the proxy to a request with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultResponse {
    /// The response of the server.
    Real,
    /// The connection is closed.
    Reset,
    /// All connections are closed for [`RESTART_TIME`], as in a restart of the server.
    Restart,
    /// Half of the response, then the connection is closed.
    Truncated,
    /// No response, and the connection stays open.
    Hang,
    /// An error of the API server, with the seconds of its `Retry-After`.
    Status(u16, Option<u32>),
    /// An error of a load balancer in front of the server.
    GatewayError(u16),
    /// 200 with an HTML page.
    LoginPage,
    /// 200 with `null`.
    JsonNull,
    /// The client is killed.
    Killed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub delivery: Delivery,
    pub response: FaultResponse,
}

impl Fault {
    /// Whether the fault applies only to requests that write.
    pub fn only_writes(self) -> bool {
        matches!(self.delivery, Delivery::RepeatedBeforeNext | Delivery::RepeatedAtEnd)
    }

    /// Whether the client needs a short request timeout, as it would wait too long otherwise.
    pub fn needs_time_limit(self) -> bool {
        self.response == FaultResponse::Hang
    }
}

/// A fault, and the first and last request that gets it, counted from 1.
#[derive(Clone)]
pub struct FaultInjection {
    pub first: usize,
    pub last: usize,
    pub fault: Fault,
    /// The process to kill, for [`FaultResponse::Killed`].
    pub child: Child,
}

impl Shared {
    pub(super) async fn answer_with_fault(
        &self,
        injection: &FaultInjection,
        kept: SavedRequest,
    ) -> io::Result<ProxyResponse> {
        let answer = match injection.fault.delivery {
            Delivery::Never => None,
            Delivery::Late => {
                self.lock().late += 1;
                let (shared, kept) = (self.clone(), kept.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(LATE_AFTER).await;
                    shared.forward_and_discard(kept).await;
                    shared.lock().late -= 1;
                });
                None
            }
            Delivery::Once if kept.is_stream() => {
                return self.stream_with_fault(injection, &kept).await;
            }
            Delivery::Once => Some(self.forward_whole(&kept).await?),
            Delivery::RepeatedBeforeNext | Delivery::RepeatedAtEnd => {
                let answer = self.forward_whole(&kept).await?;
                let mut state = self.lock();
                match injection.fault.delivery {
                    Delivery::RepeatedBeforeNext => state.resend_next.push(kept.clone()),
                    _ => state.resend_at_end.push(kept.clone()),
                }
                Some(answer)
            }
        };
        match injection.fault.response {
            FaultResponse::Reset => Err(closed()),
            FaultResponse::Restart => {
                self.lock().down_until = Some(Instant::now() + RESTART_TIME);
                self.cut.send_replace(());
                Err(closed())
            }
            FaultResponse::Hang => std::future::pending().await,
            FaultResponse::Killed => {
                injection.child.kill::<()>()(&mut ());
                Err(closed())
            }
            FaultResponse::Status(code, wait) => Ok(api_error(code, wait)),
            FaultResponse::GatewayError(code) => Ok(text(code, "text/html", "<html>bad gateway</html>")),
            FaultResponse::LoginPage => Ok(text(200, "text/html", "<html>log in</html>")),
            FaultResponse::JsonNull => Ok(text(200, "application/json", "null")),
            FaultResponse::Real => answer.map(|whole| whole.map(full)).ok_or_else(closed),
            FaultResponse::Truncated => answer.map(|whole| whole.map(half)).ok_or_else(closed),
        }
    }

    /// Forwards a stream, which has no end, and injects the fault after [`CUT_AFTER`].
    async fn stream_with_fault(
        &self,
        injection: &FaultInjection,
        kept: &SavedRequest,
    ) -> io::Result<ProxyResponse> {
        let answer = self.forward(kept).await?;
        let (shared, injection) = (self.clone(), injection.clone());
        tokio::spawn(async move {
            tokio::time::sleep(CUT_AFTER).await;
            match injection.fault.response {
                FaultResponse::Killed => injection.child.kill::<()>()(&mut ()),
                FaultResponse::Restart => shared.lock().down_until = Some(Instant::now() + RESTART_TIME),
                _ => {}
            }
            shared.cut.send_replace(());
        });
        Ok(answer)
    }
}
