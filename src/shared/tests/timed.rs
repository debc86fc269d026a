//! The few stories that count by a real clock how often something happens while something else is due.
//!
//! They run alone. A story that fails is run once more.

use super::unserved::tries_before_the_report;
use super::*;

/// The task begins when the nodes have been down for long, so that not every attempt tries to connect. It tries for a
/// while before the lock ends, and then for a small part of the tick in which the lock ends.
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
