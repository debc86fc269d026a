//! Stories of the spans and events that a subscriber sees, on embedded nodes.

#![expect(
    clippy::unwrap_used,
    reason = "a test that finds nothing there has failed"
)]

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt::Debug;
use core::task::Waker;
use core::time::Duration;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::*;
use crate::config::{Builder, LockOptions, Retry};
use crate::embedded::store::Store;
use crate::embedded::{EmbeddedNode, Memory};
use crate::limits::NOTICES_MAX;
use crate::local::LocalRedlock;
use crate::shared::Redlock;
use crate::shared::tests::{LONG, PATIENCE, block_on, eventually, poll_once};
use crate::{Breaking, NodeState, NodeStatus};

const PASSWORD: &str = "canary-password";
const OWNER: &str = "canary-owner";
const NAME: &str = "canary\n name";

/// A span that was closed, or an event.
#[derive(Clone, Debug)]
struct Line {
    metadata: &'static Metadata<'static>,
    values: Values,
}

#[derive(Clone, Debug, Default)]
struct Values(BTreeMap<&'static str, String>);

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        self.0
            .insert(field.name(), value.trim_matches('"').to_string());
    }
}

/// Collects all lines of this library.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Line>>>);

impl Log {
    fn add(&self, metadata: &'static Metadata<'static>, values: Values) {
        if metadata.target() == TARGET {
            self.0.lock().unwrap().push(Line { metadata, values });
        }
    }

    fn lines(&self) -> Vec<Line> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the values of the last line of this `name`.
    fn last(&self, name: &str) -> BTreeMap<&'static str, String> {
        let lines = self.lines();
        let line = lines.iter().rfind(|line| line.metadata.name() == name);
        line.map(|line| line.values.0.clone()).unwrap_or_default()
    }

    /// Returns the values of `field` in all lines of this `name`.
    fn all(&self, name: &str, field: &str) -> Vec<String> {
        let lines = self.lines();
        let lines = lines.iter().filter(|line| line.metadata.name() == name);
        lines
            .filter_map(|line| line.values.0.get(field).cloned())
            .collect()
    }

    /// Runs `story` with this log as the subscriber of the thread.
    fn hears<T>(&self, story: impl FnOnce() -> T) -> T {
        keep_two_subscribers();
        subscriber::with_default(Registry::default().with(self.clone()), story)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        let mut values = Values::default();
        attributes.record(&mut values);
        context.span(id).unwrap().extensions_mut().insert(values);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: LayerContext<'_, S>) {
        let span = context.span(id).unwrap();
        record.record(span.extensions_mut().get_mut::<Values>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        let mut values = Values::default();
        event.record(&mut values);
        self.add(event.metadata(), values);
    }

    fn on_close(&self, id: Id, context: LayerContext<'_, S>) {
        let span = context.span(&id).unwrap();
        let values = span.extensions_mut().remove::<Values>().unwrap();
        self.add(span.metadata(), values);
    }
}

/// While a process has one subscriber, `tracing` asks only the first thread that reaches a span whether the span is
/// wanted. That may be a thread of another test, which has no subscriber. With several subscribers, it asks all.
fn keep_two_subscribers() {
    static KEPT: OnceLock<[Dispatch; 2]> = OnceLock::new();
    KEPT.get_or_init(|| [(); 2].map(|()| Dispatch::new(Registry::default())));
}

fn nodes() -> Vec<EmbeddedNode> {
    keep_two_subscribers();
    let prepare = |store: &mut Store| store.set_password(Some(PASSWORD.as_bytes()));
    let nodes = (0..3).map(|_| EmbeddedNode::spawn_with(prepare).unwrap());
    nodes.collect()
}

/// Returns a builder with long timeouts, because on a busy machine a slow node has not failed.
fn builder(nodes: &[EmbeddedNode]) -> Builder {
    Redlock::builder()
        .nodes(
            nodes
                .iter()
                .map(|node| format!("redis://:{PASSWORD}@{}", node.address())),
        )
        .owner(OWNER)
        .node_timeout(Duration::from_secs(10))
        .retry(Retry::new(
            u32::MAX,
            Duration::from_millis(1)..=Duration::from_millis(3),
        ))
}

/// Polls until a line of this `name` was seen.
#[track_caller]
fn poll_until(local: &mut LocalRedlock, log: &Log, name: &str) {
    eventually(name, || {
        local.poll(Some(Duration::ZERO)).unwrap();
        !log.last(name).is_empty()
    });
}

/// Waits until all nodes are connected and have answered everything.
fn settle(local: &mut LocalRedlock) {
    eventually("all nodes have answered", || {
        local.poll(Some(Duration::ZERO)).unwrap();
        local.nodes().iter().all(has_answered)
    });
}

fn has_answered(node: &NodeStatus) -> bool {
    node.state == NodeState::Ready && node.in_flight == 0
}

// ----- stories --------------------------------------------------------------------------------

fn all_operations(redlock: &Redlock) {
    let mut lock = redlock.lock(NAME, LONG).unwrap();
    lock.extend(LONG).unwrap();
    lock.confirm().unwrap();
    redlock.try_lock(NAME, LONG).unwrap_err();
    redlock.break_lock("free").unwrap_err();
    redlock.inspect(NAME).unwrap();
    redlock.reinit().unwrap_err();
    lock.unlock().unwrap();
    drop(redlock.lock_all([NAME, "another"], LONG).unwrap());
}

fn all_futures(redlock: &Redlock) {
    let mut lock = block_on(redlock.lock_async(NAME, LONG)).unwrap();
    block_on(lock.extend_async(LONG)).unwrap();
    block_on(lock.confirm_async()).unwrap();
    block_on(redlock.try_lock_async(NAME, LONG)).unwrap_err();
    block_on(redlock.break_lock_async("free")).unwrap_err();
    block_on(redlock.inspect_async(NAME)).unwrap();
    block_on(lock.unlock_async()).unwrap();
}

fn all_local(local: &mut LocalRedlock) {
    let mut lock = local.lock(NAME, LONG).unwrap();
    local.extend(&mut lock, LONG).unwrap();
    local.confirm(&mut lock).unwrap();
    local.try_lock(NAME, LONG).unwrap_err();
    local.break_lock("free").unwrap_err();
    local.inspect(NAME).unwrap();
    local.reinit().unwrap_err();
    local.unlock(lock).unwrap();
}

/// A node goes down and leaves debts. It comes back as another process, and is in quarantine for a while.
fn a_restart(log: &Log) {
    let nodes = nodes();
    let mut local = builder(&nodes).build_local().unwrap();
    settle(&mut local);
    let locks = ["a", "b", "c", "d", "e"].map(|name| local.lock(name, LONG).unwrap());
    nodes[2].stop().unwrap();
    eventually("the connection is lost", || {
        local.poll(Some(Duration::ZERO)).unwrap();
        local.nodes()[2].run_id.is_none()
    });
    for lock in locks {
        local.unlock(lock).unwrap();
    }
    nodes[2].restart(Memory::Kept).unwrap();
    poll_until(&mut local, log, "debt_paid");
    assert_eq!(log.all("debt", "debts"), ["1", "2", "4"]);
    poll_until(&mut local, log, "quarantine");
    assert_eq!(log.all("restart", "node"), log.all("quarantine", "node"));
    // That quarantine takes a minute. For a handle that knows a longest ttl, servers that have just started are in
    // quarantine too.
    let short = Duration::from_millis(500);
    let mut local = builder(&nodes).max_ttl(short).build_local().unwrap();
    poll_until(&mut local, log, "quarantine_end");
}

fn a_step(log: &Log) {
    let nodes = nodes();
    let mut local = builder(&nodes).build_local().unwrap();
    settle(&mut local);
    let lock = local.lock("before", LONG).unwrap();
    local.unlock(lock).unwrap();
    settle(&mut local); // All nodes have reported their time.
    nodes[0].step_clock(LONG);
    eventually("the step is found", || {
        let lock = local.lock("after", LONG).unwrap();
        local.unlock(lock).unwrap();
        !log.last("clock_step").is_empty()
    });
    assert_eq!(log.all("clock_step", "steps"), ["1"]);
}

fn a_loss(log: &Log) {
    let nodes = nodes();
    let redlock = builder(&nodes).build().unwrap();
    let lock = redlock.lock(NAME, Duration::from_secs(1)).unwrap();
    eventually("the loss is reported", || !log.last("loss").is_empty());
    assert!(!lock.is_valid());
    assert_eq!(log.last("loss")["reason"], "expired");
    assert_eq!(log.last("loss")["owner"], OWNER);
    let kept = LockOptions::new(LONG).keep();
    let operator = builder(&nodes).build().unwrap();
    let lock = redlock.lock_with("deleted", &kept).unwrap();
    let seen = operator.inspect("deleted").unwrap();
    operator
        .break_seen("deleted", &seen, Breaking::AtOnce)
        .unwrap();
    eventually("a deletion is one", || {
        !lock.is_valid() && log.all("loss", "reason") == ["expired", "gone"]
    });
    let lock = redlock.lock_with("broken", &kept).unwrap();
    operator.break_lock("broken").unwrap();
    eventually("so is a break", || {
        !lock.is_valid() && log.all("loss", "reason") == ["expired", "gone", "taken"]
    });
}

fn too_many(log: &Log) {
    let nodes = nodes();
    let config = builder(&nodes).config().unwrap();
    let tracer = Tracer::new(&config);
    for _ in 0..NOTICES_MAX + 3 {
        tracer.0.lock().push(Notice::Loss {
            resource: NAME.as_bytes().into(),
            owner: [].into(),
            reason: "expired",
        });
    }
    Waker::from(Arc::clone(&tracer.0)).wake();
    assert_eq!(log.all("dropped", "events"), ["3"]);
    assert_eq!(log.lines().len(), NOTICES_MAX + 1);
}

/// Returns the rows of the tables in the manual: names, levels, fields.
fn rows() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = include_str!("../../docs/tracing.md");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let (name, level) = (cells.next()?.strip_suffix('`')?, cells.next()?);
        let fields = cells.next()?.strip_suffix(" |")?.split(", ");
        let fields = fields.map(|field| field.trim_matches('`').to_string());
        Some((name.to_string(), (level.to_string(), fields.collect())))
    });
    rows.collect()
}

// ----- tests ----------------------------------------------------------------------------------

#[test]
fn each_span_and_event_is_in_the_table_of_the_manual_and_each_of_the_table_occurs() {
    let mut seen = BTreeMap::new();
    let mut sees = |log: &Log| {
        for Line { metadata, values } in log.lines() {
            let fields = metadata.fields().iter().map(|field| field.name());
            let fields = fields.filter(|name| *name != "message");
            let fields: BTreeSet<_> = fields.map(ToString::to_string).collect();
            let unknown = values
                .0
                .keys()
                .find(|name| !fields.contains(**name) && **name != "message");
            assert_eq!(unknown, None, "{metadata:?}");
            seen.insert(
                metadata.name().to_string(),
                (metadata.level().to_string(), fields),
            );
        }
    };
    let stories: [fn(&Log); 5] = [
        |_| {
            let nodes = nodes();
            all_operations(&builder(&nodes).build().unwrap());
        },
        a_restart,
        a_step,
        a_loss,
        too_many,
    ];
    for story in stories {
        let log = Log::default();
        log.hears(|| story(&log));
        sees(&log);
    }
    assert_eq!(seen, rows());
}

/// Checks the outcomes of a face, with the fields that are the same in each run.
#[track_caller]
fn assert_shown(log: &Log) {
    let hash = log.last("acquire")["resource"].clone();
    assert!(hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()));
    for (span, field, values) in [
        ("acquire", "outcome", &["ok", "held"][..]),
        ("acquire", "resources", &["1", "1"]),
        ("acquire", "ttl_ms", &["120000", "120000"]),
        ("acquire", "attempts", &["1"]),
        ("extend", "outcome", &["ok"]),
        ("extend", "ttl_ms", &["120000"]),
        ("confirm", "outcome", &["ok"]),
        ("inspect", "outcome", &["ok"]),
        ("break", "outcome", &["not_held"]),
        ("release", "outcome", &["ok"]),
    ] {
        let all = log.all(span, field);
        assert_eq!(all[..values.len()], *values, "{span}.{field}");
    }
    for span in ["acquire", "extend", "confirm"] {
        let granted: usize = log.all(span, "granted")[0].parse().unwrap();
        assert!((2..=3).contains(&granted), "{span}");
    }
    let ended: usize = log.all("release", "deleted")[0].parse().unwrap();
    assert!((2..=3).contains(&ended));
    for span in ["acquire", "extend", "confirm", "inspect", "release"] {
        assert_eq!(log.last(span)["resource"], hash, "{span}");
        assert!(log.last(span)["elapsed_us"].parse::<u64>().is_ok());
    }
}

#[test]
fn a_span_shows_what_became_of_its_operation() {
    let nodes = nodes();
    let stories: [fn(&[EmbeddedNode]); 3] = [
        |nodes| all_operations(&builder(nodes).build().unwrap()),
        |nodes| all_futures(&builder(nodes).build().unwrap()),
        |nodes| all_local(&mut builder(nodes).build_local().unwrap()),
    ];
    for story in stories {
        let log = Log::default();
        log.hears(|| story(&nodes));
        assert_shown(&log);
    }
}

#[test]
fn what_has_no_answer_has_a_word_too() {
    let (log, nodes) = (Log::default(), nodes());
    log.hears(|| {
        let redlock = builder(&nodes).build().unwrap();
        let lock = redlock.lock(NAME, LONG).unwrap();
        let mut waiting = redlock.lock_async(NAME, LONG);
        assert!(poll_once(&mut waiting).is_pending());
        drop(waiting);
        assert_eq!(log.last("acquire")["outcome"], "cancelled");
        drop(lock);
        assert_eq!(log.last("release")["outcome"], "dropped");
        drop(redlock.lock_async(NAME, LONG)); // Never polled: nothing has begun.
        assert_eq!(log.all("acquire", "outcome").len(), 2);
        redlock.lock("", LONG).unwrap_err();
        assert_eq!(log.last("acquire")["outcome"], "invalid");
        block_on(redlock.lock_async("", LONG)).unwrap_err();
        redlock.lock_all([""; 0], LONG).unwrap_err();
        assert_eq!(log.last("acquire")["resources"], "0");
        assert_eq!(log.last("acquire").get("resource"), None);
        redlock.reinit().unwrap_err();
        assert_eq!(log.last("reinit")["outcome"], "invalid");
        redlock.inspect("").unwrap_err();
        assert_eq!(log.last("inspect")["outcome"], "invalid");
    });
}

/// There are two attempts. The first one finds the key of another client on a node. That client then releases the key.
#[test]
fn a_span_counts_the_attempts() {
    let (log, nodes) = (Log::default(), nodes());
    let other = builder(&nodes).build().unwrap();
    let held = other.lock(NAME, LONG).unwrap();
    eventually("all nodes have the key", || {
        other.nodes().iter().all(has_answered)
    });
    log.hears(|| {
        let redlock = builder(&nodes).build().unwrap();
        let options = LockOptions::new(LONG).tries(1);
        redlock.lock_with(NAME, &options).unwrap_err();
        assert_eq!(log.last("acquire")["attempts"], "1");
        assert_eq!(log.last("acquire")["granted"], "0");
        let mut waiting = redlock.lock_async(NAME, LONG);
        assert!(poll_once(&mut waiting).is_pending());
        held.unlock().unwrap();
        block_on(waiting).unwrap().unlock().unwrap();
    });
    let attempts: u32 = log.last("acquire")["attempts"].parse().unwrap();
    assert!(1 <= attempts);
}

#[test]
fn no_token_password_owner_or_name_is_shown_unless_names_were_asked_for() {
    let nodes = nodes();
    for show in [false, true] {
        let (log, tokens) = (Log::default(), Mutex::new(Vec::new()));
        log.hears(|| {
            let builder = builder(&nodes).trace_resources(show);
            let redlock = builder.build().unwrap();
            all_operations(&redlock);
            all_futures(&redlock);
            all_local(&mut builder.build_local().unwrap());
            let short = redlock.lock(NAME, Duration::from_secs(1)).unwrap();
            tokens
                .lock()
                .unwrap()
                .push(short.token().as_bytes().escape_ascii().to_string());
            eventually("the loss is reported", || !log.last("loss").is_empty());
            drop(short);
        });
        // The event of a lost lock shows the owner.
        assert_eq!(log.last("loss")["owner"], OWNER);
        let shown = format!("{:?}", log.lines()).replace(&format!("\"owner\": {OWNER:?}"), "");
        for secret in tokens
            .lock()
            .unwrap()
            .iter()
            .map(String::as_str)
            .chain([PASSWORD, OWNER])
        {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        let name = NAME.as_bytes().escape_ascii().to_string();
        match show {
            false => assert!(!shown.contains("canary"), "{shown}"),
            true => {
                assert_eq!(log.last("acquire")["resource"], name);
                assert_eq!(log.last("loss")["resource"], name);
            }
        }
    }
}

#[test]
fn spans_show_the_key_of_a_name_with_a_prefix() {
    let (nodes, log) = (nodes(), Log::default());
    log.hears(|| {
        let builder = builder(&nodes).trace_resources(true).key_prefix("p:");
        let redlock = builder.build().unwrap();
        redlock.lock(NAME, LONG).unwrap().unlock().unwrap();
        redlock.inspect(NAME).unwrap();
    });
    let key = format!("p:{}", NAME.as_bytes().escape_ascii());
    for span in ["acquire", "release", "inspect"] {
        assert_eq!(log.last(span)["resource"], key);
    }
}

#[test]
fn a_hash_stands_for_one_name_in_the_whole_process() {
    let hash = |name: &str| Shown::Hash(name.as_bytes().into()).to_string();
    assert_eq!(hash("a"), hash("a"));
    assert_ne!(hash("a"), hash("b"));
    assert_eq!(hash("").len(), 16);
}

std::thread_local! {
    /// Whether the subscriber is being called by its own code.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A subscriber that calls the handle in each of its methods, and blocks with the event of a loss.
struct Busy {
    redlock: Arc<OnceLock<Redlock>>,
    begun: Mutex<Sender<()>>,
    goes_on: Mutex<Receiver<()>>,
}

impl Busy {
    fn call(&self, metadata: &Metadata<'_>) {
        if metadata.target() == TARGET
            && let Some(redlock) = self.redlock.get()
            && !IS_INSIDE.replace(true)
        {
            assert_eq!(redlock.nodes().len(), 3);
            let lock = redlock.lock("of the subscriber", LONG).unwrap();
            lock.unlock().unwrap();
            IS_INSIDE.set(false);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Busy {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: LayerContext<'_, S>) {
        self.call(attributes.metadata());
    }

    fn on_enter(&self, id: &Id, context: LayerContext<'_, S>) {
        self.call(context.span(id).unwrap().metadata());
    }

    fn on_record(&self, id: &Id, _: &Record<'_>, context: LayerContext<'_, S>) {
        self.call(context.span(id).unwrap().metadata());
    }

    fn on_exit(&self, id: &Id, context: LayerContext<'_, S>) {
        self.call(context.span(id).unwrap().metadata());
    }

    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        self.call(event.metadata());
        if event.metadata().name() == "loss" {
            self.begun.lock().unwrap().send(()).unwrap();
            self.goes_on.lock().unwrap().recv().unwrap();
        }
    }

    fn on_close(&self, id: Id, context: LayerContext<'_, S>) {
        self.call(context.span(&id).unwrap().metadata());
    }
}

#[test]
fn a_subscriber_may_call_the_handle_and_holds_up_no_thread() {
    let nodes = nodes();
    let redlock = Arc::new(OnceLock::new());
    let (begun, has_begun) = channel();
    let (go_on, goes_on) = channel();
    let busy = Busy {
        redlock: Arc::clone(&redlock),
        begun: Mutex::new(begun),
        goes_on: Mutex::new(goes_on),
    };
    let (done, is_done) = channel();
    let story = thread::spawn(move || {
        subscriber::with_default(Registry::default().with(busy), || {
            let own = builder(&nodes).build().unwrap();
            redlock.set(own.clone()).unwrap();
            let short = own.lock("lost", Duration::from_secs(1)).unwrap();
            all_futures(&own);
            has_begun.recv_timeout(PATIENCE).unwrap();
            // The subscriber blocks, on the I/O thread. That does not serve tasks, but threads poll for themselves.
            all_operations(&own);
            drop(short);
            go_on.send(()).unwrap();
            done.send(()).unwrap();
        });
    });
    is_done.recv_timeout(PATIENCE).unwrap();
    story.join().unwrap();
}
