//! What stories say often: answers of nodes to whatever they were sent.

use super::*;

impl World {
    /// Begins an operation, and carries out what it needs at once.
    pub(super) fn begin(&mut self, request: &Request<'_>) -> RoundId {
        let round = self.engine.acquire(self.now, request).expect("valid");
        self.drain();
        round
    }

    /// `node` replies to what it was sent.
    pub(super) fn reply(&mut self, node: usize, reply: &str) {
        self.take(node);
        self.say(node, reply);
    }

    /// All nodes reply to what they were sent.
    pub(super) fn all_reply(&mut self, reply: &str) {
        self.take_all();
        self.all_say(0..self.sent.len(), reply);
    }

    /// The first nodes say these replies, one each.
    pub(super) fn each_says(&mut self, replies: &[&str]) {
        for (node, reply) in replies.iter().enumerate() {
            self.say(node, reply);
        }
    }
}
