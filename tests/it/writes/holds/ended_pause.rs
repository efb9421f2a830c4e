//! A pause of a killed command that was ended since, or is somebody else's by now.

use serde_json::json;

use super::super::expect;
use super::erroring;

#[test]
fn undo_with_nothing_left_shows_no_ended_pause() {
    let stage = erroring();
    stage.killed();
    let id = stage.run("journal list -o json").json()["items"][0]["id"].clone();
    let undo = format!("undo {}", id.as_str().expect("an id"));
    expect(
        &stage.with_operator(|| stage.run(&format!("{undo} --confirm"))),
        0,
    );
    let steps = || {
        let ran = stage.run(&format!("{undo} --dry-run -o json"));
        expect(&ran, 0);
        ran.json()["steps"].take()
    };
    assert_eq!(steps(), json!([]));
    expect(&stage.run("pause gpu-tune --confirm --reason mine"), 0);
    assert_eq!(steps(), json!([]));
    let paused = stage.objects();
    expect(&stage.run(&format!("{undo} --confirm")), 0);
    assert!(stage.objects() == paused);
}
