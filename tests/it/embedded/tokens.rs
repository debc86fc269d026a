//! Compares the scripts of fencing tokens with a real server, over keys some of which have odd values. After each
//! command (in the short run, after some) both sides must have the same values in all keys.
//!
//! Not here: the rule that a proposal is no more than a second ahead of the clock, because the clocks of both sides
//! differ.

use shearline::internals::scripts::{COUNT_COUNTERS, LIST_NAMES, TAKE_FENCED};

use super::grammar::{Grammar, Words, words};
use super::peers::Model;
use super::{Pair, assert_same, flavour_of};
use crate::effort::is_long;
use crate::servers::{Options, Server};

/// How many times all keys are compared, and how many commands come before each time: in the short run, and in the long
/// one.
const LOOKS: [(usize, usize); 2] = [(120, 5), (10_000, 1)];

/// Other clients write a floor, a counter, or any other key that no script has written.
const GRAMMAR: &str = r"
any = <write> | 2* <script>
write = 4* DEL a b c | 5* SET <entry> | SET <entry> PX 90000000 | ZADD <written> 1 x | DEL <written>
entry = 3* floor <floor> | count:a <number> | count:b <number> | count:c <number> | <name> <held> | <guard> <mark>
written = 3* floor | <counter> | <counter> | <counter> | <name> | <guard>
name = a | b | c
counter = count:a | count:b | count:c
held = t | u | ''
guard = marker | barrier
mark = m | n

script = 2* <member> | 2* <names-of-lock> | <SET_FLOOR> # floor / <run> <some> <few>
| <LOOK_AT_FLOOR> # floor / <rank> <known> | <REPAIR_FLOOR> # floor / <run> <known> <some>
names-of-lock = 2* <fences> # <names> floor / <holder> <ttl> '' <few> <ahead> <run>
| <fences> # <names> floor marker barrier / <holder> <ttl> m <few> <ahead> <run>
fences = <TAKE_FENCED> | <RAISE_FENCED>
names = a count:a | a b count:a count:b | a b c count:a count:b count:c
holder = 2* t | u | rrrrrrrr\0term1234567u | rrrrrrrr\0Term1234567
ttl = 4* 40000000 | 0 | x
ahead = 3* 80000000 | -1
run = 3* r | s
rank = r | s
known = 5 | 6

member = 2* <TAKE_SHARED_FENCED> # <named> floor <intent> / <fenced> '' <few> <ahead> <run> <passes> <does>
| <TAKE_SHARED_FENCED> # <named> floor <intent> marker barrier / <fenced> m <few> <ahead> <run> <passes> <does>
| 2* <TAKE_SLOT_FENCED> # <named> floor / <fenced> '' <few> <ahead> <run> <slots> <does>
| <TAKE_SLOT_FENCED> # <named> floor marker barrier / <fenced> m <few> <ahead> <run> <slots> <does>
| 2* <RAISE_MEMBER> # <named> floor / <fenced> '' <few> <ahead> <run> <prefix>
| <RAISE_MEMBER> # <named> floor marker barrier / <fenced> m <few> <ahead> <run> <prefix>
named = a count:a | b count:b | c count:c
intent = 2* intent | a
fenced = 2* t <unique> | u <unique>
passes = '' | 1
slots = 2 0 2 | 2 1 1 | 3 2 3
prefix = 2* r/ | 2/0/ | 2/1/
does = | time zrange zrem zadd pexpireat get zscore set

floor = <usual-floor> | <no-floor>
usual-floor = r:7:7 | r:7:20 | r:0:0 | r:30:20 | r:9000000000000000:9000000000000000 | r:5:9000000000000000
no-floor = r:5:8999999999999999 | r:9000000000000001:5 | r:5:9000000000000001 | r:99999999999999999999:5
| r:5:99999999999999999999 | r:5:007 | s:7:7 | r:?5:7 | r:?6:7 | s:?5:7 | r:?05:7 | r:?5:99999999999999999
| r:?99999999999999999:7 | r:??5:7 | r:?:7 | r:?-5:7 | r:-5:7 | r:5:-7 | r:5:7~ | r:5:7: | q:r:5:7 | r:?5:6:7 | :5:7
| ::5:7 | r:7 | :7 | 9000 | r | '' | r:5:1e3
few = 0 | 1 | 6 | 7 | 8 | 19 | 20 | 500000 | 999999 | 1000000
some = 10* <few> | 8999999999999998 | 8999999999999999 | 9000000000000000
number = 2* <some> | <some> | 3* <no-number>
no-number = 9000000000000001 | 9007199254740993 | 18446744073709551615 | 99999999999999999999 | 1e300 | 1e400 | 1e3
| 1.5 | 2.5 | 7.9 | 0.1 | .5 | 5. | -0 | -5 | +5 | 007 | ~9~ | \t9\n | nan | -nan | inf | -inf | infinity | abc | ''
| 9~9 | 9\09 | \v9\v | 9_9 | nan(5) | 1e | 0x | 0b1 | 1d5 | \s9
";

/// Asks for the values of all keys, and whether the keys end.
const LOOK: &str = "GET a|PTTL a|GET b|PTTL b|GET c|PTTL c|GET count:a|PTTL count:a|GET count:b|PTTL count:b|\
    GET count:c|PTTL count:c|GET floor|PTTL floor|GET marker|PTTL marker|GET barrier|PTTL barrier|\
    ZRANGE a 0 -1|ZRANGE b 0 -1|ZRANGE c 0 -1";

fn compare(seed: u64, options: &Options) {
    let server = Server::with(options);
    let flavour = flavour_of(&server);
    let mut model = Model::store(flavour, None);
    let mut pair = Pair::new(&server, &mut model);
    compare_counters(&mut pair, &mut model);
    compare_names(&mut pair, &mut model);
    compare_a_fraction(&mut pair, &mut model);
    let mut grammar = Grammar::new(seed, GRAMMAR);
    let (looks, between) = LOOKS[usize::from(is_long())];
    for look in 0..looks {
        let mut batch: Vec<Words> = (0..between).map(|_| grammar.words("any")).collect();
        batch.extend(LOOK.split('|').map(words));
        let [expected, read] = pair.exchange(&mut model, &batch);
        let place = format!("seed {seed}, look {look}");
        assert_same(&place, flavour, &batch, [&expected, &read]);
    }
}

/// Sends the commands to both sides, which must give the same replies. Returns these.
#[track_caller]
fn agreed(pair: &mut Pair, model: &mut Model, batch: &[Words]) -> Vec<Vec<u8>> {
    let [expected, read] = pair.exchange(model, batch);
    assert_eq!(expected.replies, read.replies);
    read.replies
}

/// Compares how many keys both sides count as counters of names.
fn compare_counters(pair: &mut Pair, model: &mut Model) {
    let (text, digest) = COUNT_COUNTERS;
    let counters = ["", "a", "b:*", "\u{fffd}"].map(|name| format!("shearline:fence:{name}"));
    let others = "shearline:fence shearline:fences:a shearline:floor a";
    let keys = counters.iter().map(String::as_str).chain(others.split(' '));
    let set = keys.map(|key| ["SET", key, "7"].map(Vec::from).to_vec());
    agreed(pair, model, &set.collect::<Vec<_>>());
    let count = [["EVAL", text, "0", "0"], ["EVALSHA", digest, "0", "0"]];
    let count = count.map(|words| words.map(Vec::from).to_vec());
    let counted = agreed(pair, model, &count);
    assert_eq!(counted, [b"*3\r\n:4\r\n:0\r\n$1\r\n0\r\n"; 2]);
    let wrong = [["EVAL", text, "0", "x"].map(Vec::from).to_vec()];
    let refused = pair.exchange(model, &wrong);
    assert!(
        refused
            .iter()
            .all(|side| side.replies[0].starts_with(b"-ERR "))
    );
    agreed(
        pair,
        model,
        &[words(&format!("DEL {}", counters[0])), words("DEL a")],
    );
}

/// Compares which keys both sides list as names of locks, in any order.
fn compare_names(pair: &mut Pair, model: &mut Model) {
    let long = [191, 192, 193, 384, 1_024, 1_025].map(|len| "l".repeat(len));
    let names = "n:*a n:? n:[x] n:\\* n:xa shearline:n shearline".split(' ');
    let names = names.chain(long.iter().map(String::as_str)).chain([""]);
    let values = [0, 1, 84, 85].map(|len| (format!("v:{len}"), "t".repeat(len)));
    let values = values.iter().map(|(name, value)| (&**name, &**value));
    let set = names.map(|name| (name, "t")).chain(values);
    let set = set.map(|(name, value)| ["SET", name, value].map(Vec::from).to_vec());
    agreed(
        pair,
        model,
        &set.chain([words("ZADD z 1 r/t")]).collect::<Vec<_>>(),
    );
    let (text, digest) = LIST_NAMES;
    let prefixes = "n:* n:? n:[ n:\\ n:x n: s shearline v: z none l".split(' ');
    for prefix in prefixes.chain(["", &long[1]]) {
        let list = [
            ["EVAL", text, "0", "0", prefix],
            ["EVALSHA", digest, "0", "0", prefix],
        ];
        let list = list.map(|words| words.map(Vec::from).to_vec());
        let [listed, expected] = pair.exchange(model, &list).map(|side| {
            let mut replies = side.replies.concat();
            replies.sort_unstable();
            String::from_utf8(replies).expect("text")
        });
        assert_eq!(listed, expected, "{prefix}");
    }
    let list = ["EVAL", text, "0", "0", "n:*"].map(Vec::from).to_vec();
    assert_eq!(
        agreed(pair, model, &[list]),
        [b"*3\r\n:0\r\n*1\r\n$4\r\nn:*a\r\n$1\r\n0\r\n"]
    );
    for wrong in ["x", "18446744073709551616"] {
        let wrong = ["EVAL", text, "0", wrong, ""].map(Vec::from).to_vec();
        let refused = pair.exchange(model, &[wrong]);
        assert!(
            refused
                .iter()
                .all(|side| side.replies[0].starts_with(b"-ERR "))
        );
    }
}

/// Compares a counter that is not a whole number: it is below the next one.
fn compare_a_fraction(pair: &mut Pair, model: &mut Model) {
    let (text, digest) = TAKE_FENCED;
    let mut commands = [
        "SCRIPT LOAD",
        "SET floor r:5:5",
        "SET count:a 7.9",
        &format!("EVALSHA {digest} 3 a count:a floor t 40000000  8 80000000 r"),
        "DEL a count:a floor",
    ]
    .map(words);
    commands[0].push(text.into());
    assert_eq!(agreed(pair, model, &commands)[3], b"$1\r\n8\r\n");
}

#[test]
fn the_store_counts_tokens_as_a_server_does() {
    compare(1, &Options::redis());
}

#[test]
fn the_store_counts_tokens_as_a_valkey_does() {
    compare(2, &Options::valkey());
}
