//! Random commands from a seed: mostly sensible, often not.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shearline::internals::Flavour;
use shearline::internals::scripts::*;

type Words = Vec<Vec<u8>>;

/// The scripts for several keys.
const SEVERAL: [Script; 4] = [
    TAKE_SEVERAL,
    EXTEND_SEVERAL,
    CONFIRM_SEVERAL,
    RELEASE_SEVERAL,
];

/// Markers, some of which replace others, and some of which cannot be read.
const MARKERS: [&str; 10] = [
    "1 r 30000000 3 2 0 c",
    "1 r 30000000 3 2 1 c",
    "1 s 30000000 3 2 1 c",
    "1 r 30000000 5 3 1 c",
    "1 r 30000000 3 2 0 d",
    "1 r 90000000 3 2 1 c",
    "2 r 30000000 3 2 0 c",
    "1 r 30000000 3 2 7 c",
    "1 r x 3 2 0 c",
    "1 r 30000000 3 2 0 c ",
];

/// The keys of barriers. The last is sometimes that of a marker.
pub(super) const BARRIERS: [&str; 5] = ["bar", "bar", "bar", "bar", "n"];

/// Texts that are not a number of milliseconds, or a number that is too small or too large.
const BAD_MILLIS: [&str; 12] = [
    "0",
    "-1",
    "-0",
    "abc",
    "",
    "+5000000",
    "05000000",
    " 5000000",
    "5000000.5",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
];

/// Commands of which the node knows fewer ways than a server, so that it refuses some words before the server does.
const KEPT: [&str; 10] = [
    "auth", "client", "eval", "evalsha", "flushall", "hello", "pexpire", "ping", "script", "zrange",
];

const SHORT_BATCH: usize = 3;
const LONG_BATCH: usize = 40;

pub(super) struct Commands {
    random: StdRng,
    flavour: Flavour,
    password: Option<Vec<u8>>,
    /// How many times to live have been used. None occurs twice.
    ttls: u64,
}

impl Commands {
    pub(super) fn new(seed: u64, flavour: Flavour, password: Option<&str>) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            flavour,
            password: password.map(|text| text.as_bytes().to_vec()),
            ttls: 0,
        }
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    /// Returns commands that are sent together.
    pub(super) fn batch(&mut self) -> Vec<Words> {
        let most = if self.one_in(4) {
            LONG_BATCH
        } else {
            SHORT_BATCH
        };
        let len = 1 + self.below(most);
        (0..len).flat_map(|_| self.commands()).collect()
    }

    /// Returns the first commands of a new client. Most clients track keys.
    pub(super) fn greeting(&mut self) -> Vec<Words> {
        if self.one_in(4) {
            return Vec::new();
        }
        let mut hello = words("HELLO 3");
        if let Some(password) = self.password.clone() {
            hello.extend([b"AUTH".to_vec(), b"default".to_vec(), password]);
        }
        vec![hello, words("CLIENT TRACKING ON OPTIN NOLOOP")]
    }

    /// Returns a command, often with one before it that registers its keys; or a transaction.
    fn commands(&mut self) -> Vec<Words> {
        let mut commands = Vec::new();
        if self.one_in(12) {
            return self.transaction();
        }
        if self.one_in(4) {
            commands.push(words("CLIENT CACHING YES"));
        }
        while self.one_in(8) {
            commands.push(self.client());
        }
        commands.push(self.command());
        commands
    }

    /// Returns a transaction that ends with `EXEC` or `DISCARD`. It contains no command that changes the protocol of
    /// the answer, and no `FLUSHALL`, whose push also goes to its own client.
    fn transaction(&mut self) -> Vec<Words> {
        let mut all = Vec::new();
        if self.one_in(2) {
            all.push(self.many("WATCH"));
        }
        if self.one_in(3) {
            all.push(self.command());
        }
        if self.one_in(4) {
            all.push(words("CLIENT CACHING YES"));
        }
        all.push(words("MULTI"));
        for _ in 0..self.below(5) {
            let command = self.command();
            let name = command[0].to_ascii_lowercase();
            let ends = [&b"exec"[..], b"discard", b"hello", b"flushall"];
            if !ends.contains(&&name[..]) {
                all.push(command);
            }
        }
        if self.one_in(8) {
            all.push(words(self.pick(&["MULTI", "WATCH a"])));
        }
        let end = self.pick(&["EXEC", "EXEC", "EXEC", "EXEC", "exec", "DISCARD", "EXEC x"]);
        all.push(words(end));
        all
    }

    /// Returns a `SET` with a ttl of a few milliseconds.
    pub(super) fn short_lived(&mut self) -> Words {
        let (key, millis) = (self.key(), 1 + self.below(3));
        let millis = millis.to_string().into_bytes();
        vec![b"SET".to_vec(), key, b"v".to_vec(), b"PX".to_vec(), millis]
    }

    fn command(&mut self) -> Words {
        // Clients without the password may not send so many words.
        let kind = self.below(if self.password.is_none() { 58 } else { 46 });
        let mut words = match kind {
            0..10 => self.set(),
            10..13 => self.keyed("GET"),
            13..16 => self.keyed("PTTL"),
            16..19 => self.pexpire(),
            19 => self.many("DEL"),
            20 => self.keyed("PTTL"),
            21 => [self.keyed("ZADD"), vec![b"1".to_vec(), self.value()]].concat(),
            // Clients without the password may not send so many words.
            25 if self.password.is_none() => self.each(),
            26 if self.password.is_none() => self.several(),
            22..27 => self.script(),
            27..31 => self.fenced(),
            31 => self.script_command(),
            32 => self.hello(),
            // A Valkey 8.1 does not answer a refused `AUTH` that comes after other commands.
            33 if self.flavour != Flavour::Valkey81 => self.auth(),
            34 => self.client(),
            35 => self.select(),
            36 => words("FLUSHALL"),
            37 => words(self.pick(&["PING", "PING a"])),
            38 => vec![b"DELIFEQ".to_vec(), self.key(), self.value()],
            40..42 => self.many("WATCH"),
            42 => words(self.pick(&["EXEC", "DISCARD"])),
            43 if self.password.is_none() => {
                [self.keyed("DELEX"), vec![b"IFEQ".to_vec(), self.value()]].concat()
            }
            44 if self.password.is_none() => self.msetex(),
            43..46 => self.set_if_equal(),
            46..55 => self.member(),
            55 => self.zadd(),
            56..58 => [self.keyed("ZRANGE"), words("0 -1")].concat(),
            _ => self.unknown(),
        };
        let is_kept = KEPT
            .iter()
            .any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()));
        if !is_kept && self.one_in(25) {
            self.spoil(&mut words);
        }
        if self.one_in(3) {
            words[0].make_ascii_lowercase();
        }
        words
    }

    /// Removes a word, or adds one.
    fn spoil(&mut self, words: &mut Words) {
        let at = self.below(words.len() + 1);
        if at < words.len() && words.len() > 1 {
            words.remove(at);
        } else {
            words.push(self.value());
        }
    }

    fn set(&mut self) -> Words {
        let mut set = self.keyed("SET");
        set.push(self.value());
        let mut options = vec!["NX", "XX", "nx", "KEEPTTL", "PX", "px", "FOO"];
        for _ in 0..self.below(4) {
            let option = self.pick(&options);
            // The node refuses an option that is repeated.
            options.retain(|other| !other.eq_ignore_ascii_case(option));
            set.push(option.into());
            if option.eq_ignore_ascii_case("px") && !self.one_in(20) {
                set.push(self.millis());
            }
        }
        set
    }

    /// Returns an end, mostly one that is over on any clock.
    fn past(&mut self) -> [Vec<u8>; 2] {
        [
            self.pick(&["PXAT", "pxat"]).into(),
            self.pick(&["1", "1", "1", "1000", "0", "-1", "x"]).into(),
        ]
    }

    /// Returns a release, an extension, or a similar command.
    fn set_if_equal(&mut self) -> Words {
        let mut set = self.keyed("SET");
        set.extend([self.value(), b"IFEQ".to_vec(), self.value()]);
        match self.below(4) {
            0 => set.extend(self.past()),
            1 | 2 => set.extend([b"PX".to_vec(), self.millis()]),
            _ => set.push(self.pick(&["KEEPTTL", "NX", "IFEQ"]).into()),
        }
        set
    }

    /// Returns a command about several keys, one of which may occur twice.
    fn msetex(&mut self) -> Words {
        let count = 1 + self.below(3);
        let told = match self.one_in(15) {
            true => self
                .pick(&["0", "-1", "x", "9", "9223372036854775807"])
                .into(),
            false => count.to_string().into_bytes(),
        };
        let mut set = vec![b"MSETEX".to_vec(), told];
        for _ in 0..count {
            set.extend([self.key(), self.value()]);
        }
        if !self.one_in(4) {
            set.push(self.pick(&["NX", "NX", "nx", "XX", "GET"]).into());
        }
        match self.below(4) {
            0 => {}
            1 => set.push(self.pick(&["KEEPTTL", "PX", "FOO"]).into()),
            _ => set.extend([b"PX".to_vec(), self.millis()]),
        }
        set
    }

    fn pexpire(&mut self) -> Words {
        let mut pexpire = self.keyed("PEXPIRE");
        pexpire.push(self.millis());
        if self.one_in(2) {
            pexpire.push(self.pick(&["LT", "lt", "FO\0O"]).into());
        }
        pexpire
    }

    fn script(&mut self) -> Words {
        let scripts = [
            ("EVAL", RELEASE.0),
            ("EVALSHA", RELEASE.1),
            ("EVAL", EXTEND.0),
            ("EVALSHA", EXTEND.1),
            ("EVAL", CONFIRM.0),
            ("EVALSHA", CONFIRM.1),
            ("EVAL", INSPECT.0),
            ("EVALSHA", INSPECT.1),
            ("EVALSHA", "4453C08D4B7260DFEC522C1D9BE6140EE00157CB"),
            ("EVALSHA", "0000000000000000000000000000000000000000"),
        ];
        let (verb, script) = scripts[self.below(scripts.len())];
        let keys = match self.one_in(10) {
            true => self.pick(&["9", "-1", "x", "01", "9223372036854775807"]),
            false => "1",
        };
        let mut words = vec![
            verb.into(),
            script.into(),
            keys.into(),
            self.key(),
            self.value(),
        ];
        words.push(match self.one_in(5) {
            true => self.pick(&["inf", "nan", "1e30", " 7 ", "1.5", "x"]).into(),
            false => self.millis(),
        });
        words
    }

    /// Returns a script for several keys, mostly with as many keys and arguments as the library gives it.
    fn several(&mut self) -> Words {
        let which = self.below(SEVERAL.len());
        let (text, digest) = SEVERAL[which];
        let checked = which != 3 && self.one_in(3);
        let names = 2 + self.below(3);
        let count = names + 2 * usize::from(checked);
        let mut several = self.by_either(text, digest, &count.to_string());
        several.extend((0..names).map(|_| self.key()));
        if checked {
            let barrier = self.barrier_key();
            several.extend([self.marker_key(), barrier]);
        }
        several.push(self.value());
        if which != 3 {
            several.push(match which == 2 || self.one_in(20) {
                true => Vec::new(),
                false => self.millis(),
            });
            several.push(match checked {
                true => self.pick(&MARKERS).into(),
                false => Vec::new(),
            });
        }
        if which == 0 && self.one_in(2) {
            several.extend(["get", "del", "set"].map(Vec::from));
        }
        several
    }

    /// Returns a script of a shared lock or a permit, with as many keys and arguments as the library gives it.
    fn member(&mut self) -> Words {
        let scripts = [
            TAKE_SHARED,
            TAKE_SLOT,
            EXTEND_MEMBER,
            CONFIRM_MEMBER,
            MOVE_SLOT,
            RELEASE_MEMBER,
        ];
        let which = match self.below(10) {
            9.. => 0,
            which => which % scripts.len(),
        };
        let (text, digest) = scripts[which];
        let checked = which != 5 && self.one_in(4);
        let keys = 1 + usize::from(which == 0) + 2 * usize::from(checked);
        let mut member = self.by_either(text, digest, &keys.to_string());
        member.push(self.set_key());
        if which == 0 {
            member.push(self.pick(&["i", "i", "i", "a"]).into());
        }
        if checked {
            member.extend([self.marker_key(), self.barrier_key()]);
        }
        member.push(self.token());
        let prefix = self.pick(&["r/", "2/0/", "2/1/", "3/0/", "3/2/", "1/0/"]);
        if which == 5 {
            member.push(prefix.into());
            member.extend(self.one_in(3).then(|| b"1".to_vec()));
            return member;
        }
        let is_bare = which == 3 || which == 4 || which < 2 && self.one_in(20);
        member.push(match is_bare {
            true => Vec::new(),
            false => self.whole_millis(),
        });
        member.push(match checked {
            true => self.pick(&MARKERS).into(),
            false => Vec::new(),
        });
        let behind = match which {
            0 => self.pick(&["", "", "", "1"]),
            1 => self.pick(&[
                "2 0 2",
                "2 1 2",
                "2 0 1",
                "3 2 3",
                "3 1 1",
                "1024 1023 1024",
            ]),
            _ => prefix,
        };
        member.extend(behind.split(' ').map(Vec::from));
        if which < 2 && self.one_in(2) {
            let commands = "time zrange zrem zadd pexpireat get zscore";
            member.extend(words(commands));
        }
        member
    }

    /// Adds members, some of which have another form than the library's, and most of which are over. No live member has
    /// a deadline in the library's form, because the clocks of the two sides differ.
    fn zadd(&mut self) -> Words {
        let mut zadd = vec![b"ZADD".to_vec(), self.set_key()];
        for _ in 0..1 + self.below(3) {
            let score = self.pick(&["1", "2", "1", "2.5", "-inf", "inf", "9100000000000000"]);
            let (member, token) = (
                self.pick(&[
                    "r/", "2/1/", "2/0/", "2/2/", "3/01/", "01/0/", "1025/7/", "x", "r",
                ]),
                self.token(),
            );
            zadd.extend([score.into(), [member.as_bytes(), &token].concat()]);
        }
        zadd
    }

    /// Returns a key, mostly one for which there are no other commands, so that sets stay.
    fn set_key(&mut self) -> Vec<u8> {
        match self.one_in(6) {
            true => self.key(),
            false => self.pick(&["s", "t"]).into(),
        }
    }

    fn token(&mut self) -> Vec<u8> {
        self.pick(&["one", "two", "two", "three", "/x", "\r\n", "2/0/one"])
            .into()
    }

    /// Returns a number of milliseconds, as the library writes it.
    fn whole_millis(&mut self) -> Vec<u8> {
        loop {
            let millis = self.millis();
            let is_one = millis.iter().all(u8::is_ascii_digit) && 10 < millis.len();
            if is_one && millis.len() < 16 {
                return millis;
            }
        }
    }

    /// Returns the script for many extensions or releases at once.
    fn each(&mut self) -> Words {
        let extends = self.one_in(2);
        let (text, digest) = [RELEASE_EACH, EXTEND_EACH][usize::from(extends)];
        let keys = self.below(5);
        let mut each = self.by_either(text, digest, &keys.to_string());
        each.extend((0..keys).map(|_| self.key()));
        for _ in 0..keys {
            each.push(self.value());
            if extends {
                each.push(self.whole_millis());
            }
        }
        each
    }

    /// Returns a script of the strict guard, with as many keys and arguments as the library gives it.
    fn fenced(&mut self) -> Words {
        match self.below(8) {
            0 => vec![
                b"SET".to_vec(),
                self.marker_key(),
                self.pick(&MARKERS).into(),
            ],
            1 => self.marker_or_barrier(),
            // Clients without the password may not send so many words.
            2..5 if self.password.is_none() => self.join(),
            _ => {
                let scripts = [CHECKED_ACQUIRE, CHECKED_EXTEND, CHECKED_CONFIRM, INSPECT];
                let (text, digest) = scripts[self.below(4)];
                let mut fenced = self.by_either(text, digest, "3");
                let barrier = self.barrier_key();
                fenced.extend([self.key(), self.marker_key(), barrier]);
                if text != INSPECT.0 {
                    fenced.push(self.value());
                }
                if ![INSPECT.0, CHECKED_CONFIRM.0].contains(&text) {
                    fenced.push(self.millis());
                }
                fenced.push(self.pick(&MARKERS).into());
                fenced
            }
        }
    }

    fn join(&mut self) -> Words {
        let mut join = self.by_either(JOIN.0, JOIN.1, "2");
        join.extend([self.marker_key(), self.barrier_key()]);
        // The ends of barriers are far from each other: half an hour, eight hours, or a day.
        let (ttl, span) = [
            ("20000000", "21000000"),
            ("30000000", "31000000"),
            ("90000000", "95000000"),
        ][self.below(3)];
        join.extend([self.pick(&["r", "r", "s"]), ttl].map(Vec::from));
        join.extend(
            self.pick(&["3 2", "3 2", "3 2", "5 3"])
                .split(' ')
                .map(Vec::from),
        );
        join.push(self.pick(&["c", "c", "c", "d"]).into());
        join.push(self.pick(&["0", "1", "-"]).into());
        join.push(span.into());
        join.push(self.pick(&["join", "join", "join", "trust", "anew"]).into());
        join
    }

    fn marker_or_barrier(&mut self) -> Words {
        let key = match self.one_in(2) {
            true => self.marker_key(),
            false => self.barrier_key(),
        };
        vec![self.pick(&["DEL", "GET", "PTTL"]).into(), key]
    }

    fn by_either(&mut self, text: &str, digest: &str, keys: &str) -> Words {
        let (verb, script) = match self.one_in(2) {
            true => ("EVAL", text),
            false => ("EVALSHA", digest),
        };
        [verb, script, keys].map(Vec::from).into()
    }

    /// Returns the key of a marker, sometimes a key of another type.
    fn marker_key(&mut self) -> Vec<u8> {
        self.pick(&["m", "m", "m", "m", "n", "a"]).into()
    }

    fn barrier_key(&mut self) -> Vec<u8> {
        self.pick(&BARRIERS).into()
    }

    fn script_command(&mut self) -> Words {
        let subcommand = self.pick(&["LOAD", "load", "FLUSH", "FOO"]);
        let mut words = words("SCRIPT");
        words.extend(subcommand.split(' ').map(Vec::from));
        match subcommand {
            "LOAD" | "load" => {
                let strict = [
                    CHECKED_ACQUIRE.0,
                    CHECKED_EXTEND.0,
                    CHECKED_CONFIRM.0,
                    JOIN.0,
                ];
                let several = SEVERAL[self.below(4)].0;
                let members = [
                    TAKE_SHARED.0,
                    TAKE_SLOT.0,
                    MOVE_SLOT.0,
                    EXTEND_MEMBER.0,
                    CONFIRM_MEMBER.0,
                    RELEASE_MEMBER.0,
                ];
                let texts = [
                    RELEASE.0,
                    EXTEND.0,
                    EXTEND_EACH.0,
                    RELEASE_EACH.0,
                    CONFIRM.0,
                    INSPECT.0,
                    strict[self.below(4)],
                    several,
                    members[self.below(6)],
                ];
                words.push(self.pick(&texts).into());
            }
            _ => (),
        }
        words
    }

    fn hello(&mut self) -> Words {
        let mut hello = words("HELLO");
        if self.one_in(6) {
            return hello;
        }
        hello.push(self.pick(&["2", "3", "3", "4", "x", ""]).into());
        if self.flavour != Flavour::Redis {
            return hello; // All its options take effect, or none.
        }
        for _ in 0..self.below(3) {
            match self.below(8) {
                0..3 => hello.extend([b"AUTH".to_vec(), self.user(), self.guess()]),
                3..5 => hello.extend([b"SETNAME".to_vec(), self.client_name()]),
                _ => {
                    hello.push(self.pick(&["setname", "auth", "FO\0O"]).into());
                    break;
                }
            }
        }
        hello
    }

    fn auth(&mut self) -> Words {
        let mut auth = words("AUTH");
        if self.one_in(2) {
            auth.push(self.user());
        }
        auth.push(self.guess());
        auth
    }

    fn client(&mut self) -> Words {
        let mut client = words(self.pick(&[
            "CLIENT SETNAME",
            "client FO\nO",
            "CLIENT",
            "CLIENT CACHING YES",
            "CLIENT CACHING FOO",
            "CLIENT TRACKING ON OPTIN NOLOOP",
            "CLIENT TRACKING on optin noloop",
            "CLIENT TRACKING OFF",
        ]));
        if client.last().is_some_and(|word| word == b"SETNAME") {
            client.push(self.client_name());
        }
        client
    }

    fn select(&mut self) -> Words {
        let numbers = ["0", "0", "0", "1", "15", "16", "-1", "x", "00"];
        vec![b"SELECT".to_vec(), self.pick(&numbers).into()]
    }

    fn unknown(&mut self) -> Words {
        let name = self.pick(&["FOO", "FO\r\nO", "F\0O", "", "GETX"]);
        let mut unknown = vec![name.into()];
        if self.one_in(4) {
            unknown[0] = vec![b'f'; 126 + self.below(5)];
        }
        for _ in 0..self.below(5) {
            unknown.push(self.value());
        }
        unknown
    }

    fn keyed(&mut self, name: &str) -> Words {
        vec![name.into(), self.key()]
    }

    fn many(&mut self, name: &str) -> Words {
        let mut words = self.keyed(name);
        for _ in 0..self.below(3) {
            words.push(self.key());
        }
        words
    }

    /// Returns one of few keys, so that commands use the same ones.
    fn key(&mut self) -> Vec<u8> {
        self.pick(&["a", "b\r\n", "", "\0c"]).into()
    }

    /// Returns a value, mostly one of few, so that tokens match.
    fn value(&mut self) -> Vec<u8> {
        match self.below(20) {
            0 => vec![b'v'; self.below(200)],
            // Clients without the password may not send longer ones.
            1 => vec![0xff; self.below(16_000)],
            2 => self.pick(&["", "\r\n", "\0"]).into(),
            3..8 => b"other".to_vec(),
            _ => b"token".to_vec(),
        }
    }

    /// Returns a number of milliseconds that is at least 1000 s from every other, and by turns longer and shorter than
    /// the earlier ones; or a text that is no number.
    fn millis(&mut self) -> Vec<u8> {
        if self.one_in(8) {
            return self.pick(&BAD_MILLIS).into();
        }
        const STEP: u64 = 1_000_000;
        self.ttls += 1;
        let middle = 100_000;
        let steps = match self.ttls % 2 {
            0 => middle + self.ttls,
            _ => middle - self.ttls,
        };
        (steps * STEP).to_string().into_bytes()
    }

    fn user(&mut self) -> Vec<u8> {
        self.pick(&["default", "default", "nobody", ""]).into()
    }

    fn guess(&mut self) -> Vec<u8> {
        match self.password.clone() {
            Some(password) if self.one_in(2) => password,
            _ => b"guess".to_vec(),
        }
    }

    fn client_name(&mut self) -> Vec<u8> {
        self.pick(&["me", "", "you"]).into()
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }
}

fn words(line: &str) -> Words {
    line.split(' ').map(Vec::from).collect()
}
