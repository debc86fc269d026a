//! The table of commands, and the commands about the connection or the node as a whole.
//!
//! The look-up finds errors in the server's order: an unknown name, an unknown subcommand, a wrong number of arguments,
//! and only then a client that has not given the password.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::call::{Call, integer, ok};
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
    /// In lower case. The name of a subcommand follows its container: `client|setname`.
    name: &'static str,
    /// The fewest and the most words, including the name and the name of the container.
    words: (usize, usize),
    run: Run,
}

const MANY: usize = usize::MAX;

const COMMANDS: &[Command] = &[
    Command::new("auth", (2, MANY), auth),
    Command::new("client|caching", (3, 3), clients::caching),
    Command::new("client|setinfo", (4, 4), clients::setinfo),
    Command::new("client|setname", (3, 3), clients::setname),
    Command::new("client|tracking", (3, MANY), clients::tracking),
    Command::new("del", (2, MANY), strings::del),
    Command::new("delex", (4, 4), strings::delex),
    Command::new("delifeq", (3, 3), strings::delifeq),
    Command::new("discard", (1, 1), transactions::discard),
    Command::new("eval", (3, MANY), scripts::eval),
    Command::new("evalsha", (3, MANY), scripts::evalsha),
    Command::new("exec", (1, 1), exec),
    Command::new("exists", (2, MANY), strings::exists),
    Command::new("flushall", (1, MANY), flushall),
    Command::new("flushdb", (1, MANY), flushdb),
    Command::new("get", (2, 2), strings::get),
    Command::new("getset", (3, 3), strings::getset),
    Command::new("hello", (1, MANY), hello),
    Command::new("info", (1, MANY), info::info),
    Command::new("msetex", (4, MANY), strings::msetex),
    Command::new("multi", (1, 1), transactions::multi),
    Command::new("pexpire", (3, MANY), strings::pexpire),
    Command::new("ping", (1, MANY), ping),
    Command::new("pttl", (2, 2), strings::pttl),
    Command::new("script|flush", (2, MANY), scripts::flush),
    Command::new("script|load", (3, 3), scripts::load),
    Command::new("select", (2, 2), select),
    Command::new("set", (3, MANY), strings::set),
    Command::new("setnx", (3, 3), strings::setnx),
    Command::new("time", (1, 1), time),
    Command::new("type", (2, 2), strings::type_of),
    Command::new("unlink", (2, MANY), strings::del),
    Command::new("watch", (2, MANY), transactions::watch),
    Command::new("zadd", (4, MANY), strings::zadd),
    Command::new("zrange", (4, MANY), strings::zrange),
];

/// The commands that a client may send before it has given the password.
const FOR_ALL: [&str; 2] = ["auth", "hello"];

impl Command {
    const fn new(name: &'static str, words: (usize, usize), run: Run) -> Self {
        Self { name, words, run }
    }

    /// Returns the name, or the container and its subcommand.
    fn parts(&self) -> (&'static str, Option<&'static str>) {
        match self.name.split_once('|') {
            Some((container, part)) => (container, Some(part)),
            None => (self.name, None),
        }
    }

    /// Returns the function of the command, if the client may run it.
    fn checked(&self, state: &State, call: &Call<'_>) -> Result<Run, Refusal> {
        let (least, most) = self.words;
        if call.words.len() < least || most < call.words.len() {
            return Err(Refusal::arity(self.name));
        }
        if FOR_ALL.contains(&self.name) {
            return Ok(self.run);
        }
        if !may_enter(state, call.session) {
            return Err(Refusal::NO_AUTH);
        }
        let mut names = [self.name, self.parts().0].into_iter();
        match names.any(|name| state.refused.contains_key(name)) {
            true => Err(Refusal::forbidden(self.name, state.flavour)),
            false => Ok(self.run),
        }
    }
}

/// Looks the command up and runs it, or queues it for `EXEC`. `CLIENT CACHING` applies to the next command other than
/// `CLIENT`, even a faulty one; between `MULTI` and `EXEC` it applies to all commands.
pub(super) fn run(state: &mut State, call: &mut Call<'_>) -> Answer {
    let found = find(call.words, state);
    let name = found.as_ref().map_or("", |command| command.name);
    let checked = found.and_then(|command| command.checked(state, call));
    let answer = match (checked, &mut call.session.queue) {
        (Err(refusal), _) if name == "exec" => Err(transactions::abort(state, call, refusal)),
        (Err(refusal), Some(queue)) => {
            queue.spoiled = true;
            Err(refusal)
        }
        (Err(refusal), None) => Err(refusal),
        (Ok(_), Some(queue)) if !transactions::is_run_at_once(name) => {
            let words = call.words.iter().map(|word| word.to_vec());
            queue.commands.push(words.collect());
            Ok(Reply::Simple("QUEUED"))
        }
        (Ok(run), _) => run(state, call),
    };
    if call.session.queue.is_none() {
        call.session.caching &= name.starts_with("client|");
    }
    answer
}

/// `EXEC`: answers with a null if a watched key has changed.
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
    let said = words.first().copied().unwrap_or_default();
    let is_called = |command: &&Command| {
        let (name, _) = command.parts();
        said.eq_ignore_ascii_case(name.as_bytes())
            && state.flavour.knows(name)
            && state.refused.get(name) != Some(&Refused::Unknown)
    };
    let mut commands = COMMANDS.iter().filter(is_called);
    let first = commands.clone().next();
    let first = first.ok_or_else(|| Refusal::unknown_command(words))?;
    let (container, Some(_)) = first.parts() else {
        return Ok(first);
    };
    let said = words.get(1).ok_or_else(|| Refusal::arity(container))?;
    let is_part = |part: &str| said.eq_ignore_ascii_case(part.as_bytes());
    let found = commands.find(|command| command.parts().1.is_some_and(is_part));
    found.ok_or_else(|| Refusal::unknown_subcommand(container, said))
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

/// `HELLO [2|3 [AUTH user password] [SETNAME name]]`. The options take effect one by one, even if a later one is
/// refused; the protocol changes last.
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
                clients::check_name(name)?;
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

/// There is one user, `default`. If no password is set, the client may give any.
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
    match u32::try_from(integer(call.words[1])?) {
        Ok(number) if number < DATABASES => call.session.database = number,
        Ok(_) | Err(_) => return Err(Refusal::fixed("ERR DB index is out of range")),
    }
    Ok(ok())
}

fn flushall(state: &mut State, call: &mut Call<'_>) -> Answer {
    flush(state, call, |_| true)
}

fn flushdb(state: &mut State, call: &mut Call<'_>) -> Answer {
    let selected = call.session.database;
    flush(state, call, |database| database == selected)
}

fn flush(state: &mut State, call: &Call<'_>, which: impl Fn(u32) -> bool) -> Answer {
    if call.words.len() != 1 {
        return Err(Refusal::SYNTAX);
    }
    let keyspace = &mut state.keyspace;
    let had = |database, key: &[u8]| which(database) && keyspace.has(database, key);
    state.watches.flushed(had);
    keyspace.databases.retain(|database, _| !which(*database));
    state.tracking.flushed();
    Ok(ok())
}
