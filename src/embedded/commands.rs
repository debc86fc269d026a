//! Finds and runs commands, including the queued commands of `EXEC`. This file also contains the commands about the
//! connection or the whole node.
//!
//! The node checks for errors in the same order as the server: first an unknown name, then a wrong number of arguments,
//! and then a missing password.

#![expect(
    clippy::unnecessary_wraps,
    reason = "the table has one type of command"
)]

use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::time::Instant;

use super::call::{Call, integer, ok};
use super::flavour::Refused;
use super::info;
use super::keyspace::DATABASES;
use super::refusal::Refusal;
use super::reply::{Answer, Reply};
use super::scripts;
use super::session::Session;
use super::store::Store;
use super::strings;
use super::transactions;

type Run = fn(&mut Call<'_>) -> Answer;

struct Command {
    /// The name in lower case. A subcommand has the form `client|setname`.
    name: &'static str,
    /// The allowed number of words, including the words of the name.
    words: RangeInclusive<usize>,
    run: Run,
}

const MANY: usize = usize::MAX;

const COMMANDS: &[Command] = &[
    Command::new("auth", 2..=3, auth),
    Command::new("client|caching", 3..=3, caching),
    Command::new("client|setinfo", 4..=4, describe),
    Command::new("client|setname", 3..=3, describe),
    Command::new("client|tracking", 3..=MANY, tracking),
    Command::new("del", 2..=MANY, strings::del),
    Command::new("delex", 4..=4, strings::delex),
    Command::new("delifeq", 3..=3, strings::delifeq),
    Command::new("discard", 1..=1, transactions::discard),
    Command::new("eval", 3..=MANY, scripts::eval),
    Command::new("evalsha", 3..=MANY, scripts::evalsha),
    Command::new("exec", 1..=1, exec),
    Command::new("flushall", 1..=1, flushall),
    Command::new("get", 2..=2, strings::get),
    Command::new("getset", 3..=3, strings::getset),
    Command::new("hello", 1..=MANY, hello),
    Command::new("info", 1..=MANY, info::info),
    Command::new("msetex", 4..=MANY, strings::msetex),
    Command::new("multi", 1..=1, transactions::multi),
    Command::new("pexpire", 3..=4, strings::pexpire),
    Command::new("ping", 1..=2, ping),
    Command::new("pttl", 2..=2, strings::pttl),
    Command::new("script|flush", 2..=2, scripts::flush),
    Command::new("script|load", 3..=3, scripts::load),
    Command::new("select", 2..=2, select),
    Command::new("set", 3..=MANY, strings::set),
    Command::new("setnx", 3..=3, strings::setnx),
    Command::new("time", 1..=1, time),
    Command::new("watch", 2..=MANY, transactions::watch),
    Command::new("zadd", 4..=MANY, strings::zadd),
    Command::new("zrange", 4..=4, strings::zrange),
];

/// The commands that a client may send before it has logged in.
const FOR_ALL: [&str; 2] = ["auth", "hello"];

impl Command {
    const fn new(name: &'static str, words: RangeInclusive<usize>, run: Run) -> Self {
        Self { name, words, run }
    }

    /// Returns the name without the subcommand.
    fn container(&self) -> &'static str {
        self.name.split('|').next().unwrap_or_default()
    }

    fn begins(&self, words: &[&[u8]]) -> bool {
        let mut words = words.iter();
        let is_next = |part: &str| {
            let word = words.next();
            word.is_some_and(|word| word.eq_ignore_ascii_case(part.as_bytes()))
        };
        self.name.split('|').all(is_next)
    }

    /// Returns the function of the command, if the client may run it.
    fn checked(&self, call: &Call<'_>) -> Result<Run, Refusal> {
        if !self.words.contains(&call.words.len()) {
            return Err(Refusal::arity(self.name));
        }
        if FOR_ALL.contains(&self.name) {
            return Ok(self.run);
        }
        if !may_enter(call) {
            return Err(Refusal::NO_AUTH);
        }
        let mut names = [self.name, self.container()].into_iter();
        match names.any(|name| call.store.refused.contains_key(name)) {
            true => Err(Refusal::forbidden(self.name)),
            false => Ok(self.run),
        }
    }
}

impl Store {
    /// Executes one command, which begins with its name, and appends the reply to `out`. If the command has caused a
    /// push to its own client, as `FLUSHALL` may, the push follows the reply. An empty command has no reply.
    pub fn execute(
        &mut self,
        session: &mut Session,
        now: Instant,
        command: &[&[u8]],
        out: &mut Vec<u8>,
    ) {
        if command.is_empty() {
            session.caching = false;
            return;
        }
        let answer = run(&mut Call::new(self, session, now, command));
        let reply = answer.unwrap_or_else(Reply::Error);
        reply.write(!session.resp3, out);
        self.tracking.take(session.id, out);
    }

    /// Deletes `key` of the first database at `now`, as another client would. Returns `false` if the key does not
    /// exist.
    pub fn remove(&mut self, now: Instant, key: &[u8]) -> bool {
        Call::new(self, &mut Self::session(), now, &[]).remove(key)
    }
}

/// Finds the command and runs it, or queues it for `EXEC`. `CLIENT CACHING` applies to the next command other than
/// `CLIENT`, even if that command is faulty. Between `MULTI` and `EXEC`, `CLIENT CACHING` applies to all commands.
fn run(call: &mut Call<'_>) -> Answer {
    let found = find(call);
    let name = found.as_ref().map_or("", |command| command.name);
    let checked = found.and_then(|command| command.checked(call));
    let answer = match (checked, &mut call.session.queue) {
        (Err(_), _) if name == "exec" => transactions::abort(call),
        (Err(refusal), queue) => {
            if let Some(queue) = queue {
                queue.spoiled = true;
            }
            Err(refusal)
        }
        (Ok(_), Some(queue)) if !transactions::is_run_at_once(name) => {
            let words = call.words.iter().map(|word| word.to_vec());
            queue.commands.push(words.collect());
            Ok(Reply::Simple("QUEUED"))
        }
        (Ok(run), _) => run(call),
    };
    if call.session.queue.is_none() {
        call.session.caching &= name.starts_with("client|");
    }
    answer
}

/// `EXEC`: returns a null if a watched key has changed.
fn exec(call: &mut Call<'_>) -> Answer {
    let Some(queue) = transactions::end(call)? else {
        return Ok(Reply::NullArray);
    };
    let mut answers = Vec::with_capacity(queue.commands.len());
    for command in &queue.commands {
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let mut call = call.within(&[], &words);
        let run = find(&call).and_then(|command| command.checked(&call));
        let answer = run.and_then(|run| run(&mut call));
        answers.push(answer.unwrap_or_else(Reply::Error));
    }
    Ok(Reply::Array(answers))
}

fn find(call: &Call<'_>) -> Result<&'static Command, Refusal> {
    let is_meant = |command: &&Command| {
        let container = command.container();
        command.begins(call.words)
            && call.store.flavour.knows(container)
            && call.store.refused.get(container) != Some(&Refused::Unknown)
    };
    let found = COMMANDS.iter().find(is_meant);
    found.ok_or_else(|| Refusal::unknown_command(call.words[0]))
}

fn may_enter(call: &Call<'_>) -> bool {
    call.session.authenticated || call.store.password.is_none()
}

/// `TIME`: returns seconds and microseconds. The last three digits of the microseconds are always zero.
fn time(call: &mut Call<'_>) -> Answer {
    let words = [call.now / 1_000, call.now % 1_000 * 1_000];
    let words = words.map(|word| Reply::bulk(word.to_string().as_bytes()));
    Ok(Reply::array(words))
}

/// `HELLO [2|3 [AUTH user password] [SETNAME name]]`. The options take effect one by one, even if a later option is
/// refused. The protocol changes last.
fn hello(call: &mut Call<'_>) -> Answer {
    let version = call.words.get(1).map(|version| integer(version));
    let resp3 = match version.transpose()? {
        None => call.session.resp3,
        Some(2) => false,
        Some(3) => true,
        Some(_) => return Err(Refusal::fixed("NOPROTO unsupported protocol version")),
    };
    let mut words = call.words_from(2);
    while let Some((option, rest)) = words.split_first() {
        words = match rest {
            [user, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                log_in(call, user, password)?;
                rest
            }
            [_, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => rest,
            _ => return Err(Refusal::SYNTAX),
        };
    }
    if !may_enter(call) {
        return Err(Refusal::NO_AUTH);
    }
    call.session.resp3 = resp3;
    call.store.tracking.update(call.session);
    Ok(info::hello(call))
}

/// `AUTH [user] password`.
fn auth(call: &mut Call<'_>) -> Answer {
    const NO_PASSWORD_SET: Refusal = Refusal::fixed("ERR AUTH without any password configured");
    match *call.words_from(1) {
        [_] if call.store.password.is_none() => return Err(NO_PASSWORD_SET),
        [password] => log_in(call, b"default", password)?,
        [user, password, ..] => log_in(call, user, password)?,
        [] => return Err(Refusal::SYNTAX),
    }
    Ok(ok())
}

/// The only user is `default`. If no password is set, the server accepts any password.
fn log_in(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<(), Refusal> {
    let wanted = call.store.password.as_deref();
    if user != b"default" || wanted.is_some_and(|wanted| wanted != password) {
        return Err(Refusal::WRONG_PASS);
    }
    call.session.authenticated = true;
    Ok(())
}

fn ping(call: &mut Call<'_>) -> Answer {
    let word = call.words.get(1);
    Ok(word.map_or(Reply::Simple("PONG"), |word| Reply::bulk(word)))
}

fn select(call: &mut Call<'_>) -> Answer {
    match u32::try_from(integer(call.words[1])?) {
        Ok(number) if number < DATABASES => call.session.database = number,
        Ok(_) | Err(_) => return Err(Refusal::fixed("ERR DB index is out of range")),
    }
    Ok(ok())
}

fn flushall(call: &mut Call<'_>) -> Answer {
    call.store.flush();
    Ok(ok())
}

/// `CLIENT SETNAME`, `CLIENT SETINFO`: the node does not store the name or the info, because no command shows them.
fn describe(_: &mut Call<'_>) -> Answer {
    Ok(ok())
}

/// `CLIENT TRACKING ON OPTIN NOLOOP`, `CLIENT TRACKING OFF`.
///
/// Like real servers, the node also accepts this command over RESP2, but then sends no pushes.
fn tracking(call: &mut Call<'_>) -> Answer {
    const OTHER_WAY: Refusal = Refusal::fixed(
        "ERR this embedded node tracks only with OPTIN and NOLOOP; use a redis-server for others",
    );
    let is = |place: usize, name: &[u8]| call.words[place].eq_ignore_ascii_case(name);
    let on = match call.words.len() {
        3 if is(2, b"off") => false,
        5 if is(2, b"on") && is(3, b"optin") && is(4, b"noloop") => true,
        _ => return Err(OTHER_WAY),
    };
    call.session.tracking = on;
    call.session.caching &= on;
    call.store.tracking.update(call.session);
    Ok(ok())
}

/// `CLIENT CACHING YES`: registers the keys that the next command reads. Other `CLIENT` commands may come before that
/// command.
fn caching(call: &mut Call<'_>) -> Answer {
    const NOT_ON: Refusal = Refusal::fixed("ERR CLIENT CACHING without CLIENT TRACKING ON OPTIN");
    if !call.session.tracking {
        return Err(NOT_ON);
    }
    if !call.words[2].eq_ignore_ascii_case(b"yes") {
        return Err(Refusal::SYNTAX);
    }
    call.session.caching = true;
    Ok(ok())
}
