//! A history as text: one line for each event, with the true time, its place, and the clock there.
//!
//! ```text
//!      true ms  where         its clock  what
//!     1204.031  client 1       2203.990  to node 2: SET resource0 1fc0e2.. NX PX 200
//!     1204.102  server 2       2204.101  for client 1: SET resource0 1fc0e2.. NX PX 200 => +OK
//! ```
//!
//! [`LEGEND`] at its top says how to read it.

use std::fmt;
use std::time::Duration;

use shearline::engine::Event as Told;
use shearline::internals::resp::{Inbox, Value};
use shearline::internals::{BARRIER_KEY, MARKER_KEY};
use shearline::{Instant, LockOptions, Retry};

use crate::clock::{MILLI, Time};
use crate::faults::{Fault, NAMES};
use crate::oracle::{Command, Violation, millis as number_of, script_of_holders};
use crate::plan::{Plan, TRIES};
use crate::server::words_of;

/// The text above every trace.
const LEGEND: &str = "
  Each line: the true time, whom it is about, what the clock there shows (both in ms), and what
  happens. A validity ends by the clock of its line. Tokens and scripts are shown by their first
  bytes. What a server does stands before `=>`, and behind it how it answers: to SET +OK, or nil
  because there is a key; to a release or an extension :1 done, :0 no such key, :-1 another's key.
  Where servers carry markers a SET is a script too: :1 done, :0 there is a key. Behind that stands for
  how many ms the answer does not count, :-1 if the marker is another, :0 if it counts.
  Greetings (HELLO, INFO, SCRIPT LOAD) that go well are left out at the servers.
";

/// The place of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    World,
    Client(usize),
    Stranger(usize),
    Server(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.write_str("world"),
            Self::Client(client) => write!(f, "client {client}"),
            Self::Stranger(stranger) => write!(f, "stranger {stranger}"),
            Self::Server(server) => write!(f, "server {server}"),
        }
    }
}

/// The lines so far.
#[derive(Debug)]
pub(crate) struct Trace(pub(crate) Vec<String>);

impl Trace {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut trace = Self(Vec::new());
        let faults = NAMES.into_iter().zip(plan.faults);
        let faults = faults.filter(|(_, weight)| *weight > 0);
        let faults: Vec<_> = faults.map(|(name, _)| name).collect();
        let faults = format!("  There may be faults: {}", faults.join(", "));
        trace.0.push(faults);
        trace.tell_plan(plan);
        trace.0.extend(LEGEND.lines().map(str::to_owned));
        let head = aligned("true ms", "where", "its clock", "what");
        trace.0.push(head);
        trace
    }

    /// Prints every number of the world, a few to a line: times in ns, those of locks in ms.
    fn tell_plan(&mut self, plan: &Plan) {
        let text = format!("{plan:?}");
        let mut line = String::new();
        for word in text.split_inclusive(", ") {
            if line.len() + word.len() > 96 {
                self.0.push(format!("    {}", line.trim_end()));
                line.clear();
            }
            line.push_str(word);
        }
        self.0.push(format!("    {line}"));
    }

    pub(crate) fn line(&mut self, now: Time, place: Place, shown: Option<Instant>, what: &str) {
        if what.is_empty() {
            return;
        }
        let shown = shown.map_or_else(String::new, |shown| millis(shown.as_nanos()));
        let line = aligned(&millis(now), &place.to_string(), &shown, what);
        self.0.push(line);
    }
}

fn aligned(now: &str, place: &str, shown: &str, what: &str) -> String {
    format!("{now:>12}  {place:<10} {shown:>12}  {what}")
}

/// Returns the last line of a history to which an oracle objects.
pub(crate) fn objection(violation: &Violation) -> String {
    let Violation { oracle, text, at } = violation;
    let text = format!("{oracle} objects: {text}");
    aligned(&millis(*at), "ORACLE", "", &text)
}

/// Returns milliseconds with three decimals.
pub(crate) fn millis(nanos: u64) -> String {
    format!("{}.{:03}", nanos / MILLI, nanos % MILLI / 1_000)
}

/// Describes a fault by what was drawn for it: not every kind of fault has a peer, a node and a length.
pub(crate) fn fault(fault: Fault, peer: Place, node: usize, span: Time) -> String {
    format!("FAULT {fault:?}: {peer}, node {node}, {} ms", millis(span))
}

// ----- what is sent -------------------------------------------------------------------------------

/// Describes what a server did and answered. Returns nothing for a handshake that succeeds.
pub(crate) fn executed(asker: Place, words: &[&[u8]], reply: &[u8]) -> String {
    let handshake = matches!(words, [b"HELLO" | b"INFO" | b"SCRIPT" | b"CLIENT", ..]);
    if handshake && !reply.starts_with(b"-") {
        return String::new();
    }
    format!("for {asker}: {} => {}", command(words), raw(reply))
}

/// Describes the commands in `bytes`, which may end in the middle of one.
pub(crate) fn commands(bytes: &[u8]) -> String {
    // A piece that is no list is a part of a command.
    told(bytes, |value| {
        value.as_items().map(|_| command(&words_of(value)))
    })
}

/// Describes the replies in `bytes`, which may begin and end in the middle of one.
pub(crate) fn replies(bytes: &[u8]) -> String {
    told(bytes, |_| None)
}

fn told(bytes: &[u8], text: impl Fn(&Value<'_>) -> Option<String>) -> String {
    let mut inbox = Inbox::default();
    let mut texts = Vec::new();
    let mut rest = bytes;
    let mut piece = bytes;
    while let Ok(Some(frame)) = inbox.next(&mut piece) {
        let (whole, behind) = rest.split_at(frame.len);
        texts.push(text(&frame.value).unwrap_or_else(|| raw(whole)));
        rest = behind;
    }
    if !rest.is_empty() {
        texts.push(format!("{} (torn)", raw(rest)));
    }
    texts.join(" | ")
}

/// Returns a command in short form: of a script, what it does.
pub(crate) fn command(words: &[&[u8]]) -> String {
    let [verb @ (b"EVAL" | b"EVALSHA"), script, count, rest @ ..] = words else {
        return match words {
            [b"SCRIPT", b"LOAD", ..] => "SCRIPT LOAD ..".to_owned(),
            _ => joined(words),
        };
    };
    let keys = number_of(count).unwrap_or(0) as usize;
    let (keys, arguments) = rest.split_at(keys.min(rest.len()));
    let of_locks = || format!("{:?}", Command::of(words, b"").verb);
    let what = script_of_holders(script).map_or_else(of_locks, str::to_owned);
    let checked = match keys.contains(&MARKER_KEY) {
        true => " under a marker",
        false => "",
    };
    let is_name = |key: &&[u8]| ![MARKER_KEY, BARRIER_KEY].contains(key);
    let names: Vec<&[u8]> = keys.iter().copied().filter(is_name).collect();
    let names = joined(&names);
    let arguments = joined(&arguments[..arguments.len().min(6)]);
    format!("{}[{what}] {names} {arguments}{checked}", short(verb))
}

/// Returns a reply in short form.
pub(crate) fn raw(bytes: &[u8]) -> String {
    const LONGEST: usize = 60;
    if matches!(bytes, b"_\r\n" | b"$-1\r\n") {
        return "nil".into();
    }
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.map(|line| line.escape_ascii().to_string());
    let lines: Vec<String> = lines.collect();
    let (mut shown, mut rest) = (&lines[0], &lines[1..]);
    if shown.starts_with('*') && rest.len() < 6 {
        return rest.join(" ");
    }
    if let [text, behind @ ..] = rest
        && shown.starts_with('$')
        && !text.is_empty()
    {
        (shown, rest) = (text, behind);
    }
    let is_digest = shown.len() == 40 && shown.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest {
        return format!("{}..", &shown[..6]);
    }
    match shown.len() > LONGEST || rest.iter().any(|line| !line.is_empty()) {
        true => format!("{shown:.LONGEST$}.."),
        false => shown.clone(),
    }
}

fn joined(words: &[&[u8]]) -> String {
    let words: Vec<_> = words.iter().map(|word| short(word)).collect();
    words.join(" ")
}

/// Returns a word as it is, but only the first bytes of a token or a digest, and a marker without the incarnation of
/// its server.
fn short(word: &[u8]) -> String {
    if let [b'1', b' ', marker @ ..] = word
        && let Some(at) = marker.iter().position(|byte| *byte == b' ')
    {
        return format!("1 ..{}", String::from_utf8_lossy(&marker[at..]));
    }
    let text = String::from_utf8_lossy(word);
    match word.iter().all(u8::is_ascii_graphic) {
        true if word.len() < 20 => text.into_owned(),
        true => format!("{}..", &text[..6]),
        false => token(word),
    }
}

/// Returns the first bytes of a token.
pub(crate) fn token(bytes: &[u8]) -> String {
    let first = bytes.iter().take(3).map(|byte| format!("{byte:02x}"));
    format!("{}..", first.collect::<String>())
}

// ----- what is reported ---------------------------------------------------------------------------

/// Describes how long a call waits, or how often it tries.
pub(crate) fn limits(options: &LockOptions) -> String {
    let usual = Retry::new(TRIES, Duration::ZERO..=Duration::ZERO);
    let tries = options.limit(&usual);
    let tries = tries.map(|tries| format!("tries {tries} times"));
    let wait = options.deadline().map(|wait| format!("waits for {wait:?}"));
    tries.into_iter().chain(wait).collect::<Vec<_>>().join(", ")
}

/// Returns the report to a user, without the advice.
pub(crate) fn outcome(told: &Told) -> String {
    let until = |end: Instant| format!(" until {}", millis(end.as_nanos()));
    match told {
        Told::Acquired { result, .. } => ended("acquired", result, |lock| {
            let token = token(lock.token().as_bytes());
            format!(" {token},{}", until(lock.valid_until()))
        }),
        Told::Extended { result, .. } => ended("extended", result, |it| until(it.valid_until())),
        Told::Released { result, .. } => ended("released", result, |_| String::new()),
        Told::Kept { lock, result } => {
            ended("kept", result, |end| format!("{}: {lock:?}", until(*end)))
        }
        Told::AtRisk { lock } => format!("the lock is at risk: {lock:?}"),
        Told::Expired { lock } => format!("the lock is over: {lock:?}"),
        Told::Reinitialised { .. } | _ => format!("{told:?}"),
    }
}

/// Describes the end of a call: `more` about a success, or the first fact of an error.
fn ended<T>(what: &str, end: &Result<T, impl fmt::Display>, more: impl Fn(&T) -> String) -> String {
    match end {
        Ok(it) => format!("{what}{}", more(it)),
        Err(error) => {
            let text = format!("{error:#}");
            let fact = text.split(';').next().unwrap_or_default();
            format!("not {what}: {fact}")
        }
    }
}
