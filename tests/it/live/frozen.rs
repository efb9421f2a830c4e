//! A server that accepts requests and answers nothing, as a stopped process does.

use std::time::Duration;

use kubectl_skyhook::api::ApiFlavor::Skyhook;
use kubectl_skyhook::cluster::Source;
use kubectl_skyhook::cluster::live::{Follow, FollowEvent, LoadError};
use kubectl_skyhook::connect::{TransportError, TransportErrorKind};
use tokio::time::{Instant, timeout};

use super::{client_with_policy, fleet, now, read};
use crate::support::fake_api::{FakeApi, Reply};

/// The longest time until a frozen server is noticed.
const NOTICED: Duration = Duration::from_secs(15);

/// Watches a fleet on a server that answers until it is frozen.
async fn followed() -> (FakeApi, Follow) {
    let fake = fleet(Skyhook);
    let needs = [Source::Skyhooks, Source::Nodes, Source::Pods, Source::Events, Source::Operator];
    let cluster = read(&fake, &needs).await.expect("a cluster");
    let (client, _) = client_with_policy(&fake, None);
    let mut follow = Follow::begin(&client, cluster, None);
    while !follow.ready() {
        follow.news().await;
    }
    (fake, follow)
}

fn freeze(fake: &FakeApi) {
    for requests in ["GET /livez", "GET *", "LIST *", "WATCH *"] {
        fake.on(requests).reply(Reply::Hang);
    }
}

fn timed_out() -> TransportError {
    let kind = TransportErrorKind::TimedOut(Some(Duration::from_secs(10)));
    TransportError { server: "https://fake:6443".to_owned(), kind }
}

#[tokio::test(start_paused = true)]
async fn silence_is_noticed_although_the_watches_stay_open() {
    let (fake, mut follow) = followed().await;
    freeze(&fake);
    let frozen = Instant::now();
    let event = loop {
        match follow.news().await {
            FollowEvent::Changed => {}
            away @ FollowEvent::Away(_) => break away,
        }
    };
    assert!(frozen.elapsed() <= NOTICED, "{:?}", frozen.elapsed());
    assert!(matches!(event, FollowEvent::Away(LoadError::TransportError(error)) if error == timed_out()));
    assert!(!follow.is_current());
    // Until the server answers again, it is not asked for lists.
    let begun = Instant::now();
    assert!(follow.refresh(now()).await.is_err());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    fake.heal();
    while follow.refresh(now()).await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let _ = timeout(NOTICED, follow.news()).await;
    assert!(follow.is_current() && begun.elapsed() <= 2 * NOTICED, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_read_that_has_begun() {
    let (fake, mut follow) = followed().await;
    freeze(&fake);
    let frozen = Instant::now();
    let LoadError::TransportError(error) = follow.refresh(now()).await.expect_err("no answer") else {
        panic!("the server does not answer");
    };
    assert_eq!(error, timed_out());
    assert!(frozen.elapsed() <= NOTICED, "{:?}", frozen.elapsed());
}

/// A list may take long on a busy server.
#[tokio::test(start_paused = true)]
async fn slow_lists_are_no_silence() {
    let (fake, mut follow) = followed().await;
    for requests in ["LIST *", "WATCH *"] {
        fake.on(requests).reply(Reply::Hang);
    }
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, follow.refresh(now())).await.is_err());
    assert!(timeout(minute, follow.news()).await.is_err());
    assert!(follow.is_current());
}
