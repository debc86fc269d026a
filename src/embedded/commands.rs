//! The table of commands, and those that are about the connection or the node as a whole.
//!
//! Looking one up fails in the server's order: an unknown name, an unknown subcommand, a wrong
//! number of arguments, and only then a client that has not given the password.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::call::{Call, count, integer, is_flush_mode, ok};
use super::clients;
use super::flavour::Refused;
use super::info;
use super::keyspace::DATABASES;
use super::refusal::Refusal;
use super::reply::{Answer, Protocol, Reply};
use super::scripts;
use super::session::Session;
use super::state::State;
use super::strings;
use super::transactions;

type Run = fn(&mut State, &mut Call<'_>) -> Answer;

struct Command {
    /// In lower case; of a subcommand with its container before it: `client|setname`.
    name: &'static str,
    /// The fewest and the most words, including the name and the name of the container.
    words: (usize, usize),
    body: Body,
}

enum Body {
    Run(Run),
    /// Allowed to a client that has not given the password.
    RunForAll(Run),
    Container(&'static [Command]),
}

const MANY: usize = usize::MAX;

const COMMANDS: &[Command] = &[
    Command::new("auth", (2, MANY), Body::RunForAll(auth)),
    Command::new("client", (2, MANY), Body::Container(CLIENT)),
    Command::new("dbsize", (1, 1), Body::Run(dbsize)),
    Command::new("del", (2, MANY), Body::Run(strings::del)),
    Command::new("delex", (2, MANY), Body::Run(strings::delex)),
    Command::new("delifeq", (3, 3), Body::Run(strings::delifeq)),
    Command::new("discard", (1, 1), Body::Run(transactions::discard)),
    Command::new("eval", (3, MANY), Body::Run(scripts::eval)),
    Command::new("evalsha", (3, MANY), Body::Run(scripts::evalsha)),
    Command::new("exec", (1, 1), Body::Run(exec)),
    Command::new("exists", (2, MANY), Body::Run(strings::exists)),
    Command::new("flushall", (1, MANY), Body::Run(flushall)),
    Command::new("flushdb", (1, MANY), Body::Run(flushdb)),
    Command::new("get", (2, 2), Body::Run(strings::get)),
    Command::new("getset", (3, 3), Body::Run(strings::getset)),
    Command::new("hello", (1, MANY), Body::RunForAll(hello)),
    Command::new("info", (1, MANY), Body::Run(info::info)),
    Command::new("lpush", (3, MANY), Body::Run(strings::lpush)),
    Command::new("msetex", (4, MANY), Body::Run(strings::msetex)),
    Command::new("multi", (1, 1), Body::Run(transactions::multi)),
    Command::new("pexpire", (3, MANY), Body::Run(strings::pexpire)),
    Command::new("ping", (1, MANY), Body::Run(ping)),
    Command::new("pttl", (2, 2), Body::Run(strings::pttl)),
    Command::new("script", (2, MANY), Body::Container(SCRIPT)),
    Command::new("select", (2, 2), Body::Run(select)),
    Command::new("set", (3, MANY), Body::Run(strings::set)),
    Command::new("setnx", (3, 3), Body::Run(strings::setnx)),
    Command::new("time", (1, 1), Body::Run(time)),
    Command::new("type", (2, 2), Body::Run(strings::type_of)),
    Command::new("unlink", (2, MANY), Body::Run(strings::del)),
    Command::new("unwatch", (1, 1), Body::Run(transactions::unwatch)),
    Command::new("watch", (2, MANY), Body::Run(transactions::watch)),
    Command::new("zadd", (4, MANY), Body::Run(strings::zadd)),
    Command::new("zrange", (4, MANY), Body::Run(strings::zrange)),
];

const CLIENT: &[Command] = &[
    Command::new("client|caching", (3, 3), Body::Run(clients::caching)),
    Command::new("client|getname", (2, 2), Body::Run(clients::getname)),
    Command::new("client|id", (2, 2), Body::Run(clients::id)),
    Command::new("client|setinfo", (4, 4), Body::Run(clients::setinfo)),
    Command::new("client|setname", (3, 3), Body::Run(clients::setname)),
    Command::new("client|tracking", (3, MANY), Body::Run(clients::tracking)),
];

const SCRIPT: &[Command] = &[
    Command::new("script|exists", (3, MANY), Body::Run(scripts::exists)),
    Command::new("script|flush", (2, MANY), Body::Run(scripts::flush)),
    Command::new("script|load", (3, 3), Body::Run(scripts::load)),
];

impl Command {
    const fn new(name: &'static str, words: (usize, usize), body: Body) -> Self {
        Self { name, words, body }
    }

    fn is_called(&self, word: &[u8]) -> bool {
        word.eq_ignore_ascii_case(self.name.as_bytes())
    }

    /// Returns what to run, if that may be run.
    fn checked(&self, state: &State, call: &Call<'_>) -> Result<Run, Refusal> {
        let (least, most) = self.words;
        if call.words.len() < least || most < call.words.len() {
            return Err(Refusal::arity(self.name));
        }
        let run = match self.body {
            Body::RunForAll(run) => return Ok(run),
            Body::Run(_) if !may_enter(state, call.session) => return Err(Refusal::NO_AUTH),
            Body::Run(run) => run,
            Body::Container(_) => unreachable!("a container has no words but too few"),
        };
        let container = self.name.split('|').next().unwrap_or_default();
        let names = [self.name, container];
        match names.iter().any(|name| state.refused.contains_key(*name)) {
            true => Err(Refusal::forbidden(self.name, state.flavour)),
            false => Ok(run),
        }
    }

    /// Returns `true` if it is the subcommand `word` of `container`.
    fn is_part(&self, container: &str, word: &[u8]) -> bool {
        let name = self.name.as_bytes().get(container.len() + 1..);
        name.is_some_and(|name| word.eq_ignore_ascii_case(name))
    }
}

/// Looks the command up and runs it, or takes it over for `EXEC`. What `CLIENT CACHING` said is for the
/// next command that is not one of `CLIENT`, be it a wrong one; between `MULTI` and `EXEC` for all.
pub(super) fn run(state: &mut State, call: &mut Call<'_>) -> Answer {
    let found = find(call.words, state);
    let name = found.as_ref().map_or("", |command| command.name);
    let checked = found.and_then(|command| command.checked(state, call));
    let answer = match (checked, &mut call.session.queue) {
        (Err(refusal), _) if name == "exec" => Err(transactions::abort(state, call, refusal)),
        (Err(refusal), Some(queue)) => {
            queue.spoil();
            Err(refusal)
        }
        (Err(refusal), None) => Err(refusal),
        (Ok(_), Some(queue)) if !transactions::is_run_at_once(name) => queue.push(call.words),
        (Ok(run), _) => run(state, call),
    };
    if call.session.queue.is_none() {
        call.session.caching &= name.starts_with("client|");
    }
    answer
}

/// `EXEC`: a null if a watched key has changed.
fn exec(state: &mut State, call: &mut Call<'_>) -> Answer {
    let Some(queue) = transactions::end(state, call)? else {
        return Ok(Reply::NullArray);
    };
    let mut answers = Vec::with_capacity(queue.commands.len());
    for command in &queue.commands {
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let mut call = Call {
            session: &mut *call.session,
            words: &words,
            ..*call
        };
        let run = find(call.words, state).and_then(|command| command.checked(state, &call));
        let answer = run.and_then(|run| run(state, &mut call));
        answers.push(answer.unwrap_or_else(Reply::Error));
    }
    Ok(Reply::Array(answers))
}

fn find(words: &[&[u8]], state: &State) -> Result<&'static Command, Refusal> {
    let name = words.first().copied().unwrap_or_default();
    let is_known = |command: &&Command| {
        let refused = state.refused.get(command.name);
        state.flavour.knows(command.name) && refused != Some(&Refused::Unknown)
    };
    let mut commands = COMMANDS.iter().filter(is_known);
    let Some(command) = commands.find(|command| command.is_called(name)) else {
        return Err(Refusal::unknown_command(words));
    };
    match (&command.body, words.get(1)) {
        (Body::Container(subcommands), Some(word)) => subcommands
            .iter()
            .find(|subcommand| subcommand.is_part(command.name, word))
            .ok_or_else(|| Refusal::unknown_subcommand(command.name, word)),
        (Body::Container(_) | Body::Run(_) | Body::RunForAll(_), _) => Ok(command),
    }
}

fn may_enter(state: &State, session: &Session) -> bool {
    session.authenticated || state.password.is_none()
}

/// `TIME`: seconds and microseconds. The last three digits are zeros here.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the table has one type of command"
)]
fn time(_: &mut State, call: &mut Call<'_>) -> Answer {
    let words = [call.now / 1_000, call.now % 1_000 * 1_000];
    let words = words.map(|word| Reply::bulk(word.to_string().as_bytes()));
    Ok(Reply::array(words))
}

/// `HELLO [2|3 [AUTH user password] [SETNAME name]]`. The options take effect one by one, also
/// when a later one is refused; the protocol changes last.
fn hello(state: &mut State, call: &mut Call<'_>) -> Answer {
    const NO_AUTH: Refusal = Refusal::fixed(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
         AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
         protocol version at the same time",
    );
    let protocol = match call.words.get(1) {
        None => call.session.protocol,
        Some(version) => protocol(version)?,
    };
    let mut words = call.words_from(2);
    while let Some((option, rest)) = words.split_first() {
        words = match rest {
            [user, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                log_in(state, call.session, user, password)?;
                rest
            }
            [name, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                call.session.name = clients::valid_name(name)?.to_vec();
                rest
            }
            _ => {
                let before = "ERR Syntax error in HELLO option '";
                return Err(Refusal::quoting(before, option, "'"));
            }
        };
    }
    if !may_enter(state, call.session) {
        return Err(NO_AUTH);
    }
    call.session.protocol = protocol;
    state.tracking.update(call.session);
    Ok(info::hello(state, call.session))
}

fn protocol(version: &[u8]) -> Result<Protocol, Refusal> {
    const NO_NUMBER: Refusal =
        Refusal::fixed("ERR Protocol version is not an integer or out of range");
    match integer(version).map_err(|_| NO_NUMBER)? {
        2 => Ok(Protocol::Resp2),
        3 => Ok(Protocol::Resp3),
        _ => Err(Refusal::fixed("NOPROTO unsupported protocol version")),
    }
}

/// `AUTH [user] password`.
fn auth(state: &mut State, call: &mut Call<'_>) -> Answer {
    const NO_PASSWORD_SET: Refusal = Refusal::fixed(
        "ERR AUTH <password> called without any password configured for the default user. Are \
         you sure your configuration is correct?",
    );
    match *call.words_from(1) {
        [_] if state.password.is_none() => return Err(NO_PASSWORD_SET),
        [password] => log_in(state, call.session, b"default", password)?,
        [user, password] => log_in(state, call.session, user, password)?,
        _ => return Err(Refusal::SYNTAX),
    }
    Ok(ok())
}

/// There is one user, `default`. Without a password set, it may give any.
fn log_in(
    state: &State,
    session: &mut Session,
    user: &[u8],
    password: &[u8],
) -> Result<(), Refusal> {
    let right = state.password.as_deref().is_none_or(|set| set == password);
    if user != b"default" || !right {
        return Err(Refusal::WRONG_PASS);
    }
    session.authenticated = true;
    Ok(())
}

fn ping(_: &mut State, call: &mut Call<'_>) -> Answer {
    match call.words_from(1) {
        [] => Ok(Reply::Simple("PONG")),
        [word] => Ok(Reply::bulk(word)),
        _ => Err(Refusal::arity("ping")),
    }
}

fn select(_: &mut State, call: &mut Call<'_>) -> Answer {
    const OUT_OF_INT: Refusal =
        Refusal::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
    let number = integer(call.words[1])?;
    let number = i32::try_from(number).map_err(|_| OUT_OF_INT)?;
    match u32::try_from(number) {
        Ok(number) if number < DATABASES => {
            call.session.database = number;
            Ok(ok())
        }
        Ok(_) | Err(_) => Err(Refusal::fixed("ERR DB index is out of range")),
    }
}

fn dbsize(state: &mut State, call: &mut Call<'_>) -> Answer {
    Ok(count(call.database(state).len(call.now)))
}

fn flushall(state: &mut State, call: &mut Call<'_>) -> Answer {
    flush_mode(call)?;
    let State {
        keyspace, watches, ..
    } = state;
    watches.flushed(|database, key| keyspace.has(database, key));
    state.keyspace.clear();
    state.tracking.flushed();
    Ok(ok())
}

fn flushdb(state: &mut State, call: &mut Call<'_>) -> Answer {
    flush_mode(call)?;
    call.database(state).clear();
    Ok(ok())
}

/// `ASYNC` and `SYNC` are the same here.
fn flush_mode(call: &Call<'_>) -> Result<(), Refusal> {
    match call.words_from(1) {
        [] => Ok(()),
        [mode] if is_flush_mode(mode) => Ok(()),
        _ => Err(Refusal::SYNTAX),
    }
}
