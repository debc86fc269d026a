//! The scripts of fencing tokens held against a real server, over keys of which some have odd values. After each
//! command (in the short run, after some) both sides must have the same in all keys.
//!
//! Not here: that a proposal is no more than a second ahead of the clock. The clocks of both sides differ.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shearline::internals::Flavour;

use super::flavour_of;
use super::peers::{Connection, Model, Remote};
use crate::effort::is_long;
use crate::servers::{Options, Server};

type Words = Vec<Vec<u8>>;

/// Commands of one run: in the short one, and in the long one.
const COMMANDS: [usize; 2] = [600, 10_000];

/// The scripts, written out, so that any change fails here; with their digests.
const SCRIPTS: [(&str, &str); 5] = [
    (
        concat!(
            "local call,t,g,n=redis.call,ARGV[1],ARGV[3],#KEYS if g~='' then n=n-2 end local ",
            "f=KEYS[n] n=(n-1)/2 local c=redis.acl_check_cmd if c and ARGV[7] then if not ",
            "c('time') then return {-2,0,0} end for i=7,#ARGV do for j=1,2*n+1 do local ",
            "a,y=ARGV[i] if a=='get' or a=='pttl' then y=c(a,KEYS[j]) else y=c(a,KEYS[j],KEYS[j]) ",
            "end if not y then return {4-i,0,0} end end end end local ",
            "r,o,x=string.match(call('get',f) or '','^([^:]+):(%d+):(%d+)$') local l=tonumber(o) ",
            "x=tonumber(x) if r~=ARGV[6] or l>9e15 or x>9e15 then r=nil end if not r then return ",
            "{-1,0,0} end local b=0 if g~='' then local m=redis.pcall('get',KEYS[#KEYS-1]) ",
            "b=call('pttl',KEYS[#KEYS]) if m~=g then b=-1 elseif b==-1 then b=1000 elseif b<0 then ",
            "b=0 else b=b+1 end end for i=1,n do local v=redis.pcall('get',KEYS[i]) if ",
            "type(v)=='table' and not string.find(v.err,'WRONGTYPE',1,true) then ",
            "v=call('get',KEYS[i]) end if v then return {i+1,b,0} end end local ",
            "p,w=tonumber(ARGV[4]),call('time') local s=w[1]*1000000+w[2]+1000000 if p<s then s=p ",
            "end for i=n+1,2*n do local k=tonumber(call('get',KEYS[i]) or x) if not (k and k>=0 ",
            "and k<=9e15) then k=x end if k<l then k=l end if k>=s then s=k+1 end end if s>9e15 ",
            "then return {-1,0,1} end local d=s==p and ARGV[4] or string.format('%.0f',s) if s>x ",
            "then call('set',f,r..':'..o..':'..d) end for i=n+1,2*n do ",
            "call('set',KEYS[i],d,'px',ARGV[5]) end for i=1,n do ",
            "call('set',KEYS[i],t,'px',ARGV[2]) end return {1,b,s}",
        ),
        "4270ee43d2d3531ee5396efb5305e328bcda5788",
    ),
    (
        concat!(
            "local call,t,g,n=redis.call,ARGV[1],ARGV[3],#KEYS if g~='' then n=n-2 end local ",
            "f=KEYS[n] n=(n-1)/2 local y=1 for i=1,n do local v=call('get',KEYS[i]) if not v then ",
            "if y==1 then y=0 end elseif v~=t then y=-1 end end local ",
            "r,o,x=string.match(call('get',f) or '','^([^:]+):(%d+):(%d+)$') local l=tonumber(o) ",
            "x=tonumber(x) if r~=ARGV[6] or l>9e15 or x>9e15 then r=nil end if y==1 and not r then ",
            "y=0 end if y==1 then local d,s=ARGV[4],tonumber(ARGV[4]) if s>x then ",
            "call('set',f,r..':'..o..':'..d) end for i=n+1,2*n do local ",
            "k=tonumber(call('get',KEYS[i]) or x) if not (k and k>=0 and k<=9e15) then k=x end if ",
            "k<l then k=l end if k<s then call('set',KEYS[i],d,'px',ARGV[5]) end end end if g=='' ",
            "then return y end local b=0 if g~='' then local m=redis.pcall('get',KEYS[#KEYS-1]) ",
            "b=call('pttl',KEYS[#KEYS]) if m~=g then b=-1 elseif b==-1 then b=1000 elseif b<0 then ",
            "b=0 else b=b+1 end end return {y,b}",
        ),
        "abc76174ca67a0b02bc44461e9ea6f9062f71b0e",
    ),
    (
        concat!(
            "local x=tonumber(string.match(redis.call('get',KEYS[1]) or '',':(%d+)$') or 0) if ",
            "x>9e15 then x=0 end local w=redis.call('time') local ",
            "s=math.max(x,tonumber(ARGV[2]),math.min(tonumber(ARGV[3]),w[1]*1000000+w[2]+1000000)) ",
            "redis.call('set',KEYS[1],string.format('%s:%.0f:%.0f',ARGV[1],s,s)) return 1",
        ),
        "41b00d3cd485a66d39e18a0cdabf292d516004a3",
    ),
    (
        concat!(
            "local v=redis.call('get',KEYS[1]) or '' local ",
            "r,m,n,x=string.match(v,'^(.+):(%??)(%d+):(%d+)$') x=tonumber(x or ",
            "string.match(v,':(%d+)$') or 0) if tonumber(n or 0)>9e15 then r=nil end if x>9e15 ",
            "then r,x=nil,0 end if r==ARGV[1] and m=='' then return {1,x} end if r~=ARGV[1] then ",
            "n=ARGV[2] redis.call('set',KEYS[1],string.format('%s:?%s:%.0f',ARGV[1],n,x)) end ",
            "return {0,tonumber(n)}",
        ),
        "9c87c1eb40af6ce1f518b8faefe13843ba4cc932",
    ),
    (
        concat!(
            "local r,n,x=string.match(redis.call('get',KEYS[1]) or '','^(.+):%?(%d+):(%d+)$') if ",
            "r~=ARGV[1] or n~=ARGV[2] then return 0 end local ",
            "s=math.max(tonumber(x),tonumber(ARGV[3])) ",
            "redis.call('set',KEYS[1],string.format('%s:%.0f:%.0f',r,s,s)) return 1",
        ),
        "2ce6090e11b40b410717a10be54dd502e35d4045",
    ),
];

const NAMES: [&str; 3] = ["a", "b", "c"];
const COUNTERS: [&str; 3] = ["count:a", "count:b", "count:c"];
const FLOOR: &str = "floor";
const GUARD: [&str; 2] = ["marker", "barrier"];

/// What is in a floor, a counter, or any other key, where a script has not written it.
const FLOORS: [&str; 36] = [
    "r:7:7",
    "r:7:20",
    "r:0:0",
    "r:30:20",
    "r:9000000000000000:9000000000000000",
    "r:5:9000000000000000",
    "r:5:8999999999999999",
    "r:9000000000000001:5",
    "r:5:9000000000000001",
    "r:99999999999999999999:5",
    "r:5:99999999999999999999",
    "r:05:007",
    "s:7:7",
    "r:?5:7",
    "r:?6:7",
    "s:?5:7",
    "r:?05:7",
    "r:?5:99999999999999999",
    "r:?99999999999999999:7",
    "r:??5:7",
    "r:?:7",
    "r:?-5:7",
    "r:-5:7",
    "r:5:-7",
    "r:5:7 ",
    "r:5:7:",
    "q:r:5:7",
    "r:?5:6:7",
    ":5:7",
    "::5:7",
    "r:7",
    ":7",
    "9000",
    "r",
    "",
    "r:5:1e3",
];

const NUMBERS: [&str; 51] = [
    "0",
    "1",
    "6",
    "7",
    "8",
    "19",
    "20",
    "500000",
    "999999",
    "1000000",
    "8999999999999998",
    "8999999999999999",
    "9000000000000000",
    "9000000000000001",
    "9007199254740993",
    "18446744073709551615",
    "99999999999999999999",
    "1e300",
    "1e400",
    "1e3",
    "1.5",
    "2.5",
    "7.9",
    "0.1",
    ".5",
    "5.",
    "-0",
    "-5",
    "+5",
    "007",
    " 9 ",
    "\t9\n",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "infinity",
    "abc",
    "",
    "9 9",
    "0x10",
    "0X1P3",
    "9\09",
    "\u{b}9\u{b}",
    "9_9",
    "nan(5)",
    "1e",
    "0x",
    "0b1",
    "1d5",
    "\u{a0}9",
];

/// Both sides, and what is sent to them.
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

    /// What another client does.
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
            1 => vec!["LPUSH", key, "x"],
            2 => vec!["SET", key, value, "PX", "90000000"],
            _ => vec!["SET", key, value],
        };
        line.into_iter().map(Vec::from).collect()
    }

    fn script(&mut self) -> Words {
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

    fn about_names(&mut self) -> (Vec<&'static str>, Vec<&'static str>) {
        let count = 1 + self.below(3);
        let mut keys = [&NAMES[..count], &COUNTERS[..count], &[FLOOR]].concat();
        let marker = self.pick(&["", "", "m"]);
        if !marker.is_empty() {
            keys.extend(GUARD);
        }
        let arguments = vec![
            self.pick(&["t", "t", "u"]),
            self.pick(&["40000000", "40000000", "40000000", "40000000", "0", "x"]),
            marker,
            self.pick(&NUMBERS[..10]),
            self.pick(&["80000000", "80000000", "80000000", "-1"]),
            self.pick(&["r", "r", "r", "s"]),
        ];
        (keys, arguments)
    }

    /// What all keys have, and whether they end.
    fn look(&mut self) -> [Vec<Vec<u8>>; 2] {
        let keys = [&NAMES[..], &COUNTERS, &[FLOOR], &GUARD].concat();
        let commands = keys.iter().flat_map(|key| [["GET", key], ["PTTL", key]]);
        let commands = commands.map(|words| words.map(Vec::from).to_vec());
        let [expected, read] = self.ask(&commands.collect::<Vec<_>>());
        [expected, read].map(|replies| replies.into_iter().map(ends).collect())
    }

    /// Compares what both say to a command and, if `looks`, what all keys have then.
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

/// That something ends, and not when.
fn ends(reply: Vec<u8>) -> Vec<u8> {
    match reply.as_slice() {
        [b':', b'1'..=b'9', ..] => b":+".to_vec(),
        _ => reply,
    }
}

/// Of an error its first word, or that it is one; of a barrier that it ends.
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
                left.is_some_and(|left: i64| (89_000_000..=90_000_001).contains(&left))
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

fn compare(seed: u64, server: &Server, flavour: Flavour) {
    let mut model = Model::store(flavour, None);
    let modelled = model.connect();
    let mut pair = Pair {
        random: StdRng::seed_from_u64(seed),
        real: Connection::Remote(Remote::connect(server.address())),
        modelled,
        model,
        flavour,
    };
    let mut before = Vec::new();
    for number in 0..COMMANDS[usize::from(is_long())] {
        let looks = is_long() || number % 5 == 0;
        pair.step(&format!("seed {seed}"), &mut before, looks);
    }
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
