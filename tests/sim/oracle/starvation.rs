//! Starvation: nobody who waits is passed over for ever.
//!
//! While a call waits for a lock, others get it [`HAND_OVERS`] times at most.
//!
//! # What it does not see
//!
//! Fairness: whoever asks at the right moment wins, and the delay between two attempts is random.

use crate::user::Task;
use crate::world::World;

/// How often a lock may go to others while one call waits for it.
pub(crate) const HAND_OVERS: u32 = 1_000_000;

impl World {
    /// `winner` has got a lock: everybody else who waits for it was passed over.
    pub(crate) fn starvation(&mut self, winner: usize, resource: usize) {
        let mut most = 0;
        for (client, there) in self.clients.iter_mut().enumerate() {
            if let Task::Acquiring { passed_over, .. } = &mut there.users[resource].task
                && client != winner
            {
                *passed_over += 1;
                most = most.max(*passed_over);
            }
        }
        let counts = &mut self.oracle.counts;
        counts.passed_over = counts.passed_over.max(most);
        if most > HAND_OVERS {
            self.object(
                "starvation",
                format!("{most} others got resource {resource} first"),
            );
        }
    }
}
