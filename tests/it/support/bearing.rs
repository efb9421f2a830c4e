//! What has to hold of a command after one of its requests was spoiled, or all from one on; and how all of them are tried.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::proxy::{Fault, Hears, LIMIT, Proxy, Reaches, Spoil};
use super::run::{Child, Ran, Run, run};

/// A command that changes something, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// The captured cluster.
    pub cluster: &'static str,
    /// What is done there before, with nothing spoiled.
    first: &'static str,
    /// ID stands for the journal of what was done before, PLAN for a file.
    command: &'static str,
    /// Whether `undo` takes it back.
    undone: bool,
}

const fn on(cluster: &'static str, command: &'static str) -> Asked {
    Asked {
        cluster,
        first: "",
        command,
        undone: true,
    }
}

const fn after(cluster: &'static str, first: &'static str, command: &'static str) -> Asked {
    Asked {
        first,
        ..on(cluster, command)
    }
}

/// What is tried: all commands that change something.
#[rustfmt::skip]
pub const COMMANDS: &[Asked] = &[
    on("complete", "pause gpu-tune --reason maintenance"),
    on("complete", "disable gpu-tune"),
    on("complete", "node ignore node-1 node-2"),
    after("complete", "node ignore node-1 node-2", "node unignore node-1 node-2"),
    on("complete", "node reset node-3 --skyhook gpu-tune"),
    on("complete", "uninstall gpu-tune tuning"),
    on("complete", "update-state gpu-tune driver 2.0.1 apply in_progress --node node-2"),
    after("complete", "pause gpu-tune --plan-out PLAN", "apply-plan PLAN"),
    after("complete", "pause gpu-tune", "undo ID"),
    Asked { undone: false, ..on("complete", "teardown --timeout 10s") },
    on("uninstall-in-progress", "uninstall gpu-tune driver --cancel"),
    on("disabled-midway", "enable gpu-tune"),
    on("deleted-while-paused", "resume gpu-tune"),
    on("deleted-while-paused", "finalizer strip gpu-tune --force"),
    Asked { undone: false, ..on("deleted-while-erroring", "undelete gpu-tune") },
    on("apply-erroring", "reset gpu-tune"),
    on("apply-erroring", "reset gpu-tune --node node-2 --no-pause"),
    after("apply-erroring", "reset gpu-tune", "undo ID"),
    on("apply-erroring", "package rerun driver --skyhook gpu-tune --node node-2"),
    on("malformed-node-state", "fix"),
    on("malformed-node-state", "node repair node-1 --skyhook gpu-tune"),
    Asked { undone: false, ..on("v0.17-pod-rejected", "package retry driver --skyhook gpu --node node-2") },
    on("rollout-stopped", "node leave-batch node-1 --skyhook gpu-tune"),
    on("rollout-stopped", "dp reset gpu-tune"),
    on("finalizer-stripped", "cordon release"),
    on("finalizer-stripped", "leftovers --clean"),
];

/// What commands are tried on.
pub trait Ground {
    /// Puts the captured cluster there, and leaves no journal.
    fn as_new(&mut self, cluster: &'static str);
    fn proxy(&self) -> &Proxy;
    /// A directory for journals.
    fn state(&self) -> &Path;
    fn objects(&self) -> Vec<Value>;
}

/// What becomes of a request.
pub fn faults() -> Vec<Fault> {
    use Hears::{Away, Closed, Gateway, Half, Killed, Nothing, Null, Page, Status, TheAnswer};
    use Reaches::{AndAgain, AndAtTheEnd, Late, Never, Now};
    let all = [
        (Never, Away),
        (Now, Away),
        (Never, Closed),
        (Now, Closed),
        (Now, Half),
        (Never, Nothing),
        (Now, Nothing),
        (Late, Nothing),
        (Never, Status(401, None)),
        (Never, Status(403, None)),
        (Never, Status(409, None)),
        (Never, Status(410, None)),
        (Never, Status(422, None)),
        (Never, Status(429, Some(1))),
        (Never, Status(500, None)),
        (Now, Status(500, None)),
        (Never, Status(503, None)),
        (Never, Status(503, Some(1))),
        (Never, Status(504, None)),
        (Now, Status(504, None)),
        (Never, Gateway(502)),
        (Now, Gateway(502)),
        (Never, Gateway(503)),
        (Now, Gateway(503)),
        (Never, Page),
        (Now, Page),
        (Never, Null),
        (Now, Null),
        (AndAgain, TheAnswer),
        (AndAtTheEnd, TheAnswer),
        (Never, Killed),
        (Now, Killed),
    ];
    all.map(|(reaches, hears)| Fault { reaches, hears }).into()
}

type Objects = BTreeMap<String, Value>;

const DELETING: &str = "deleting";
const BATCHES: &str = "batches";

/// What is made again is not being deleted, and has no status; pods and Jobs that were ended are not made again, and the
/// preview says so.
fn as_made_again(objects: &Objects) -> Objects {
    let mut objects = objects.clone();
    objects.retain(|name, _| !is_run(name));
    for object in objects.values_mut().filter_map(Value::as_object_mut) {
        object.remove(DELETING);
        object.remove(BATCHES);
    }
    objects
}

/// Whether it is a pod or a Job by its name here.
fn is_run(name: &str) -> bool {
    name.starts_with("Pod/") || name.starts_with("Job/")
}

/// Each object by name, without what a server counts and without what the operator says.
fn tidy(all: Vec<Value>) -> Objects {
    let mut objects = BTreeMap::new();
    for mut object in all {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        // It is there, or it has been ended.
        if matches!(kind.as_str(), "Pod" | "Job") {
            objects.insert(format!("{kind}/{name}"), json!("there"));
            continue;
        }
        metadata.retain(|key, value| {
            let counted = [
                "resourceVersion",
                "managedFields",
                "uid",
                "creationTimestamp",
                "generation",
            ];
            !counted.contains(&key.as_str()) && *value != json!({})
        });
        if kind == "Skyhook" {
            let metadata = &object["metadata"];
            let [annotations, labels] = ["annotations", "labels"].map(|m| metadata[m].clone());
            let deleting = !metadata["deletionTimestamp"].is_null();
            object = json!({
                "annotations": annotations, "labels": labels, "spec": object["spec"], DELETING: deleting,
                BATCHES: {
                    "nodePriority": object["status"]["nodePriority"],
                    "compartmentStatuses": object["status"]["compartmentStatuses"],
                },
            });
        }
        if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
            conditions.sort_by_key(|c| c["type"].to_string());
            for condition in conditions {
                condition["lastHeartbeatTime"] = Value::Null;
            }
        }
        objects.insert(format!("{kind}/{name}"), meant(&object));
    }
    objects
}

/// In the order of names, and without what says nothing: nulls, empty maps, zeros, a cordon that is none.
fn meant(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().map(|(k, v)| (k.clone(), meant(v))).collect();
            members.retain(|(_, v)| !v.is_null());
            members.sort_by(|a, b| a.0.cmp(&b.0));
            if members.is_empty() {
                Value::Null
            } else {
                Value::Object(members.into_iter().collect())
            }
        }
        Value::Bool(false) => Value::Null,
        Value::Number(number) if number.as_i64() == Some(0) => Value::Null,
        Value::Array(list) => list.iter().map(meant).collect(),
        other => other.clone(),
    }
}

/// What a command does where nothing is spoiled.
struct End {
    before: Objects,
    after: Objects,
    /// Whether each of its requests changes something.
    writes: Vec<bool>,
    /// The exit code of the same command once it is done: 0, or 3 of one that is refused where nothing has failed.
    again: Option<i32>,
    /// Journals of what was done before it.
    journals_before: usize,
}

struct Case {
    asked: Asked,
    /// The first request that is spoiled.
    request: usize,
    /// Whether all after it are, too.
    on: bool,
    fault: Fault,
}

/// What a command said, and what came of it.
struct Spoiled {
    ran: Ran,
    now: Objects,
    /// The fates of the steps on each object, as the journal has them; none, where there is no journal.
    results: Option<BTreeMap<String, Vec<String>>>,
    cut_short: bool,
}

pub fn typed(ground: &impl Ground, words: &str) -> Run {
    run(words)
        .kubeconfig(&ground.proxy().kubeconfig())
        .env("XDG_STATE_HOME", ground.state())
}

pub fn call(ground: &impl Ground, words: &str, child: &Child) -> Ran {
    typed(ground, words).child(child).go()
}

fn objects(ground: &impl Ground) -> Objects {
    tidy(ground.objects())
}

impl Asked {
    /// Makes the cluster anew, and says what to type there.
    fn prepared(&self, ground: &mut impl Ground) -> String {
        ground.as_new(self.cluster);
        let plan = ground.state().join("plan.json").display().to_string();
        if !self.first.is_empty() {
            let first = self.first.replace("PLAN", &plan);
            let ran = call(ground, &format!("{first} --confirm"), &Child::default());
            assert!(matches!(ran.code, Some(0 | 2)), "{}", ran.transcript());
        }
        let id = journals(ground).into_iter().next().unwrap_or_default();
        let words = self.command.replace("PLAN", &plan).replace("ID", &id);
        format!("{words} --confirm")
    }
}

/// The ids of all journals, the newest first.
fn journals(ground: &impl Ground) -> Vec<String> {
    let list = call(ground, "journal list -o json", &Child::default());
    let list = list.json()["items"].take();
    let items = list.as_array().into_iter().flatten();
    let id = |item: &Value| item["id"].as_str().expect("an id").to_owned();
    items.map(id).collect()
}

impl Case {
    /// The command with the requests spoiled, and what was typed.
    fn spoil(&self, ground: &mut impl Ground) -> (String, Ran) {
        let words = self.asked.prepared(ground);
        let child = Child::default();
        ground.proxy().spoils(Some(Spoil {
            first: self.request,
            last: if self.on { usize::MAX } else { self.request },
            fault: self.fault,
            child: child.clone(),
        }));
        let limit = self.fault.needs_limit();
        let limit = limit.then(|| format!(" --request-timeout {LIMIT}"));
        let limit = limit.unwrap_or_default();
        let ran = call(ground, &format!("{words}{limit}"), &child);
        ground.proxy().heals();
        (words, ran)
    }

    /// The same, and a look at what it left.
    fn spoiled(&self, ground: &mut impl Ground, end: &End) -> (String, Spoiled) {
        let (words, ran) = self.spoil(ground);
        let journalled = journals(ground).len() > end.journals_before;
        let journal = journalled.then(|| {
            let show = call(ground, "journal show -o json", &Child::default());
            show.json()
        });
        let spoiled = Spoiled {
            ran,
            now: objects(ground),
            cut_short: journal.as_ref().is_some_and(|j| j["ended"].is_null()),
            results: journal.as_ref().map(results),
        };
        (words, spoiled)
    }

    fn told(&self, what: &str, ran: &[&Ran]) -> String {
        let Asked {
            cluster, command, ..
        } = self.asked;
        let on = if self.on { " and all after it" } else { "" };
        let said: Vec<String> = ran.iter().map(|ran| ran.transcript()).collect();
        format!(
            "{what}: {command} on {cluster}, request {}{on} spoiled: {:?}\n{}",
            self.request,
            self.fault,
            said.join("then\n")
        )
    }

    /// What does not hold.
    fn faulty(&self, ground: &mut impl Ground, end: &End) -> Vec<String> {
        let (words, spoiled) = self.spoiled(ground, end);
        let mut faulty = self.lies(&spoiled, end);
        let changed = spoiled.now != end.before;
        let again = call(ground, &words, &Child::default());
        let done = spoiled.now == end.after && again.code == end.again;
        if objects(ground) != end.after || again.code != Some(0) && !done {
            let what = "the same command again does not finish it";
            faulty.push(self.told(what, &[&spoiled.ran, &again]));
        }
        if changed && self.asked.undone {
            let (_, ran) = self.spoil(ground);
            let all = journals(ground);
            // Requests that are under way at once come in any order: another may be spoiled this time, with nothing begun.
            let begun = all.len() > end.journals_before;
            let undone = begun.then(|| {
                let undo = format!("undo {} --confirm", all[0]);
                call(ground, &undo, &Child::default())
            });
            if as_made_again(&objects(ground)) != as_made_again(&end.before) {
                let ran: Vec<&Ran> = std::iter::once(&ran).chain(&undone).collect();
                faulty.push(self.told("undo does not take it back", &ran));
            }
        }
        faulty
    }

    /// What is half done, and where the exit code, the messages or the journal say what is not so.
    fn lies(&self, spoiled: &Spoiled, end: &End) -> Vec<String> {
        let Spoiled { ran, now, .. } = spoiled;
        let mut lies = Vec::new();
        let mut lie = |what: String| lies.push(self.told(&what, &[ran]));
        let killed = self.fault.hears == Hears::Killed && ran.code.is_none();
        let as_before = |name: &str| now.get(name) == end.before.get(name);
        let as_planned = |name: &str| now.get(name) == end.after.get(name);
        let names = end.before.keys().chain(end.after.keys()).chain(now.keys());
        let mut nodes_as_before = true;
        for name in names {
            let half = !as_before(name) && !as_planned(name);
            if name.starts_with("Skyhook/") {
                // A pause that could not be ended is said, and finished by the same command or `undo`.
                let said = [&ran.stdout, &ran.stderr].map(|text| text.contains("paused"));
                if half && !killed && !said.contains(&true) {
                    lie(format!(
                        "{name} is left as it was not to be, and it is not said"
                    ));
                }
            } else {
                nodes_as_before &= as_before(name);
                // What takes several requests may be done in part, step by step, as the journal says.
                let steps = spoiled
                    .results
                    .iter()
                    .filter_map(|results| results.get(name));
                let steps: usize = steps.map(Vec::len).sum();
                if half && steps < 2 {
                    lie(format!("{name} is half done"));
                }
            }
        }
        let maybe = || {
            let mut results = spoiled.results.iter().flat_map(BTreeMap::values).flatten();
            results.any(|result| result == "unknown")
        };
        match ran.code {
            None if killed => {}
            Some(0) if *now != end.after => lie("exit code 0, and not all of it was done".into()),
            Some(4) if *now == end.before && !maybe() => {
                lie("exit code 4, and nothing was done".into());
            }
            Some(1 | 3 | 5) if !nodes_as_before => {
                lie("an exit code for nothing done, and something was".into());
            }
            Some(0 | 1 | 3 | 4 | 5) => {}
            other => lie(format!("exit code {other:?}")),
        }
        if !killed && ran.code != Some(0) && ran.stdout.is_empty() && ran.stderr.is_empty() {
            lie("not a word".into());
        }
        if spoiled.cut_short && !killed {
            lie("the journal ends without an end".into());
        }
        for (name, results) in spoiled.results.iter().flatten() {
            let all = |known: &[&str]| {
                results
                    .iter()
                    .all(|result| known.contains(&result.as_str()))
            };
            if name.starts_with("Skyhook/") {
                continue;
            }
            if all(&["applied", "unchanged", "gone"]) && !as_planned(name) {
                lie(format!("the journal has {name} changed, and it is not"));
            }
            if all(&["failed", "skipped", "notReached"]) && !as_before(name) {
                lie(format!("the journal has {name} not changed, and it is"));
            }
            if results.iter().any(|result| result == "null") && !killed {
                lie(format!("the journal does not say what became of {name}"));
            }
        }
        lies
    }
}

fn results(journal: &Value) -> BTreeMap<String, Vec<String>> {
    let mut results: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let stages = journal["begun"]["plan"]["stages"].as_array();
    for (at, stage) in stages.into_iter().flatten().enumerate() {
        let steps = stage["steps"].as_array();
        for (number, step) in steps.into_iter().flatten().enumerate() {
            let target = &step["target"];
            let [kind, name] = ["kind", "name"].map(|f| target[f].as_str().unwrap_or_default());
            let result = journal["results"][at][number]["result"].as_str();
            let of = results.entry(format!("{kind}/{name}")).or_default();
            of.push(result.unwrap_or("null").to_owned());
        }
    }
    results
}

/// All that can be spoiled of a command.
fn cases(asked: Asked, end: &End) -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, write) in end.writes.iter().enumerate() {
        for fault in faults() {
            let once = matches!(fault.hears, Hears::Killed | Hears::Away);
            // To a read, it is one whether the server has heard of it, unless that shows in the answer.
            let reaches = fault.reaches != Reaches::Never;
            let answered = matches!(
                fault.hears,
                Hears::Away | Hears::Closed | Hears::Half | Hears::Killed
            );
            if !write && reaches && !answered {
                continue;
            }
            for on in [false, true] {
                if !(on && once) {
                    cases.push(Case {
                        asked,
                        request: at + 1,
                        on,
                        fault,
                    });
                }
            }
        }
    }
    cases
}

/// How many cases were tried.
pub struct Tried {
    pub cases: usize,
    pub of: usize,
    pub kills: usize,
    pub faulty: Vec<String>,
}

/// Tries all commands with every fault, or a sample of the cases, on as many grounds as are made.
pub fn try_all<G: Ground>(
    commands: &[Asked],
    sample: Sample,
    workers: usize,
    ground: impl Fn() -> G + Sync,
) -> Tried {
    let mut all = Vec::new();
    let mut ends = BTreeMap::new();
    let mut first = ground();
    let only = std::env::var("FAULTS_OF").unwrap_or_default();
    for asked in commands.iter().filter(|a| a.command.contains(&only)) {
        let words = asked.prepared(&mut first);
        let before = objects(&first);
        let journals_before = journals(&first).len();
        first.proxy().spoils(None);
        let ran = call(&first, &words, &Child::default());
        assert_eq!(ran.code, Some(0), "{}", ran.transcript());
        let requests = first.proxy().asked();
        let writes = |r: &String| !r.starts_with("GET ") && !r.contains("accessreviews");
        let after = objects(&first);
        let again = call(&first, &words, &Child::default());
        assert!(matches!(again.code, Some(0 | 3)), "{}", again.transcript());
        let end = End {
            before,
            again: again.code,
            after,
            writes: requests.iter().map(writes).collect(),
            journals_before,
        };
        assert!(end.before != end.after, "{}", ran.transcript());
        all.extend(cases(*asked, &end));
        ends.insert(*asked, end);
    }
    let of = all.len();
    let picked = sample.of(&all);
    let (next, faulty) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = |mut ground: G| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = picked.get(at) else {
                break;
            };
            let wrong = case.faulty(&mut ground, &ends[&case.asked]);
            note(&wrong);
            faulty.lock().expect("nobody panics with it").extend(wrong);
            if picked.len() > 500 && at % 100 == 0 {
                note(&[format!("{at} of {} cases", picked.len())]);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(|| work(ground()));
        }
        work(first);
    });
    let kills = |case: &&&Case| case.fault.hears == Hears::Killed;
    Tried {
        cases: picked.len(),
        of,
        kills: picked.iter().filter(kills).count(),
        faulty: faulty.into_inner().expect("nobody panics with it"),
    }
}

/// Where all are tried, it takes long: what is wrong is said at once.
#[expect(clippy::print_stderr, reason = "for those who run all, and wait")]
fn note(lines: &[String]) {
    for line in lines {
        eprintln!("{line}");
    }
}

/// Which cases are tried, spread over all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    /// About so many.
    About(usize),
    /// The first, second … of so many parts.
    Part(usize, usize),
}

impl Sample {
    pub fn of<T>(self, all: &[T]) -> Vec<&T> {
        let (first, stride) = match self {
            Sample::About(wanted) => (0, (all.len() / wanted).max(1)),
            Sample::Part(part, parts) => (part - 1, parts),
        };
        all.iter().skip(first).step_by(stride).collect()
    }
}

/// The sample of the suite is of this size; `FAULTS=2000` tries so many, `FAULTS=all` all, and `FAULTS=2/6` the second of
/// six parts. `FAULTS_OF=teardown` keeps to the commands with these words.
pub fn sample(size: usize) -> Sample {
    let Ok(asked) = std::env::var("FAULTS") else {
        return Sample::About(size);
    };
    let number = |text: &str| {
        text.parse()
            .expect("FAULTS is all, a number, or two as in 2/6")
    };
    match asked.split_once('/') {
        None if asked == "all" => Sample::Part(1, 1),
        None => Sample::About(number(&asked)),
        Some((part, parts)) => Sample::Part(number(part), number(parts)),
    }
}

impl Tried {
    /// Fails with all that was not borne, and says how many were tried.
    pub fn all_borne(self) {
        let Tried {
            cases, of, kills, ..
        } = self;
        let sum = format!(
            "{cases} of {of} cases, {kills} of them kills: {} not borne",
            self.faulty.len()
        );
        note(std::slice::from_ref(&sum));
        assert!(
            self.faulty.is_empty(),
            "{}\n\n{sum}",
            self.faulty.join("\n\n")
        );
    }
}
