//! Random commands from a seed: mostly sensible, often not.

use shearline::internals::Flavour;

use super::grammar::{Grammar, Words, words};

/// Keys and values are few, so that commands use the same keys, and tokens match. A client without the password may
/// send what is `brief`; what is `wide` has too many words for it.
///
/// The ends of barriers are far from each other: half an hour, eight hours, or a day. Some markers replace others, and
/// some cannot be read. No live member that `ZADD` adds has a deadline in the library's form, because the clocks of the
/// two sides differ. No `SET` repeats an option, because the node would refuse it.
const GRAMMAR: &str = r"
brief = 10* <set> | 3* GET <key> | 4* PTTL <key> | 3* PEXPIRE <key> <millis> <less> | DEL <keys> | ZADD <key> 1 <value>
| 4* <script> <count> <key> <value> <limit> | 4* <guarded> | SCRIPT <about> | <hello> | <auth> | <client>
| SELECT <number> | FLUSHALL | PING | PING a | DELIFEQ <key> <value> | 2* WATCH <keys> | EXEC | DISCARD
| 2* SET <key> <value> IFEQ <value> <if-equal> | 2* <unknown>
wide = <each> | <several> | DELEX <key> IFEQ <value> | <msetex> | 9* <member> | ZADD <set-key> <olds>
| 2* ZRANGE <set-key> 0 -1 | 2* <join>
any = 7* <brief> | 3* <wide>
first = HELLO 3 <login>
short-lived = SET <key> v PX <soon>
soon = 1 | 2 | 3
watch = WATCH <keys>
within = MULTI | WATCH a
end = 4* EXEC | exec | DISCARD | EXEC x

key = a | b\r\n | '' | \0c
keys = <key> | <key> <key> | <key> <key> <key>
value = <v*0..200> | <ff*0..16000> | <odd> | 5* other | 12* token
odd = '' | \r\n | \0
millis = 7* <unique> | <no-millis>
no-millis = 0 | -1 | -0 | abc | '' | +5000000 | 05000000 | ~5000000 | 5000000.5 | 9223372036854775807
| -9223372036854775808 | 99999999999999999999
less = 2* | LT | lt | FO\0O

set = SET <key> <value> <option> | SET <key> <value> <when> <until> | SET <key> <value> <until> <when>
option = <when> | <until> | FOO | FOO <until>
when = | NX | nx | XX | NX XX
until = | 6* PX <millis> | 6* px <millis> | KEEPTTL | KEEPTTL PX <millis> | PX
if-equal = <past> | 2* PX <millis> | KEEPTTL | NX | IFEQ
past = PXAT <over> | pxat <over>
over = 3* 1 | 1000 | 0 | -1 | x
msetex = MSETEX <number-of> <key> <value> <msetex-when> <msetex-end>
| 5* MSETEX 1 <key> <value> <msetex-when> <msetex-end>
| 5* MSETEX 2 <key> <value> <key> <value> <msetex-when> <msetex-end>
| 5* MSETEX 3 <key> <value> <key> <value> <key> <value> <msetex-when> <msetex-end>
number-of = 0 | -1 | x | 9 | 9223372036854775807
msetex-when = 2* | 2* NX | nx | XX | GET
msetex-end = 2* | KEEPTTL | PX | FOO | 4* PX <millis>

script = 2* <RELEASE> | 2* <EXTEND> | 2* <CONFIRM> | 2* <INSPECT> | EVALSHA 4453C08D4B7260DFEC522C1D9BE6140EE00157CB
| EVALSHA 0000000000000000000000000000000000000000
count = 45* 1 | 9 | -1 | x | 01 | 9223372036854775807
limit = 24* <millis> | inf | nan | 1e30 | ~7~ | 1.5 | x
about = LOAD <loaded> | load <loaded> | FLUSH | FOO
loaded = <=RELEASE> | <=EXTEND> | <=EXTEND_EACH> | <=RELEASE_EACH> | <=CONFIRM> | <=INSPECT> | <=CHECKED_ACQUIRE>
| <=CHECKED_EXTEND> | <=CHECKED_CONFIRM> | <=JOIN> | <=TAKE_SEVERAL> | <=EXTEND_SEVERAL> | <=CONFIRM_SEVERAL>
| <=RELEASE_SEVERAL> | <=TAKE_SHARED> | <=TAKE_SLOT> | <=MOVE_SLOT> | <=EXTEND_MEMBER> | <=CONFIRM_MEMBER>
| <=RELEASE_MEMBER>
each = <RELEASE_EACH> 0 | <RELEASE_EACH> # <key> / <value> | 2* <RELEASE_EACH> # <key> <key> / <value> <value>
| <RELEASE_EACH> # <key> <key> <key> / <value> <value> <value> | <EXTEND_EACH> 0
| <EXTEND_EACH> # <key> / <value> <unique> | 2* <EXTEND_EACH> # <key> <key> / <value> <unique> <value> <unique>
| <EXTEND_EACH> # <key> <key> <key> / <value> <unique> <value> <unique> <value> <unique>

several = 2* <TAKE_SEVERAL> # <names> / <value> <some-millis> '' <several-does>
| <TAKE_SEVERAL> # <names> <guard> / <value> <some-millis> <marker> <several-does>
| 2* <EXTEND_SEVERAL> # <names> / <value> <some-millis> ''
| <EXTEND_SEVERAL> # <names> <guard> / <value> <some-millis> <marker>
| 2* <CONFIRM_SEVERAL> # <names> / <value> '' '' | <CONFIRM_SEVERAL> # <names> <guard> / <value> '' <marker>
| 3* <RELEASE_SEVERAL> # <names> / <value>
names = <key> <key> | <key> <key> <key> | <key> <key> <key> <key>
some-millis = 19* <millis> | ''
several-does = | get del set

member = 9* <TAKE_SHARED> # <set-key> <intent> / <token> <ttl> '' <passes> <member-does>
| 3* <TAKE_SHARED> # <set-key> <intent> <guard> / <token> <ttl> <marker> <passes> <member-does>
| 6* <TAKE_SLOT> # <set-key> / <token> <ttl> '' <slots> <member-does>
| 2* <TAKE_SLOT> # <set-key> <guard> / <token> <ttl> <marker> <slots> <member-does>
| 6* <EXTEND_MEMBER> # <set-key> / <token> <unique> '' <prefix>
| 2* <EXTEND_MEMBER> # <set-key> <guard> / <token> <unique> <marker> <prefix>
| 3* <CONFIRM_MEMBER> # <set-key> / <token> '' '' <prefix>
| <CONFIRM_MEMBER> # <set-key> <guard> / <token> '' <marker> <prefix>
| 3* <MOVE_SLOT> # <set-key> / <token> '' '' <prefix> | <MOVE_SLOT> # <set-key> <guard> / <token> '' <marker> <prefix>
| 3* <RELEASE_MEMBER> # <set-key> / <token> <prefix> | <RELEASE_MEMBER> # <set-key> / <token> <prefix> 1
set-key = 5* s | 5* t | <key> | <key>
intent = 3* i | a
token = one | 2* two | three | /x | \r\n | 2/0/one
ttl = 19* <unique> | ''
passes = 3* '' | 1
slots = 2 0 2 | 2 1 2 | 2 0 1 | 3 2 3 | 3 1 1 | 1024 1023 1024
prefix = r/ | 2/0/ | 2/1/ | 3/0/ | 3/2/ | 1/0/
member-does = | time zrange zrem zadd pexpireat get zscore
olds = <old> | <old> <old> | <old> <old> <old>
old = <score> r/<token> | <score> 2/1/<token> | <score> 2/0/<token> | <score> 2/2/<token> | <score> 3/01/<token>
| <score> 01/0/<token> | <score> 1025/7/<token> | <score> x<token> | <score> r<token>
score = 2* 1 | 2 | 2.5 | -inf | inf | 9100000000000000

guarded = 2* SET <marker-key> <marker> | <look> <marker-key> | <look> <barrier>
| 3* <CHECKED_ACQUIRE> # <key> <guard> / <value> <millis> <marker>
| 3* <CHECKED_EXTEND> # <key> <guard> / <value> <millis> <marker>
| 3* <CHECKED_CONFIRM> # <key> <guard> / <value> <marker> | 3* <INSPECT> # <key> <guard> / <marker>
look = DEL | GET | PTTL
guard = <marker-key> <barrier>
marker-key = 4* m | n | a
barrier = 4* bar | n
marker = 1~r~30000000~3~2~0~c | 1~r~30000000~3~2~1~c | 1~s~30000000~3~2~1~c | 1~r~30000000~5~3~1~c
| 1~r~30000000~3~2~0~d | 1~r~90000000~3~2~1~c | 2~r~30000000~3~2~0~c | 1~r~30000000~3~2~7~c | 1~r~x~3~2~0~c
| 1~r~30000000~3~2~0~c~
join = <JOIN> # <guard> / <run> 20000000 <size> <name> <known> 21000000 <why>
| <JOIN> # <guard> / <run> 30000000 <size> <name> <known> 31000000 <why>
| <JOIN> # <guard> / <run> 90000000 <size> <name> <known> 95000000 <why>
run = 2* r | s
size = 3* 3 2 | 5 3
name = 3* c | d
known = 0 | 1 | -
why = 3* join | trust | anew

hello = HELLO | 5* HELLO <version> <greets>
version = 2 | 2* 3 | 4 | x | ''
greet = 3* AUTH <user> <guess> | 2* SETNAME <client-name>
no-greet = setname | auth | FO\0O
user = 2* default | nobody | ''
client-name = me | '' | you
client = CLIENT SETNAME <client-name> | client FO\nO | CLIENT | CLIENT CACHING YES | CLIENT CACHING FOO
| CLIENT TRACKING ON OPTIN NOLOOP | CLIENT TRACKING on optin noloop | CLIENT TRACKING OFF
number = 3* 0 | 1 | 15 | 16 | -1 | x | 00
unknown = 3* <no-name> <arguments> | <f*126..131> <arguments>
no-name = FOO | FO\r\nO | F\0O | '' | GETX
arguments = | <value> | <value> <value> | <value> <value> <value> <value>
";

/// The rules that depend on the server. All options of a Valkey's `HELLO` take effect, or none. A Valkey 8.1 does not
/// answer a refused `AUTH` that comes after other commands.
fn rules_of(flavour: Flavour, password: Option<&str>) -> String {
    let greets = match flavour {
        Flavour::Redis => "| <greet> | <greet> <greet> | <no-greet> | <greet> <no-greet>",
        _ => "",
    };
    let auth = match flavour {
        Flavour::Valkey81 => "PING",
        _ => "AUTH <user> <guess> | AUTH <guess>",
    };
    let (login, guess) = match password {
        Some(password) => (format!("AUTH default {password}"), password),
        None => (String::new(), "guess"),
    };
    format!("greets = {greets}\nauth = {auth}\nlogin = {login}\nguess = guess | {guess}")
}

/// The keys of barriers.
pub(super) const BARRIERS: [&str; 2] = ["bar", "n"];

/// Commands of which the node knows fewer ways than a server, so that it refuses some words before the server does.
const KEPT: [&str; 10] = [
    "auth", "client", "eval", "evalsha", "flushall", "hello", "pexpire", "ping", "script", "zrange",
];

const SHORT_BATCH: usize = 3;
const LONG_BATCH: usize = 40;

pub(super) struct Commands {
    pub(super) grammar: Grammar,
    start: &'static str,
}

impl Commands {
    pub(super) fn new(seed: u64, flavour: Flavour, password: Option<&str>) -> Self {
        let rules = rules_of(flavour, password);
        Self {
            grammar: Grammar::new(seed, &format!("{GRAMMAR}{rules}")),
            start: if password.is_some() { "brief" } else { "any" },
        }
    }

    /// Returns commands that are sent together.
    pub(super) fn batch(&mut self) -> Vec<Words> {
        let most = match self.grammar.one_in(4) {
            true => LONG_BATCH,
            false => SHORT_BATCH,
        };
        let len = 1 + self.grammar.below(most);
        (0..len).flat_map(|_| self.commands()).collect()
    }

    /// Returns the first commands of a new client. Most clients track keys.
    pub(super) fn greeting(&mut self) -> Vec<Words> {
        match self.grammar.one_in(4) {
            true => Vec::new(),
            false => vec![
                self.grammar.words("first"),
                words("CLIENT TRACKING ON OPTIN NOLOOP"),
            ],
        }
    }

    /// Returns a command, often with one before it that registers its keys; or a transaction.
    fn commands(&mut self) -> Vec<Words> {
        if self.grammar.one_in(12) {
            return self.transaction();
        }
        let mut commands = Vec::new();
        if self.grammar.one_in(4) {
            commands.push(words("CLIENT CACHING YES"));
        }
        while self.grammar.one_in(8) {
            commands.push(self.grammar.words("client"));
        }
        commands.push(self.command());
        commands
    }

    /// Returns a transaction that ends with `EXEC` or `DISCARD`. It contains no command that changes the protocol of
    /// the answer, and no `FLUSHALL`, whose push also goes to its own client.
    fn transaction(&mut self) -> Vec<Words> {
        let mut all = Vec::new();
        if self.grammar.one_in(2) {
            all.push(self.grammar.words("watch"));
        }
        if self.grammar.one_in(3) {
            all.push(self.command());
        }
        if self.grammar.one_in(4) {
            all.push(words("CLIENT CACHING YES"));
        }
        all.push(words("MULTI"));
        for _ in 0..self.grammar.below(5) {
            let command = self.command();
            let name = command[0].to_ascii_lowercase();
            let ends = [&b"exec"[..], b"discard", b"hello", b"flushall"];
            if !ends.contains(&&name[..]) {
                all.push(command);
            }
        }
        if self.grammar.one_in(8) {
            all.push(self.grammar.words("within"));
        }
        all.push(self.grammar.words("end"));
        all
    }

    fn command(&mut self) -> Words {
        let mut words = self.grammar.words(self.start);
        let mut kept = KEPT.iter();
        let is_kept = kept.any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()));
        if !is_kept && self.grammar.one_in(25) {
            self.spoil(&mut words);
        }
        if self.grammar.one_in(3) {
            words[0].make_ascii_lowercase();
        }
        words
    }

    /// Removes a word, or adds one.
    fn spoil(&mut self, words: &mut Words) {
        let at = self.grammar.below(words.len() + 1);
        if at < words.len() && words.len() > 1 {
            words.remove(at);
        } else {
            words.extend(self.grammar.words("value"));
        }
    }
}
