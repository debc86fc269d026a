//! Every interleaving of a few callers and the I/O thread, over the real mailbox.
//!
//! The engine is a flag here, an outcome comes as soon as somebody drives, and each section under
//! the mailbox's mutex is one step, as is everything between two of them. When nobody can take
//! another step, no letter may lie there and nobody may wait; and at no time does anybody sleep
//! over a letter without a wake-up being on its way.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named is done by the other kind of process, or goes on"
)]

use alloc::collections::{BTreeSet, VecDeque};

use super::*;
use crate::shared::mailbox::{Letter, Mailbox, Orders, Posted, Wake, Whereabouts};
use crate::shared::slot::Slot;

/// What all share.
struct Desk {
    mailbox: Mailbox,
    taken: bool,
    waiting: usize,
    letters: usize,
    /// The driver's descriptor is readable.
    readable: bool,
    /// The I/O thread was unparked.
    token: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// A caller reaches for the engine; with or without driving itself if it is alone.
    Reach {
        drives: bool,
    },
    Put {
        drives: bool,
    },
    Wake {
        whom: Wake,
        then: After,
    },
    ReachAgain,
    Doze,
    Asleep,
    Decided,
    Release,
    Leave {
        waiting: bool,
    },
    Orders,
    Look,
    LetGo,
    Serve,
    Serving,
    ServingAsleep,
    WakingTasks,
    Served,
    Watch,
    Watching,
    Park,
    Parked,
    Done,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum After {
    ReachAgain,
    Done,
}

struct Process {
    step: Step,
    seen: u64,
}

impl Desk {
    fn try_take(&mut self) -> bool {
        let free = !self.taken;
        if free {
            self.taken = true;
            self.read_mail();
        }
        free
    }

    fn read_mail(&mut self) {
        let mut letters = VecDeque::new();
        self.mailbox.take(&mut letters);
        self.letters -= letters.len();
        self.waiting += letters.len();
    }

    fn wake(&mut self, whom: Wake) {
        self.readable |= matches!(whom, Wake::Driver | Wake::Both);
        self.token |= matches!(whom, Wake::Thread | Wake::Both);
    }

    fn put(&mut self) -> Posted {
        self.letters += 1;
        let slot = Arc::new(Slot::new());
        self.mailbox.put(Letter::Cancel { slot }).unwrap()
    }
}

impl Process {
    fn caller(drives: bool) -> Self {
        Self {
            step: Step::Reach { drives },
            seen: 0,
        }
    }

    fn keeper() -> Self {
        Self {
            step: Step::Orders,
            seen: 0,
        }
    }

    fn can_step(&self, desk: &Desk) -> bool {
        match self.step {
            Step::Done => false,
            Step::Watching => desk.readable,
            Step::Parked => desk.token,
            _ => true,
        }
    }

    /// `choice` decides what comes first where both may.
    fn take_step(&mut self, desk: &mut Desk, choice: bool) {
        self.step = match self.step {
            Step::Reach { drives: false } if desk.mailbox.is_served() => {
                Step::Put { drives: false }
            }
            Step::Reach { drives } if desk.try_take() => {
                desk.waiting += 1;
                match drives && desk.waiting == 1 {
                    true => Step::Doze,
                    false => Step::Release,
                }
            }
            Step::Reach { drives } => Step::Put { drives },
            Step::Put { .. } => {
                let posted = desk.put();
                Step::Wake {
                    whom: posted.wake,
                    then: match posted.served {
                        true => After::Done,
                        false => After::ReachAgain,
                    },
                }
            }
            Step::Wake { whom, then } => {
                desk.wake(whom);
                match then {
                    After::ReachAgain => Step::ReachAgain,
                    After::Done => Step::Done,
                }
            }
            Step::ReachAgain if desk.try_take() => Step::Release,
            Step::ReachAgain => Step::Done,
            Step::Doze if desk.mailbox.doze() => Step::Asleep,
            Step::Doze => {
                desk.read_mail();
                Step::Decided
            }
            // Its outcome has come, or the descriptor was readable, or both.
            Step::Asleep => {
                let woken = core::mem::take(&mut desk.readable);
                desk.read_mail();
                match woken && choice {
                    true => Step::Doze,
                    false => Step::Decided,
                }
            }
            Step::Decided => {
                desk.waiting -= 1;
                Step::Release
            }
            Step::Release => {
                desk.taken = false;
                Step::Leave {
                    waiting: desk.waiting != 0,
                }
            }
            Step::Leave { waiting } => Step::Wake {
                whom: desk.mailbox.left(waiting, true),
                then: After::Done,
            },
            step => return self.take_keepers_step(step, desk),
        };
    }

    fn take_keepers_step(&mut self, step: Step, desk: &mut Desk) {
        self.step = match step {
            Step::Orders => match desk.mailbox.orders(&mut self.seen) {
                Orders::Look => Step::Look,
                Orders::Nap => {
                    desk.token = false; // The nap is over at once, and in any case soon.
                    Step::Orders
                }
                Orders::Close => unreachable!("there are handles"),
            },
            Step::Look if desk.try_take() => {
                desk.readable = false;
                match desk.waiting {
                    0 => Step::LetGo,
                    _ => Step::Serve,
                }
            }
            Step::Look => Step::Park,
            Step::Serve => {
                desk.mailbox.serves();
                Step::Serving
            }
            Step::Serving if desk.mailbox.doze() => Step::ServingAsleep,
            Step::Serving => {
                desk.read_mail();
                Step::Serving
            }
            // The outcomes of all who waited until now have come.
            Step::ServingAsleep => {
                desk.waiting = 0;
                desk.readable = false;
                desk.read_mail();
                desk.taken = false;
                // It waits for them as long as it likes, and depends on none.
                desk.mailbox.expect(2);
                Step::WakingTasks
            }
            Step::WakingTasks if desk.try_take() => match desk.waiting {
                0 => {
                    desk.taken = false;
                    Step::Served
                }
                _ => Step::Serving,
            },
            Step::WakingTasks => Step::Served,
            Step::Served => {
                desk.mailbox.serves_no_more();
                self.seen = self.seen.wrapping_sub(1);
                Step::Orders
            }
            Step::LetGo => {
                desk.taken = false;
                Step::Watch
            }
            Step::Watch if desk.mailbox.rest(Whereabouts::Watching, self.seen) => Step::Watching,
            Step::Park if desk.mailbox.rest(Whereabouts::Parked, self.seen) => Step::Parked,
            Step::Parked => {
                desk.token = false;
                Step::Orders
            }
            _ => Step::Orders,
        };
    }
}

/// Walks through every sequence of choices, by running the world again for each.
#[derive(Default)]
struct Choices {
    /// What was chosen, and from how many.
    made: Vec<(usize, usize)>,
    at: usize,
    /// How many of them the present run repeats.
    repeated: usize,
    /// The states that were met. Nothing new can come of them.
    met: BTreeSet<String>,
}

impl Choices {
    fn of(&mut self, count: usize) -> usize {
        if self.at == self.made.len() {
            self.made.push((0, count));
        }
        self.at += 1;
        self.made[self.at - 1].0
    }

    /// Whether there is another sequence.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, count)) = self.made.pop() {
            if chosen + 1 < count {
                self.made.push((chosen + 1, count));
                self.repeated = self.made.len();
                return true;
            }
        }
        false
    }

    /// Whether the run goes on from here: the state is new, or on the way that is repeated.
    fn is_new(&mut self, state: String) -> bool {
        self.at < self.repeated || self.met.insert(state)
    }
}

fn run(callers: &[bool], choices: &mut Choices) {
    let mut desk = Desk {
        mailbox: Mailbox::new(),
        taken: false,
        waiting: 0,
        letters: 0,
        readable: false,
        token: false,
    };
    let mut processes: Vec<_> = callers.iter().map(|it| Process::caller(*it)).collect();
    processes.push(Process::keeper());
    // It has found nothing to do so far.
    while processes[callers.len()].can_step(&desk) {
        processes[callers.len()].take_step(&mut desk, false);
    }
    loop {
        let able = |process: &&mut Process| process.can_step(&desk);
        let mut able: Vec<_> = processes.iter_mut().filter(able).collect();
        if able.is_empty() {
            break;
        }
        let chosen = choices.of(able.len());
        let process = &mut able[chosen];
        let choice = process.step == Step::Asleep && desk.readable && choices.of(2) == 1;
        process.take_step(&mut desk, choice);
        assert_nobody_sleeps_over_a_letter(&desk, &processes);
        if !choices.is_new(fingerprint(&desk, &processes)) {
            return;
        }
    }
    let steps = || processes.iter().map(|process| process.step);
    assert_eq!(
        (desk.letters, desk.waiting),
        (0, 0),
        "{:?}",
        steps().collect::<Vec<_>>()
    );
}

/// Equal for states from which the same can come.
fn fingerprint(desk: &Desk, processes: &[Process]) -> String {
    let steps: Vec<_> = processes.iter().map(|process| process.step).collect();
    let seen = processes.last().map_or(0, |keeper| keeper.seen);
    let flags = (desk.taken, desk.waiting, desk.readable, desk.token);
    format!("{:?} {flags:?} {steps:?}", desk.mailbox.facts(seen))
}

fn assert_nobody_sleeps_over_a_letter(desk: &Desk, processes: &[Process]) {
    let is_any = |is_so: &dyn Fn(Step) -> bool| processes.iter().any(|process| is_so(process.step));
    if 0 < desk.letters && is_any(&|step| matches!(step, Step::Asleep | Step::ServingAsleep)) {
        let waking = |step| {
            matches!(
                step,
                Step::Wake {
                    whom: Wake::Driver,
                    ..
                }
            )
        };
        assert!(desk.readable || is_any(&waking), "asleep over a letter");
    }
}

#[test]
fn nobody_is_forgotten_whatever_the_order() {
    for callers in [
        &[true][..],
        &[false],
        &[true, true],
        &[true, false],
        &[false, false],
        &[true, true, false],
    ] {
        let mut choices = Choices::default();
        loop {
            run(callers, &mut choices);
            if !choices.next() {
                break;
            }
        }
    }
}
