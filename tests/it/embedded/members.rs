//! Readers and permits under one name: the answers of the scripts on a Redis, a Valkey and the embedded node.
//!
//! Each story is a table: a command, and its answer. Times are in hours, so that no delay of the machine has an effect.

use shearline::internals::Flavour;
use shearline::internals::scripts::*;

use super::peers::{Connection, Model, Remote};
use crate::servers::{Options as ServerOptions, Server, until};

const HOUR: u64 = 3_600_000;

/// One of the three servers, and the name of the lock.
struct Side {
    connection: Connection,
    model: Model,
    name: Vec<u8>,
}

impl Side {
    /// Runs `story` on each of the three servers, with a short name and with the longest.
    fn each(story: impl Fn(&mut Self)) {
        let servers = [ServerOptions::redis(), ServerOptions::valkey()].map(|it| Server::with(&it));
        for name in [&b"k"[..], &[b'\n'; 1024]] {
            for server in [Some(&servers[0]), Some(&servers[1]), None] {
                let mut model = Model::store(Flavour::Redis, None);
                let connection = match server {
                    Some(server) => Connection::Remote(Remote::connect(server.address())),
                    None => model.connect(),
                };
                let name = name.to_vec();
                story(&mut Self {
                    connection,
                    model,
                    name,
                });
            }
        }
    }

    /// Returns the answer to `line`: numbers and texts in one line, times in hours.
    ///
    /// Commands in small letters are scripts; `k` is the name, and `i` its intent.
    fn ask(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let (script, keys, arguments) = match *words {
            ["take", token, hours] => (TAKE_SHARED, "2 k i", vec![token, hours, "", ""]),
            ["intent", age, hours] => (LEAVE_INTENT, "1 i", vec![age, hours]),
            ["pass", token, hours] => (TAKE_SHARED, "2 k i", vec![token, hours, "", "1"]),
            ["slot", token, hours, all, start, tries] => {
                (TAKE_SLOT, "1 k", vec![token, hours, "", all, start, tries])
            }
            ["move", token, to] => (MOVE_SLOT, "1 k", vec![token, "", "", to]),
            ["extend", token, hours, prefix] => {
                (EXTEND_MEMBER, "1 k", vec![token, hours, "", prefix])
            }
            ["confirm", token, prefix] => (CONFIRM_MEMBER, "1 k", vec![token, "", "", prefix]),
            ["inspect"] => (INSPECT, "1 k", vec![]),
            ["release", token, prefix] => (RELEASE_MEMBER, "1 k", vec![token, prefix]),
            ["take-out", token, prefix] => (RELEASE_MEMBER, "1 k", vec![token, prefix, "1"]),
            _ => return self.run(words.iter().map(|word| self.word(word)).collect()),
        };
        let mut command = vec![b"EVAL".to_vec(), script.0.into()];
        command.extend(keys.split(' ').map(|word| self.word(word)));
        command.extend(arguments.iter().map(|word| self.word(word)));
        self.run(command)
    }

    fn word(&self, word: &str) -> Vec<u8> {
        match (word, word.strip_suffix('h')) {
            ("k", _) => self.name.clone(),
            ("i", _) => [b"shearline:intent:", &self.name[..]].concat(),
            (_, Some(hours)) => {
                let hours: u64 = hours.parse().expect("a number");
                (hours * HOUR).to_string().into_bytes()
            }
            (word, None) => word.into(),
        }
    }

    fn run(&mut self, words: Vec<Vec<u8>>) -> String {
        let read = self.connection.exchange(&mut self.model, &[words]);
        let reply = String::from_utf8(read.replies.concat()).expect("a text");
        let lines = reply
            .split("\r\n")
            .filter(|line| *line == "$-1" || !line.starts_with('$'));
        let lines = lines.map(|line| match line.trim_start_matches(':').parse::<u64>() {
            Ok(long @ 60_000..) => format!("{}h", (long + HOUR / 2) / HOUR),
            Ok(number) => number.to_string(),
            Err(_) if line.contains("WRONGTYPE ") => "WRONGTYPE".into(),
            Err(_) => line.trim_start_matches(':').into(),
        });
        let words: Vec<String> = lines.filter(|line| !line.starts_with('*')).collect();
        words.join(" ").trim_end().into()
    }

    #[track_caller]
    fn tell(&mut self, story: &str) {
        self.ask("FLUSHALL");
        self.go_on(story);
    }

    #[track_caller]
    fn go_on(&mut self, story: &str) {
        for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, answer) = line.split_once(" -> ").expect("a command and its answer");
            assert_eq!(self.ask(command), answer, "{command}");
        }
    }
}

#[test]
fn readers_share_a_name_and_keep_all_others_out() {
    Side::each(|side| {
        side.tell(
            "take a 1h -> 1
            take b 2h -> 1
            PTTL k -> 2h
            SET k x NX PX 1 -> $-1
            slot c 1h 2 0 2 -> 2 0 0
            extend a 3h r/ -> 1
            PTTL k -> 3h
            extend a 1h r/ -> 1
            confirm a r/ -> 3h
            take a 4h -> 1
            take a 1h -> 1
            confirm a r/ -> 4h
            ZRANGE k 0 -1 -> r/b r/a
            release a r/ -> 1
            PTTL k -> 2h
            confirm a r/ -> 0
            extend a 9h r/ -> 0
            release a r/ -> 0
            release b r/ -> 1
            PTTL k -> -2
            SET k x NX PX 99h -> +OK
            take a 1h -> 2
            extend a 1h r/ -> WRONGTYPE
            confirm a r/ -> WRONGTYPE
            release a r/ -> WRONGTYPE
            GET k -> x",
        );
    });
}

#[test]
fn no_reader_joins_while_a_writer_waits_unless_it_was_granted_before_or_is_there() {
    Side::each(|side| {
        // The time of the intent is an hour after 1970, and the intent ends before readers may pass it.
        side.tell(
            "SET i 3600000 PX 2h -> +OK
            take a 1h -> 2h
            PTTL k -> -2
            pass a 1h -> 1
            take b 1h -> 2h
            take a 2h -> 1
            confirm a r/ -> 2h
            DEL i -> 1
            take b 1h -> 1
            ZRANGE k 0 -1 -> r/b r/a",
        );
        // The value is not a time, so the intent seems to be new: 2.2 s, and two.
        for broken in ["x", "-1", "1.5", "1e9", "0x1", "12345678901234567"] {
            side.tell(&format!("SET i {broken} PX 1h -> +OK\ntake a 1h -> 2202"));
            side.go_on("SET i x -> +OK\ntake a 1h -> 2202\nSET i x PX 1 -> +OK");
            until("it ends", || side.ask("take a 1h") == "1");
        }
        side.tell("ZADD i 1 x -> 1\ntake a 1h -> 2202\nintent 1h 1h -> 1\nPTTL i -> 1h");
    });
}

#[test]
fn readers_pass_together_a_writer_who_has_waited_for_a_while() {
    Side::each(|side| {
        let mut said = |age: u64, more: &str| {
            side.ask("FLUSHALL");
            side.ask(&format!("intent {age} 1h"));
            side.ask(more);
            side.ask("take a 1h")
        };
        for window in [2_200, 4_400, 8_800, 1_153_433_600] {
            until("readers pass", || said(window + 50, "PTTL k") == "1");
            for age in [window - 1_900, window + 260] {
                let kept_out = said(age, "PTTL k");
                assert!(kept_out.parse() != Ok(1), "{age}: {kept_out}");
            }
            // Of two intents, the one that has waited for longer counts.
            until("readers pass", || said(window + 50, "intent 0 1h") == "1");
            let kept_out = said(0, &format!("intent {} 1h", window + 260));
            assert!(kept_out.parse() != Ok(1), "{kept_out}");
        }
    });
}

#[test]
fn the_intent_of_the_caller_that_has_waited_longest_stays() {
    Side::each(|side| {
        side.tell("intent 9h 1h -> 1\nPTTL i -> 1h");
        let first = side.ask("GET i");
        side.go_on(&format!(
            "intent 1h 2h -> 1\nGET i -> {first}\nPTTL i -> 2h"
        ));
        side.go_on("intent 20h 1h -> 1");
        assert_ne!(side.ask("GET i"), first);
        side.go_on("PTTL i -> 1h");
    });
}

#[test]
fn the_key_of_a_lock_that_becomes_shared_is_turned_and_keeps_its_end() {
    Side::each(|side| {
        let lock = "SET k a PX 2h -> +OK";
        let turned = "ZRANGE k 0 -1 -> r/a";
        side.tell(&format!(
            "{lock}\nconfirm a r/ -> 2h\n{turned}\nPTTL k -> 2h"
        ));
        side.go_on("take b 1h -> 1\nSET k x NX PX 1 -> $-1\nrelease a r/ -> 1\nPTTL k -> 1h");
        side.tell(&format!(
            "{lock}\nextend a 1h r/ -> 1\n{turned}\nPTTL k -> 2h"
        ));
        side.tell(&format!(
            "{lock}\nextend a 3h r/ -> 1\n{turned}\nPTTL k -> 3h"
        ));
        side.tell(&format!("{lock}\nrelease a r/ -> 1\nPTTL k -> -2"));
        side.tell(&format!(
            "{lock}\nconfirm b r/ -> WRONGTYPE\nextend b 1h r/ -> WRONGTYPE"
        ));
        side.go_on("release b r/ -> WRONGTYPE\ntake b 1h -> 2\nGET k -> a");
        // An operator has made the key permanent.
        side.tell(&format!("SET k a -> +OK\nextend a 1h r/ -> 1\n{turned}"));
    });
}

#[test]
fn each_slot_has_one_holder() {
    Side::each(|side| {
        side.tell(
            "slot a 1h 3 1 3 -> 1 0 1
            slot b 2h 3 1 3 -> 1 0 2
            slot c 3h 3 1 3 -> 1 0 0
            slot d 9h 3 1 3 -> 2 0 1h
            slot b 1h 3 0 3 -> 1 0 2
            slot b 4h 3 0 1 -> 1 0 2
            confirm b 3/2/ -> 4h
            slot d 1h 4 0 4 -> 3 0 3
            take d 1h -> 2
            PTTL k -> 4h
            confirm a 3/0/ -> 0
            extend a 9h 3/0/ -> 0
            extend a 2h 3/1/ -> 1
            confirm a 3/1/ -> 2h
            move a 3/1/ -> 1
            move a 3/0/ -> -1
            release c 3/0/ -> 1
            move a 3/0/ -> 1
            confirm a 3/0/ -> 2h
            move d 3/1/ -> 0
            slot d 1h 3 0 1 -> 2 0 2h
            slot d 1h 3 1 1 -> 1 0 1
            ZRANGE k 0 -1 -> 3/1/d 3/0/a 3/2/b
            release b 3/0/ -> 1
            PTTL k -> 2h
            release b 3/2/ -> 0
            release a 3/0/ -> 1
            release d 3/1/ -> 1
            slot z 1h 1024 1023 1024 -> 1 0 1023
            slot y 1h 1024 1023 1024 -> 1 0 0",
        );
    });
}

#[test]
fn what_is_not_ours_stays_as_it_is() {
    Side::each(|side| {
        side.tell("SET k x -> +OK\nslot a 1h 2 0 2 -> 2 0 0\ntake a 1h -> 2\nGET k -> x");
        for others in [
            "1 x",
            "1 r/x 2 y",
            "inf r/x",
            "9000000000000001 r/x",
            "9e14 x",
            "9e14 r",
            "9e14 2/2/x",
            "9e14 02/1/x",
            "9e14 2/01/x",
            "9e14 1025/0/x",
            "9e14 2/x",
            "9e14 0/0/x",
            "-inf x",
            "899999999999999.5 r/x",
        ] {
            side.ask("FLUSHALL");
            side.ask(&format!("ZADD k {others}"));
            let all = side.ask("ZRANGE k 0 -1");
            let still = format!("ZRANGE k 0 -1 -> {all}\nPTTL k -> -1");
            side.go_on("slot a 1h 2 0 2 -> 2 0 0\ntake a 1h -> 2\nextend a 1h r/ -> 0");
            side.go_on(&format!("release a r/ -> 0\nrelease a 2/1/ -> 0\n{still}"));
        }
        // Some members are over, and have the library's form.
        side.tell("ZADD k 1 r/x 2 3/1/y -inf 1/0/z -> 3\ntake a 1h -> 1\nZRANGE k 0 -1 -> r/a");
        side.tell("ZADD k 1 r/x 2 3/1/y -> 2\nslot a 1h 2 0 2 -> 1 0 0\nZRANGE k 0 -1 -> 2/0/a");
        side.tell("ZADD k 9e14 1024/1023/x -> 1\nslot a 1h 2 0 2 -> 3 0 1024");
        side.tell("take a 1h -> 1\nZADD k 1 r/x -> 1\nrelease a r/ -> 1\nPTTL k -> -2");
        side.tell("take a 1h -> 1\nZADD k 1 x -> 1\nrelease a r/ -> 1\nZRANGE k 0 -1 -> x");
        side.tell("take a 1h -> 1\nZADD k inf r/x -> 1\nextend a 2h r/ -> -1\nPTTL k -> 1h");
    });
}

#[test]
fn a_token_is_taken_out_of_any_slot_but_its_own() {
    Side::each(|side| {
        side.tell(
            "slot a 2h 3 1 3 -> 1 0 1
            slot b 1h 3 0 3 -> 1 0 0
            take-out a 3/1/ -> 0
            confirm a 3/1/ -> 2h
            take-out c 3/2/ -> 0
            take-out a 3/2/ -> 1
            ZRANGE k 0 -1 -> 3/0/b
            PTTL k -> 1h
            take-out b 3/1/ -> 1
            PTTL k -> -2",
        );
    });
}

#[test]
fn an_inspection_lists_the_live_ones() {
    Side::each(|side| {
        side.tell(
            "inspect -> 0 0
            take a 2h -> 1
            take b 1h -> 1
            ZADD k 1 r/c -> 1
            inspect -> 2h 0 r/b 1h r/a 2h
            ZADD k inf r/d -> 1
            inspect -> WRONGTYPE",
        );
        side.tell("slot a 2h 3 1 3 -> 1 0 1\ninspect -> 2h 0 3/1/a 2h");
        // A member that is longer than the library's is cut.
        let (long, cut) = ("x".repeat(200), "x".repeat(93));
        side.tell(&format!("take {long} 2h -> 1\ninspect -> 2h 0 r/{cut} 2h"));
        side.tell("ZADD k 1 r/a -> 1\ninspect -> WRONGTYPE");
        side.tell("SET k x PX 1h -> +OK\ninspect -> 1h 0 x");
    });
}

#[test]
fn a_member_lives_no_longer_than_its_key() {
    Side::each(|side| {
        // Another client has shortened the key.
        side.tell(
            "take a 3h -> 1
            PEXPIRE k 1h -> 1
            confirm a r/ -> 1h
            extend a 1h r/ -> 1
            extend a 2h r/ -> 1
            confirm a r/ -> 3h
            PTTL k -> 3h",
        );
    });
}

#[test]
fn one_that_is_over_is_neither_there_nor_revived() {
    Side::each(|side| {
        side.tell("take b 1h -> 1\ntake a 5 -> 1");
        until("it is over", || side.ask("confirm a r/") == "0");
        side.go_on(
            "extend a 1h r/ -> 0
            ZRANGE k 0 -1 -> r/a r/b
            release a r/ -> 0
            ZRANGE k 0 -1 -> r/b
            PTTL k -> 1h",
        );
        side.tell("slot b 1h 2 1 2 -> 1 0 1\nslot a 5 2 0 2 -> 1 0 0");
        until("it is over", || side.ask("move a 2/0/") == "0");
        side.go_on("slot c 1h 2 0 2 -> 1 0 0\nZRANGE k 0 -1 -> 2/1/b 2/0/c");
        side.tell("take a 5 -> 1");
        until("the key ends", || side.ask("PTTL k") == "-2");
    });
}
