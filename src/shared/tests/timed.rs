//! The few stories that count on a real clock: how much goes on while something else is to happen.
//!
//! They are run alone. One that fails there is run once more.

use super::unserved::tries_before_the_report;
use super::*;

/// It begins when the nodes have been down for long, so that not each attempt tries to connect. It tries for a while
/// before the lock ends, and then in the tick in which it ends: only in a small part of that.
#[test]
fn a_task_that_tries_again_at_once_does_not_delay_the_report_of_a_loss() {
    for waits in [false, true] {
        let [before, late] = tries_before_the_report(waits, 2_000 * MS);
        assert!(
            late < 20 + before / 4,
            "{late} tries, behind {before}, and a task waits: {waits}"
        );
    }
}
