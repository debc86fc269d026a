//! Random histories of a wire, compared with a list of its commands in the order in which they must leave.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::{Renewal, Wire};
use crate::effort::effort;
use crate::entry::Entry;
use crate::keys::{ClaimKey, OperationKey};
use crate::limits::OUT_BYTES_MAX;
use crate::node::recipes;
use crate::node::reply::Reply;
use crate::node::request::{Asker, Dialect, Purpose, Question, Request, Taking};
use crate::resp::{Inbox, command};
use crate::slab::Slab;
use crate::time::Instant;
use core::time::Duration;
use std::format;
use std::string::{String, ToString};

const NOW: Instant = Instant::ZERO;

struct Model {
    wire: Wire,
    slab: Slab<()>,
    random: StdRng,
    /// The requests that were put and not answered, with the words of each.
    put: VecDeque<(Request, String)>,
    /// The renewals that are collected: first those that register their keys.
    collected: [Vec<(Request, String)>; 2],
    /// The bytes that have left of a command whose rest has not.
    torn: Vec<u8>,
    /// The words of the requests that have left and are not answered.
    left: VecDeque<String>,
}

fn release_of(claim: ClaimKey) -> Request {
    Request::Release {
        claim,
        by: Dialect::Sha1,
        is_taught: true,
        repair: false,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_string()
}

/// Returns what these commands ask for, one by one.
fn requests_in(mut commands: &[u8]) -> Vec<String> {
    let (mut inbox, mut requests) = (Inbox::default(), Vec::new());
    while let Some(frame) = inbox.next(&mut commands).expect("RESP") {
        let words = frame.value.as_items().expect("a command").iter();
        let words = words.map(|word| text(word.as_bytes().expect("a word")));
        let words: Vec<String> = words.collect();
        match &*words[0] {
            "CLIENT" => {}
            "EVALSHA" => {
                let count: usize = words[2].parse().expect("a number");
                let (keys, arguments) = words[3..].split_at(count);
                let each = arguments.chunks(arguments.len() / count);
                let all = keys.iter().zip(each);
                requests.extend(all.map(|(key, each)| format!("{key} {}", each.join(" "))));
            }
            _ => requests.push(words.join(" ")),
        }
    }
    requests
}

impl Model {
    fn claim(&mut self) -> ClaimKey {
        ClaimKey(self.slab.insert(()))
    }

    fn entry(&mut self) -> (String, String, Entry) {
        let len = match self.random.random_range(0..8) {
            0 => self.random.random_range(0..900),
            _ => self.random.random_range(0..12),
        };
        let number = self.random.next_u32();
        let name = format!("k{number}{}", "x".repeat(len));
        let token = format!("t{}", self.random.next_u32());
        let entry = Entry::new(Vec::new(), name.as_bytes(), token.as_bytes());
        (name, token, entry)
    }

    fn flush(&mut self) {
        for pile in &mut self.collected {
            self.put.extend(pile.drain(..));
        }
    }

    fn release(&mut self) {
        let (name, token, entry) = self.entry();
        let mut bytes = Vec::new();
        recipes::release(&mut bytes, &entry, Dialect::Sha1);
        let request = release_of(self.claim());
        self.flush();
        self.put.push_back((request, format!("{name} {token}")));
        self.wire.put_release(NOW, request, &entry, &bytes);
    }

    fn take(&mut self) {
        let (claim, by) = (self.claim(), Taking::Set);
        let name = format!("k{}", self.random.next_u32());
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"SET", name.as_bytes()]);
        let request = Request::Take { claim, by };
        self.flush();
        self.put.push_back((request, format!("SET {name}")));
        self.wire.put(NOW, Purpose::Asked(request), &bytes);
    }

    fn look(&mut self) {
        self.flush();
        self.wire.register(NOW);
        self.take();
    }

    fn renew(&mut self) {
        let (name, token, entry) = self.entry();
        let request = Request::Question {
            question: Question::Extend,
            operation: OperationKey(self.slab.insert(())),
            claim: None,
            by: Dialect::Sha1,
        };
        let watched = self.random.random_bool(0.3);
        let renewal = Renewal {
            request,
            entry: &entry,
            life: Duration::from_secs(5),
            watched,
        };
        let words = format!("{name} {token} 5000");
        self.collected[usize::from(!watched)].push((request, words));
        self.wire.collect(NOW, &renewal);
        if self.wire.batch.is_empty() {
            self.flush();
        }
    }

    fn withdraw(&mut self) {
        let takes = self.put.iter().enumerate();
        let takes = takes.filter(|(_, (request, _))| matches!(request, Request::Take { .. }));
        let all: Vec<_> = takes
            .map(|(index, (request, _))| (index, *request))
            .collect();
        if all.is_empty() {
            return;
        }
        let (index, request) = all[self.random.random_range(0..all.len())];
        let asker = Asker::of(request).expect("a SET");
        let has_left = self.has_left(index);
        assert_eq!(self.wire.withdraw(asker), !has_left, "{index}");
        if !has_left {
            self.put.remove(index);
        }
    }

    /// Returns `true` if a byte of the `SET` at `index` has left.
    fn has_left(&self, index: usize) -> bool {
        let words: Vec<_> = self.put[index].1.split(' ').map(str::as_bytes).collect();
        let mut set = Vec::new();
        command(&mut set, &words);
        let is_torn = !self.torn.is_empty() && set.starts_with(&self.torn);
        index < self.left.len() || index == self.left.len() && is_torn
    }

    fn write(&mut self) {
        let is_blocked = self.wire.outbox.is_blocked();
        let is_to_write = !is_blocked && self.wire.unsent() != 0;
        assert_eq!(self.wire.is_to_write(), is_to_write);
        if is_blocked {
            if self.random.random_bool(0.5) {
                self.wire.outbox.unblock();
            }
            return;
        }
        let before = self.wire.unsent();
        self.flush();
        let Some(bytes) = self.wire.offer(NOW) else {
            assert_eq!((before, self.left.len()), (0, self.put.len()));
            return;
        };
        let len = match self.random.random_range(0..3) {
            0 => self.random.random_range(0..=bytes.len()),
            _ => bytes.len(),
        };
        let bytes = bytes[..len].to_vec();
        self.wire.transmitted(len);
        self.sent(&bytes);
    }

    /// The socket has taken `bytes`.
    fn sent(&mut self, bytes: &[u8]) {
        self.torn.extend_from_slice(bytes);
        let (mut inbox, mut rest, mut whole) = (Inbox::default(), &self.torn[..], 0);
        while let Ok(Some(_)) = inbox.next(&mut rest) {
            whole = self.torn.len() - rest.len();
        }
        let commands: Vec<u8> = self.torn.drain(..whole).collect();
        self.left.extend(requests_in(&commands));
        assert!(self.left.len() <= self.put.len());
        for (left, (_, put)) in self.left.iter().zip(&self.put) {
            assert_eq!(left, put);
        }
    }

    /// The server answers the first command that has left.
    fn answer(&mut self) {
        if self.left.is_empty() {
            return;
        }
        let mut parts = 1;
        while parts != 0 {
            let sent = self.wire.in_flight.pop().expect("in flight");
            if let Purpose::Batch { count, .. } = sent.purpose {
                assert_eq!(parts, 1);
                parts = usize::from(count);
            } else if let Some(request) = sent.purpose.request() {
                let put = self.put.pop_front().expect("put");
                assert_eq!(request, put.0);
                self.left.pop_front().expect("left");
                parts -= 1;
            } else {
                assert_eq!(sent.purpose, Purpose::Track);
            }
        }
    }

    /// The connection ends. The first requests may have left, and all others have not.
    fn lose(&mut self) {
        let lost = self.wire.drain();
        self.flush();
        let requests = |(request, _): &(Request, _)| *request;
        let put: Vec<_> = self.put.drain(..).map(|put| put.0).collect();
        assert_eq!(lost.iter().map(requests).collect::<Vec<_>>(), put);
        let count = lost.iter().take_while(|(_, left)| *left).count();
        assert!(lost[count..].iter().all(|(_, left)| !left));
        assert!(self.left.len() <= count);
        assert!(!self.torn.is_empty() || self.left.len() == count);
        assert_eq!((self.wire.unsent(), self.wire.in_flight.len()), (0, 0));
        assert!(!self.wire.is_to_write());
        self.left.clear();
        self.torn.clear();
    }
}

#[test]
fn commands_leave_in_the_order_in_which_they_were_put() {
    for seed in 0..effort(300, 3_000) {
        let mut model = Model {
            wire: Wire::default(),
            slab: Slab::new(),
            random: StdRng::seed_from_u64(seed as u64),
            put: VecDeque::new(),
            collected: [Vec::new(), Vec::new()],
            torn: Vec::new(),
            left: VecDeque::new(),
        };
        let busy = model.random.random_range(1..60);
        for _ in 0..400 {
            match model.random.random_range(0..70 + busy) {
                0..20 => model.release(),
                20..23 => (0..model.random.random_range(0..90)).for_each(|_| model.release()),
                23..35 => model.take(),
                35..38 => (0..40).for_each(|_| model.take()),
                38..42 => model.renew(),
                42..44 => model.look(),
                44..60 => model.withdraw(),
                60..69 => model.write(),
                69 => {
                    if model.random.random_bool(0.1) {
                        model.lose();
                    }
                }
                _ => model.answer(),
            }
        }
        model.wire.outbox.unblock();
        model.flush();
        while let Some(bytes) = model.wire.offer(NOW) {
            let bytes = bytes.to_vec();
            model.wire.transmitted(bytes.len());
            model.sent(&bytes);
        }
        assert_eq!(model.left.len(), model.put.len(), "{seed}");
        while !model.left.is_empty() {
            model.answer();
        }
        // A command that was withdrawn leaves the one before it, which makes it register its key.
        while let Some(sent) = model.wire.in_flight.pop() {
            assert_eq!(sent.purpose, Purpose::Track, "{seed}");
        }
    }
}

/// The bytes of a row that is not written yet take room too.
#[test]
fn a_release_finds_no_room_behind_a_row_that_fills_it() {
    let (mut wire, mut slab) = (Wire::default(), Slab::new());
    let entry = Entry::new(Vec::new(), b"k", b"t");
    let mut release = Vec::new();
    recipes::release(&mut release, &entry, Dialect::Sha1);
    let other = std::vec![b'x'; OUT_BYTES_MAX / 2];
    wire.put(NOW, Purpose::Aside, &other);
    for _ in 0..3 {
        let request = release_of(ClaimKey(slab.insert(())));
        wire.put_release(NOW, request, &entry, &release);
    }
    let row = 3 * (entry.key_argument().len() + entry.token_argument().len());
    assert_eq!(wire.unsent(), OUT_BYTES_MAX / 2 + row);
    assert!(wire.has_room_for_release(OUT_BYTES_MAX / 2 - row));
    assert!(!wire.has_room_for_release(OUT_BYTES_MAX / 2 - row + 1));
}

/// Answers that were not taken belong to the connection that has ended.
#[test]
fn answers_to_a_batch_end_with_the_connection() {
    for answer in ["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n"] {
        let (mut wire, mut inbox) = (Wire::default(), Inbox::default());
        let frame = inbox.next(&mut answer.as_bytes()).expect("RESP");
        let answered = wire.batch.answered(2, true, frame.expect("whole").value);
        answered.expect("two answers");
        assert_eq!(wire.batch.next_answer(), Some(Ok(Some(Reply::Done))));
        assert!(wire.drain().is_empty());
        assert_eq!(wire.batch.next_answer(), None);
    }
}
