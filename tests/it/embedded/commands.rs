//! Random commands from a seed: mostly sensible, often not.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Words = Vec<Vec<u8>>;

/// The scripts of the library, written out: a change of any must be seen here.
const RELEASE: &str = "local v=redis.call('get',KEYS[1]) \
    if v==ARGV[1] then return redis.call('del',KEYS[1]) end \
    if v then return -1 end return 0";
const RELEASE_SHA1: &str = "4453c08d4b7260dfec522c1d9be6140ee00157cb";
const EXTEND: &str = "local v=redis.call('get',KEYS[1]) \
    if v==ARGV[1] then local p=redis.call('pttl',KEYS[1]) \
    if p>=0 and p<tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end \
    return 1 end \
    if v then return -1 end return 0";
const CONFIRM: &str = "local v=redis.call('get',KEYS[1]) \
    if v==ARGV[1] then local p=redis.call('pttl',KEYS[1]) \
    if p<0 then p=9e15 end return p+1 end \
    if v then return -1 end return 0";
const CONFIRM_SHA1: &str = "eff39a10bfd4f5ef8734aa1fc598a9ee03919210";
const EXTEND_SHA1: &str = "20e6e4505b7e6e25b7c6801967c3885864dca680";

/// No number of milliseconds, or one that is too small or too large.
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

const SHORT_BATCH: usize = 3;
const LONG_BATCH: usize = 40;

pub(super) struct Commands {
    random: StdRng,
    password: Option<Vec<u8>>,
    /// How many times to live there were: none occurs twice.
    ttls: u64,
}

impl Commands {
    pub(super) fn new(seed: u64, password: Option<&str>) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            password: password.map(|text| text.as_bytes().to_vec()),
            ttls: 0,
        }
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    /// Commands to be sent together.
    pub(super) fn batch(&mut self) -> Vec<Words> {
        let most = if self.one_in(4) {
            LONG_BATCH
        } else {
            SHORT_BATCH
        };
        let len = 1 + self.below(most);
        (0..len).map(|_| self.command()).collect()
    }

    /// A `SET` with a ttl of a few milliseconds.
    pub(super) fn short_lived(&mut self) -> Words {
        let (key, millis) = (self.key(), 1 + self.below(3));
        let millis = millis.to_string().into_bytes();
        vec![b"SET".to_vec(), key, b"v".to_vec(), b"PX".to_vec(), millis]
    }

    fn command(&mut self) -> Words {
        let mut words = match self.below(40) {
            0..10 => self.set(),
            10..13 => self.keyed("GET"),
            13..16 => self.keyed("PTTL"),
            16..19 => self.pexpire(),
            19 => self.many("DEL"),
            20 => self.many("EXISTS"),
            21 => [self.keyed("LPUSH"), vec![self.value(), self.value()]].concat(),
            22..31 => self.script(),
            31 => self.script_command(),
            32 => self.hello(),
            33 => self.auth(),
            34 => self.client(),
            35 => self.select(),
            36 => self.flush(),
            37 => words(self.pick(&["DBSIZE", "PING", "PING a"])),
            38 => vec![b"DELIFEQ".to_vec(), self.key(), self.value()],
            _ => self.unknown(),
        };
        if self.one_in(25) {
            self.spoil(&mut words);
        }
        if self.one_in(3) {
            words[0].make_ascii_lowercase();
        }
        words
    }

    /// Takes a word away, or adds one.
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
        for _ in 0..self.below(4) {
            let option = self.pick(&["NX", "XX", "nx", "GET", "KEEPTTL", "PX", "EX", "px", "FOO"]);
            set.push(option.into());
            let has_value = matches!(option, "PX" | "EX" | "px");
            if has_value && !self.one_in(20) {
                let millis = self.millis();
                set.push(if option == "EX" {
                    seconds(millis)
                } else {
                    millis
                });
            }
        }
        set
    }

    fn pexpire(&mut self) -> Words {
        let mut pexpire = self.keyed("PEXPIRE");
        pexpire.push(self.millis());
        for _ in 0..self.below(3) {
            pexpire.push(
                self.pick(&["NX", "XX", "GT", "LT", "gt", "lt", "FO\0O"])
                    .into(),
            );
        }
        pexpire
    }

    fn script(&mut self) -> Words {
        let scripts = [
            ("EVAL", RELEASE),
            ("EVALSHA", RELEASE_SHA1),
            ("EVAL", EXTEND),
            ("EVALSHA", EXTEND_SHA1),
            ("EVAL", CONFIRM),
            ("EVALSHA", CONFIRM_SHA1),
            ("EVALSHA", "4453C08D4B7260DFEC522C1D9BE6140EE00157CB"),
            ("EVALSHA", "0000000000000000000000000000000000000000"),
        ];
        let (verb, script) = scripts[self.below(scripts.len())];
        let keys = match self.one_in(10) {
            true => self.pick(&["0", "2", "3", "5", "-1", "x", "01", "9223372036854775807"]),
            false => "1",
        };
        let mut words = vec![
            verb.into(),
            script.into(),
            keys.into(),
            self.key(),
            self.value(),
        ];
        if !self.one_in(10) {
            words.push(match self.one_in(5) {
                true => self.pick(&["inf", "nan", "1e30", " 7 ", "1.5", "x"]).into(),
                false => self.millis(),
            });
        }
        words
    }

    fn script_command(&mut self) -> Words {
        let subcommand = self.pick(&["LOAD", "load", "EXISTS", "FLUSH", "FLUSH async", "FOO"]);
        let mut words = words("SCRIPT");
        words.extend(subcommand.split(' ').map(Vec::from));
        match subcommand {
            "LOAD" | "load" => words.push(self.pick(&[RELEASE, EXTEND, CONFIRM]).into()),
            "EXISTS" => {
                words.extend([RELEASE_SHA1, "x", EXTEND_SHA1, CONFIRM_SHA1].map(Vec::from));
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
        for _ in 0..self.below(3) {
            match self.below(8) {
                0..3 => hello.extend([b"AUTH".to_vec(), self.user(), self.guess()]),
                3..5 => hello.extend([b"SETNAME".to_vec(), self.client_name()]),
                5 => hello.push(b"setname".to_vec()),
                6 => hello.push(b"auth".to_vec()),
                _ => hello.push(b"FO\0O".to_vec()),
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
        let mut client = words(self.pick(&["CLIENT SETNAME", "CLIENT GETNAME", "client FO\nO"]));
        if client[1] == b"SETNAME" {
            client.push(self.client_name());
        }
        client
    }

    fn select(&mut self) -> Words {
        let numbers = [
            "0",
            "0",
            "0",
            "1",
            "15",
            "16",
            "-1",
            "x",
            "3000000000",
            "00",
        ];
        vec![b"SELECT".to_vec(), self.pick(&numbers).into()]
    }

    /// Without `SYNC`, which is a command of its own when its first word is taken away.
    fn flush(&mut self) -> Words {
        words(self.pick(&[
            "FLUSHALL",
            "FLUSHDB",
            "FLUSHDB async",
            "FLUSHALL ASYNC",
            "FLUSHALL x",
        ]))
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

    /// One of few, so that commands meet.
    fn key(&mut self) -> Vec<u8> {
        self.pick(&["a", "b\r\n", "", "\0c"]).into()
    }

    /// Mostly one of few, so that tokens match.
    fn value(&mut self) -> Vec<u8> {
        match self.below(20) {
            0 => vec![b'v'; self.below(200)],
            // Longer ones are refused to clients without the password.
            1 => vec![0xff; self.below(16_000)],
            2 => self.pick(&["", "\r\n", "\0"]).into(),
            3..8 => b"other".to_vec(),
            _ => b"token".to_vec(),
        }
    }

    /// A number of milliseconds that lies 1000 s or more from every other, in turns longer and
    /// shorter than those before; or none at all.
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
        self.pick(&["me", "", "you", "a b", "\u{e4}", "x\n"]).into()
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

/// The same time to live in seconds, if it is one.
fn seconds(millis: Vec<u8>) -> Vec<u8> {
    match millis.strip_suffix(b"000") {
        Some(seconds) if millis.len() > 10 => seconds.to_vec(),
        _ => millis,
    }
}
