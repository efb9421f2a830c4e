//! The pause of a killed command that was ended since, or was replaced by someone else's.

use serde_json::json;

use super::erroring;

#[test]
fn undo_with_nothing_left_shows_no_ended_pause() {
    let cluster = erroring();
    cluster.kill_a_reset();
    let id = cluster.run("journal list -o json").json()["items"][0]["id"].clone();
    let undo = format!("undo {}", id.as_str().expect("an id"));
    cluster.with_operator(|| cluster.run(&format!("{undo} --confirm"))).expect_code(0);
    let steps = || {
        let ran = cluster.run(&format!("{undo} --dry-run -o json"));
        ran.expect_code(0);
        ran.json()["steps"].take()
    };
    assert_eq!(steps(), json!([]));
    cluster.run("pause gpu-tune --confirm --reason mine").expect_code(0);
    assert_eq!(steps(), json!([]));
    let paused = cluster.objects();
    cluster.run(&format!("{undo} --confirm")).expect_code(0);
    assert!(cluster.objects() == paused);
}
