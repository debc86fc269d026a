//! Starvation: no waiter is passed over for ever.
//!
//! * While one call waits for a lock, others get it [`HAND_OVERS`] times at most.
//! * In worlds of permits, or of readers and writers, in which nothing else disturbs them, no call waits for longer
//!   than [`LONGEST_WAIT`] or [`LONGEST_AMONG_WRITERS`], or than chance among programs explains ([`LOTS_MAX`]). If
//!   readers hold their locks for long, and only one user is a writer, no reader waits for longer than
//!   [`LONGEST_AMONG_READERS`]; neither does the writer if they hold for less than [`SHORT_READ`].
//! * The delays after too few answers are random, so that no two clients collide at every attempt:
//!   those of many calls are on average far longer than the shortest.
//!
//! # What it does not see
//!
//! Fairness: waiters are not queued. With random delays only chance bounds the number of
//! hand-overs: a client that releases a lock and takes it in one write leaves no gap for others,
//! ten thousand times a second on a fast network, and a call waits for some seconds. The bound is a
//! few times that. It will be a small number when waiters are woken in order.

use std::time::Duration;

use shearline::Report;

use crate::clock::{MILLI, Time};
use crate::plan::{LONGEST_REST, SHORTEST_REST};
use crate::user::{Task, User};
use crate::world::World;

/// How often a lock may go to others while one call waits for it.
const HAND_OVERS: u32 = 100_000;

/// How long a caller among others that want permits waits at most, if they hold for 10 ms.
const LONGEST_WAIT: Time = 2_500 * MILLI;

/// How long a caller waits at most among readers and writers, each of which locks again at once.
const LONGEST_AMONG_WRITERS: Time = 4_000 * MILLI;

/// A program leaves a lock to others after two holds of 10 ms or more. Then all others ask at the same moment, and the
/// network decides which gets it next. That is a lottery: a program with one or two callers misses this number of turns
/// for each other program with a probability of 2e-8, and each further caller allows one more. In a model of equal
/// chances, with six programs of three callers that hold for 50 ms, a third of all histories of 4 s have a wait of
/// three times the time in which all have their turn, and one in 100 has one of 4.3 times. In the worlds here it is no
/// more.
const LOTS_MAX: u64 = 14;

/// How long a caller waits at most if one user is a writer: it leaves its intent after 250 to 500 ms, and readers pass
/// it 2.2 s later.
const LONGEST_AMONG_READERS: Time = 2_800 * MILLI;

/// A writer is let in within that time if readers hold their locks for less than this.
const SHORT_READ: Time = 2_000 * MILLI;

/// From this number of delays on, their average is meaningful. They are drawn from 5 to 60 ms, so that the average of
/// two hundred is within a millisecond or two of 32.
const ENOUGH_RESTS: u32 = 200;
const LEAST_AVERAGE: Time = (SHORTEST_REST + LONGEST_REST) / 4 * MILLI;

/// The delays of all clients, with the attempts between them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rests {
    count: u32,
    sum: Duration,
}

impl World {
    /// Checks that each reader and writer gets its lock in time, if they wait for as long as they may and nothing else
    /// disturbs them.
    pub(super) fn is_kept_waiting(&mut self) {
        let plan = &self.plan;
        if !plan.has_several_holders() || !plan.patient || !plan.is_undisturbed() {
            return;
        }
        let others = plan.clients as u64 - 1;
        let lots = others * (LOTS_MAX + plan.users as u64);
        let chance = lots * 2 * (plan.shortest_work + plan.work) / u64::from(plan.permits.1);
        let most = match plan.reads_for {
            0 if plan.shared == 0 => LONGEST_WAIT.max(chance),
            0 => LONGEST_AMONG_WRITERS.max(chance),
            _ if self.calm => return,
            _ => LONGEST_AMONG_READERS,
        };
        let longest = Duration::from_nanos(most);
        let may_wait = |user: &User| !user.shared && SHORT_READ <= plan.reads_for;
        let waits = |(_, user): &(usize, &User)| matches!(&user.task, Task::Acquiring { call, .. } if call.since + most < self.now && !may_wait(user));
        let clients = self.clients.iter().enumerate();
        let mut users =
            clients.flat_map(|(client, there)| there.users.iter().map(move |user| (client, user)));
        if let Some((client, user)) = users.find(waits) {
            let who = if user.shared { "a reader" } else { "a caller" };
            let text = format!("{who} of client {client} waits for more than {longest:?}");
            self.object("starvation", text);
        }
    }

    /// Notes that `winner` has got a lock: every other waiter was passed over.
    pub(crate) fn starvation(&mut self, winner: usize, resource: usize) {
        let mut most = 0;
        let resources = self.plan.resources;
        for (client, there) in self.clients.iter_mut().enumerate() {
            for user in there.users.iter_mut().skip(resource).step_by(resources) {
                if let Task::Acquiring { passed_over, .. } = &mut user.task
                    && client != winner
                {
                    *passed_over += 1;
                    most = most.max(*passed_over);
                }
            }
        }
        let counts = &mut self.oracle.counts;
        counts.passed_over = counts.passed_over.max(most);
        self.object_if(most > HAND_OVERS, "starvation", || {
            format!("{most} others got resource {resource} first")
        });
    }

    /// Notes the delays of a call that only its tries can end and that too few nodes could answer: a delay follows each
    /// try but the last.
    pub(super) fn random_rests(&mut self, report: &Report) {
        let rests = &mut self.oracle.rests;
        rests.count += report.tries().saturating_sub(1);
        rests.sum = rests.sum.saturating_add(report.elapsed());
        let least = Duration::from_nanos(LEAST_AVERAGE) * rests.count;
        if ENOUGH_RESTS <= rests.count && rests.sum < least {
            let text = format!("{} rests took {:?}", rests.count, rests.sum);
            self.object("starvation", text);
        }
    }
}
