//! Compares the scripts of fencing tokens with a real server, over keys some of which have odd values. After each
//! command (in the short run, after some) both sides must have the same values in all keys.
//!
//! Not here: the rule that a proposal is no more than a second ahead of the clock, because the clocks of both sides
//! differ.

use std::sync::LazyLock;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shearline::internals::Flavour;
use shearline::internals::scripts::*;

use super::flavour_of;
use super::peers::{Connection, Model, Remote};
use crate::effort::is_long;
use crate::servers::{Options, Server};

type Words = Vec<Vec<u8>>;

/// The number of commands of the short run, and of the long one.
const COMMANDS: [usize; 2] = [600, 10_000];

const SCRIPTS: [Script; 5] = [
    TAKE_FENCED,
    RAISE_FENCED,
    SET_FLOOR,
    LOOK_AT_FLOOR,
    REPAIR_FLOOR,
];

const NAMES: [&str; 3] = ["a", "b", "c"];
const COUNTERS: [&str; 3] = ["count:a", "count:b", "count:c"];
const FLOOR: &str = "floor";
const GUARD: [&str; 2] = ["marker", "barrier"];

/// Values of a floor, a counter, or any other key that no script has written.
static FLOORS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let all = concat!(
        "r:7:7|r:7:20|r:0:0|r:30:20|r:9000000000000000:9000000000000000|r:5:9000000000000000|",
        "r:5:8999999999999999|r:9000000000000001:5|r:5:9000000000000001|r:99999999999999999999:5|",
        "r:5:99999999999999999999|r:5:007|s:7:7|r:?5:7|r:?6:7|s:?5:7|r:?05:7|r:?5:99999999999999999|",
        "r:?99999999999999999:7|r:??5:7|r:?:7|r:?-5:7|r:-5:7|r:5:-7|r:5:7 |r:5:7:|q:r:5:7|r:?5:6:7|:5:7|",
        "::5:7|r:7|:7|9000|r||r:5:1e3",
    );
    all.split('|').collect()
});

static NUMBERS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let all = concat!(
        "0|1|6|7|8|19|20|500000|999999|1000000|8999999999999998|8999999999999999|9000000000000000|",
        "9000000000000001|9007199254740993|18446744073709551615|99999999999999999999|1e300|1e400|1e3|",
        "1.5|2.5|7.9|0.1|.5|5.|-0|-5|+5|007| 9 |\t9\n|nan|-nan|inf|-inf|infinity|abc||9 9|",
        "9\09|\u{b}9\u{b}|9_9|nan(5)|1e|0x|0b1|1d5|\u{a0}9",
    );
    all.split('|').collect()
});

/// Both sides, and the state of the commands for them.
struct Pair {
    random: StdRng,
    real: Connection,
    modelled: Connection,
    model: Model,
    flavour: Flavour,
}

impl Pair {
    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    fn pick(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.below(texts.len())]
    }

    fn ask(&mut self, batch: &[Words]) -> [Vec<Vec<u8>>; 2] {
        let Self {
            real,
            modelled,
            model,
            ..
        } = self;
        [real, modelled].map(|side| side.exchange(model, batch).replies)
    }

    fn number(&mut self) -> &'static str {
        match self.below(3) {
            0 => self.pick(&NUMBERS),
            _ => self.pick(&NUMBERS[..13]),
        }
    }

    fn floor(&mut self) -> &'static str {
        match self.below(2) {
            0 => self.pick(&FLOORS),
            _ => self.pick(&FLOORS[..6]),
        }
    }

    /// Returns a command of another client.
    fn write(&mut self) -> Words {
        let at = self.below(3);
        let (key, value) = match self.below(12) {
            0..3 => (FLOOR, self.floor()),
            3..6 => (COUNTERS[at], self.number()),
            6 => (NAMES[at], self.pick(&["t", "u", ""])),
            7..11 => return ["DEL", "a", "b", "c"].map(Vec::from).to_vec(),
            _ => (self.pick(&GUARD), self.pick(&["m", "n"])),
        };
        let line = match self.below(8) {
            0 => vec!["DEL", key],
            1 => vec!["ZADD", key, "1", "x"],
            2 => vec!["SET", key, value, "PX", "90000000"],
            _ => vec!["SET", key, value],
        };
        line.into_iter().map(Vec::from).collect()
    }

    fn script(&mut self) -> Words {
        if self.below(3) == 0 {
            return self.about_member();
        }
        let number = self.below(7) / 2;
        let (text, digest) = SCRIPTS[number.max(self.below(5))];
        let verb = match self.below(2) {
            0 => ["EVAL", text],
            _ => ["EVALSHA", digest],
        };
        let (keys, arguments) = match SCRIPTS.iter().position(|(other, _)| *other == text) {
            Some(0 | 1) => self.about_names(),
            Some(2) => (
                vec![FLOOR],
                vec![
                    self.pick(&["r", "r", "s"]),
                    self.pick(&NUMBERS[..13]),
                    self.pick(&NUMBERS[..10]),
                ],
            ),
            Some(3) => (
                vec![FLOOR],
                vec![self.pick(&["r", "s"]), self.pick(&["5", "6"])],
            ),
            _ => (
                vec![FLOOR],
                vec![
                    self.pick(&["r", "r", "s"]),
                    self.pick(&["5", "6"]),
                    self.pick(&NUMBERS[..13]),
                ],
            ),
        };
        let count = keys.len().to_string();
        let words = verb.map(Vec::from).into_iter().chain([count.into_bytes()]);
        words
            .chain(keys.into_iter().chain(arguments).map(Vec::from))
            .collect()
    }

    /// Returns a script of a shared lock or a permit with a fencing token.
    fn about_member(&mut self) -> Words {
        let (which, at) = (self.below(3), self.below(3));
        let (text, digest) = [TAKE_SHARED_FENCED, TAKE_SLOT_FENCED, RAISE_MEMBER][which];
        let verb = match self.below(2) {
            0 => ["EVAL", text],
            _ => ["EVALSHA", digest],
        };
        let mut keys = vec![NAMES[at], COUNTERS[at], FLOOR];
        if which == 0 {
            keys.push(self.pick(&["intent", "intent", "a"]));
        }
        let marker = self.pick(&["", "", "m"]);
        if !marker.is_empty() {
            keys.extend(GUARD);
        }
        let mut arguments = vec![
            self.pick(&["t", "t", "u"]),
            self.pick(&["40000000", "50000000", "60000000"]),
            marker,
            self.pick(&NUMBERS[..10]),
            self.pick(&["80000000", "80000000", "80000000", "-1"]),
            self.pick(&["r", "r", "r", "s"]),
        ];
        match which {
            0 => arguments.push(self.pick(&["", "1"])),
            1 => arguments.extend(self.pick(&["2 0 2", "2 1 1", "3 2 3"]).split(' ')),
            _ => arguments.push(self.pick(&["r/", "r/", "2/0/", "2/1/"])),
        }
        if which != 2 && self.below(2) == 0 {
            arguments.extend("time zrange zrem zadd pexpireat get zscore set".split(' '));
        }
        let count = keys.len().to_string();
        let words = verb.map(Vec::from).into_iter().chain([count.into_bytes()]);
        words
            .chain(keys.into_iter().chain(arguments).map(Vec::from))
            .collect()
    }

    fn about_names(&mut self) -> (Vec<&'static str>, Vec<&'static str>) {
        let count = 1 + self.below(3);
        let mut keys = [&NAMES[..count], &COUNTERS[..count], &[FLOOR]].concat();
        let marker = self.pick(&["", "", "m"]);
        if !marker.is_empty() {
            keys.extend(GUARD);
        }
        let arguments = vec![
            self.pick(&[
                "t",
                "t",
                "u",
                "rrrrrrrr\0term1234567u",
                "rrrrrrrr\0Term1234567",
            ]),
            self.pick(&["40000000", "40000000", "40000000", "40000000", "0", "x"]),
            marker,
            self.pick(&NUMBERS[..10]),
            self.pick(&["80000000", "80000000", "80000000", "-1"]),
            self.pick(&["r", "r", "r", "s"]),
        ];
        (keys, arguments)
    }

    /// Returns the values of all keys, and whether the keys end.
    fn look(&mut self) -> [Vec<Vec<u8>>; 2] {
        let keys = [&NAMES[..], &COUNTERS, &[FLOOR], &GUARD].concat();
        let commands = keys.iter().flat_map(|key| [["GET", key], ["PTTL", key]]);
        let commands = commands.map(|words| words.map(Vec::from).to_vec());
        let ranges = NAMES.map(|key| ["ZRANGE", key, "0", "-1"].map(Vec::from).to_vec());
        let commands = commands.chain(ranges);
        let [expected, read] = self.ask(&commands.collect::<Vec<_>>());
        // If two members end in the same millisecond on one side, the other side may have another order.
        let sorted = |reply: Vec<u8>| match reply.starts_with(b"*") {
            true => {
                let mut lines: Vec<_> = reply.split(|byte| *byte == b'\n').collect();
                lines.sort();
                lines.concat()
            }
            false => reply,
        };
        [expected, read].map(|replies| replies.into_iter().map(ends).map(sorted).collect())
    }

    /// Compares both answers to a command and, if it `looks`, all keys afterwards.
    fn step(&mut self, place: &str, before: &mut Vec<String>, looks: bool) {
        let words = match self.below(3) {
            0 => self.write(),
            _ => self.script(),
        };
        before.push(shown(&words));
        let [expected, read] = self.ask(&[words]);
        let told = |replies: &[Vec<u8>]| said(self.flavour, &replies[0]);
        let (expected, read) = (told(&expected), told(&read));
        let last = before[before.len().saturating_sub(12)..].join("\n    ");
        assert_eq!(expected, read, "{place}: after\n    {last}");
        if !looks {
            return;
        }
        let [expected, read] = self.look().map(|replies| {
            let texts = replies.iter().map(|reply| reply.escape_ascii().to_string());
            texts.collect::<Vec<_>>()
        });
        assert_eq!(expected, read, "{place}: keys after\n    {last}");
    }
}

/// Returns whether a key ends, but not when.
fn ends(reply: Vec<u8>) -> Vec<u8> {
    match reply.as_slice() {
        [b':', b'1'..=b'9', ..] => b":+".to_vec(),
        _ => reply,
    }
}

/// Reduces an answer: an error to its first word, or to the fact that it is one; a barrier or a member to the fact that
/// it ends.
fn said(flavour: Flavour, reply: &[u8]) -> String {
    let text = reply.escape_ascii().to_string();
    match reply {
        [b'-', ..] if flavour == Flavour::Redis => {
            text.split(' ').next().unwrap_or_default().into()
        }
        [b'-', ..] => "-".into(),
        _ => {
            let ends = |word: &str| {
                let left = word.strip_prefix(':').and_then(|left| left.parse().ok());
                left.is_some_and(|left: i64| (39_000_000..=90_000_001).contains(&left))
            };
            let words = text.split("\\r\\n");
            let words = words.map(|word| if ends(word) { ":+" } else { word });
            words.collect::<Vec<_>>().join(" ")
        }
    }
}

fn shown(words: &Words) -> String {
    let words = words.iter().map(|word| {
        let text = word.escape_ascii().to_string();
        match SCRIPTS
            .iter()
            .position(|(script, digest)| text == *digest || word == script.as_bytes())
        {
            Some(number) => ["TAKE", "RAISE", "SET_FLOOR", "LOOK", "REPAIR"][number].into(),
            None => text,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn pair(seed: u64, server: &Server, flavour: Flavour) -> Pair {
    let mut model = Model::store(flavour, None);
    let modelled = model.connect();
    Pair {
        random: StdRng::seed_from_u64(seed),
        real: Connection::Remote(Remote::connect(server.address())),
        modelled,
        model,
        flavour,
    }
}

fn compare(seed: u64, server: &Server, flavour: Flavour) {
    let mut pair = pair(seed, server, flavour);
    compare_counters(&mut pair);
    compare_a_fraction(&mut pair);
    let mut before = Vec::new();
    for number in 0..COMMANDS[usize::from(is_long())] {
        let looks = is_long() || number % 5 == 0;
        pair.step(&format!("seed {seed}"), &mut before, looks);
    }
}

/// Compares how many keys both sides count as counters of names.
fn compare_counters(pair: &mut Pair) {
    let (text, digest) = COUNT_COUNTERS;
    let names = ["", "a", "b:*", "\u{fffd}"].map(|name| format!("shearline:fence:{name}"));
    let others = [
        "shearline:fence",
        "shearline:fences:a",
        "shearline:floor",
        "a",
    ];
    let keys = names.iter().map(String::as_str).chain(others);
    let set = keys.map(|key| ["SET", key, "7"].map(Vec::from).to_vec());
    let [expected, read] = pair.ask(&set.collect::<Vec<_>>());
    assert_eq!(expected, read);
    let wrong = ["EVAL", text, "0", "x"].map(Vec::from).to_vec();
    let count = [["EVAL", text, "0", "0"], ["EVALSHA", digest, "0", "0"]];
    let [expected, read] = pair.ask(&count.map(|words| words.map(Vec::from).to_vec()));
    assert_eq!(expected, [b"*3\r\n:4\r\n:0\r\n$1\r\n0\r\n"; 2]);
    assert_eq!(expected, read);
    let refused = pair
        .ask(&[wrong])
        .map(|replies| said(Flavour::Redis, &replies[0]));
    assert_eq!(refused, ["-ERR"; 2]);
    let del = [["DEL", names[0].as_str()], ["DEL", "a"]];
    let [expected, read] = pair.ask(&del.map(|words| words.map(Vec::from).to_vec()));
    assert_eq!(expected, read);
}

/// Compares a counter that is not a whole number: it is below the next one.
fn compare_a_fraction(pair: &mut Pair) {
    let (key, counter) = (NAMES[0], COUNTERS[0]);
    let take = format!(
        "EVALSHA {} 3 {key} {counter} {FLOOR} t 40000000  8 80000000 r",
        SCRIPTS[0].1
    );
    let lines = [
        "SCRIPT LOAD".into(),
        format!("SET {FLOOR} r:5:5"),
        format!("SET {counter} 7.9"),
        take,
        format!("DEL {key} {counter} {FLOOR}"),
    ];
    let words = |line: &String| line.split(' ').map(Vec::from).collect::<Words>();
    let mut commands: Vec<Words> = lines.iter().map(words).collect();
    commands[0].push(SCRIPTS[0].0.into());
    let [expected, read] = pair.ask(&commands);
    assert_eq!(expected[3], b"$1\r\n8\r\n");
    assert_eq!(expected, read);
}

#[test]
fn the_store_counts_tokens_as_a_server_does() {
    compare(1, &Server::start(), Flavour::Redis);
}

#[test]
fn the_store_counts_tokens_as_a_valkey_does() {
    let server = Server::with(&Options::valkey());
    let flavour = flavour_of(&server);
    compare(2, &server, flavour);
}
